"""TOML into validated values: unknown keys are refused and the nearest known one is named."""

import os
import tomllib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from selfheal_rl.core.values.errors import ConfigError

Model = TypeVar("Model", bound=BaseModel)
_SHOWN_ERRORS = 8
_SHOWN_INPUT = 60


def load_toml(path: str | os.PathLike[str], model: type[Model]) -> Model:
    """Read a TOML file into a pydantic model that forbids extra keys.

    Args:
        path: the file.
        model: the model; nested models must have ``extra="forbid"`` as well (``Frozen`` has).

    Raises:
        ConfigError: the file cannot be read, is not TOML, or does not fit the model. The message
            names the file, the key path, what was found and what was expected.
    """
    return validate(read_toml(path), model, source=str(path))


def read_toml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Parse a TOML file without judging its keys.

    Raises:
        ConfigError: the file cannot be read or is not TOML.
    """
    try:
        with Path(path).open("rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be read ({error.strerror or error}); expected a readable TOML file"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(
            f"{path}: not valid TOML: {error}; correct the file at that place"
        ) from error


def validate(data: Mapping[str, Any], model: type[Model], *, source: str) -> Model:
    """Validate parsed data; ``source`` stands at the head of every message.

    Raises:
        ConfigError: the data does not fit the model.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise ConfigError(_explain(error, model, source)) from None


def unknown_key(key: str, known: Iterable[str]) -> str:
    """The message for an unknown key: the nearest known one, then all of them."""
    names = sorted(known)
    near = get_close_matches(key, names, n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    listed = f" known keys: {', '.join(names)}" if names else ""
    return f"unknown key {key!r}{hint}{listed and ';' + listed}"


def _explain(error: ValidationError, model: type[BaseModel], source: str) -> str:
    problems = error.errors(include_url=False)
    # Unknown keys first: a misspelt key also makes its right spelling "missing".
    problems.sort(key=lambda p: p["type"] != "extra_forbidden")
    lines = [_one(dict(p), model) for p in problems[:_SHOWN_ERRORS]]
    if more := len(problems) - len(lines):
        lines.append(f"and {more} more")
    if len(lines) == 1:
        return f"{source}: {lines[0]}"
    return f"{source}: {len(problems)} problems\n" + "\n".join(f"  - {line}" for line in lines)


def _one(problem: dict[str, Any], model: type[BaseModel]) -> str:
    location: tuple[str | int, ...] = problem["loc"]
    if problem["type"] == "extra_forbidden":
        at = key_path(location[:-1])
        message = unknown_key(str(location[-1]), _known_keys(model, location[:-1]))
        return f"{at}: {message}" if at else message
    at = key_path(location) or "the file"
    message = problem["msg"].removeprefix("Value error, ")
    if problem["type"] == "missing":
        return f"{at}: this key is required and missing"
    if problem["type"] in ("value_error", "assertion_error"):
        return f"{at}: {message}"
    return f"{at}: found {_short(problem['input'])}; {message[:1].lower()}{message[1:]}"


def key_path(location: Iterable[str | int]) -> str:
    """A key path as TOML readers write it, e.g. ``causes[2].share``."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.lstrip(".")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_INPUT else text[: _SHOWN_INPUT - 3] + "..."


def _known_keys(model: type[BaseModel], location: tuple[str | int, ...]) -> set[str]:
    """Keys allowed at a place, found by walking the annotations along the error's location."""
    here: list[Any] = [model]
    for part in location:
        here = [step for annotation in here for step in _step(annotation, part)]
    return {key for annotation in here for key in _fields(annotation)}


def _fields(annotation: Any) -> set[str]:
    names: set[str] = set()
    for model in _models(annotation):
        names |= {field.alias or name for name, field in model.model_fields.items()}
    return names


def _models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if get_origin(annotation) in (Union, UnionType):
        return [model for arm in get_args(annotation) for model in _models(arm)]
    if hasattr(annotation, "__metadata__"):
        return _models(get_args(annotation)[0])
    return []


def _step(annotation: Any, part: str | int) -> list[Any]:
    """The annotations one key or index further down."""
    origin, args = get_origin(annotation), get_args(annotation)
    if hasattr(annotation, "__metadata__"):
        return _step(args[0], part)
    if origin in (Union, UnionType):
        # The location of a union names the arm taken; such a part is no key of ours.
        arms = [step for arm in args for step in _step(arm, part)]
        return arms or [annotation]
    if origin is not None and args:
        return [args[-1] if args[-1] is not Ellipsis else args[0]]
    found: list[Any] = []
    for model in _models(annotation):
        for name, field in model.model_fields.items():
            if part in (name, field.alias):
                found.append(field.annotation)
    return found
