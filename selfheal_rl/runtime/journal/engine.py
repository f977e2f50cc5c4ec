"""Opening the journal's database, and saying in plain words what is wrong with it."""

import os
import re
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, insert, inspect, select
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, IntegrityError, NoSuchModuleError, SQLAlchemyError

from selfheal_rl.core.values import JournalError
from selfheal_rl.runtime.journal.schema import SCHEMA_VERSION, meta, metadata

SYNCHRONOUS = ("NORMAL", "FULL")

# (what the database says, what is wrong, what to do)
_FAULTS = (
    (
        "unable to open",
        "its file cannot be opened",
        "check that the directory exists and that this process may write to it",
    ),
    (
        "readonly|read-only|permission denied",
        "it is read-only",
        "give this process write permission to the file and its directory, or open another one",
    ),
    (
        "is full|no space",
        "the disk is full",
        "free some space or prune old incidents; what was acknowledged before is kept",
    ),
    (
        "locked|busy",
        "another process holds its write lock",
        "try again, raise busy_timeout_s, or stop the process that holds it",
    ),
    (
        "not a database|malformed",
        "the file is damaged or not an SQLite database",
        "check the path; restore the file from a backup, or move it away to begin a new one",
    ),
    (
        "no such table|no such column",
        "a table of the journal is missing",
        "the file was made by another program; give the path of a journal",
    ),
    ("disk i/o", "the disk reports an I/O error", "check the disk and its free space"),
)


def url_of(place: str | Path) -> str:
    """A database URL of a URL or of a file's path."""
    text = str(place)
    return text if "://" in text else f"sqlite:///{Path(text).expanduser()}"


def explain(error: Exception, url: str, doing: str) -> JournalError:
    """The JournalError for a fault of the database."""
    shown = _shown(url)
    cause = getattr(error, "orig", None) or error
    if isinstance(error, IntegrityError):
        return _explain_integrity(str(cause), shown, doing)
    for pattern, what, advice in _FAULTS:
        if re.search(pattern, str(cause).lower()):
            return JournalError(f"cannot {doing} the journal {shown}: {what} ({cause}); {advice}")
    return JournalError(
        f"cannot {doing} the journal {shown}: {type(cause).__name__}: {cause}; nothing of this "
        "record was written"
    )


def _explain_integrity(cause: str, shown: str, doing: str) -> JournalError:
    if "foreign key" in cause.lower():
        return JournalError(
            f"cannot {doing} the journal {shown}: no such incident there ({cause}); record its "
            "first failure before its attempts"
        )
    return JournalError(
        f"cannot {doing} the journal {shown}: this incident already has a record of that number "
        f"({cause}); number failures and attempts from 0 without repeating"
    )


def _shown(url: str) -> str:
    try:
        return make_url(url).render_as_string(hide_password=True)
    except ArgumentError:
        return repr(url)


@contextmanager
def faults(url: str, doing: str) -> Iterator[None]:
    """Turn the database's errors into JournalError while ``doing`` something."""
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error, OSError, OverflowError, UnicodeError) as error:
        raise explain(error, url, doing) from error


def make_engine(url: str, *, synchronous: str, busy_timeout_s: float, read_only: bool) -> Engine:
    """An engine whose write transactions take the write lock at once.

    Raises:
        JournalError: the URL names no database this installation can speak to.
    """
    try:
        parsed = make_url(url)
        if parsed.get_backend_name() != "sqlite":
            return create_engine(url)
        engine = create_engine(url, connect_args={"timeout": busy_timeout_s}, pool_size=4)
    except (ArgumentError, NoSuchModuleError, ImportError) as error:
        raise JournalError(
            f"cannot open the journal {_shown(url)}: {error}; expected a file's path or a URL such "
            "as sqlite:///journal.db, with the database's driver installed"
        ) from error
    _prepare_sqlite(engine, synchronous, read_only)
    return engine


def _prepare_sqlite(engine: Engine, synchronous: str, read_only: bool) -> None:
    @event.listens_for(engine, "connect")
    def _on_connect(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # transactions are begun below, by hand
        if read_only:
            connection.execute("PRAGMA query_only=ON")
        else:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute(f"PRAGMA synchronous={synchronous}")
            connection.execute("PRAGMA foreign_keys=ON")

    @event.listens_for(engine, "begin")
    def _on_begin(connection: Connection) -> None:
        # A deferred transaction that reads first can fail to upgrade, whatever the timeout.
        reading = read_only or connection.get_execution_options().get("reading")
        connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")


def check_place(url: str, *, must_exist: bool) -> None:
    """Refuse early what a database would create or misname.

    Raises:
        JournalError: the SQLite file or its directory does not exist, or no file was named.
    """
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite":
        return
    name = parsed.database
    if not name or name == ":memory:":
        raise JournalError(
            f"the journal {url!r} names no file: expected sqlite:///PATH; for a healer without a "
            "journal pass journal=None"
        )
    path = Path(name)
    if must_exist and not path.is_file():
        raise JournalError(f"no journal at {name!r}: check the path (it is made by a healer)")
    if not path.parent.is_dir():
        raise JournalError(
            f"cannot make the journal {name!r}: the directory {str(path.parent)!r} does not "
            "exist; make it first"
        )
    if not path.exists():
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))  # errors of agents are private


def read_meta(connection: Connection) -> dict[str, str]:
    """The journal's own facts by name."""
    return {row.key: row.value for row in connection.execute(select(meta))}


def ensure_schema(engine: Engine, url: str) -> dict[str, str]:
    """Make the tables of a new journal; return its own facts.

    Raises:
        JournalError: the journal is of another schema version.
    """
    with engine.begin() as connection:
        names = set(inspect(connection).get_table_names())
        if names and meta.name not in names:
            raise JournalError(
                f"{_shown(url)} is no journal: it holds the tables {sorted(names)}; give the path "
                "of a journal, or of a file that does not exist yet"
            )
        metadata.create_all(connection)
        found = read_meta(connection)
        if not found:
            found = {"schema_version": str(SCHEMA_VERSION), "hash_key": secrets.token_hex(32)}
            rows = [{"key": key, "value": value} for key, value in found.items()]
            connection.execute(insert(meta), rows)
        check_version(found, url)
    return found


def check_version(found: dict[str, str], url: str) -> None:
    """Refuse a journal of another schema.

    Raises:
        JournalError: the version is newer, missing or no number.
    """
    version = found.get("schema_version", "")
    if version == str(SCHEMA_VERSION):
        return
    if version.isdigit() and int(version) > SCHEMA_VERSION:
        advice = "upgrade selfheal-rl, or give another path"
    else:
        advice = "the file is damaged or not a journal; give another path"
    raise JournalError(
        f"the journal {_shown(url)} has schema version {version or 'none'}: this release reads "
        f"and writes version {SCHEMA_VERSION}; {advice}"
    )
