"""Mechanical repair of arguments: what may change, and what never may."""

from enum import Enum
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from selfheal_rl.core.values import ConfigError
from selfheal_rl.runtime.heal.argument_fixes import distance, looks_like_identity, nearest, propose
from selfheal_rl.runtime.heal.arguments import ArgumentSchema


class Unit(Enum):
    KILOGRAM = "kilogram"
    LITRE = "litre"
    PIECE = "piece"


def tool(
    quantity: int,
    ratio: float = 1.0,
    unit: Unit = Unit.PIECE,
    tags: list[str] | None = None,
    verbose: bool = False,
    order_id: int = 0,
    email: Literal["a@x.org", "b@x.org"] = "a@x.org",
    due_date: str = "",
) -> None: ...


SCHEMA = ArgumentSchema.of(tool, None, "tool")


def fixed(read_only: bool = True, **arguments: Any) -> dict[str, Any]:
    return propose({"quantity": 1, **arguments}, SCHEMA, read_only=read_only)[0]


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("quantity", "3", 3),
        ("quantity", " 12 ", 12),
        ("quantity", 4.0, 4),
        ("ratio", "2.5", 2.5),
        ("verbose", "true", True),
        ("verbose", "False", False),
        ("tags", '["a", "b"]', ["a", "b"]),
        ("tags", "a", ["a"]),
        ("unit", "kilogramm", "kilogram"),
        ("unit", "KILOGRAM", "kilogram"),
    ],
)
def test_what_is_certain_is_repaired(name: str, before: Any, after: Any) -> None:
    result = fixed(**{name: before})[name]
    assert result == after
    assert type(result) is type(after)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("quantity", "3 units"),
        ("quantity", "003"),
        ("quantity", "3.5"),
        ("quantity", 3.5),
        ("quantity", "1e3"),
        ("quantity", "١٢"),
        ("quantity", None),
        ("verbose", "yes"),
        ("unit", "gallon"),
        ("unit", "kilometre"),
        ("ratio", "nan"),
        ("ratio", "1,5"),
    ],
)
def test_what_is_not_certain_is_left(name: str, value: Any) -> None:
    arguments = {"quantity": 1, name: value}
    same, changes = propose(arguments, SCHEMA, read_only=True)
    assert same == arguments
    assert changes == ()


def test_a_value_is_substituted_for_a_read_only_tool_only() -> None:
    assert fixed(read_only=False, unit="kilogramm")["unit"] == "kilogramm"


def test_the_runner_up_must_be_two_further() -> None:
    assert nearest("colr", ["color", "colt"]) is None
    assert nearest("colour", ["color", "weight"]) == "color"
    assert nearest("x", ["y", "weight"]) is None
    assert nearest("ab", ["cd"]) is None


def test_a_misspelt_key_is_renamed_when_its_place_is_free() -> None:
    result, changes = propose({"quantiti": 2}, SCHEMA, read_only=False)
    assert result == {"quantity": 2}
    assert "quantiti" in changes[0].what
    taken = {"quantity": 1, "quantiti": 2}
    assert propose(taken, SCHEMA, read_only=True)[0] == taken


def test_declared_defaults_fill_what_is_required() -> None:
    class Arguments(BaseModel):
        page: int
        size: int = 20

    schema = ArgumentSchema.of(lambda **kw: None, {
        "type": "object",
        "properties": {"page": {"type": "integer"}, "size": {"type": "integer", "default": 20}},
        "required": ["page", "size"],
    }, "tool")  # fmt: skip
    assert propose({"page": 1}, schema, read_only=False)[0] == {"page": 1, "size": 20}
    model = ArgumentSchema.of(lambda page, size=20: None, Arguments, "tool")
    assert propose({"page": 1, "size": None}, model, read_only=False)[0]["size"] == 20
    assert "page" not in propose({}, model, read_only=False)[0]


IDENTITY = [
    *("id", "order_id", "orderId", "customerID", "email", "user_email", "amount", "total_amount"),
    *("date", "due_date", "startDate", "path", "file_path", "filename", "url", "homepageUrl"),
    *("person", "user_name", "recipient", "account", "to", "orderid", "uuid"),
]


@pytest.mark.parametrize("name", IDENTITY)
def test_identity_like_names_are_known(name: str) -> None:
    assert looks_like_identity(name)


@pytest.mark.parametrize("name", ["quantity", "unit", "verbose", "timeout", "colour", "limit"])
def test_other_names_are_not(name: str) -> None:
    assert not looks_like_identity(name)


anything = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=12),
    st.sampled_from(["12", "a@x.orgg", "true", "[1]", "2024-01-01", "3.0"]),
)  # fmt: skip


@given(
    name=st.sampled_from(IDENTITY),
    value=anything,
    kind=st.sampled_from(["integer", "number", "string", "boolean", "array", "enum"]),
    default=st.booleans(),
    read_only=st.booleans(),
    extra=st.dictionaries(st.text(min_size=1, max_size=8), anything, max_size=3),
)
def test_identity_like_fields_are_never_touched(
    name: str, value: Any, kind: str, default: bool, read_only: bool, extra: dict[str, Any]
) -> None:
    field: dict[str, Any] = {"type": kind} if kind != "enum" else {"enum": ["a@x.org", "12a"]}
    if default:
        field["default"] = 7
    root = {"properties": {name: field, "quantity": {"type": "integer"}}, "required": [name]}
    schema = ArgumentSchema(root, (), False, True)
    given_arguments = {**extra, name: value}
    result, changes = propose(given_arguments, schema, read_only=read_only)
    assert result[name] is value
    assert all(change.field != name for change in changes)
    absent, _ = propose(extra, schema, read_only=read_only)
    assert (name in absent) == (name in extra)


@given(value=anything, kind=st.sampled_from(["integer", "number", "string", "boolean"]))
def test_coercion_loses_nothing(value: Any, kind: str) -> None:
    schema = ArgumentSchema({"properties": {"level": {"type": kind}}}, (), False, True)
    result = propose({"level": value}, schema, read_only=True)[0]["level"]
    if result is value:
        return
    if isinstance(value, str):
        text = {True: "true", False: "false"}.get(result, str(result)) if kind == "boolean" else ""
        same = value.strip().lower() == text if text else float(value) == float(result)
        assert same
    else:
        assert result == value or str(value) == result


@given(a=st.text(max_size=10), b=st.text(max_size=10))
def test_distance_is_a_metric(a: str, b: str) -> None:
    d = distance(a, b)
    assert d == distance(b, a)
    assert (d == 0) == (a == b)
    assert abs(len(a) - len(b)) <= d <= max(len(a), len(b))


def test_arguments_may_be_closed_to_repair_or_declared_wrongly() -> None:
    closed = ArgumentSchema.of(tool, False, "tool")
    assert propose({"quantity": "3"}, closed, read_only=True)[1] == ()
    with pytest.raises(ConfigError, match="JSON schema"):
        ArgumentSchema.of(tool, 5, "tool")


@given(n=st.integers(0, 3))
def test_bind_and_unbind_are_inverse(n: int) -> None:
    args, kwargs = (1, 2.0, "piece")[:n], {"verbose": True}
    assert SCHEMA.unbind(SCHEMA.bind(args, kwargs), n) == (args, kwargs)
