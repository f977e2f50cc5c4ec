"""Checking a tool's result against what its owner declared, without changing it."""

import inspect
import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from pydantic import TypeAdapter, ValidationError

from selfheal_rl.core.values import ConfigError, FaultKind
from selfheal_rl.runtime.heal.json_schema import faults_of


class Validator:
    """Decides whether a result is what ``returns`` promises.

    A pydantic model or type is applied strictly (the text ``"3"`` is no int); text is read as
    JSON first when the type is no text. A JSON schema is applied in the subset of
    :mod:`~selfheal_rl.runtime.heal.json_schema`. A function is called with the value and objects
    by raising, or by returning False.

    Args:
        returns: what the tool's owner declared.
        tool: the tool's name, for messages.

    Raises:
        ConfigError: ``returns`` is none of these.
    """

    def __init__(self, returns: Any, tool: str) -> None:
        self.schema: Mapping[str, Any] | None = None
        self.adapter: TypeAdapter[Any] | None = None
        self._function: Callable[[Any], Any] | None = None
        if isinstance(returns, Mapping):
            self.schema = returns
        elif isinstance(returns, partial) or inspect.isroutine(returns):
            self._function = returns
        else:
            try:
                self.adapter = TypeAdapter(returns)
                self.schema = self.adapter.json_schema()
            except Exception as error:
                raise ConfigError(
                    f"tool {tool!r}: returns is {returns!r}; expected a pydantic model or type, a "
                    f"JSON schema or a function that raises ValueError ({error})"
                ) from error

    def objection(self, value: Any) -> Exception | None:
        """What the declaration has against ``value``; None when it fits."""
        try:
            if self._function is not None:
                refused = self._function(value) is False
                return ValueError("the result was refused by its validator") if refused else None
            if self.adapter is not None:
                _validate(self.adapter, value)
                return None
            found = faults_of(_parsed(value), self.schema or {})
            return ValueError("; ".join(found[:4])) if found else None
        except Exception as error:
            return error

    def alarm(self, value: Any) -> FaultKind:
        """The fault kind of a value that was refused."""
        if isinstance(value, str | bytes):
            try:
                json.loads(value)
            except ValueError:
                return FaultKind.PARSE_ERROR
        return FaultKind.SCHEMA_MISMATCH


def _parsed(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str | bytes) else value


def _validate(adapter: TypeAdapter[Any], value: Any) -> None:
    try:
        adapter.validate_python(value, strict=True)
    except ValidationError:
        # JSON has neither dates nor tuples: what came as JSON is judged by JSON's rules.
        if isinstance(value, str | bytes):
            adapter.validate_json(value, strict=True)
        elif isinstance(value, dict | list):
            adapter.validate_json(json.dumps(value), strict=True)
        else:
            raise
