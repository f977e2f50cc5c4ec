"""The journal: every failure, decision and outcome, durable when acknowledged."""

import hashlib
import hmac
import os
import threading
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Table, delete, exists, func, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from selfheal_rl.core.values import (
    Attempt,
    Capabilities,
    Clock,
    Failure,
    Incident,
    JournalError,
    SystemClock,
    Verdict,
)
from selfheal_rl.core.values.redaction import redact_text
from selfheal_rl.runtime.journal import schema
from selfheal_rl.runtime.journal.engine import (
    SYNCHRONOUS,
    check_place,
    check_version,
    ensure_schema,
    faults,
    make_engine,
    read_meta,
    url_of,
)
from selfheal_rl.runtime.journal.reader import JournalReader
from selfheal_rl.runtime.journal.rows import (
    LoggedAttempt,
    attempt_row,
    failure_row,
    incident_row,
)

_BATCH = 2_000
_PRUNE = 500
_NO_CAPABILITIES = Capabilities()
_INSERT_INCIDENT = insert(schema.incidents)
_INSERT_FAILURE = insert(schema.failures)
_INSERT_ATTEMPT = insert(schema.attempts)
_T, _I = schema.tasks.c, schema.incidents.c


class Journal(JournalReader):
    """A journal in an SQL database (SQLite in WAL mode by default).

    A writer returns when its transaction is committed: with ``synchronous="NORMAL"`` the record
    survives the death of the process at any moment, with ``"FULL"`` also a loss of power. One
    journal serves many threads; many processes may open the same file. Secrets are redacted
    before anything is written, and arguments of calls are kept as shapes.
    """

    def __init__(
        self, engine: Engine, url: str, *, clock: Clock, hash_key: bytes, allow: Collection[str]
    ) -> None:
        super().__init__(engine, url)
        self._clock = clock
        self._hash_key = hash_key
        self._allow = frozenset(allow)
        self._tenant_keys: dict[str, bytes] = {}
        self._lock = threading.Lock()
        self._pid = os.getpid()

    @classmethod
    def open(
        cls,
        place: str | Path,
        *,
        clock: Clock | None = None,
        synchronous: str = "NORMAL",
        busy_timeout_s: float = 10.0,
        read_only: bool = False,
        hash_key: bytes | None = None,
        allow: Collection[str] = (),
    ) -> "Journal":
        """Open a journal, making it first if it does not exist.

        Args:
            place: a file's path, or a database URL such as ``sqlite:///journal.db``.
            clock: gives the times of tasks and verdicts; the system's by default.
            synchronous: ``"NORMAL"`` or ``"FULL"`` (slower; survives a loss of power).
            busy_timeout_s: seconds to wait for another process's write, > 0.
            read_only: never write; the journal must exist.
            hash_key: secret of at least 16 bytes from which each tenant's key for argument hashes
                is derived. By default a random one that is kept inside the journal: then who has
                the file can test guesses of an argument's value.
            allow: names of arguments whose values are kept.

        Raises:
            JournalError: the place cannot be opened, is no journal, or holds a newer schema.
        """
        url = url_of(place)
        if synchronous not in SYNCHRONOUS:
            raise JournalError(f"synchronous is {synchronous!r}: expected one of {SYNCHRONOUS}")
        if busy_timeout_s <= 0:
            raise JournalError(f"busy_timeout_s is {busy_timeout_s!r}: expected seconds > 0")
        if hash_key is not None and len(hash_key) < 16:
            raise JournalError(f"hash_key has {len(hash_key)} bytes: expected at least 16")
        engine = make_engine(
            url, synchronous=synchronous, busy_timeout_s=busy_timeout_s, read_only=read_only
        )
        try:
            with faults(url, "open"):
                check_place(url, must_exist=read_only)
                facts = _read_facts(engine, url) if read_only else ensure_schema(engine, url)
        except JournalError:
            engine.dispose()
            raise
        key = hash_key or bytes.fromhex(facts["hash_key"])
        return cls(engine, url, clock=clock or SystemClock(), hash_key=key, allow=allow)

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the database. A later call opens it again."""
        self._engine.dispose()

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        if self._pid != os.getpid():  # forked: the parent's connections and lock are not ours
            self._engine.dispose(close=False)
            self._lock, self._pid = threading.Lock(), os.getpid()
        # One writer at a time per process: threads queue here, not in the database's busy loop.
        with self._lock, faults(self.url, "write to"), self._engine.begin() as connection:
            yield connection

    def _key(self, tenant: str) -> bytes:
        key = self._tenant_keys.get(tenant)
        if key is None:
            key = hmac.digest(self._hash_key, tenant.encode("utf-8", "replace"), hashlib.sha256)
            self._tenant_keys[tenant] = key
        return key

    def _upsert_task(self, tenant: str, task_id: str, values: dict[str, Any]) -> None:
        kind = postgresql if self._engine.dialect.name == "postgresql" else sqlite
        statement = kind.insert(schema.tasks).values(tenant=tenant, task_id=task_id, **values)
        statement = statement.on_conflict_do_update(
            index_elements=["tenant", "task_id"], set_=values
        )
        with self._writing() as connection:
            connection.execute(statement)

    def record_task_start(
        self,
        task_id: str,
        tenant: str = "default",
        goal: str = "",
        deadline_s: float | None = None,
    ) -> None:
        """A task begins (or is resumed: its start and goal are replaced, its outcome kept).

        Args:
            task_id: unique within the tenant.
            tenant: whose task it is.
            goal: in words; redacted.
            deadline_s: seconds the task may take.

        Raises:
            JournalError: the record could not be written.
        """
        values = {
            "goal": redact_text(goal),
            "started": self._clock.now(),
            "deadline_s": deadline_s,
        }
        self._upsert_task(tenant, task_id, values)

    def record_task_end(
        self,
        task_id: str,
        tenant: str = "default",
        success: bool | None = None,
        quality: float | None = None,
    ) -> None:
        """A task ends. ``success`` None means unknown and keeps what was reported before.

        Raises:
            JournalError: the quality lies outside [0, 1], or the record could not be written.
        """
        _check_quality(quality)
        values: dict[str, Any] = {"ended": self._clock.now()}
        if success is not None:
            values |= {"success": int(success), "quality": quality}
        self._upsert_task(tenant, task_id, values)

    def report_outcome(
        self, task_id: str, ok: bool, quality: float | None = None, tenant: str = "default"
    ) -> None:
        """Whether a task succeeded, learned after its end; replaces an earlier report.

        Raises:
            JournalError: no such task is known, the quality lies outside [0, 1], or the record
                could not be written.
        """
        _check_quality(quality)
        statement = (
            update(schema.tasks)
            .where(_T.tenant == tenant, _T.task_id == task_id)
            .values(success=int(ok), quality=quality)
        )
        with self._writing() as connection:
            found = connection.execute(statement).rowcount
        if not found:
            raise JournalError(
                f"no task {task_id!r} of tenant {tenant!r} in {self.url}: check both names; a task "
                "is known once its start or end was recorded"
            )

    def record_failure(
        self,
        incident_id: str,
        seq: int,
        failure: Failure,
        capabilities: Capabilities = _NO_CAPABILITIES,
        next_wait_s: float = 1.0,
    ) -> None:
        """One failure of an incident, redacted.

        Args:
            incident_id: unique in the journal.
            seq: position among the incident's failures, from 0; number 0 opens the incident.
            failure: its snapshot and diagnosis.
            capabilities: what the host offers at the call; kept as of the latest failure.
            next_wait_s: seconds that ``backoff`` would wait; kept as of the latest failure.

        Raises:
            JournalError: that number is taken, number 0 is missing, or the write failed.
        """
        key = self._key(failure.snapshot.tenant)
        row = failure_row(incident_id, seq, failure, key, self._allow)
        with self._writing() as connection:
            if seq == 0:
                head = incident_row(incident_id, failure, capabilities, next_wait_s)
                connection.execute(_INSERT_INCIDENT, head)
            else:
                connection.execute(
                    update(schema.incidents)
                    .where(_I.id == incident_id)
                    .values(capabilities=capabilities.model_dump_json(), next_wait_s=next_wait_s)
                )
            connection.execute(_INSERT_FAILURE, row)

    def record_attempt(
        self, incident_id: str, seq: int, attempt: Attempt, censored: bool = False
    ) -> None:
        """One decision with its outcome and cost; ``seq`` counts the incident's attempts from 0.

        Raises:
            JournalError: that number is taken, the incident is unknown, or the write failed.
        """
        row = attempt_row(incident_id, seq, attempt, censored)
        with self._writing() as connection:
            connection.execute(_INSERT_ATTEMPT, row)

    def record_verdict(
        self,
        incident_id: str,
        verdict: Verdict,
        censored: bool = False,
        at: float | None = None,
    ) -> None:
        """How an incident ended, ``at`` seconds since the epoch (now by default).

        Raises:
            JournalError: the incident is unknown, or the write failed.
        """
        closed = self._clock.now() if at is None else at
        statement = (
            update(schema.incidents)
            .where(_I.id == incident_id)
            .values(
                verdict=verdict.value,
                censored=int(censored),
                closed=None if verdict is Verdict.OPEN else closed,
            )
        )
        with self._writing() as connection:
            found = connection.execute(statement).rowcount
        if not found:
            raise JournalError(
                f"no incident {incident_id!r} in {self.url}: record its first failure before its "
                "verdict"
            )

    def append_many(self, attempts: Iterable[LoggedAttempt]) -> int:
        """Many attempts in one transaction, all or none; the number written.

        Raises:
            JournalError: a number is taken, an incident is unknown, or the write failed.
        """
        rows = [attempt_row(a.incident_id, a.seq, a.attempt, a.censored) for a in attempts]
        with self._writing() as connection:
            _insert_all(connection, schema.attempts, rows)
        return len(rows)

    def append_incidents(self, incidents: Iterable[Incident]) -> int:
        """Whole incidents in one transaction, all or none; the number written.

        Raises:
            JournalError: an id is taken, or the write failed.
        """
        heads, failures, attempts = [], [], []
        for incident in incidents:
            key = self._key(incident.snapshot.tenant)
            first = incident.failures[0]
            head = incident_row(incident.id, first, incident.capabilities, incident.next_wait_s)
            is_open = incident.verdict is Verdict.OPEN
            heads.append(
                head
                | {
                    "verdict": incident.verdict.value,
                    "censored": int(incident.censored),
                    "closed": None if is_open else _end_of(incident),
                }
            )
            for seq, failure in enumerate(incident.failures):
                failures.append(failure_row(incident.id, seq, failure, key, self._allow))
            for seq, attempt in enumerate(incident.attempts):
                attempts.append(attempt_row(incident.id, seq, attempt, incident.censored))
        with self._writing() as connection:
            _insert_all(connection, schema.incidents, heads)
            _insert_all(connection, schema.failures, failures)
            _insert_all(connection, schema.attempts, attempts)
        return len(heads)

    def prune(self, before: float) -> int:
        """Delete incidents that ended (or, still open, began) before a time, and their tasks.

        Tasks go when they ended before that time and no incident of theirs is left. Deletes in
        small transactions, so that healers are not held up; stopped halfway it leaves a whole
        journal.

        Args:
            before: seconds since the epoch.

        Returns:
            Number of incidents deleted.

        Raises:
            JournalError: a write failed.
        """
        old = select(_I.id).where(func.coalesce(_I.closed, _I.opened) < before).limit(_PRUNE)
        deleted = 0
        while True:
            with self._writing() as connection:
                ids = list(connection.execute(old).scalars())
                if not ids:
                    break
                connection.execute(delete(schema.incidents).where(_I.id.in_(ids)))
            deleted += len(ids)
        left = exists().where(_I.tenant == _T.tenant, _I.task_id == _T.task_id)
        with self._writing() as connection:
            connection.execute(
                delete(schema.tasks).where(func.coalesce(_T.ended, _T.started) < before, ~left)
            )
        return deleted


def _insert_all(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    statement = insert(table)
    for start in range(0, len(rows), _BATCH):
        connection.execute(statement, rows[start : start + _BATCH])


def _read_facts(engine: Engine, url: str) -> dict[str, str]:
    with engine.connect() as connection:
        facts = read_meta(connection)
    check_version(facts, url)
    return facts


def _end_of(incident: Incident) -> float:
    ends = [attempt.started + attempt.seconds for attempt in incident.attempts]
    return max([*ends, incident.snapshot.time])


def _check_quality(quality: float | None) -> None:
    if quality is not None and not 0.0 <= quality <= 1.0:
        raise JournalError(f"quality is {quality!r}: expected a figure from 0 to 1, or None")
