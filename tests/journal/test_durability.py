"""Kill -9 loses nothing acknowledged; threads and processes write side by side."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time

import pytest

from selfheal_rl.runtime.journal import Journal, LoggedAttempt

WRITER = """
import os, sys
from selfheal_rl.core.values import *
from selfheal_rl.runtime.journal import Journal, LoggedAttempt

path, who, limit = sys.argv[1], sys.argv[2], int(sys.argv[3])
failure = Failure(
    snapshot=ErrorSnapshot(time=1.0, task_id="t"),
    diagnosis=Diagnosis(posterior=(1.0,) + (0.0,) * (N_KINDS - 1), effect_state="maybe"),
)
attempt = Attempt(
    decision=Decision(action=1, observation=(0.5,) * 128), outcome="failed", started=1.0
)
journal = Journal.open(path, busy_timeout_s=60)
def acknowledge(text):
    os.write(1, (text + "\\n").encode())
for n in range(limit):
    incident = f"{who}-{n}"
    journal.record_failure(incident, 0, failure)
    acknowledge(f"failure {incident} 1")
    journal.record_attempt(incident, 0, attempt)
    acknowledge(f"attempt {incident} 1")
    journal.append_many([LoggedAttempt(incident, seq, attempt) for seq in range(1, 20)])
    acknowledge(f"attempt {incident} 20")
    journal.record_verdict(incident, Verdict.ESCALATED)
    acknowledge(f"verdict {incident} 1")
"""


def start(path, who: str, limit: int) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), who, str(limit)], stdout=subprocess.PIPE
    )


def acknowledged(output: bytes) -> list[tuple[str, str, int]]:
    lines = output.decode().split("\n")[:-1]  # the last one may be cut
    return [(what, who, int(n)) for what, who, n in (line.split() for line in lines)]


def assert_kept(path, records) -> None:
    with sqlite3.connect(path) as raw:
        assert raw.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert raw.execute("PRAGMA foreign_key_check").fetchall() == []
        failures = dict(raw.execute("SELECT incident_id, count(*) FROM failures GROUP BY 1"))
        attempts = dict(raw.execute("SELECT incident_id, count(*) FROM attempts GROUP BY 1"))
        closed = {i for (i,) in raw.execute("SELECT id FROM incidents WHERE verdict <> 'open'")}
    for what, incident, n in records:
        if what == "failure":
            assert failures.get(incident, 0) >= n
        elif what == "attempt":
            assert attempts.get(incident, 0) >= n
        else:
            assert incident in closed
    assert set(attempts.values()) <= {1, 20}, "half a batch was kept"


def fork_writer(path, who: str) -> tuple[int, int]:
    """(process id, readable end) of a child that writes until it is killed."""
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(readable)
            os.dup2(writable, 1)
            sys.argv = ["writer", str(path), who, "1000000"]
            exec(WRITER, {})
        finally:
            os._exit(1)
    os.close(writable)
    return child, readable


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_kill_9_loses_no_acknowledged_record(path) -> None:
    """Each round kills a new writer of the same file at a random moment of its work."""
    rng = random.Random(7)
    records: list[tuple[str, str, int]] = []
    for round_ in range(40):
        child, readable = fork_writer(path, f"w{round_}")
        with os.fdopen(readable, "rb") as pipe:
            seen = b"".join(pipe.readline() for _ in range(rng.randrange(1, 60)))
            time.sleep(rng.random() * 0.003)
            os.kill(child, signal.SIGKILL)
            seen += pipe.read()
        _, status = os.waitpid(child, 0)
        assert os.WTERMSIG(status) == signal.SIGKILL
        records += acknowledged(seen)
        assert_kept(path, records)
    assert len(records) > 400


def test_processes_write_side_by_side(path) -> None:
    writers = [start(path, f"p{n}", 60) for n in range(3)]
    outputs = [writer.communicate()[0] for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    for output in outputs:
        assert len(acknowledged(output)) == 240
        assert_kept(path, acknowledged(output))
    with Journal.open(path) as journal:
        assert journal.counts()["attempts"] == 3 * 60 * 20


def test_threads_share_a_journal(journal, new_incident, new_attempt) -> None:
    errors: list[BaseException] = []

    def work(who: int) -> None:
        try:
            journal.append_incidents([new_incident(f"i{who}").model_copy(update={"attempts": ()})])
            for seq in range(40):
                journal.record_attempt(f"i{who}", seq, new_attempt())
                if seq % 8 == 0:
                    assert len(journal.incident(f"i{who}").attempts) == seq + 1
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert journal.counts()["attempts"] == 12 * 40


def test_a_stream_of_attempts_does_not_hold_up_a_writer(journal, new_incident, new_attempt) -> None:
    journal.append_incidents([new_incident().model_copy(update={"attempts": ()})])
    journal.append_many([LoggedAttempt("i1", seq, new_attempt()) for seq in range(1_500)])
    stream = journal.attempts()
    next(stream)
    journal.record_attempt("i1", 1_500, new_attempt())
    assert sum(1 for _ in stream) == 1_500


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_writes_on_its_own_connection(journal, new_incident, new_attempt) -> None:
    journal.append_incidents([new_incident()])
    child = os.fork()
    if child == 0:
        try:
            journal.record_attempt("i1", 2, new_attempt())
        except BaseException:
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0
    journal.record_attempt("i1", 3, new_attempt())
    assert journal.counts()["attempts"] == 4
