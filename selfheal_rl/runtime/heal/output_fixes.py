"""Mechanical repairs of a result that its validator refused.

Allowed are unwrapping (code fences, talk around the JSON, one envelope), re-quoting, dropping
trailing commas and text, and defaults the schema declares. A required value is never invented and
truncated JSON is never closed: text whose brackets do not close is left alone.
"""

import ast
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from selfheal_rl.runtime.heal.argument_fixes import MISSING, coerce
from selfheal_rl.runtime.heal.json_schema import Schema, arms, faults_of, resolve

MAX_CHARS = 1_000_000
_MAX_DEPTH = 8
_ENVELOPES = ("result", "data", "output", "response", "content", "value", "json", "text", "payload")
_FENCE = re.compile(r"```[\w-]{0,20}[ \t]*\n(.*?)\n?[ \t]*```", re.DOTALL)
_MAX_LITERAL = 200_000
_STRING_OR_COMMA = re.compile(r'"(?:[^"\\]|\\.)*+"|,(?=\s*[}\]])', re.DOTALL)
_CURLY = str.maketrans({"\u201c": '"', "\u201d": '"'})


@dataclass(frozen=True, slots=True)
class Fixed:
    """A repaired result.

    Attributes:
        value: of the type the call returned.
        fields: what was repaired, e.g. ``$`` for the text around, ``$.price`` for a field.
        variant: what helped.
    """

    value: Any
    fields: tuple[str, ...]
    variant: str


def repair(value: Any, schema: Schema | None, accepts: Callable[[Any], bool]) -> Fixed | None:
    """The first repair of ``value`` that the validator accepts; None when there is none.

    Args:
        value: what the call returned.
        schema: JSON schema of the result, for defaults; None when unknown.
        accepts: the validator.
    """
    for parsed, variant in _readings(value):
        changed: list[str] = [] if variant == "as it is" else ["$"]
        for candidate, fields in _mended(parsed, schema):
            if not (changed or fields):
                continue
            result = (
                json.dumps(candidate, ensure_ascii=False) if isinstance(value, str) else candidate
            )
            if accepts(result):
                name = variant if variant != "as it is" else "fields"
                return Fixed(result, (*changed, *fields), name)
    return None


def _readings(value: Any) -> Iterator[tuple[Any, str]]:
    """Ways to read the value, the plainest first."""
    if not isinstance(value, str):
        yield value, "as it is"
        if isinstance(value, Mapping):
            yield from _inside(value)
        return
    if len(value) > MAX_CHARS:
        return
    for text, variant in _texts(value):
        parsed = _parse(text)
        if parsed is not MISSING:
            yield parsed, variant
            if isinstance(parsed, Mapping):
                yield from _inside(parsed)
            continue
        plain = _STRING_OR_COMMA.sub(_keep_strings, text)
        parsed = _parse(plain) if plain != text else MISSING
        if parsed is MISSING:
            parsed = _literal(text)
        if parsed is not MISSING:
            yield parsed, "requote"


def _keep_strings(found: re.Match[str]) -> str:
    return "" if found[0] == "," else found[0]


def _inside(value: Mapping[str, Any]) -> Iterator[tuple[Any, str]]:
    """What one envelope holds: the only key, or the only key that names a payload."""
    names = [name for name in _ENVELOPES if name in value]
    if len(names) != 1:
        return
    inner = value[names[0]]
    parsed = _parse(inner) if isinstance(inner, str) else inner
    if isinstance(parsed, dict | list):
        yield parsed, "unwrap"


def _texts(value: str) -> Iterator[tuple[str, str]]:
    stripped = value.strip()
    yield stripped, "as it is"
    fences = _FENCE.findall(value)
    if len(fences) == 1:
        yield fences[0].strip(), "unwrap"
    span = balanced_span(stripped)
    if span is not None and span != stripped:
        yield span, "trim"


def balanced_span(text: str) -> str | None:
    """The first bracketed part of ``text`` when it closes and nothing like it follows; else None.

    Example:
        >>> balanced_span('Sure: {"a": [1]} Anything else?')
        '{"a": [1]}'
        >>> balanced_span('{"a": [1') is None
        True
    """
    start = next((i for i, char in enumerate(text) if char in "{["), -1)
    if start < 0:
        return None
    end = _closing(text, start)
    if end < 0 or any(char in "{[" for char in text[end:]):
        return None  # truncated, or several values: which one is meant is not certain
    return text[start:end]


def _closing(text: str, start: int) -> int:
    """Index behind the bracket that closes the one at ``start``; -1 when none does."""
    stack: list[str] = []
    quote = ""
    skip = False
    for index in range(start, len(text)):
        char = text[index]
        if skip:
            skip = False
        elif quote:
            skip = char == "\\"
            quote = "" if char == quote else quote
        elif char == '"':
            quote = char
        elif char in "{[":
            stack.append("}" if char == "{" else "]")
        elif char in "}]":
            if stack.pop() != char:
                return -1
            if not stack:
                return index + 1
    return -1


def _parse(text: str) -> Any:
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return MISSING
    return parsed if isinstance(parsed, dict | list) else MISSING


def _literal(text: str) -> Any:
    """Text quoted as Python or by a word processor, read as data; nothing is evaluated."""
    for candidate in dict.fromkeys((text, text.translate(_CURLY))):
        parsed = _parse(candidate)
        if parsed is not MISSING:
            return parsed
        if len(candidate) > _MAX_LITERAL:
            break
        try:
            value = ast.literal_eval(candidate)
            json.dumps(value)
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            continue
        if isinstance(value, dict | list) and _plain(value):
            return value
    return MISSING


def _plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(k, str) and _plain(v) for k, v in value.items())
    if isinstance(value, list):
        return all(map(_plain, value))
    return value is None or isinstance(value, str | int | float | bool)


def _mended(parsed: Any, schema: Schema | None) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """The value as read, then with the schema's defaults and lossless types."""
    yield parsed, ()
    if schema is None or not isinstance(parsed, dict | list):
        return
    fields: list[str] = []
    mended = _mend(parsed, schema, schema, "$", fields, 0)
    if fields:
        yield mended, tuple(fields)


def _mend(
    value: Any, schema: Schema, root: Schema, path: str, fields: list[str], depth: int
) -> Any:
    choices = arms(resolve(schema, root), root)
    if depth > _MAX_DEPTH or not choices:
        return value
    if not isinstance(value, dict | list):
        if faults_of(value, schema, root):
            new = coerce(value, schema, root)
            if new is not MISSING:
                fields.append(path)
                return new
        return value
    shape = choices[0]
    if len(choices) > 1:
        return value
    if isinstance(value, list):
        items = shape.get("items")
        if not isinstance(items, Mapping):
            return value
        return [
            _mend(v, items, root, f"{path}[{i}]", fields, depth + 1) for i, v in enumerate(value)
        ]
    mended = dict(value)
    for name, field in (shape.get("properties") or {}).items():
        if name in mended:
            mended[name] = _mend(mended[name], field, root, f"{path}.{name}", fields, depth + 1)
        elif "default" in resolve(field, root):
            mended[name] = resolve(field, root)["default"]
            fields.append(f"{path}.{name}")
    return mended
