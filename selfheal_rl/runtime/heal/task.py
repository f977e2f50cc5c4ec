"""Tasks: whose call it is, what the task may still spend, and how its tools have done."""

from contextvars import ContextVar, Token
from types import TracebackType
from typing import TYPE_CHECKING, Any

from selfheal_rl.core.values import ConfigError, ToolHealth

if TYPE_CHECKING:
    from selfheal_rl.runtime.heal.healer import Healer
    from selfheal_rl.runtime.heal.open_incident import OpenIncident

CURRENT: ContextVar["Task | None"] = ContextVar("selfheal_task", default=None)
EWMA = 0.2
"""Weight of the latest call in a tool's failure rate."""


class ToolRecord:
    """How one tool has done in one task (or, outside tasks, with one healer)."""

    __slots__ = ("_rate", "consecutive", "dirty", "incident", "last_ok", "ok", "opened", "spent")

    def __init__(self, now: float) -> None:
        self.ok = 0
        """Calls that succeeded since the last failure."""
        self.last_ok = now
        """Monotonic seconds of the last success, or of the record's beginning."""
        self.dirty = False
        """True while an incident handed back to the agent is open."""
        self.consecutive = 0
        self.incident: OpenIncident | None = None
        self.opened = 0
        """Incidents this tool has had."""
        self.spent = 0
        """Attempts spent since this tool's last success: its next incident has as many fewer."""
        self._rate = 0.0

    def failed(self) -> None:
        """Count a failed call."""
        self._rate = (1.0 - EWMA) * self.failure_rate + EWMA
        if self.ok:
            self.ok = self.consecutive = self.spent = 0
        self.consecutive += 1

    def succeeded(self, now: float) -> None:
        """Count a call that succeeded at monotonic time ``now``."""
        self.ok += 1
        self.last_ok = now

    @property
    def failure_rate(self) -> float:
        """Exponentially weighted share of calls that failed."""
        # Successes only decay the rate, so they are counted and applied when it is read.
        return float(self._rate * (1.0 - EWMA) ** self.ok)

    @property
    def failing(self) -> bool:
        """True when the latest call failed."""
        return self.consecutive > 0 and self.ok == 0

    def health(self, now: float, others_failing: float) -> ToolHealth:
        """As seen at a failure that :meth:`failed` has counted."""
        return ToolHealth(
            failure_rate=min(self.failure_rate, 1.0),
            consecutive_failures=self.consecutive,
            since_ok_s=max(0.0, now - self.last_ok),
            others_failing=others_failing,
        )


class Task:
    """One task of an agent; a context manager, sync and async.

    Made by ``healer.task``. Calls of the healer's tools inside the block belong to the task. What
    is never reported with :meth:`finish` counts as unknown and is left out of learning.
    """

    def __init__(
        self,
        healer: "Healer",
        task_id: str,
        *,
        goal: str,
        tenant: str,
        task_type: str,
        deadline_s: float | None,
        n_steps: int | None,
    ) -> None:
        if not task_id:
            raise ConfigError("task id is empty; expected a name that is unique for its tenant")
        if deadline_s is not None and not deadline_s > 0:
            raise ConfigError(f"deadline_s is {deadline_s!r}; expected seconds > 0, or None")
        if n_steps is not None and n_steps < 1:
            raise ConfigError(f"n_steps is {n_steps!r}; expected a number >= 1, or None")
        self.id, self.goal, self.tenant, self.task_type = task_id, goal, tenant, task_type
        self.deadline_s, self.n_steps = deadline_s, n_steps
        self.healer = healer
        self.success: bool | None = None
        self.quality: float | None = None
        self.records: dict[str, ToolRecord] = {}
        self.incidents = 0
        self.attempts = 0
        self.tokens = 0
        self.money = 0.0
        self.current_step = 1
        self.started = healer.clock.now()
        self._began = healer.clock.monotonic()
        self._token: Token[Task | None] | None = None

    def record(self, tool: str) -> ToolRecord:
        """The record of a tool, made at its first call."""
        return self.records.setdefault(tool, ToolRecord(self._began))

    def step(self, number: int, n_steps: int | None = None) -> None:
        """Say which step the agent is at.

        Args:
            number: from 1.
            n_steps: of how many, when that is known.
        """
        self.n_steps = n_steps or self.n_steps
        self.current_step = max(1, number if self.n_steps is None else min(number, self.n_steps))

    def spend(self, *, tokens: int = 0, money: float = 0.0) -> None:
        """Count tokens and money the agent has spent against the budget."""
        self.tokens += tokens
        self.money += money

    def finish(self, *, success: bool | None, quality: float | None = None) -> None:
        """Report the end state: whether the task's goal was reached.

        Args:
            success: None means unknown.
            quality: of the result, 0 to 1.

        Raises:
            ConfigError: the quality lies outside 0 to 1.
        """
        if quality is not None and not 0.0 <= quality <= 1.0:
            raise ConfigError(f"quality is {quality!r}; expected a figure from 0 to 1, or None")
        self.success, self.quality = success, quality

    def others_failing(self, tool: str) -> float:
        """Share of the task's other tools whose latest call failed."""
        others = [record.failing for name, record in self.records.items() if name != tool]
        return sum(others) / len(others) if others else 0.0

    def seconds_left(self) -> float | None:
        """Until the deadline; None when there is none."""
        if self.deadline_s is None:
            return None
        return max(0.0, self.deadline_s - (self.healer.clock.monotonic() - self._began))

    def _begin(self) -> None:
        self.started, self._began = self.healer.clock.now(), self.healer.clock.monotonic()
        self._token = CURRENT.set(self)

    def _end(self) -> None:
        if self._token is not None:
            CURRENT.reset(self._token)
            self._token = None

    def _start_arguments(self) -> dict[str, Any]:
        return {
            "task_id": self.id,
            "tenant": self.tenant,
            "goal": self.goal,
            "deadline_s": self.deadline_s,
        }

    def _end_arguments(self) -> dict[str, Any]:
        return {
            "task_id": self.id,
            "tenant": self.tenant,
            "success": self.success,
            "quality": self.quality,
        }

    def __enter__(self) -> "Task":
        self._begin()
        self.healer.write(lambda j: j.record_task_start(**self._start_arguments()))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()
        self.healer.write(lambda j: j.record_task_end(**self._end_arguments()))

    async def __aenter__(self) -> "Task":
        self._begin()
        await self.healer.awrite(lambda j: j.record_task_start(**self._start_arguments()))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()
        await self.healer.awrite(lambda j: j.record_task_end(**self._end_arguments()))
