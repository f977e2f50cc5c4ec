"""What the healer needs of a journal, and the journal that keeps nothing."""

from collections.abc import Iterable, Iterator
from typing import Protocol

from selfheal_rl.core.values import Attempt, Capabilities, Failure, Incident, JournalError, Verdict
from selfheal_rl.runtime.journal.rows import IncidentSummary, LoggedAttempt


class JournalProtocol(Protocol):
    """Writers return only when the record is durable; every method raises JournalError."""

    def record_task_start(
        self, task_id: str, tenant: str = ..., goal: str = ..., deadline_s: float | None = ...
    ) -> None:
        """A task begins, or is resumed."""
        ...

    def record_task_end(
        self,
        task_id: str,
        tenant: str = ...,
        success: bool | None = ...,
        quality: float | None = ...,
    ) -> None:
        """A task ends; ``success`` None means unknown."""
        ...

    def report_outcome(
        self, task_id: str, ok: bool, quality: float | None = ..., tenant: str = ...
    ) -> None:
        """Whether a task succeeded, when that is learned after its end."""
        ...

    def record_failure(
        self,
        incident_id: str,
        seq: int,
        failure: Failure,
        capabilities: Capabilities = ...,
        next_wait_s: float = ...,
    ) -> None:
        """One failure of an incident; number 0 opens the incident."""
        ...

    def record_attempt(
        self, incident_id: str, seq: int, attempt: Attempt, censored: bool = ...
    ) -> None:
        """One decision with its outcome and cost."""
        ...

    def record_verdict(
        self, incident_id: str, verdict: Verdict, censored: bool = ..., at: float | None = ...
    ) -> None:
        """How an incident ended."""
        ...

    def append_many(self, attempts: Iterable[LoggedAttempt]) -> int:
        """Many attempts in one transaction; the number written."""
        ...

    def append_incidents(self, incidents: Iterable[Incident]) -> int:
        """Whole incidents in one transaction; the number written."""
        ...

    def incidents(
        self,
        tenant: str | None = ...,
        task: str | None = ...,
        limit: int = ...,
        since: float | None = ...,
    ) -> list[IncidentSummary]:
        """Incidents, newest first."""
        ...

    def incident(self, incident_id: str) -> Incident:
        """One incident as it was recorded."""
        ...

    def attempts(self, since: float | None = ...) -> Iterator[LoggedAttempt]:
        """All attempts in the order of their recording."""
        ...

    def counts(self) -> dict[str, int]:
        """Rows per table."""
        ...

    def prune(self, before: float) -> int:
        """Delete incidents that ended before a time; the number deleted."""
        ...

    def close(self) -> None:
        """Let go of the database."""
        ...


class NullJournal:
    """The journal of ``journal=None``: accepts every record, keeps none."""

    def record_task_start(
        self,
        task_id: str,
        tenant: str = "default",
        goal: str = "",
        deadline_s: float | None = None,
    ) -> None:
        """Keep nothing."""

    def record_task_end(
        self,
        task_id: str,
        tenant: str = "default",
        success: bool | None = None,
        quality: float | None = None,
    ) -> None:
        """Keep nothing."""

    def report_outcome(
        self, task_id: str, ok: bool, quality: float | None = None, tenant: str = "default"
    ) -> None:
        """Keep nothing."""

    def record_failure(
        self,
        incident_id: str,
        seq: int,
        failure: Failure,
        capabilities: Capabilities | None = None,
        next_wait_s: float = 1.0,
    ) -> None:
        """Keep nothing."""

    def record_attempt(
        self, incident_id: str, seq: int, attempt: Attempt, censored: bool = False
    ) -> None:
        """Keep nothing."""

    def record_verdict(
        self,
        incident_id: str,
        verdict: Verdict,
        censored: bool = False,
        at: float | None = None,
    ) -> None:
        """Keep nothing."""

    def append_many(self, attempts: Iterable[LoggedAttempt]) -> int:
        """Keep nothing; 0."""
        return 0

    def append_incidents(self, incidents: Iterable[Incident]) -> int:
        """Keep nothing; 0."""
        return 0

    def incidents(
        self,
        tenant: str | None = None,
        task: str | None = None,
        limit: int = 50,
        since: float | None = None,
    ) -> list[IncidentSummary]:
        """Always empty."""
        return []

    def incident(self, incident_id: str) -> Incident:
        """Nothing is ever found.

        Raises:
            JournalError: always.
        """
        raise JournalError(
            f"no incident {incident_id!r}: this healer keeps no journal; give it a path to keep one"
        )

    def attempts(self, since: float | None = None) -> Iterator[LoggedAttempt]:
        """Always empty."""
        return iter(())

    def counts(self) -> dict[str, int]:
        """Zeros."""
        return {"tasks": 0, "incidents": 0, "failures": 0, "attempts": 0}

    def prune(self, before: float) -> int:
        """Nothing to delete; 0."""
        return 0

    def close(self) -> None:
        """Nothing to let go of."""
