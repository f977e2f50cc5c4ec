"""Run a fixed list of tasks to their end under one policy: the base of tuning and judging."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from selfheal_rl.core.situation import BeliefTables, FactMatrix, encode, legal_mask
from selfheal_rl.trainer.sim.compile import CompiledWorld
from selfheal_rl.trainer.sim.deployments import Deployments
from selfheal_rl.trainer.sim.dynamics import RepairCore
from selfheal_rl.trainer.sim.state import Ended

Observer = Callable[[RepairCore, NDArray[np.int64], NDArray[np.int64]], None]


class View:
    """What a policy may look at for one batch of decisions.

    Attributes:
        facts: float32 (N_FACTS, N).
        mask: bool (N, 17), the legal actions.
        core: the simulator itself; only oracles look at it.
    """

    def __init__(self, core: RepairCore) -> None:
        self.core = core
        self.facts: FactMatrix = core.facts
        self.mask = legal_mask(core.facts)

    def observation(self, tables: BeliefTables) -> NDArray[np.float32]:
        """Encode under ``tables``; shape (N, N_SLOTS)."""
        return encode(self.facts, tables)


class SimPolicy(Protocol):
    """Anything that chooses repairs in the simulator.

    A policy with a schedule of its own also has ``wait_s(facts) -> (N,)``: the seconds that its
    ``backoff`` waits instead of ours.
    """

    name: str

    def choose(self, view: View) -> NDArray[np.int64]:
        """One action per row, shape (N,)."""
        ...


@dataclass
class TaskResults:
    """Per task, in the order the tasks were given; every array has shape (M,)."""

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
    decisions: int = 0
    """Decisions taken over all tasks."""


_FIELDS = tuple(f.name for f in fields(TaskResults) if f.name != "decisions")


def run_tasks(
    world: CompiledWorld,
    deployments: Deployments,
    policy: SimPolicy,
    tasks: NDArray[np.int64],
    draws: NDArray[np.int64],
    *,
    seed: int,
    only_failing: bool = False,
    observer: Observer | None = None,
    after: Observer | None = None,
) -> TaskResults:
    """Play every task once.

    Args:
        world: compiled.
        deployments: what ``draws`` indexes.
        policy: asked for one action per waiting row.
        tasks: ids, shape (M,); the same id, seed and world mean the same luck for any policy.
        draws: deployment per task, shape (M,).
        seed: of the luck.
        only_failing: condition on at least one failure.
        observer: called before each batch of decisions with the core, the indices into ``tasks``
            of its rows and the chosen actions.
        after: called likewise after each batch, before finished rows are dropped.
    """
    m = len(tasks)
    core = RepairCore(world, deployments, m, seed=seed, only_failing=only_failing)
    results = TaskResults(
        completed=np.zeros(m, np.bool_),
        utility=np.zeros(m),
        quality=np.zeros(m, np.float32),
        seconds=np.zeros(m),
        tokens=np.zeros(m, np.float32),
        attempts=np.zeros(m, np.int64),
        incidents=np.zeros(m, np.int64),
        escalated=np.zeros(m, np.bool_),
        degraded=np.zeros(m, np.bool_),
        harmed=np.zeros(m, np.bool_),
    )
    index = np.arange(m)
    waits = core.begin(index, np.asarray(tasks, np.int64), np.asarray(draws, np.int64))
    calm = np.flatnonzero(~waits)
    _store(results, index, core.ended(calm, core.completed_rows(calm)))
    index = np.flatnonzero(waits)
    core.keep(index)
    schedule: Callable[[FactMatrix], NDArray[np.float32]] | None = getattr(policy, "wait_s", None)
    while core.n:
        actions = np.asarray(policy.choose(View(core)), np.int64)
        waits_s = None if schedule is None else schedule(core.facts)
        if observer is not None:
            observer(core, index, actions)
        results.decisions += core.n
        _, done, ended = core.step(actions, waits_s)
        _store(results, index, ended)
        if after is not None:
            after(core, index, actions)
        if done.any():
            left = np.flatnonzero(~done)
            core.keep(left)
            index = index[left]
    return results


def _store(results: TaskResults, index: NDArray[np.int64], ended: Ended) -> None:
    at = index[ended.row]
    for name in _FIELDS:
        getattr(results, name)[at] = getattr(ended, name)
