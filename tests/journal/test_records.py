"""What is written comes back, and nothing secret is written."""

import sqlite3
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from selfheal_rl.core.values import JournalError, Outcome, Verdict
from selfheal_rl.runtime.journal import Journal, JournalProtocol, LoggedAttempt, NullJournal
from selfheal_rl.runtime.journal.rows import MAX_TEXT


def record(journal, incident):
    """The calls a healer makes, in its order."""
    for seq, failure in enumerate(incident.failures):
        journal.record_failure(
            incident.id, seq, failure, incident.capabilities, incident.next_wait_s
        )
        if seq < len(incident.attempts):
            journal.record_attempt(incident.id, seq, incident.attempts[seq])
    journal.record_verdict(incident.id, incident.verdict, incident.censored)


def test_an_incident_comes_back_whole_but_for_its_secrets(journal, new_incident) -> None:
    incident = new_incident()
    record(journal, incident)
    back = journal.incident("i1")
    assert back.attempts == incident.attempts
    assert back.capabilities == incident.capabilities
    assert (back.verdict, back.next_wait_s, back.censored) == (Verdict.HEALED, 4.0, False)
    assert [f.diagnosis for f in back.failures] == [f.diagnosis for f in incident.failures]
    snapshot = back.snapshot
    assert snapshot.message == "429 from https://bob:[redacted]@api.example/v1"
    assert snapshot.headers == {"Retry-After": "3", "Authorization": "[redacted]"}
    assert snapshot.agent_state == {"api_key": "[redacted]", "step": 2}
    assert snapshot.call.arguments["query"]["length"] == 4
    kept = incident.snapshot.model_copy(
        update={
            "message": snapshot.message,
            "headers": snapshot.headers,
            "agent_state": snapshot.agent_state,
            "call": snapshot.call,
        }
    )
    assert snapshot == kept


def test_whole_incidents_and_single_calls_write_the_same(journal, new_incident) -> None:
    record(journal, new_incident("one"))
    assert journal.append_incidents([new_incident("two")]) == 1
    assert journal.incident("two") == journal.incident("one").model_copy(update={"id": "two"})


def test_no_secret_reaches_the_disk(journal, path, new_incident) -> None:
    journal.record_task_start("t1", "acme", goal="log in with password=swordfish9")
    record(journal, new_incident())
    journal.close()
    blob = b"".join(p.read_bytes() for p in path.parent.iterdir())
    for secret in (b"hunter2", b"abcdef123456", b"sesame", b"swordfish9", b"Bern"):
        assert secret not in blob


def test_equal_arguments_hash_equal_within_a_tenant_only(journal, new_incident) -> None:
    journal.append_incidents(
        [new_incident("a"), new_incident("b"), new_incident("c", tenant="other")]
    )
    a, b, c = (journal.incident(i).snapshot.call.arguments["query"]["hash"] for i in "abc")
    assert a == b
    assert a != c


def test_values_on_the_allow_list_are_kept(path, new_incident) -> None:
    with Journal.open(path, allow=("query", "password")) as journal:
        journal.append_incidents([new_incident()])
        arguments = journal.incident("i1").snapshot.call.arguments
    assert arguments["query"]["value"] == "Bern"
    assert "value" not in arguments["password"]


def test_long_texts_lose_their_middle_and_secrets_across_the_cut(journal, new_failure) -> None:
    head = MAX_TEXT * 3 // 4
    secret = "ghp_" + "a1B2" * 9
    text = "s" * (head - 8) + " " + secret + " " + "m" * 90_000 + " the end"
    failure = new_failure()
    failure = failure.model_copy(
        update={"snapshot": failure.snapshot.model_copy(update={"response": text})}
    )
    journal.record_failure("long", 0, failure)
    kept = journal.incident("long").snapshot.response
    assert len(kept) < MAX_TEXT + 100
    assert kept.endswith(" the end")
    assert "characters cut" in kept
    assert "ghp_" not in kept


finite = st.floats(allow_nan=False, allow_infinity=False)
unit = st.floats(0, 1)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(
    propensity=unit,
    mask=st.lists(st.booleans(), min_size=17, max_size=17),
    probabilities=st.lists(unit, max_size=17),
    observation=st.lists(st.floats(-1, 1, width=32), max_size=192),
    seconds=st.floats(0, 1e9),
    tokens=st.integers(0, 2**40),
    outcome=st.sampled_from(Outcome),
    reasons=st.lists(st.sampled_from(["é", "a\nb", '"', "", "x" * 300]), max_size=4),
    intended=st.none() | st.integers(0, 16),
)
def test_every_logged_field_survives_exactly(
    journal, new_incident, new_attempt, propensity, mask, probabilities, observation, seconds,
    tokens, outcome, reasons, intended,
) -> None:  # fmt: skip
    seq = journal.counts()["attempts"]
    if seq == 0:
        journal.append_incidents([new_incident().model_copy(update={"attempts": ()})])
    attempt = new_attempt(outcome=outcome)
    decision = attempt.decision.model_copy(
        update={
            "propensity": propensity,
            "mask": tuple(mask),
            "probabilities": tuple(probabilities),
            "observation": tuple(observation),
            "reasons": tuple(reasons),
            "intended": None if intended is None else type(attempt.decision.action)(intended),
        }
    )
    attempt = attempt.model_copy(
        update={"decision": decision, "seconds": seconds, "tokens": tokens}
    )
    journal.record_attempt("i1", seq, attempt, censored=bool(seq % 2))
    logged = list(journal.attempts())[-1]
    assert logged == LoggedAttempt("i1", seq, attempt, bool(seq % 2), "acme", "t1")


def test_lists_filter_and_order(journal, new_incident) -> None:
    journal.append_incidents(
        [
            new_incident("a", task="t1", time=10),
            new_incident("b", task="t2", time=30),
            new_incident("c", task="t1", tenant="other", time=20),
            new_incident("d", task=None, time=40),
        ]
    )

    def ids(**query):
        return [row.id for row in journal.incidents(**query)]

    assert ids() == ["d", "b", "c", "a"]
    assert ids(limit=2) == ["d", "b"]
    assert ids(tenant="acme") == ["d", "b", "a"]
    assert ids(task="t1") == ["c", "a"]
    assert ids(since=30) == ["d", "b"]
    row = journal.incidents(task="t2")[0]
    assert (row.failures, row.attempts, row.seconds, row.tokens) == (2, 2, 3.0, 14)
    assert (row.tool, row.kind, row.verdict) == ("search", "rate_limit", Verdict.HEALED)


def test_attempts_stream_over_pages_in_order(journal, new_incident, new_attempt) -> None:
    journal.append_incidents([new_incident().model_copy(update={"attempts": ()})])
    n = 2_500
    rows = [LoggedAttempt("i1", seq, new_attempt(float(seq))) for seq in range(n)]
    assert journal.append_many(rows) == n
    assert [row.seq for row in journal.attempts()] == list(range(n))
    assert [row.seq for row in journal.attempts(since=n - 3)] == [n - 3, n - 2, n - 1]


def test_unknown_outcome_stays_unknown_until_reported(journal, clock) -> None:
    assert journal.task_outcome("t1", "acme") is None
    journal.record_task_start("t1", "acme", "goal", 60.0)
    clock.advance(5)
    journal.record_task_end("t1", "acme")
    assert journal.task_outcome("t1", "acme") == (None, None)
    journal.report_outcome("t1", False, 0.25, tenant="acme")
    assert journal.task_outcome("t1", "acme") == (False, 0.25)
    journal.record_task_end("t1", "acme")
    assert journal.task_outcome("t1", "acme") == (False, 0.25)
    assert journal.task_outcome("t1", "other") is None


def test_outcome_shows_in_the_list(journal, new_incident) -> None:
    journal.append_incidents([new_incident()])
    assert journal.incidents()[0].task_success is None
    journal.record_task_end("t1", "acme", success=True, quality=1.0)
    assert journal.incidents()[0].task_success is True


def test_prune_keeps_what_is_newer_and_its_tasks(journal, clock, new_incident) -> None:
    journal.record_task_end("old", "acme", success=True)
    journal.record_task_end("t1", "acme", success=True)
    journal.append_incidents([new_incident("a", task="old", time=10)])
    journal.append_incidents([new_incident("b", task="t1", time=5_000)])
    assert journal.prune(before=4_000.0) == 1
    assert journal.counts() == {"tasks": 1, "incidents": 1, "failures": 2, "attempts": 2}
    assert journal.task_outcome("t1", "acme") == (True, None)
    assert journal.prune(before=4_000.0) == 0


def test_ids_are_found_by_their_start(journal, new_incident) -> None:
    journal.append_incidents([new_incident("abc1"), new_incident("abc2"), new_incident("x%")])
    assert journal.find("abc2") == "abc2"
    assert journal.find("x") == "x%"
    with pytest.raises(JournalError, match="several"):
        journal.find("abc")
    with pytest.raises(JournalError, match="no incident"):
        journal.find("%")


def test_a_reader_sees_the_journal_but_cannot_write(journal, path, new_incident) -> None:
    journal.append_incidents([new_incident()])
    with Journal.open(path, read_only=True) as reader:
        assert reader.incident("i1") == journal.incident("i1")
        with pytest.raises(JournalError, match="read-only"):
            reader.record_verdict("i1", Verdict.ESCALATED)


def test_full_synchronous_is_set_on_the_connection(path) -> None:
    with Journal.open(path, synchronous="FULL") as journal, journal._writing() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"


def test_the_file_is_the_owners_alone(journal, path: Path) -> None:
    assert path.stat().st_mode & 0o077 == 0


def test_null_journal_accepts_everything_and_keeps_nothing(new_incident) -> None:
    journal: JournalProtocol = NullJournal()
    record(journal, new_incident())
    journal.record_task_start("t")
    journal.record_task_end("t", success=True)
    journal.report_outcome("t", True)
    assert journal.append_many([]) == journal.append_incidents([new_incident()]) == 0
    assert journal.incidents() == list(journal.attempts()) == []
    assert set(journal.counts().values()) == {0}
    assert journal.prune(1e12) == 0
    with pytest.raises(JournalError, match="no journal"):
        journal.incident("i1")


def test_sqlite_can_read_the_tables_directly(journal, path, new_incident) -> None:
    journal.append_incidents([new_incident()])
    with sqlite3.connect(path) as raw:
        mask, blob = raw.execute("SELECT mask, observation FROM attempts").fetchone()
    assert mask == "01101101101101101"
    assert len(blob) == 3 * 4


def test_hostile_values_are_stored_not_raised(journal, new_failure, new_attempt) -> None:
    loop: dict[str, object] = {}
    loop["self"] = loop
    failure = new_failure()
    snapshot = failure.snapshot.model_copy(
        update={
            "message": "lone \ud800 and \0",
            "agent_state": {"loop": loop, "o": object(), "b": b"\xff", "n": float("nan"), 3: {1}},
            "call": failure.snapshot.call.model_copy(update={"arguments": {"\ud800": object()}}),
        }
    )
    journal.record_failure("odd", 0, failure.model_copy(update={"snapshot": snapshot}))
    journal.record_attempt("odd", 0, new_attempt().model_copy(update={"note": "\udfff"}))
    back = journal.incident("odd")
    assert back.snapshot.message == "lone ? and \ufffd"
    assert back.snapshot.agent_state["o"] == "<object>"
    assert back.snapshot.agent_state["3"] == [1]
    assert back.attempts[0].note == "?"


def test_a_number_too_large_for_the_database_is_one_clear_error(
    journal, new_incident, new_attempt
) -> None:
    journal.append_incidents([new_incident()])
    with pytest.raises(JournalError, match="nothing of this record"):
        journal.record_attempt("i1", 2, new_attempt().model_copy(update={"tokens": 2**70}))
    journal.record_attempt("i1", 2, new_attempt())
