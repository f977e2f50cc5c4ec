"""The schema of a tool's arguments, and binding a call to names and back."""

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, TypeAdapter

from selfheal_rl.core.values import ConfigError
from selfheal_rl.runtime.heal.json_schema import Schema

_P = inspect.Parameter
_VARIADIC = (_P.VAR_POSITIONAL, _P.VAR_KEYWORD)


@dataclass(frozen=True, slots=True)
class ArgumentSchema:
    """What is known of a tool's arguments.

    Attributes:
        root: JSON schema of the arguments as one object; ``properties`` may be empty.
        positional: names of the parameters that may be given by position, in order.
        open_ended: True when the function takes keywords it does not name.
        repairable: False when the owner forbade repairs or nothing is known.
    """

    root: Schema
    positional: tuple[str, ...]
    open_ended: bool
    repairable: bool

    @property
    def properties(self) -> Mapping[str, Schema]:
        """Schema of each argument."""
        found: Mapping[str, Schema] = self.root.get("properties", {})
        return found

    @property
    def required(self) -> tuple[str, ...]:
        """Names that must be given."""
        return tuple(self.root.get("required", ()))

    @classmethod
    def of(cls, function: Callable[..., Any], declared: Any, tool: str) -> "ArgumentSchema":
        """From what the owner declared, else from the function's type hints.

        Raises:
            ConfigError: ``declared`` is neither a pydantic model, a JSON schema nor False.
        """
        try:
            parameters = list(inspect.signature(function).parameters.values())
        except (TypeError, ValueError):
            parameters = []
        positional = tuple(
            p.name for p in parameters if p.kind in (_P.POSITIONAL_ONLY, _P.POSITIONAL_OR_KEYWORD)
        )
        open_ended = any(p.kind is _P.VAR_KEYWORD for p in parameters)
        if declared is False:
            return cls({}, positional, open_ended, False)
        if isinstance(declared, type) and issubclass(declared, BaseModel):
            root: Schema = declared.model_json_schema()
        elif isinstance(declared, Mapping):
            root = declared
        elif declared is None:
            root = _derived(function, parameters)
        else:
            raise ConfigError(
                f"tool {tool!r}: arguments is {declared!r}; expected a pydantic model, a JSON "
                "schema, None to derive it from the type hints, or False to forbid repairs"
            )
        return cls(root, positional, open_ended, bool(root.get("properties")))

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The call's arguments by name; surplus positional ones as ``*0``, ``*1``, ..."""
        bound: dict[str, Any] = {}
        for index, value in enumerate(args):
            known = index < len(self.positional)
            bound[self.positional[index] if known else f"*{index}"] = value
        return bound | dict(kwargs)

    def unbind(
        self, bound: Mapping[str, Any], n_args: int
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Inverse of :meth:`bind`; ``n_args`` arguments were given by position."""
        names = [self.positional[i] if i < len(self.positional) else f"*{i}" for i in range(n_args)]
        args = tuple(bound[name] for name in names)
        return args, {name: value for name, value in bound.items() if name not in names}


def _derived(function: Callable[..., Any], parameters: list[inspect.Parameter]) -> Schema:
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except Exception:  # hints that cannot be resolved say nothing
        hints = {}
    properties: dict[str, Schema] = {}
    definitions: dict[str, Any] = {}
    required = []
    for parameter in parameters:
        if parameter.kind in _VARIADIC:
            continue
        schema = dict(_schema_of(hints.get(parameter.name)))
        definitions |= schema.pop("$defs", {})
        if parameter.default is not _P.empty:
            schema["x-optional"] = True
        else:
            required.append(parameter.name)
        properties[parameter.name] = schema
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "$defs": definitions,
    }


def _schema_of(hint: Any) -> Schema:
    if hint is None:
        return {}
    try:
        return TypeAdapter(hint).json_schema()
    except Exception:  # a type without a JSON form: its values are never repaired
        return {}
