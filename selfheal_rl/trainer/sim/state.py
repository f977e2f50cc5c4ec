"""State of N tasks as a struct of arrays, and the record of those that ended."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from selfheal_rl.core.situation import MAX_ATTEMPTS_INCIDENT

HISTORY = MAX_ATTEMPTS_INCIDENT + 1
"""Failures an incident can show."""


@dataclass
class Ended:
    """Tasks that ended in a step, one entry per ended row.

    Attributes:
        row: index into the core's rows.
        task: task ids.
        draw: deployment of each.
        completed: bool; end state right and in time, without a human.
        utility: the whole task's.
        quality: of the result, 0 when not completed.
        seconds: since the task began.
        tokens: spent on repairs.
        attempts: decisions that were not terminal.
        incidents: failures met.
        escalated, degraded, harmed: bool.
    """

    row: NDArray[np.int64]
    task: NDArray[np.int64]
    draw: NDArray[np.int64]
    completed: NDArray[np.bool_]
    utility: NDArray[np.float64]
    quality: NDArray[np.float32]
    seconds: NDArray[np.float64]
    tokens: NDArray[np.float32]
    attempts: NDArray[np.int64]
    incidents: NDArray[np.int64]
    escalated: NDArray[np.bool_]
    degraded: NDArray[np.bool_]
    harmed: NDArray[np.bool_]


class TaskState:
    """Arrays of shape (n,), one entry per task, and the open incident's history.

    Args:
        n: rows.
    """

    def __init__(self, n: int) -> None:
        self.n = n
        for name, dtype in _STATE.items():
            setattr(self, name, np.zeros(n, dtype))
        self.variants_seen = np.zeros((HISTORY, n), np.int16)
        self.actions_tried = np.zeros((HISTORY, n), np.int8)
        self.columns = np.arange(n)

    alive: NDArray[np.bool_]
    """A decision is due."""
    task: NDArray[np.int64]
    draw: NDArray[np.int64]
    key: NDArray[np.uint64]
    n_steps: NDArray[np.int64]
    step_no: NDArray[np.int64]
    host: NDArray[np.int64]
    now: NDArray[np.float64]
    opened: NDArray[np.float64]
    ends: NDArray[np.float64]
    cause: NDArray[np.int64]
    variant: NDArray[np.int64]
    tool: NDArray[np.int64]
    effects: NDArray[np.int64]
    effect_state: NDArray[np.int64]
    """How far any call of the open incident may have got, an index into EFFECT_STATES."""
    has_key: NDArray[np.bool_]
    attempts: NDArray[np.int64]
    task_attempts: NDArray[np.int64]
    incidents: NDArray[np.int64]
    log_calm: NDArray[np.float32]
    """log P(a healthy step)."""
    category: NDArray[np.int64]
    """Category of the latest attempt, -1 for none."""
    run: NDArray[np.int64]
    """How often in a row, up to 2."""
    fresh: NDArray[np.bool_]
    """The incident opened since facts were last presented."""
    same: NDArray[np.bool_]
    progress: NDArray[np.bool_]
    quality: NDArray[np.float32]
    broken: NDArray[np.bool_]
    utility: NDArray[np.float64]
    tokens: NDArray[np.float32]
    retry_after: NDArray[np.float32]
    last_ok: NDArray[np.float64]
    outage_until: NDArray[np.float64]
    outage_cause: NDArray[np.int64]
    outage_tool: NDArray[np.int64]
    bypassed: NDArray[np.bool_]

    def clear(self, at: NDArray[np.int64]) -> None:
        """Forget the earlier task of rows ``at``."""
        for name in _ZEROED:
            getattr(self, name)[at] = 0
        self.quality[at] = 1.0
        self.outage_tool[at] = -1
        self.alive[at] = True

    def take(self, at: NDArray[np.int64]) -> None:
        """Drop all rows but ``at``."""
        self.n = len(at)
        for name in _STATE:
            setattr(self, name, getattr(self, name)[at])
        self.variants_seen = self.variants_seen[:, at]
        self.actions_tried = self.actions_tried[:, at]
        self.columns = np.arange(self.n)


_STATE: dict[str, type] = {
    "alive": np.bool_,
    "task": np.int64,
    "draw": np.int64,
    "key": np.uint64,
    "n_steps": np.int64,
    "step_no": np.int64,
    "host": np.int64,
    "now": np.float64,
    "opened": np.float64,
    "ends": np.float64,
    "cause": np.int64,
    "variant": np.int64,
    "tool": np.int64,
    "effects": np.int64,
    "effect_state": np.int64,
    "has_key": np.bool_,
    "attempts": np.int64,
    "task_attempts": np.int64,
    "incidents": np.int64,
    "log_calm": np.float32,
    "category": np.int64,
    "run": np.int64,
    "fresh": np.bool_,
    "same": np.bool_,
    "progress": np.bool_,
    "quality": np.float32,
    "broken": np.bool_,
    "utility": np.float64,
    "tokens": np.float32,
    "retry_after": np.float32,
    "last_ok": np.float64,
    "outage_until": np.float64,
    "outage_cause": np.int64,
    "outage_tool": np.int64,
    "bypassed": np.bool_,
}
_ZEROED = (
    "step_no",
    "now",
    "attempts",
    "task_attempts",
    "incidents",
    "broken",
    "utility",
    "tokens",
    "outage_until",
    "outage_cause",
    "bypassed",
    "retry_after",
    "last_ok",
)
