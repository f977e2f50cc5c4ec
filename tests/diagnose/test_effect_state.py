"""How far a failed call may have got."""

import pytest

from selfheal_rl.core.values import EffectState, ErrorSnapshot, FailedCall
from selfheal_rl.runtime.diagnose import classify

NOT_STARTED, MAYBE, DONE = EffectState.NOT_STARTED, EffectState.MAYBE, EffectState.DONE


def state(message: str = "", tool: str = "order", **fields: object) -> EffectState:
    call = FailedCall(tool=tool, stream_started=bool(fields.pop("stream_started", False)))
    snapshot = ErrorSnapshot(time=0.0, message=message, call=call, **fields)  # type: ignore[arg-type]
    return classify(snapshot).effect_state


@pytest.mark.parametrize(
    ("message", "fields", "expected"),
    [
        ("[Errno 111] Connection refused", {"error_type": "ConnectionRefusedError"}, NOT_STARTED),
        ("[Errno -2] Name or service not known", {"error_type": "httpx.ConnectError"}, NOT_STARTED),
        ("certificate verify failed", {"error_type": "ssl.SSLError"}, NOT_STARTED),
        ("", {"error_type": "httpx.ConnectTimeout", "status": "timed_out"}, NOT_STARTED),
        ("Unauthorized", {"http_status": 401}, NOT_STARTED),
        ("Forbidden", {"http_status": 403}, NOT_STARTED),
        ("Not Found", {"http_status": 404}, NOT_STARTED),
        ("Too Many Requests", {"http_status": 429}, NOT_STARTED),
        ("Input validation error: 'id' is a required property", {}, NOT_STARTED),
        ("Unknown tool: ordr", {}, NOT_STARTED),
        ("", {"error_type": "httpx.ReadTimeout", "status": "timed_out"}, MAYBE),
        ("Read timed out", {}, MAYBE),
        ("Connection reset by peer", {"error_type": "ConnectionResetError"}, MAYBE),
        ("Remote end closed connection without response", {}, MAYBE),
        ("Internal Server Error", {"http_status": 500}, MAYBE),
        ("Service Unavailable", {"http_status": 503}, MAYBE),
        ("strange things", {}, MAYBE),
        ("", {"status": "ok", "alarm": "low_quality"}, DONE),
        ("", {"status": "partial", "alarm": "empty_output"}, DONE),
        ("response exceeds maximum allowed tokens, use pagination", {}, DONE),
        ("Expecting value: line 1 column 1", {"http_status": 200}, DONE),
    ],
)
def test_rules(message: str, fields: dict[str, object], expected: EffectState) -> None:
    assert state(message, **fields) is expected  # type: ignore[arg-type]


def test_a_4xx_inside_a_5xx_is_not_trusted() -> None:
    assert state('{"error": "HTTP 404 Not Found"}', http_status=500) is MAYBE


def test_a_script_that_failed_late_may_have_done_its_first_steps() -> None:
    assert state("cat: b.txt: No such file or directory", tool="bash") is MAYBE
    assert state("No such file or directory: b.txt", tool="read_file") is NOT_STARTED


def test_a_script_that_does_not_parse_has_done_nothing() -> None:
    message = "SyntaxError: invalid syntax"
    assert state(message, tool="python", error_type="SyntaxError") is NOT_STARTED


def test_a_stream_that_began_has_begun() -> None:
    assert state("Too Many Requests", http_status=429, stream_started=True) is MAYBE


def test_a_reply_found_invalid_comes_after_the_work() -> None:
    reply = "1 validation error for Order\ntotal\n  Field required [type=missing]"
    assert state(reply, error_type="pydantic_core.ValidationError") is MAYBE
    request = "1 validation error for orderArguments\ntotal\n  Field required [type=missing]"
    assert state(request, error_type="pydantic_core.ValidationError") is NOT_STARTED
    assert state(reply, error_type="ValidationError", http_status=422) is NOT_STARTED
    assert state("Output validation error: None is not of type 'object'") is MAYBE
