"""Rule tables in the simulator, many candidates at once, and the tables tuning starts from."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from selfheal_rl.core.catalog import find_policy
from selfheal_rl.core.situation import FACTS, N_FACTS, repeat_unsafe, rows
from selfheal_rl.core.values import N_ACTIONS, N_KINDS, RepairAction
from selfheal_rl.runtime.decide.rivals import RIVALS
from selfheal_rl.runtime.decide.rules import HAND_LADDER, N_RUNGS, RULES_FILE, Ladder
from selfheal_rl.trainer.sim.deployments import Deployments
from selfheal_rl.trainer.sim.episodes import TaskResults, View, run_tasks
from selfheal_rl.trainer.train.validate import HeldOut

Table = NDArray[np.uint8]
"""Action numbers, shape (31 kinds, 6 attempts, 2), as in :class:`Ladder`."""
CELLS = (N_KINDS, N_RUNGS, 2)
_KIND, _TRIES = rows("kind"), rows("tries")
_RUNG = np.arange(N_RUNGS)
_CHUNK = 32_768


@dataclass(frozen=True)
class Trial:
    """Candidates for one list of rungs; a task with deployment ``d`` plays ``d // n_draws``.

    Attributes:
        kind, unsafe: which list.
        rungs: uint8 (K, 6), the candidates.
        n_draws: deployments per candidate.
    """

    kind: int
    unsafe: int
    rungs: NDArray[np.uint8]
    n_draws: int


class TablePolicy:
    """Plays a table as :class:`~selfheal_rl.runtime.decide.rules.LadderSelector` does.

    Args:
        table: the rules.
        trial: candidates for one list of rungs, if any.
        looked: bool (tasks, 31, 6, 2), set True where a task's decisions read a cell.
    """

    name = "ladder"

    def __init__(
        self, table: Table, trial: Trial | None = None, looked: NDArray[np.bool_] | None = None
    ) -> None:
        self.table, self.trial, self.looked = table, trial, looked

    def choose(self, view: View) -> NDArray[np.int64]:
        """One action per row."""
        facts = view.facts
        kind = facts[_KIND].argmax(axis=0)
        attempt = np.minimum(facts[_TRIES].sum(axis=0), N_RUNGS - 1)
        unsafe = repeat_unsafe(facts).astype(np.intp)
        rungs = self.table[kind, :, unsafe]
        if self.trial is not None:
            self._try(rungs, kind, unsafe, view.core.draw)
        row = np.arange(len(kind))
        due = attempt[:, None] - 0.5 <= _RUNG
        open_ = view.mask[row[:, None], rungs] & due
        first = open_.argmax(axis=1)
        found = open_[row, first]
        if self.looked is not None:
            upto = np.where(found, first, N_RUNGS - 1)
            at, rung = np.nonzero(due & (upto[:, None] >= _RUNG))
            self.looked[view.core.task[at], kind[at], rung, unsafe[at]] = True
        chosen = np.where(found, rungs[row, first], RepairAction.ESCALATE)
        return np.asarray(chosen, np.int64)

    def _try(
        self,
        rungs: NDArray[np.uint8],
        kind: NDArray[np.intp],
        unsafe: NDArray[np.intp],
        draw: NDArray[np.int64],
    ) -> None:
        assert self.trial is not None
        trial = self.trial
        at = np.flatnonzero((kind == trial.kind) & (unsafe == trial.unsafe))
        rungs[at] = trial.rungs[draw[at] // trial.n_draws]


def play_table(tasks: HeldOut, table: Table, looked: NDArray[np.bool_] | None) -> TaskResults:
    """Every task once under ``table``; ``looked`` gets the cells each task's decisions read."""
    return tasks.play(TablePolicy(table, looked=looked))


def try_rungs(
    tasks: HeldOut,
    table: Table,
    place: tuple[int, int],
    rungs: NDArray[np.uint8],
    at: NDArray[np.int64],
) -> tuple[NDArray[np.float64], int]:
    """Utility of the tasks ``at`` under each candidate for one list of rungs.

    Args:
        tasks: the tuning tasks of one world.
        table: the rules around it.
        place: kind, and 1 where the call must not be repeated.
        rungs: uint8 (K, 6), the candidates.
        at: M indices into ``tasks``.

    Returns:
        ``(utility (K, M), decisions simulated)``.
    """
    k, m, n_draws = len(rungs), len(at), len(tasks.deployments)
    task = np.tile(tasks.tasks[at], k)
    draw = (np.arange(k)[:, None] * n_draws + tasks.draws[at]).ravel()
    policy = TablePolicy(table, Trial(*place, rungs, n_draws))
    deployments = _tiled(tasks.deployments, k)
    utility = np.empty(k * m)
    decisions = 0
    for lo in range(0, k * m, _CHUNK):
        part = slice(lo, lo + _CHUNK)
        result = run_tasks(
            tasks.world,
            deployments,
            policy,
            task[part],
            draw[part],
            seed=tasks.seed,
            only_failing=True,
        )
        utility[part] = result.utility
        decisions += result.decisions
    return utility.reshape(k, m), decisions


def _tiled(deployments: Deployments, k: int) -> Deployments:
    return replace(
        deployments,
        cause_pick=np.tile(deployments.cause_pick, (k, 1)),
        success=np.tile(deployments.success, (k, 1, 1)),
        rate=np.tile(deployments.rate, k),
    )


def starting_tables() -> Mapping[str, Table]:
    """The hand ladder and every library's default, as tables."""
    tables = {HAND_LADDER: Ladder.load(find_policy(HAND_LADDER) / RULES_FILE).table}
    return tables | {name: _as_table(name) for name in RIVALS}


def _as_table(name: str) -> Table:
    """A library's decision for each kind and attempt, all earlier attempts its own repeats."""
    rival = RIVALS[name]
    kind, attempt = (x.ravel() for x in np.indices((N_KINDS, N_RUNGS)))
    facts = np.zeros((N_FACTS, len(kind)), np.float32)
    facts[_KIND.start + kind, np.arange(len(kind))] = 1.0
    repeated = getattr(rival, "repeat", getattr(rival, "action", RepairAction.RETRY))
    facts[_TRIES.start + repeated] = attempt
    for fact in ("share.attempts_left", "share.task_attempts_left"):
        facts[FACTS[fact]] = 0.5
    facts[FACTS["seconds.deadline_left"]] = 3600.0
    mask = np.ones((len(kind), N_ACTIONS), np.bool_)
    nothing = np.empty((len(kind), 0), np.float32)
    actions = rival.probabilities(facts, nothing, mask).argmax(axis=1)
    table = actions.reshape(N_KINDS, N_RUNGS, 1).astype(np.uint8)
    return np.repeat(table, 2, axis=2)
