"""Mechanical repairs of arguments: only what the schema alone makes certain.

Allowed are lossless coercion, the rename of a misspelt key, and defaults the schema declares.
A value is substituted only from a closed set of the schema, for a read-only tool, within edit
distance 2 and with the runner-up at least 2 further. Fields that look like an identity (id, email,
amount, date, path, URL, person, ...) are never touched.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from selfheal_rl.runtime.heal.arguments import ArgumentSchema
from selfheal_rl.runtime.heal.json_schema import (
    Schema,
    arms,
    closed_set,
    faults_of,
    has_type,
    resolve,
    types_of,
)

MAX_DISTANCE = 2
LEAD = 2
"""The runner-up must be at least this much further away."""
_MAX_TEXT = 100_000
_IDENTITY = frozenset(
    {
        *("id", "ids", "uid", "uuid", "guid", "key", "keys", "ref", "reference", "hash", "sha"),
        *("email", "emails", "mail", "to", "cc", "bcc", "recipient", "recipients", "sender"),
        *("amount", "amounts", "price", "total", "sum", "cost", "balance", "currency", "iban"),
        *("date", "dates", "day", "time", "timestamp", "datetime", "deadline"),
        *("path", "paths", "file", "filename", "folder", "directory", "dir"),
        *("url", "urls", "uri", "link", "href", "host", "address", "phone"),
        *("person", "people", "name", "names", "user", "users", "username", "customer"),
        *("owner", "author", "account", "accounts", "card", "token", "password", "secret"),
    }
)
_SUFFIXES = ("id", "email", "amount", "date", "path", "url", "uri", "name", "uuid", "file")
_WORDS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_INTEGER = re.compile(r"[+-]?(?:0|[1-9]\d{0,30})\Z")
_NUMBER = re.compile(r"[+-]?(?:0|[1-9]\d{0,15})(?:\.\d{1,15})?\Z")
_MISSING = object()


@dataclass(frozen=True, slots=True)
class Change:
    """One repaired argument; ``what`` names no value, so that it may be stored."""

    field: str
    what: str
    before: Any
    after: Any

    def told(self) -> str:
        """With the values, for the agent itself."""
        return f"{self.field}: {self.what} ({self.before!r} -> {self.after!r})"


def looks_like_identity(name: str) -> bool:
    """True when an argument's name says that its value names something or someone.

    Example:
        >>> looks_like_identity("orderId"), looks_like_identity("quantity")
        (True, False)
    """
    words = [word.lower() for word in _WORDS.findall(name)]
    if any(word in _IDENTITY for word in words):
        return True
    plain = re.sub(r"[^a-z]", "", name.lower())
    return plain.endswith(_SUFFIXES)


def propose(
    bound: Mapping[str, Any], schema: ArgumentSchema, *, read_only: bool
) -> tuple[dict[str, Any], tuple[Change, ...]]:
    """The repaired arguments and what was changed; no changes when nothing is certain.

    Args:
        bound: the call's arguments by name.
        schema: of the arguments.
        read_only: True when the tool only reads, so that a value may be substituted.
    """
    if not schema.repairable:
        return dict(bound), ()
    fixed, changes = _renamed(bound, schema)
    for name, field_schema in schema.properties.items():
        if looks_like_identity(name):
            continue
        change = _fix_field(name, fixed.get(name, _MISSING), field_schema, schema, read_only)
        if change is None:
            continue
        changes.append(change)
        if change.after is _MISSING:
            del fixed[name]
        else:
            fixed[name] = change.after
    return fixed, tuple(changes)


def _renamed(
    bound: Mapping[str, Any], schema: ArgumentSchema
) -> tuple[dict[str, Any], list[Change]]:
    fixed, changes = dict(bound), []
    known = schema.properties
    if schema.open_ended:
        return fixed, []
    for wrong in [n for n in bound if n not in known and not n.startswith("*")]:
        free = [name for name in known if name not in fixed]
        name = nearest(wrong, free)
        if name is None or looks_like_identity(name) or looks_like_identity(wrong):
            continue
        fixed[name] = fixed.pop(wrong)
        changes.append(Change(name, f"key renamed from {wrong!r}", wrong, name))
    return fixed, changes


def _fix_field(
    name: str, value: Any, field: Schema, schema: ArgumentSchema, read_only: bool
) -> Change | None:
    root = schema.root
    field = resolve(field, root)
    if value is _MISSING:
        if name in schema.required and "default" in field:
            return Change(name, "default of the schema", None, field["default"])
        return None
    if not faults_of(value, field, root):
        return None
    if value is None and "default" in field:
        return Change(name, "default of the schema", None, field["default"])
    if value is None and field.get("x-optional"):
        return Change(name, "left out, so that its default holds", None, _MISSING)
    coerced = coerce(value, field, root)
    if coerced is not _MISSING:
        return Change(name, f"{type(value).__name__} to {type(coerced).__name__}", value, coerced)
    allowed = closed_set(field, root)
    if read_only and allowed and isinstance(value, str):
        texts = [a for a in allowed if isinstance(a, str)]
        best = nearest(value, texts)
        if best is not None:
            return Change(name, "nearest of the allowed values", value, best)
    return None


def coerce(value: Any, schema: Schema, root: Schema) -> Any:
    """``value`` in the schema's type when nothing is lost, else the marker ``_MISSING``."""
    found = []
    for arm in arms(schema, root):
        for name in types_of(arm):
            new = _as(value, name)
            if new is not _MISSING and not faults_of(new, arm, root):
                found.append(new)
    # Two readings of one value mean that neither is certain.
    return found[0] if len(found) == 1 else _MISSING


def _as(value: Any, name: str) -> Any:
    if isinstance(value, str):
        return _from_text(value, name)
    if isinstance(value, bool) or value is None:
        return _MISSING
    if name == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    if name == "string" and isinstance(value, int):
        return str(value)
    if name == "array" and isinstance(value, int | float):
        return [value]
    return _MISSING


def _from_text(value: str, name: str) -> Any:
    text = value.strip()
    if name == "integer":
        return int(text) if _INTEGER.match(text) else _MISSING
    if name == "number" and _NUMBER.match(text):
        number = float(text)
        return number if math.isfinite(number) else _MISSING
    if name == "boolean":
        return {"true": True, "false": False}.get(text.lower(), _MISSING)
    if name in ("array", "object") and len(text) <= _MAX_TEXT:
        try:
            parsed = json.loads(text)
        except (ValueError, RecursionError):
            return [value] if name == "array" and not text.startswith(("[", "{")) else _MISSING
        if has_type(parsed, name):
            return parsed
        return [value] if name == "array" else _MISSING
    return _MISSING


def nearest(text: str, known: list[str]) -> str | None:
    """The known text within edit distance 2 whose runner-up is at least 2 further; or None.

    Texts that are equal but for case and separators are at distance 0.
    """
    ranked = sorted((distance(_plain(text), _plain(name)), name) for name in known)
    if not ranked or ranked[0][0] > MAX_DISTANCE:
        return None
    if len(_plain(ranked[0][1])) <= ranked[0][0]:
        return None  # so short that any text would be near
    if len(ranked) > 1 and ranked[1][0] - ranked[0][0] < LEAD:
        return None
    return ranked[0][1]


def _plain(text: str) -> str:
    return re.sub(r"[\s_\-]+", "", text.casefold())


def distance(a: str, b: str, limit: int = 64) -> int:
    """Levenshtein distance; texts longer than ``limit`` are at distance ``limit`` unless equal."""
    if a == b:
        return 0
    if len(a) > limit or len(b) > limit:
        return limit
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (x != y))
    return row[-1]


MISSING = _MISSING
