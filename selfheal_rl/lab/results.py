"""What a run of the lab found: one row per arm, with intervals over tasks and seeds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfheal_rl.core.values import Prices

HUMAN_MINUTES = 5.0
"""A person's minutes on a task that an arm stopped (assumed)."""
INJECTOR = "selfheal-lab"
_RESAMPLES = 2000
_LEVEL = 0.95

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class TaskResult:
    """One task under one arm.

    Attributes:
        arm: name.
        seed: of the run.
        index: number of the task.
        completed: the end state is exactly right.
        harm: harmful side effects left behind.
        seconds: virtual time spent.
        escalated: the arm stopped the task and called for a person.
        injected: faults that struck.
        calls: calls that reached a tool.
        faults: names of the planned faults.
        missing: what the judge did not find in order.
        end: why the agent stopped early; empty when it did not.
    """

    arm: str
    seed: int
    index: int
    completed: bool
    harm: int
    seconds: float
    escalated: bool
    injected: int
    calls: int
    faults: tuple[str, ...]
    missing: tuple[str, ...]
    end: str

    def cost(self, prices: Prices) -> float:
        """Price of time, people and harm, in units of one completed task."""
        people = HUMAN_MINUTES * prices.human_minute if self.escalated else 0.0
        return self.seconds * prices.second + people + self.harm * prices.harm


def summarise(
    results: Sequence[TaskResult], alone: Sequence[TaskResult], prices: Prices
) -> dict[str, Any]:
    """One arm's row.

    Figures are means per task; ``intervals`` holds 95 % bootstrap intervals over all tasks of all
    seeds (the tasks of a seed are drawn independently). Utility is
    ``task * completed - cost``; ``cost_per_completed`` is the sum of costs over the number of
    completed tasks, None when there is none.

    Args:
        results: of the arm.
        alone: of the bare agent on the same tasks, in the same order.
        prices: of time, people and harm.
    """
    done = np.asarray([r.completed for r in results], np.float64)
    cost = np.asarray([r.cost(prices) for r in results])
    seconds = np.asarray([r.seconds for r in results])
    figures = {
        "completion": (done, np.ones_like(done)),
        "utility": (prices.task * done - cost, np.ones_like(done)),
        "seconds": (seconds, np.ones_like(done)),
        "cost_per_completed": (cost, done),
    }
    disrupted = sum(
        before.completed and not after.completed
        for before, after in zip(alone, results, strict=True)
    )
    return {
        "arm": results[0].arm,
        "injector": INJECTOR,
        "injected": sum(r.injected for r in results),
        "tasks": len(results),
        "completion": _ratio(*figures["completion"]),
        "utility": _ratio(*figures["utility"]),
        "seconds": _ratio(*figures["seconds"]),
        "cost_per_completed": _ratio(*figures["cost_per_completed"]),
        "disrupted": disrupted,
        "escalated": sum(r.escalated for r in results),
        "harm": sum(r.harm for r in results),
        "seeds": len({r.seed for r in results}),
        "intervals": {name: _interval(*pair) for name, pair in figures.items()},
    }


def _ratio(top: Matrix, bottom: Matrix) -> float | None:
    return round(float(top.sum() / bottom.sum()), 6) if bottom.sum() else None


def _interval(top: Matrix, bottom: Matrix) -> list[float] | None:
    """Percentile bootstrap of sum(top) / sum(bottom); the same resamples for every arm."""
    n = len(top)
    picks = np.random.default_rng(0).integers(0, n, (_RESAMPLES, n))
    tops, bottoms = top[picks].sum(axis=1), bottom[picks].sum(axis=1)
    if not bottoms.all():
        return None
    tail = (1.0 - _LEVEL) / 2.0
    low, high = np.quantile(tops / bottoms, (tail, 1.0 - tail))
    return [round(float(low), 6), round(float(high), 6)]
