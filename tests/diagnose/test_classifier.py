"""The classifier: probabilities, evidence, and that no text can break it."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selfheal_rl.core.values import (
    KIND_INDEX,
    KINDS,
    N_KINDS,
    EffectState,
    ErrorSnapshot,
    FailedCall,
    FaultKind,
    Seam,
)
from selfheal_rl.runtime.diagnose import classify, kind_probabilities
from selfheal_rl.runtime.diagnose.patterns import tables

WORDINGS = [
    json.loads(line)
    for line in Path(__file__).with_name("wordings.jsonl").read_text("utf-8").splitlines()
]


def snapshot(message: str = "", tool: str = "http", **fields: object) -> ErrorSnapshot:
    return ErrorSnapshot(time=0.0, message=message, call=FailedCall(tool=tool), **fields)  # type: ignore[arg-type]


def kind(message: str = "", **fields: object) -> str:
    return classify(snapshot(message, **fields)).kind.value  # type: ignore[arg-type]


def test_wordings_of_well_known_software() -> None:
    wrong = []
    for row in WORDINGS:
        is_model = row["tool"] == "llm"
        answer = classify(
            ErrorSnapshot(
                time=0.0,
                message=row["message"],
                error_type=row["error_type"],
                http_status=row["http_status"],
                seam=Seam.MODEL if is_model else Seam.TOOL,
                call=FailedCall(tool=row["tool"], is_model_call=is_model),
            )
        ).kind.value
        if answer not in row["kinds"]:
            wrong.append((answer, row["kinds"], row["message"]))
    assert len(wrong) <= 0.02 * len(WORDINGS), wrong


def test_no_evidence_is_unknown_and_nearly_flat() -> None:
    diagnosis = classify(snapshot())
    assert diagnosis.kind is FaultKind.UNKNOWN
    assert max(diagnosis.posterior) < 0.15


def test_clear_evidence_still_leaves_mass_elsewhere() -> None:
    diagnosis = classify(snapshot("Too many requests", http_status=429, retry_after_s=5.0))
    assert diagnosis.kind is FaultKind.RATE_LIMIT
    assert 0.9 < max(diagnosis.posterior) < 0.995
    assert min(diagnosis.posterior) > 1e-4


@pytest.mark.parametrize(
    ("message", "status", "expected"),
    [
        ("API rate limit exceeded", 403, "rate_limit"),
        ("The model `x-1` does not exist", 404, "not_found"),
        ('HTTP 400: {"error": "input length exceeds the context window"}', 500, "context_overflow"),
        ('{"error": {"message": "Rate limit reached", "code": 429}}', 200, "rate_limit"),
        ('{"data": null, "errors": [{"message": "Internal server error"}]}', 200, "server_error"),
    ],
)
def test_the_words_count_for_more_than_a_status_that_lies(
    message: str, status: int, expected: str
) -> None:
    assert kind(message, http_status=status) == expected


def test_an_inner_4xx_weakens_the_5xx_around_it() -> None:
    bare = classify(snapshot("failed", http_status=500))
    wrapped = classify(snapshot("failed: upstream said HTTP 404", http_status=500))
    at = KIND_INDEX[FaultKind.NOT_FOUND]
    assert wrapped.posterior[at] > 3 * bare.posterior[at]


def test_the_response_body_is_read() -> None:
    assert kind("Bad Request", http_status=400, response="prompt is too long") == "context_overflow"


def test_a_cause_counts() -> None:
    bare = classify(snapshot("oops", error_type="app.Failure"))
    with_cause = classify(
        snapshot("oops", error_type="app.Failure", error_chain=("socket.gaierror",))
    )
    assert bare.kind is FaultKind.UNKNOWN
    assert with_cause.kind is FaultKind.NETWORK


def test_last_line_of_a_traceback_decides() -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "/app/timeout.py", line 3, in connection_refused\n'
        "    raise_rate_limit('permission denied')\n"
        "KeyError: 'price'"
    )
    assert kind(text, tool="python") == "code_exception"


def test_a_query_parameter_is_no_evidence() -> None:
    assert kind("GET http://host/api?timeout=30s&error=denied: connection refused") == "network"


@pytest.mark.parametrize("alarm", ["low_quality", "loop", "drift", "hallucination", "refusal"])
def test_an_alarm_names_its_kind(alarm: str) -> None:
    diagnosis = classify(snapshot(status="ok", alarm=alarm))
    assert diagnosis.kind.value == alarm
    assert diagnosis.effect_state is EffectState.DONE
    assert max(diagnosis.posterior) < 0.95


def test_rate_limit_headers_count() -> None:
    spent = {"X-RateLimit-Remaining": "0"}
    assert kind("Forbidden", http_status=403, headers=spent) == "rate_limit"
    assert kind("Forbidden", http_status=403) == "denied"


def test_signature_is_equal_for_failures_that_differ_in_names_and_numbers() -> None:
    one = classify(
        snapshot("Timeout 30s reading '/data/a.csv' for job 7f3a9c2e1b at https://x.io/1")
    )
    two = classify(
        snapshot("Timeout 9s reading '/tmp/b.csv' for job 1b2c3d4e5f at https://y.io/22")
    )
    other = classify(snapshot("Connection refused at https://x.io/1"))
    assert one.signature == two.signature
    assert one.signature != other.signature
    assert "a.csv" not in one.signature


def test_probabilities_are_listed_most_probable_first() -> None:
    listed = kind_probabilities(classify(snapshot("Too many requests")))
    assert next(iter(listed)) is FaultKind.RATE_LIMIT
    assert list(listed.values()) == sorted(listed.values(), reverse=True)


def test_tables_name_every_kind() -> None:
    named = {k for phrases in tables().phrases.values() for p in phrases for k, _ in p.scores}
    assert {KINDS[i] for i in range(N_KINDS)} == {KINDS[i] for i in named}


anything = st.text(st.characters(codec=None, categories=None), max_size=300)
noise = st.sampled_from(
    [
        "Error",
        "timeout",
        "{",
        '"',
        "'",
        "\\",
        "\n",
        "429",
        "Traceback (most recent call last)",
        "://",
    ]
)
hostile = st.one_of(anything, st.lists(st.one_of(noise, anything), max_size=12).map("".join))


@settings(max_examples=150, deadline=None)
@given(
    message=hostile,
    response=hostile,
    stack=hostile,
    error_type=st.none() | hostile,
    status=st.none() | st.integers(100, 599),
    how=st.sampled_from(["ok", "partial", "failed", "timed_out", "unknown"]),
    alarm=st.none() | hostile | st.sampled_from([k.value for k in KINDS]),
)
def test_never_raises_and_always_answers_a_distribution(
    message: str,
    response: str,
    stack: str,
    error_type: str | None,
    status: int | None,
    how: str,
    alarm: str | None,
) -> None:
    seen = ErrorSnapshot.model_construct(
        time=0.0,
        message=message,
        response=response,
        stack_trace=stack,
        error_type=error_type,
        http_status=status,
        status=how,
        alarm=alarm,
    )
    diagnosis = classify(seen)
    assert len(diagnosis.posterior) == N_KINDS
    assert math.isclose(sum(diagnosis.posterior), 1.0, abs_tol=1e-9)
    assert all(0.0 < p < 1.0 for p in diagnosis.posterior)
    diagnosis.signature.encode("utf-8")
    assert classify(seen) == diagnosis


@pytest.mark.parametrize(
    "unit",
    [
        "a",
        "a.",
        "'",
        '"',
        "{",
        "error 429 ",
        "x: y ",
        "a_b-",
        "://?",
        "/",
        "0x",
        "Error: ",
        "\ud800",
    ],
)
def test_a_megabyte_of_hostile_text_is_cut(unit: str) -> None:
    text = unit * (1_000_000 // len(unit))
    diagnosis = classify(ErrorSnapshot.model_construct(time=0.0, message=text, response=text))
    assert math.isclose(sum(diagnosis.posterior), 1.0, abs_tol=1e-9)
    assert len(diagnosis.signature) < 600


def test_head_and_tail_of_long_text_are_read() -> None:
    filler = "lorem ipsum " * 50_000
    assert kind("connection refused " + filler) == "network"
    assert kind(filler + " connection refused") == "network"
