"""An incident while it is being healed, and the frozen record of it."""

from selfheal_rl.core.situation import planned_wait_s
from selfheal_rl.core.values import Attempt, Capabilities, Failure, Incident, RepairAction, Verdict


class OpenIncident:
    """Grows by failures and attempts; :meth:`frozen` is what facts and journal see.

    Attributes:
        id: unique in the journal.
        key: names the incident's random draws: task, tool, nth incident of that tool.
        inherited: attempts spent before it that count against its budget.
        busy: True while one call works on it; another call of the tool opens its own.
    """

    def __init__(self, incident_id: str, key: tuple[str | int, ...], inherited: int = 0) -> None:
        self.id, self.key, self.inherited = incident_id, key, inherited
        self.failures: list[Failure] = []
        self.attempts: list[Attempt] = []
        self.capabilities = Capabilities()
        self.verdict = Verdict.OPEN
        self.busy = True
        self.explored = False
        self.task_failures = 0
        """Incidents the task has had before this one."""
        self.opened = 0.0
        """Monotonic seconds of its first failure."""

    @property
    def n_backoffs(self) -> int:
        """Waits made so far."""
        return sum(a.decision.action is RepairAction.BACKOFF for a in self.attempts)

    @property
    def next_wait_s(self) -> float:
        """Seconds the next backoff waits at most."""
        retry_after = self.failures[-1].snapshot.retry_after_s if self.failures else None
        return float(planned_wait_s(self.n_backoffs, retry_after or 0.0))

    def frozen(self, *, censored: bool = False) -> Incident:
        """The incident as it stands."""
        return Incident.model_construct(
            id=self.id,
            failures=tuple(self.failures),
            attempts=tuple(self.attempts),
            capabilities=self.capabilities,
            verdict=self.verdict,
            next_wait_s=self.next_wait_s,
            censored=censored,
        )
