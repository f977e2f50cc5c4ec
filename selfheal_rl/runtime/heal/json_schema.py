"""The part of JSON Schema that tools declare: types, properties, enums, items, references."""

from collections.abc import Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]
_MAX_DEPTH = 16
_PYTHON: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list, tuple),
    "object": (dict,),
    "null": (type(None),),
}


def resolve(schema: Schema, root: Schema) -> Schema:
    """The schema a local reference (``#/$defs/X``) stands for."""
    for _ in range(_MAX_DEPTH):
        reference = schema.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return schema
        target: Any = root
        for part in reference[2:].split("/"):
            target = target.get(part, {}) if isinstance(target, Mapping) else {}
        if not isinstance(target, Mapping):
            return {}
        schema = target
    return {}


def arms(schema: Schema, root: Schema) -> list[Schema]:
    """The alternatives of a schema: its ``anyOf``/``oneOf`` arms, else itself."""
    schema = resolve(schema, root)
    found = schema.get("anyOf") or schema.get("oneOf")
    if not isinstance(found, list | tuple):
        return [schema]
    return [resolve(arm, root) for arm in found if isinstance(arm, Mapping)]


def types_of(schema: Schema) -> tuple[str, ...]:
    """The type names a schema allows; empty when it does not say."""
    declared = schema.get("type")
    if isinstance(declared, str):
        return (declared,)
    return tuple(declared) if isinstance(declared, list | tuple) else ()


def has_type(value: Any, name: str) -> bool:
    """Whether ``value`` is of JSON type ``name``; a bool is no number, 4.0 no integer."""
    if isinstance(value, bool):
        return name == "boolean"
    return isinstance(value, _PYTHON.get(name, (object,)))


def closed_set(schema: Schema, root: Schema) -> tuple[Any, ...]:
    """The values of an enum, Literal or constant; empty when the set is open."""
    values: list[Any] = []
    for arm in arms(schema, root):
        if "enum" in arm:
            values += list(arm["enum"])
        elif "const" in arm:
            values.append(arm["const"])
        elif types_of(arm) != ("null",):
            return ()
    return tuple(values)


def faults_of(value: Any, schema: Schema, root: Schema | None = None) -> list[str]:
    """What ``schema`` has against ``value``, each with the path; empty when it fits."""
    return list(_faults(value, schema, root or schema, "$", 0))


def _faults(value: Any, schema: Schema, root: Schema, path: str, depth: int) -> Iterator[str]:
    if depth > _MAX_DEPTH:
        return
    choices = arms(schema, root)
    if len(choices) > 1:
        if all(any(True for _ in _faults(value, c, root, path, depth + 1)) for c in choices):
            yield f"{path}: fits none of {len(choices)} alternatives"
        return
    schema = choices[0] if choices else {}
    types = types_of(schema)
    if types and not any(has_type(value, name) for name in types):
        yield f"{path}: found {type(value).__name__}, expected {' or '.join(types)}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path}: the value is none of the {len(schema['enum'])} allowed ones"
    if "const" in schema and value != schema["const"]:
        yield f"{path}: the value is not the constant one"
    if isinstance(value, Mapping):
        yield from _object_faults(value, schema, root, path, depth)
    elif isinstance(value, list | tuple) and isinstance(schema.get("items"), Mapping):
        for index, item in enumerate(value):
            yield from _faults(item, schema["items"], root, f"{path}[{index}]", depth + 1)


def _object_faults(
    value: Mapping[str, Any], schema: Schema, root: Schema, path: str, depth: int
) -> Iterator[str]:
    properties = schema.get("properties") or {}
    for name in schema.get("required") or ():
        if name not in value:
            yield f"{path}.{name}: required and missing"
    for name, item in value.items():
        if name in properties:
            yield from _faults(item, properties[name], root, f"{path}.{name}", depth + 1)
        elif schema.get("additionalProperties") is False:
            yield f"{path}.{name}: not declared"
