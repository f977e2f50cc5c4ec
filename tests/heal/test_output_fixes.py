"""Mechanical repair of results: nothing is invented, nothing truncated is closed."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from selfheal_rl.core.values import ConfigError, FaultKind
from selfheal_rl.runtime.heal.output_fixes import Fixed, balanced_span, repair
from selfheal_rl.runtime.heal.validation import Validator


class Item(BaseModel):
    sku: str
    quantity: int
    colour: str = "red"


VALIDATOR = Validator(Item, "tool")
GOOD = {"sku": "a-1", "quantity": 2}


def fix(value: Any, validator: Validator = VALIDATOR) -> Fixed | None:
    if validator.objection(value) is None:
        return None
    return repair(value, validator.schema, lambda v: validator.objection(v) is None)


@pytest.mark.parametrize(
    "text",
    [
        '```json\n{"sku": "a-1", "quantity": 2}\n```',
        'Sure!\n```\n{"sku": "a-1", "quantity": 2}\n```\nDone.',
        'Here: {"sku": "a-1", "quantity": 2} Hope it helps.',
        '{"sku": "a-1", "quantity": 2}\nI am done',
        "{'sku': 'a-1', 'quantity': 2}",
        "{“sku”: “a-1”, “quantity”: 2}",
        '{"sku": "a-1", "quantity": 2,}',
        '{"result": {"sku": "a-1", "quantity": 2}}',
        '{"data": "{\\"sku\\": \\"a-1\\", \\"quantity\\": 2}"}',
        '{"sku": "a-1", "quantity": "2"}',
    ],
)
def test_text_is_repaired_to_text(text: str) -> None:
    found = fix(text)
    assert found is not None
    assert isinstance(found.value, str)
    item = Item.model_validate_json(found.value)
    assert (item.sku, item.quantity) == ("a-1", 2)
    assert found.fields


def test_a_mapping_is_repaired_to_a_mapping() -> None:
    found = fix({"data": GOOD})
    assert found is not None
    assert found.value == GOOD
    assert found.variant == "unwrap"
    drifted = fix({"sku": "a-1", "quantity": "2"})
    assert drifted is not None
    assert drifted.value == {**GOOD, "colour": "red"}
    assert set(drifted.fields) == {"$.quantity", "$.colour"}


@pytest.mark.parametrize(
    "value",
    [
        {"sku": "a-1"},
        {"sku": "a-1", "quantity": None},
        {"sku": "a-1", "quantity": "two"},
        '{"sku": "a-1"}',
        {"qty": 2, "sku": "a-1"},
        {"result": GOOD, "data": GOOD},
        '[{"sku": "a-1", "quantity": 2}, {"sku": "b", "quantity": 1}]',
        '{"sku": "a", "quantity": 1} or {"sku": "b", "quantity": 2}',
        "no JSON at all",
        "",
        None,
        5,
    ],
)
def test_nothing_required_is_invented_and_no_choice_is_made(value: Any) -> None:
    assert fix(value) is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(value=st.dictionaries(st.text(max_size=5), json_values, max_size=4), data=st.data())
def test_truncated_json_is_never_closed(value: dict[str, Any], data: Any) -> None:
    text = json.dumps(value)
    cut = text[: data.draw(st.integers(0, len(text) - 1))]
    for prefix in ("", "Here it is: ", "```json\n"):
        # Accepting anything: whatever comes back would have been made up from half a text.
        assert repair(prefix + cut, None, lambda v: True) is None


@given(value=st.dictionaries(st.text(max_size=5), json_values, max_size=4))
def test_what_is_unwrapped_is_the_same_value(value: dict[str, Any]) -> None:
    text = f"```json\n{json.dumps(value)}\n```"
    found = repair(text, None, lambda v: json.loads(v) == value)
    assert found is not None
    assert json.loads(found.value) == value


@given(text=st.text(alphabet='{}[]",:\\ab1\n ', max_size=40))
def test_a_balanced_span_closes_or_is_none(text: str) -> None:
    span = balanced_span(text)
    if span is not None:
        assert span in text
        assert span[0] in "{["
        assert span[-1] in "}]"


def test_a_validator_is_strict_about_types_but_reads_json() -> None:
    assert VALIDATOR.objection(GOOD) is None
    assert VALIDATOR.objection(json.dumps(GOOD)) is None
    assert VALIDATOR.objection({**GOOD, "quantity": "2"}) is not None
    assert VALIDATOR.alarm('{"sku": ') is FaultKind.PARSE_ERROR
    assert VALIDATOR.alarm({"sku": 1}) is FaultKind.SCHEMA_MISMATCH


def test_a_validator_may_be_a_schema_or_a_function() -> None:
    schema = Validator(
        {"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}}, "tool"
    )
    assert schema.objection({"a": 1}) is None
    assert "required" in str(schema.objection({}))
    assert "integer" in str(schema.objection({"a": "x"}))

    def positive(value: int) -> bool:
        return value > 0

    function = Validator(positive, "tool")
    assert function.objection(1) is None
    assert isinstance(function.objection(-1), ValueError)
    assert isinstance(function.objection("x"), TypeError)
    with pytest.raises(ConfigError, match="pydantic"):
        Validator(5, "tool")


def test_commas_and_quotes_inside_strings_are_left_alone() -> None:
    found = fix('{"sku": "a,}b’s", "quantity": 2,}')
    assert found is not None
    assert json.loads(found.value)["sku"] == "a,}b’s"
