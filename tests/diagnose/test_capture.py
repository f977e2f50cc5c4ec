"""Snapshots from exceptions of all kinds, by duck typing."""

import json
import sqlite3
import subprocess
import sys
import urllib.error
from email.message import Message
from email.utils import formatdate
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selfheal_rl.core.values import ErrorSnapshot, FailedCall, Seam
from selfheal_rl.runtime.diagnose import classify, snapshot_of, snapshot_of_result

NOW = 1_700_000_000.0
CALL = FailedCall(tool="get_user")


def same(text: str) -> str:
    return text


def capture(exc: BaseException, **fields: Any) -> ErrorSnapshot:
    return snapshot_of(exc, call=CALL, now=NOW, redact=same, **fields)


class StatusError(Exception):
    """Shape of openai, httpx and requests errors: a response with status, headers, content."""

    def __init__(self, message: str, status: int, headers: dict[str, str], content: bytes) -> None:
        super().__init__(message)
        self.response = SimpleNamespace(status_code=status, headers=headers, _content=content)


def test_response_of_an_http_client() -> None:
    headers = {"Retry-After": "12", "X-RateLimit-Remaining": "0", "Set-Cookie": "secret"}
    seen = capture(StatusError("slow down", 429, headers, b'{"error": "quota"}'))
    assert seen.http_status == 429
    assert seen.retry_after_s == 12.0
    assert seen.headers == {"retry-after": "12", "x-ratelimit-remaining": "0"}
    assert seen.response == '{"error": "quota"}'
    assert seen.error_type is not None
    assert seen.error_type.endswith("StatusError")
    assert seen.call is CALL
    assert seen.time == NOW
    assert seen.status == "failed"


@pytest.mark.parametrize(
    ("headers", "text", "expected"),
    [
        ({"retry-after": formatdate(NOW + 90, usegmt=True)}, "", 90.0),
        ({"retry-after": formatdate(NOW - 90, usegmt=True)}, "", 0.0),
        ({"retry-after": "-3"}, "", 0.0),
        ({"retry-after": "nonsense"}, "", None),
        ({"retry-after": "nan"}, "", None),
        ({"retry-after": "1e300"}, "", None),
        ({"retry-after-ms": "1500", "retry-after": "9"}, "", 1.5),
        ({"x-ratelimit-reset": str(int(NOW) + 30), "x-ratelimit-remaining": "0"}, "", 30.0),
        ({"x-ratelimit-reset": str(int(NOW) + 30), "x-ratelimit-remaining": "4"}, "", None),
        (
            {"x-ratelimit-reset-tokens": "1m30s", "x-ratelimit-remaining-tokens": "0"},
            "",
            90.0,
        ),
        ({}, "Please try again in 7.67s.", 7.67),
        ({}, "Retrying in 250ms", 0.25),
        ({}, "try again in 2 minutes", 120.0),
        ({}, "try again later", None),
    ],
)
def test_retry_after(headers: dict[str, str], text: str, expected: float | None) -> None:
    seen = capture(StatusError(text, 429, headers, b""))
    assert seen.retry_after_s == (None if expected is None else pytest.approx(expected))


def test_urllib_error_body_stays_unread() -> None:
    class Body:
        def read(self, *_: object) -> bytes:
            raise AssertionError("the body was read")

        def close(self) -> None:
            pass

    headers = Message()
    headers["Retry-After"] = "5"
    seen = capture(urllib.error.HTTPError("http://x", 503, "Busy", headers, Body()))  # type: ignore[arg-type]
    assert (seen.http_status, seen.retry_after_s) == (503, 5.0)


def test_body_of_an_openai_error_is_kept_and_botocore_dictionary_is_read() -> None:
    class ApiError(Exception):
        status_code = 400
        body = {"message": "context window", "code": "context_length_exceeded"}

    class ClientError(Exception):
        response = {
            "Error": {"Code": "AccessDenied", "Message": "no"},
            "ResponseMetadata": {"HTTPStatusCode": 403, "HTTPHeaders": {"retry-after": "2"}},
        }

    assert "context_length_exceeded" in capture(ApiError("bad")).response
    seen = capture(ClientError("An error occurred (AccessDenied)"))
    assert (seen.http_status, seen.retry_after_s) == (403, 2.0)


def test_numbers_that_are_no_status_are_ignored() -> None:
    class OddError(Exception):
        code = 7
        status = "weird"

    assert capture(OddError()).http_status is None


def test_subprocess_errors() -> None:
    command = [sys.executable, "-c", "import sys; print('why', file=sys.stderr); sys.exit(3)"]
    with pytest.raises(subprocess.CalledProcessError) as raised:
        subprocess.run(command, check=True, capture_output=True)
    seen = capture(raised.value)
    assert "exit code 3" in seen.message
    assert "why" in seen.message
    late = capture(subprocess.TimeoutExpired("x", 1.0, output=b"half"))
    assert late.status == "timed_out"
    assert "half" in late.message


def test_database_codes() -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute("create table t (a unique)")
    with pytest.raises(sqlite3.IntegrityError) as raised:
        connection.execute("insert into t values (1), (1)")
    connection.close()
    seen = capture(raised.value)
    assert "SQLITE_CONSTRAINT" in seen.message
    assert classify(seen).kind.value == "precondition"

    class PgError(Exception):
        sqlstate = "42P01"

    assert classify(capture(PgError("oops"))).kind.value == "not_found"


def test_json_document_is_kept_as_response() -> None:
    with pytest.raises(json.JSONDecodeError) as raised:
        json.loads('{"a": ')
    assert capture(raised.value).response == '{"a": '


def test_cause_is_told_where_the_message_hides_it() -> None:
    def fail() -> None:
        try:
            raise ConnectionRefusedError(111, "Connection refused")
        except ConnectionRefusedError as cause:
            raise RuntimeError("request failed") from cause

    with pytest.raises(RuntimeError) as raised:
        fail()
    seen = capture(raised.value)
    assert seen.error_chain == ("ConnectionRefusedError",)
    assert "Connection refused" in seen.message
    assert classify(seen).kind.value == "network"
    assert "test_capture.py" in seen.stack_trace
    assert "/" not in seen.stack_trace


def test_suppressed_context_is_no_cause() -> None:
    exc = RuntimeError("clean")
    exc.__context__ = KeyError("a")
    assert capture(exc).error_chain == ("KeyError",)
    exc.__suppress_context__ = True
    assert capture(exc).error_chain == ()


def test_cycles_and_long_chains_end() -> None:
    one, two = ValueError("one"), ValueError("two")
    one.__cause__, two.__cause__ = two, one
    assert len(capture(one).error_chain) == 1
    last = first = ValueError("0")
    for n in range(100):
        last.__cause__ = ValueError(str(n))
        last = last.__cause__  # type: ignore[assignment]
    assert len(capture(first).error_chain) <= 8


def test_exception_groups() -> None:
    group = ExceptionGroup("unhandled errors in a TaskGroup", [ConnectionResetError("reset")])
    assert capture(group).error_chain == ("ConnectionResetError",)


def test_hostile_exceptions_are_survived() -> None:
    class HostileError(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no")

        def __getattr__(self, name: str) -> object:
            raise RuntimeError(name)

    assert "without a printable message" in capture(HostileError()).message
    capture(ValueError("lone \ud800 surrogate")).model_dump_json()


def test_fields_win_and_seam_is_kept() -> None:
    seen = capture(ValueError("x"), seam=Seam.MODEL, step=4, goal="g", http_status=418)
    assert (seen.seam, seen.step, seen.goal, seen.http_status) == (Seam.MODEL, 4, "g", 418)


def test_every_text_is_redacted() -> None:
    def hide(text: str) -> str:
        return text.replace("hunter2", "[hidden]")

    exc = StatusError("pw hunter2", 401, {"www-authenticate": "hunter2"}, b"hunter2")
    exc.__cause__ = ValueError("also hunter2")
    assert "hunter2" not in snapshot_of(exc, call=CALL, now=NOW, redact=hide).model_dump_json()


def test_default_redaction_hides_keys() -> None:
    key = "sk-proj-" + "a1B2c3D4" * 5
    exc = StatusError(f"bad key {key}", 401, {}, f'{{"api_key": "{key}"}}'.encode())
    assert key not in snapshot_of(exc, call=CALL, now=NOW).model_dump_json()


def test_a_secret_at_the_cut_leaves_no_half() -> None:
    secret = "S" * 200
    for shift in range(7900, 8200, 37):
        text = "x " * (shift // 2) + secret + " y" * 20_000
        seen = snapshot_of(
            ValueError(text), call=CALL, now=NOW, redact=lambda t: t.replace(secret, "[hidden]")
        )
        assert "SSSSS" not in seen.message


@settings(max_examples=100, deadline=None)
@given(st.text(st.characters(codec=None, categories=None), max_size=400), st.integers(0, 5000))
def test_any_message_gives_a_valid_bounded_snapshot(text: str, times: int) -> None:
    seen = capture(ValueError(text * (times // (len(text) + 1))))
    assert len(seen.message) <= 8100
    assert ErrorSnapshot.model_validate_json(seen.model_dump_json()) == seen


def test_error_result() -> None:
    seen = snapshot_of_result(
        {"error": {"code": 429, "message": "Too many requests"}, "retry_after": 3},
        call=CALL,
        now=NOW,
        redact=same,
    )
    assert (seen.status, seen.http_status, seen.retry_after_s) == ("failed", 429, 3.0)
    assert classify(seen).kind.value == "rate_limit"


def test_soft_result() -> None:
    seen = snapshot_of_result("looks odd", call=CALL, now=NOW, alarm="low_quality", redact=same)
    assert (seen.status, seen.alarm, seen.response) == ("ok", "low_quality", "looks odd")
    assert classify(seen).kind.value == "low_quality"
