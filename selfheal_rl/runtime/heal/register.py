"""From a user's function and what is declared about it to a registered tool."""

import inspect
from collections.abc import Callable
from typing import Any

from selfheal_rl.core.values import Clock, ConfigError
from selfheal_rl.runtime.heal.arguments import ArgumentSchema
from selfheal_rl.runtime.heal.call import Tool
from selfheal_rl.runtime.heal.options import ToolSpec, make_spec
from selfheal_rl.runtime.heal.task import ToolRecord
from selfheal_rl.runtime.heal.trouble import Checks
from selfheal_rl.runtime.heal.validation import Validator


def make_tool(
    function: Callable[..., Any], options: dict[str, Any], clock: Clock, *, is_block: bool = False
) -> Tool:
    """Register a tool.

    Raises:
        ConfigError: an option is missing, unknown or wrong.
    """
    name = str(options.get("name") or getattr(function, "__name__", "tool"))
    if not callable(function):
        raise ConfigError(f"tool {name!r}: got {function!r}; expected a function")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigError(
            f"tool {name!r} is a generator: its failures come while it is read, where this release "
            "does not heal; expected a function that returns its result whole"
        )
    is_async = _is_async(function)
    spec = make_spec(name, options, is_async=is_async)
    _check_hooks(spec, is_async)
    validator = Validator(spec.returns, name) if spec.returns is not None else None
    return Tool(
        function=function,
        spec=spec,
        checks=Checks(spec, validator),
        arguments=None if is_block else ArgumentSchema.of(function, spec.arguments, name),
        is_async=is_async,
        record=ToolRecord(clock.monotonic()),
        is_block=is_block,
    )


def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004  (its kind is asked, not whether it is)
    )


def _check_hooks(spec: ToolSpec, is_async: bool) -> None:
    hooks = [spec.reset, spec.degrade, *(fallback.call for fallback in spec.fallbacks)]
    for hook in hooks:
        if hook is not None and not is_async and _is_async(hook):
            raise ConfigError(
                f"tool {spec.name!r} is sync and {hook!r} is async; expected a sync function: "
                "nothing could await it"
            )
