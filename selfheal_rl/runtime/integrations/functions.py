"""Plain functions: an agent's own table of tools, healed in one go."""

from collections.abc import Callable, Mapping
from typing import Any

from selfheal_rl.core.values import ConfigError
from selfheal_rl.runtime.heal import Healer, ToolSpec


def heal_functions(
    healer: Healer,
    functions: Mapping[str, Callable[..., Any]],
    specs: Mapping[str, ToolSpec],
) -> dict[str, Callable[..., Any]]:
    """The table ``functions`` of a hand-written agent loop, each function under the healer.

    Args:
        healer: that heals.
        functions: sync or async, by the name the model calls them with.
        specs: what is declared about each; a spec without a name takes the table's.

    Raises:
        ConfigError: a function has no spec, or a spec no function.
    """
    missing, odd = sorted(set(functions) - set(specs)), sorted(set(specs) - set(functions))
    if missing or odd:
        raise ConfigError(
            f"functions without a spec: {missing or 'none'}; specs without a function: "
            f"{odd or 'none'}; expected the same names in both"
        )
    fields = ToolSpec.__dataclass_fields__
    wrapped: dict[str, Callable[..., Any]] = {}
    for name, function in functions.items():
        options: Any = {field: getattr(specs[name], field) for field in fields}
        options["name"] = options["name"] or name
        wrapped[name] = healer.tool(function, **options)
    return wrapped
