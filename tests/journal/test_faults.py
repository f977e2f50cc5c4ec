"""A fault of the journal is one clear error, and leaves nothing half-written."""

import os
import shutil
import sqlite3
import tempfile
from pathlib import Path

import pytest

from selfheal_rl.core.values import JournalError, Verdict
from selfheal_rl.runtime.journal import SCHEMA_VERSION, Journal, LoggedAttempt


def test_a_newer_schema_is_refused_and_left_alone(path) -> None:
    Journal.open(path).close()
    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE meta SET value = '99' WHERE key = 'schema_version'")
    before = path.read_bytes()
    for read_only in (False, True):
        with pytest.raises(JournalError, match=rf"version 99.*version {SCHEMA_VERSION}.*upgrade"):
            Journal.open(path, read_only=read_only)
    assert path.read_bytes() == before


@pytest.mark.parametrize("version", ["", "0", "one"])
def test_a_damaged_version_is_refused(path, version: str) -> None:
    Journal.open(path).close()
    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE meta SET value = ? WHERE key = 'schema_version'", (version,))
    with pytest.raises(JournalError, match="damaged or not a journal"):
        Journal.open(path)


def test_somebody_elses_database_is_not_touched(path) -> None:
    with sqlite3.connect(path) as raw:
        raw.execute("CREATE TABLE customers (name)")
    with pytest.raises(JournalError, match="customers"):
        Journal.open(path)
    with sqlite3.connect(path) as raw:
        names = [name for (name,) in raw.execute("SELECT name FROM sqlite_master")]
    assert names == ["customers"]


def test_a_file_that_is_no_database_is_refused_and_kept(path) -> None:
    path.write_bytes(b"hello, this is not a database" * 100)
    with pytest.raises(JournalError, match="not an SQLite database"):
        Journal.open(path)
    assert path.read_bytes().startswith(b"hello")


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("no/such/dir/journal.db", "directory"),
        ("sqlite://", "no file"),
        ("sqlite:///:memory:", "no file"),
        ("nosuchdb://host/x", "driver"),
    ],
)
def test_places_that_cannot_be(place: str, says: str) -> None:
    with pytest.raises(JournalError, match=says):
        Journal.open(place)


def test_reading_never_makes_a_journal(path) -> None:
    with pytest.raises(JournalError, match="no journal at"):
        Journal.open(path, read_only=True)
    assert not path.exists()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"synchronous": "OFF"}, "NORMAL"),
        ({"busy_timeout_s": 0}, "busy_timeout_s"),
        ({"hash_key": b"short"}, "at least 16"),
    ],
)
def test_wrong_options_are_refused(path, options, says: str) -> None:
    with pytest.raises(JournalError, match=says):
        Journal.open(path, **options)
    assert not path.exists()


def test_a_password_in_the_url_is_not_shown() -> None:
    with pytest.raises(JournalError) as caught:
        Journal.open("nosuchdb://bob:hunter2@host/x")
    assert "hunter2" not in str(caught.value)


@pytest.fixture
def read_only_directory():
    directory = Path(tempfile.mkdtemp())
    directory.chmod(0o555)
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65534)  # permissions do not bind root
    yield directory
    if is_root:
        os.seteuid(0)
    directory.chmod(0o755)
    shutil.rmtree(directory)


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX permissions")
def test_a_read_only_directory_is_named(read_only_directory) -> None:
    with pytest.raises(JournalError, match="write permission"):
        Journal.open(read_only_directory / "journal.db")


def test_a_full_disk_loses_nothing_acknowledged_and_keeps_no_half(
    journal, new_incident, new_attempt
) -> None:
    journal.append_incidents([new_incident("kept")])
    with journal._engine.connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
    journal.close()

    def limit(connection, _record) -> None:
        connection.execute(f"PRAGMA max_page_count={pages + 2}")

    from sqlalchemy import event

    event.listen(journal._engine, "connect", limit)
    before = journal.counts()
    with pytest.raises(JournalError, match="disk is full"):
        journal.append_many([LoggedAttempt("kept", seq, new_attempt()) for seq in range(2, 4_000)])
    assert journal.counts() == before
    event.remove(journal._engine, "connect", limit)
    journal.close()
    journal.record_attempt("kept", 2, new_attempt())
    assert journal.counts()["attempts"] == before["attempts"] + 1


def test_a_lock_held_too_long_is_named(path, new_incident) -> None:
    with Journal.open(path, busy_timeout_s=0.05) as journal:
        holder = sqlite3.connect(path, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(JournalError, match="busy_timeout_s"):
            journal.append_incidents([new_incident()])
        assert journal.incidents() == []
        holder.execute("ROLLBACK")
        holder.close()
        assert journal.append_incidents([new_incident()]) == 1


def test_a_repeated_number_is_refused(journal, new_incident, new_attempt, new_failure) -> None:
    journal.append_incidents([new_incident()])
    with pytest.raises(JournalError, match="already has a record"):
        journal.record_attempt("i1", 1, new_attempt())
    with pytest.raises(JournalError, match="already has a record"):
        journal.record_failure("i1", 0, new_failure())
    assert journal.counts() == {"tasks": 0, "incidents": 1, "failures": 2, "attempts": 2}


def test_one_bad_row_undoes_its_whole_batch(journal, new_incident, new_attempt) -> None:
    journal.append_incidents([new_incident()])
    rows = [LoggedAttempt("i1", seq, new_attempt()) for seq in (2, 3, 1)]
    with pytest.raises(JournalError):
        journal.append_many(rows)
    assert journal.counts()["attempts"] == 2


def test_records_of_an_unknown_incident_are_refused(journal, new_attempt, new_failure) -> None:
    with pytest.raises(JournalError, match="first failure"):
        journal.record_attempt("nobody", 0, new_attempt())
    with pytest.raises(JournalError, match="first failure"):
        journal.record_failure("nobody", 1, new_failure())
    with pytest.raises(JournalError, match="first failure"):
        journal.record_verdict("nobody", Verdict.HEALED)
    with pytest.raises(JournalError, match="no task"):
        journal.report_outcome("nobody", True)
    with pytest.raises(JournalError, match="no incident"):
        journal.incident("nobody")


@pytest.mark.parametrize("quality", [-0.1, 1.1, float("nan")])
def test_a_quality_outside_its_range_is_refused(journal, quality: float) -> None:
    with pytest.raises(JournalError, match="quality"):
        journal.record_task_end("t", success=True, quality=quality)


def test_a_limit_below_one_is_refused(journal) -> None:
    with pytest.raises(JournalError, match="limit"):
        journal.incidents(limit=0)
