"""Attempts appended to the journal per second, against plain sqlite3 in the same run."""

import sqlite3
import tempfile
import time
from pathlib import Path
from typing import Any

from selfheal_rl.core.values import (
    N_ACTIONS,
    N_KINDS,
    Attempt,
    Decision,
    Diagnosis,
    EffectState,
    ErrorSnapshot,
    Failure,
    Outcome,
    RepairAction,
)
from selfheal_rl.runtime.journal import Journal, LoggedAttempt
from selfheal_rl.runtime.journal.rows import attempt_row

N_BATCH = 20_000
N_SINGLE = 1_000
REPEATS = 3
BARE = "CREATE TABLE attempts (id INTEGER PRIMARY KEY, {}, UNIQUE (incident_id, seq))"


def _failure() -> Failure:
    posterior = (1.0,) + (0.0,) * (N_KINDS - 1)
    return Failure(
        snapshot=ErrorSnapshot(time=1.0, task_id="t", message="timed out"),
        diagnosis=Diagnosis(posterior=posterior, effect_state=EffectState.MAYBE),
    )


def _attempt() -> Attempt:
    return Attempt(
        decision=Decision(
            action=RepairAction.BACKOFF,
            probabilities=(1.0 / N_ACTIONS,) * N_ACTIONS,
            propensity=1.0 / N_ACTIONS,
            mask=(True,) * N_ACTIONS,
            selector="default",
            policy_hash="a" * 64,
            spec_hash="b" * 64,
            reasons=("kind is timeout (p 0.93)", "no attempt was made before"),
            randomisation_unit="task:t",
            observation=(0.5,) * 192,
        ),
        outcome=Outcome.FAILED,
        started=2.0,
        seconds=1.5,
        tokens=12,
    )


def _bare(path: Path) -> sqlite3.Connection:
    columns = list(attempt_row("i", 0, _attempt()))
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute(BARE.format(", ".join(columns)))
    return connection


def _insert_sql() -> str:
    columns = list(attempt_row("i", 0, _attempt()))
    marks = ", ".join("?" * len(columns))
    return f"INSERT INTO attempts ({', '.join(columns)}) VALUES ({marks})"


def _batch_bare(folder: Path) -> float:
    """Rows/s of executemany on tuples that are ready beforehand: the floor under any journal."""
    values = [tuple(attempt_row("i", seq, _attempt()).values()) for seq in range(N_BATCH)]
    connection, sql = _bare(folder / "bare.db"), _insert_sql()
    start = time.perf_counter()
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany(sql, values)
    connection.execute("COMMIT")
    return N_BATCH / (time.perf_counter() - start)


def _single_bare(folder: Path) -> float:
    values = [tuple(attempt_row("i", seq, _attempt()).values()) for seq in range(N_SINGLE)]
    connection, sql = _bare(folder / "bare1.db"), _insert_sql()
    start = time.perf_counter()
    for row in values:
        connection.execute(sql, row)
    return N_SINGLE / (time.perf_counter() - start)


def _batch(folder: Path) -> float:
    attempt = _attempt()
    rows = [LoggedAttempt("i", seq, attempt) for seq in range(N_BATCH)]
    with Journal.open(folder / "journal.db") as journal:
        journal.record_failure("i", 0, _failure())
        start = time.perf_counter()
        journal.append_many(rows)
        return N_BATCH / (time.perf_counter() - start)


def _single(folder: Path, synchronous: str) -> float:
    attempt = _attempt()
    with Journal.open(folder / f"{synchronous}.db", synchronous=synchronous) as journal:
        journal.record_failure("i", 0, _failure())
        start = time.perf_counter()
        for seq in range(N_SINGLE):
            journal.record_attempt("i", seq, attempt)
        return N_SINGLE / (time.perf_counter() - start)


def _measure() -> tuple[float, ...]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        return (
            _batch(folder),
            _batch_bare(folder),
            _single(folder, "NORMAL"),
            _single_bare(folder),
            _single(folder, "FULL"),
        )


def run() -> list[dict[str, Any]]:
    """Best of three for each figure; the journal's side includes encoding and redaction."""
    runs = [_measure() for _ in range(REPEATS)]
    batch, batch_bare, single, single_bare, full = (
        max(figures) for figures in zip(*runs, strict=True)
    )
    unit = "attempts/s"
    bare = "sqlite3 {}, same rows already encoded: {:,.0f}/s"
    return [
        {
            "name": "journal append_many",
            "value": round(batch),
            "unit": unit,
            "against": bare.format("executemany", batch_bare),
            "ratio": round(batch / batch_bare, 4),
        },
        {
            "name": "journal record_attempt, one transaction each",
            "value": round(single),
            "unit": unit,
            "against": bare.format("execute", single_bare),
            "ratio": round(single / single_bare, 4),
        },
        {
            "name": "journal record_attempt, synchronous FULL",
            "value": round(full),
            "unit": unit,
            "against": f"synchronous NORMAL: {single:,.0f}/s",
            "ratio": round(full / single, 4),
        },
    ]


if __name__ == "__main__":
    for row in run():
        print(row)
