"""The incident at hand as arrays that planners carry from step to step."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfheal_rl.core.situation import (
    FACTS,
    MAX_ATTEMPTS_INCIDENT,
    MAX_ATTEMPTS_TASK,
    legal_mask,
    planned_wait_s,
    rows,
)
from selfheal_rl.core.values import ACTIONS, CATEGORIES, CATEGORY, N_ACTIONS, TERMINAL, RepairAction
from selfheal_rl.trainer.evaluate.yardsticks.outlook import Ahead
from selfheal_rl.trainer.sim.compile import CompiledWorld

A = RepairAction
F32 = NDArray[np.float32]
_TRIES, _RUN = rows("tries"), rows("run")
_EFFECTS = FACTS["effects.write"], FACTS["effects.unknown"]
REPAIRS: tuple[RepairAction, ...] = tuple(a for a in ACTIONS if a not in TERMINAL)
_WAIT = next(c.value for c in CATEGORIES if c.value == "wait")
_COLUMN = np.array(
    [
        CATEGORIES.index(c) if (c := CATEGORY[a]) is not None and c.value != _WAIT else -1
        for a in ACTIONS
    ]
)
_UNLIMITED = np.flatnonzero(_COLUMN < 0)
_REPAIR_ROWS = np.array(REPAIRS, np.int64)
MEAN_JITTER = np.float32(0.875)
"""Mean share of the exponential wait that is left by jitter (it takes up to a quarter)."""


@dataclass(frozen=True)
class State:
    """An incident between two attempts; every array's last axis is the row.

    Attributes:
        open: bool (17, N), legal but for the category rule.
        run: float32 (11, N), how often the latest category was tried in a row.
        tries: int64 (17, N), attempts so far.
        left: int64 (N,), attempts left.
        elapsed: float32 (N,), seconds since the incident began.
        deadline: float32 (N,), seconds left.
        latency: float32 (N,), seconds the failing call takes to fail.
        retry_after: float32 (N,), what the server asked for.
        quality: float32 (N,), of the result so far.
        writes: float32 (N,), 1 where a side effect would be harmful.
    """

    open: NDArray[np.bool_]
    run: F32
    tries: NDArray[np.int64]
    left: NDArray[np.int64]
    elapsed: F32
    deadline: F32
    latency: F32
    retry_after: F32
    quality: F32
    writes: F32

    @classmethod
    def of(cls, facts: F32, quality: F32 | None = None) -> "State":
        """The present state; facts of shape (N_FACTS, N)."""
        loose = facts.copy()
        loose[_RUN] = 0.0
        left = np.minimum(
            facts[FACTS["share.attempts_left"]] * MAX_ATTEMPTS_INCIDENT,
            facts[FACTS["share.task_attempts_left"]] * MAX_ATTEMPTS_TASK,
        )
        return cls(
            open=legal_mask(loose).T.copy(),
            run=facts[_RUN],
            tries=np.rint(facts[_TRIES]).astype(np.int64),
            left=np.rint(left).astype(np.int64),
            elapsed=facts[FACTS["seconds.incident"]],
            deadline=facts[FACTS["seconds.deadline_left"]],
            latency=facts[FACTS["seconds.latency"]],
            retry_after=facts[FACTS["seconds.retry_after"]],
            quality=np.ones(facts.shape[1], np.float32) if quality is None else quality,
            writes=(facts[_EFFECTS[0]] + facts[_EFFECTS[1]]).astype(np.float32),
        )

    def __len__(self) -> int:
        return len(self.left)

    def take(self, at: Any) -> "State":
        """Only the rows ``at``."""
        fields = {}
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            fields[name] = value[:, at] if value.ndim == 2 else value[at]
        return State(**fields)

    def legal(self) -> NDArray[np.bool_]:
        """The action mask, shape (17, N)."""
        legal: NDArray[np.bool_] = self.open & (self.run[_COLUMN] < 0.75)
        legal[_UNLIMITED] = self.open[_UNLIMITED]
        legal[_REPAIR_ROWS] &= (self.left > 0) & (self.deadline > 0.0)
        legal[A.BACKOFF] &= self.longest_wait() <= self.deadline
        legal[A.ESCALATE] = True
        return legal

    def longest_wait(self) -> F32:
        """Seconds the next backoff waits at most."""
        return planned_wait_s(self.tries[A.BACKOFF], self.retry_after)

    def mean_wait(self) -> F32:
        """Seconds the next backoff waits on average, about."""
        grown = planned_wait_s(self.tries[A.BACKOFF], np.float32(0.0)) * MEAN_JITTER
        wait: F32 = np.maximum(grown, self.retry_after)
        return wait

    def failed(self, action: RepairAction | NDArray[np.int64], seconds: F32) -> "State":
        """After ``action`` took ``seconds`` and did not help; actions may differ by row."""
        n = len(self)
        chosen = np.broadcast_to(np.asarray(action, np.int64), (n,))
        row = np.arange(n)
        tries = self.tries.copy()
        tries[chosen, row] += 1
        run = np.zeros_like(self.run)
        column = _COLUMN[chosen]
        at = np.flatnonzero(column >= 0)
        run[column[at], at] = np.where(self.run[column[at], at] > 0, 1.0, 0.5)
        passed = seconds + self.latency
        return replace(
            self,
            run=run,
            tries=tries,
            left=self.left - 1,
            elapsed=self.elapsed + passed,
            deadline=np.maximum(self.deadline - passed, 0.0),
        )


class Ledger:
    """Prices of actions, of ends and of resuming in one world."""

    def __init__(self, world: CompiledWorld) -> None:
        self.world, self.prices = world, world.world.prices
        p = self.prices
        cost = p.second * world.seconds + p.kilotoken * 1e-3 * world.tokens
        self.cost: F32 = (cost + p.human_minute * world.minutes).astype(np.float32)
        self.gives_up = np.zeros(N_ACTIONS, np.float32)
        self.gives_up[A.CONTINUE] = world.world.agent.gives_up

    def end(self, state: State) -> F32:
        """Value of the best way to stop, shape (N,)."""
        best: F32 = np.where(
            state.open[A.DEGRADE],
            np.maximum(self.degrade(state), -self.cost[A.ESCALATE]),
            -self.cost[A.ESCALATE],
        ).astype(np.float32)
        return best

    def degrade(self, state: State) -> F32:
        """Value of handing in a partial result, shape (N,)."""
        worth = np.float32(self.prices.task * self.world.world.degrade_quality)
        result: F32 = worth * state.quality - self.cost[A.DEGRADE]
        return result

    def seconds(self, state: State) -> F32:
        """Mean seconds of each action, the latency of a new failure left out; (17, N)."""
        seconds = np.repeat(self.world.seconds[:, None], len(state), axis=1)
        seconds[A.BACKOFF] += state.mean_wait()
        return seconds

    def charge(self, seconds: F32) -> F32:
        """Cost of each action, its waits included; shape (17, N)."""
        waits = seconds[A.BACKOFF] - self.world.seconds[A.BACKOFF]
        cost = np.repeat(self.cost[:, None], seconds.shape[1], axis=1)
        cost[A.BACKOFF] += np.float32(self.prices.second) * waits
        return cost

    def resume(self, state: State, ahead: Ahead, seconds: F32) -> F32:
        """Worth of the finished task if each action heals, later costs not subtracted; (17, N)."""
        sure = np.float32(self.prices.task) * state.quality * ahead.survives
        result: F32 = self.world.quality[:, None] * sure * ahead.in_time(state.deadline - seconds)
        return result
