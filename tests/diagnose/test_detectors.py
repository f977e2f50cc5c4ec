"""Detectors of soft failures: what they see, and what they leave alone."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selfheal_rl.core.values import KINDS
from selfheal_rl.runtime.diagnose import (
    LoopDetector,
    detect,
    empty_output,
    error_in_result,
    error_inside,
    loop_period,
    refusal,
    truncated_json,
)


@pytest.mark.parametrize("value", [None, "", "  \n", "{}", "[]", "null", {}, [], b""])
def test_empty(value: object) -> None:
    assert empty_output(value) == "empty_output"


@pytest.mark.parametrize("value", ["0", "no", 0, False, {"a": None}, [0], "{ }x"])
def test_not_empty(value: object) -> None:
    assert empty_output(value) is None


@pytest.mark.parametrize(
    "text",
    [
        '{"a": [1, 2',
        '{"a": "unfinis',
        '[{"a": 1},',
        '```json\n{"a": {"b": 1}\n```',
        '{"a": tru',
        '{"a": "}"',
    ],
)
def test_truncated(text: str) -> None:
    assert truncated_json(text) == "parse_error"


@pytest.mark.parametrize(
    "text",
    [
        '{"a": [1, 2]}',
        '```json\n{"a": 1}\n```',
        "[1] see the reference",
        "plain prose { with a bracket",
        '{"a": "brackets [[[ in {{ a string"}',
        '{"a": 1} and some words after it',
        "{'a': 'a Python dictionary'",
    ],
)
def test_not_truncated(text: str) -> None:
    assert truncated_json(text) is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.text(min_size=1, max_size=6), json_values, min_size=1, max_size=4))
def test_whole_json_is_never_called_truncated(value: dict[str, object]) -> None:
    assert truncated_json(json.dumps(value)) is None
    assert truncated_json(json.dumps(value, indent=2)) is None


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, but I can't help with that.",
        "I cannot assist with this request.",
        "As an AI language model, I am not able to open files.",
        "I’m unable to provide that information.",
    ],
)
def test_refusals(text: str) -> None:
    assert refusal(text) == "refusal"


@pytest.mark.parametrize(
    "text",
    [
        "Sorry for the delay: the order is placed.",
        "I can help with that. Here is the plan.",
        "The server cannot provide the file, so I used the copy.",
        "Here is the letter you wanted. " + "word " * 400 + "I cannot assist",
    ],
)
def test_answers_are_no_refusals(text: str) -> None:
    assert refusal(text) is None


@pytest.mark.parametrize(
    "value",
    [
        {"error": "rate limit exceeded"},
        {"error": {"code": 500, "message": "boom"}},
        {"isError": True, "content": [{"type": "text", "text": "File not found"}]},
        {"ok": False, "error": "invalid_arguments"},
        {"success": False, "message": "no"},
        {"status": "error", "message": "bad"},
        {"status": 404, "title": "Not Found"},
        {"errors": [{"message": "boom"}], "data": None},
        {"jsonrpc": "2.0", "error": {"code": -32602, "message": "Invalid params"}, "id": 1},
        '{"error": "boom"}',
        "Error: boom",
        "Error executing tool add: boom",
        "Traceback (most recent call last):\n  x",
        b'{"error": "boom"}',
    ],
)
def test_error_results(value: object) -> None:
    assert error_in_result(value)


@pytest.mark.parametrize(
    "value",
    [
        {"error": None, "data": 1},
        {"error": "", "data": 1},
        {"error": 0.02, "fit": "good"},
        {"errors": []},
        {"errors": [{"message": "partial"}], "data": {"a": 1}},
        {"status": "ok"},
        {"status": 200, "message": "created"},
        {"code": 404},
        {"success": True},
        "Errors are rare in this system.",
        "error rates fell",
        "The failure of the bank",
        '{"data": {"error_count": 0}}',
        ["error"],
        3,
        None,
        "",
    ],
)
def test_healthy_results(value: object) -> None:
    assert error_in_result(value) is None


def test_result_objects() -> None:
    class Result:
        isError = True  # noqa: N815
        content = ("File not found",)

    class Message:
        status = "error"
        content = "Permission denied"

    class Fine:
        status = "success"
        content = "error"

    assert error_in_result(Result()) == "File not found"
    assert error_in_result(Message()) == "Permission denied"
    assert error_in_result(Fine()) is None


def test_hostile_objects_are_left_alone() -> None:
    class Hostile:
        def __getattr__(self, name: str) -> object:
            raise RuntimeError(name)

    assert error_in_result(Hostile()) is None


def test_cyclic_error_result() -> None:
    cyclic: dict[str, object] = {"error": {}}
    cyclic["error"] = cyclic
    assert error_in_result(cyclic)


def test_error_inside_names_the_kind() -> None:
    assert error_inside({"error": {"message": "Rate limit exceeded"}}) == "rate_limit"
    assert error_inside({"temperature": 21}) is None


@pytest.mark.parametrize("period", range(1, 9))
def test_loops_of_every_period(period: int) -> None:
    cycle = list(range(period))
    assert loop_period(["start", *cycle * 3]) == period
    assert loop_period([*cycle * 2, "other"]) == 0


def test_loop_longer_than_eight_is_not_seen() -> None:
    assert loop_period(list(range(9)) * 4) == 0


def test_loop_detector() -> None:
    detector = LoopDetector()
    assert [detector.observe(k) for k in "abab"] == [None] * 4
    assert [detector.observe(k) for k in "ab"] == [None, "loop"]
    detector.reset()
    assert detector.observe("a") is None
    with pytest.raises(ValueError, match="at least 2"):
        LoopDetector(repeats=1)


def test_a_poll_whose_result_changes_is_no_loop() -> None:
    detector = LoopDetector()
    assert [detector.observe(("poll", f"{n}%")) for n in range(20)] == [None] * 20


def test_detect_takes_the_first_alarm() -> None:
    assert detect("") == "empty_output"
    assert detect({"error": "Unauthorized"}) == "auth"
    assert detect('{"a": [1,') == "parse_error"
    assert detect("I can't help with that.", is_model_output=True) == "refusal"
    assert detect("I can't help with that.") is None
    assert detect("All 5 rows were written.", is_model_output=True) is None


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(codec=None, categories=None), max_size=300) | json_values)
def test_detect_never_raises_and_names_a_kind(value: object) -> None:
    alarm = detect(value, is_model_output=True)
    assert alarm is None or alarm in {k.value for k in KINDS}
