"""Reading a journal: lists, single incidents, and a stream of attempts for learning."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, Select, func, select

from selfheal_rl.core.values import Incident, JournalError, Verdict
from selfheal_rl.runtime.journal import schema
from selfheal_rl.runtime.journal.engine import faults
from selfheal_rl.runtime.journal.rows import (
    IncidentSummary,
    LoggedAttempt,
    attempt_of,
    failure_of,
    incident_of,
)

_PAGE = 1_000
_T, _I, _F, _A = schema.tasks.c, schema.incidents.c, schema.failures.c, schema.attempts.c


class JournalReader:
    """The reading half of a journal."""

    def __init__(self, engine: Engine, url: str) -> None:
        self._engine = engine
        self.url = url

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with faults(self.url, "read"), self._engine.connect() as connection:
            yield connection.execution_options(reading=True)

    def incidents(
        self,
        tenant: str | None = None,
        task: str | None = None,
        limit: int = 50,
        since: float | None = None,
    ) -> list[IncidentSummary]:
        """Incidents, the most recently opened first.

        Args:
            tenant: only this tenant's; None for all.
            task: only this task's.
            limit: at most so many, >= 1.
            since: only those opened at or after this time (seconds since the epoch).

        Raises:
            JournalError: the journal cannot be read, or the limit is below 1.
        """
        if limit < 1:
            raise JournalError(f"limit is {limit!r}: expected at least 1")
        query = _summaries()
        if tenant is not None:
            query = query.where(_I.tenant == tenant)
        if task is not None:
            query = query.where(_I.task_id == task)
        if since is not None:
            query = query.where(_I.opened >= since)
        query = query.order_by(_I.opened.desc(), _I.id).limit(limit)
        with self._reading() as connection:
            return [_summary(row._asdict()) for row in connection.execute(query)]

    def find(self, prefix: str) -> str:
        """The id of the one incident whose id starts with ``prefix``.

        Raises:
            JournalError: none does, or several do.
        """
        query = select(_I.id).where(_I.id.startswith(prefix, autoescape=True)).limit(6)
        with self._reading() as connection:
            ids = list(connection.execute(query).scalars())
        if prefix in ids:
            return prefix
        if len(ids) == 1:
            return str(ids[0])
        if not ids:
            raise JournalError(
                f"no incident {prefix!r} in {self.url}: list the incidents to see their ids"
            )
        raise JournalError(
            f"{prefix!r} fits several incidents ({', '.join(ids)}): give more of the id"
        )

    def incident(self, incident_id: str) -> Incident:
        """The incident as it was recorded; its call's arguments are shapes, not values.

        Raises:
            JournalError: there is none of that id, or the journal cannot be read.
        """
        with self._reading() as connection:
            head = connection.execute(
                select(schema.incidents).where(_I.id == incident_id)
            ).one_or_none()
            failures = connection.execute(
                select(schema.failures).where(_F.incident_id == incident_id).order_by(_F.seq)
            ).all()
            attempts = connection.execute(
                select(schema.attempts).where(_A.incident_id == incident_id).order_by(_A.seq)
            ).all()
        if head is None:
            raise JournalError(
                f"no incident {incident_id!r} in {self.url}: list the incidents to see their ids"
            )
        return incident_of(
            head._asdict(),
            [failure_of(row._asdict()) for row in failures],
            [attempt_of(row._asdict()) for row in attempts],
        )

    def attempts(self, since: float | None = None) -> Iterator[LoggedAttempt]:
        """Every attempt, in the order of recording, a page at a time.

        No transaction stays open between pages, so that a slow reader does not keep the
        write-ahead log from being folded back. Attempts recorded meanwhile are included.

        Args:
            since: only attempts started at or after this time (seconds since the epoch).
        """
        last = 0
        while True:
            query = (
                select(schema.attempts, _I.tenant, _I.task_id)
                .join(schema.incidents, _I.id == _A.incident_id)
                .where(_A.id > last)
                .order_by(_A.id)
                .limit(_PAGE)
            )
            if since is not None:
                query = query.where(_A.started >= since)
            with self._reading() as connection:
                page = [row._asdict() for row in connection.execute(query)]
            for row in page:
                last = row["id"]
                yield LoggedAttempt(
                    incident_id=row["incident_id"],
                    seq=row["seq"],
                    attempt=attempt_of(row),
                    censored=bool(row["censored"]),
                    tenant=row["tenant"],
                    task_id=row["task_id"],
                )
            if len(page) < _PAGE:
                return

    def task_outcome(
        self, task_id: str, tenant: str = "default"
    ) -> tuple[bool | None, float | None] | None:
        """(success, quality) of a task, each None while unknown; None for an unknown task."""
        query = select(_T.success, _T.quality).where(_T.tenant == tenant, _T.task_id == task_id)
        with self._reading() as connection:
            row = connection.execute(query).one_or_none()
        if row is None:
            return None
        return (None if row.success is None else bool(row.success)), row.quality

    def counts(self) -> dict[str, int]:
        """Rows of the tables tasks, incidents, failures and attempts."""
        tables = (schema.tasks, schema.incidents, schema.failures, schema.attempts)
        with self._reading() as connection:
            return {
                table.name: connection.execute(select(func.count()).select_from(table)).scalar_one()
                for table in tables
            }


def _summaries() -> Select[Any]:
    own = _A.incident_id == _I.id
    return select(
        _I.id,
        _I.tenant,
        _I.task_id,
        _I.tool,
        _I.kind,
        _I.opened,
        _I.closed,
        _I.verdict,
        _I.censored,
        _scalar(select(func.count()).where(_F.incident_id == _I.id)).label("failures"),
        _scalar(select(func.count()).where(own)).label("attempts"),
        _scalar(select(func.coalesce(func.sum(_A.seconds), 0.0)).where(own)).label("seconds"),
        _scalar(select(func.coalesce(func.sum(_A.tokens), 0)).where(own)).label("tokens"),
        _scalar(select(_T.success).where(_T.tenant == _I.tenant, _T.task_id == _I.task_id)).label(
            "task_success"
        ),
    )


def _scalar(query: Select[Any]) -> Any:
    return query.correlate(schema.incidents).scalar_subquery()


def _summary(row: Any) -> IncidentSummary:
    data = dict(row)
    data["verdict"] = Verdict(data["verdict"])
    data["censored"] = bool(data["censored"])
    success = data["task_success"]
    data["task_success"] = None if success is None else bool(success)
    return IncidentSummary(**data)
