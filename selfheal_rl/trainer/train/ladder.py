"""Tuning of rule tables by coordinate ascent with common random numbers.

One cell at a time, every action is tried on the tuning tasks whose decisions read that cell; all
other tasks cannot change, since luck is keyed per task. The best action stays if it gains. Cells
come in order of use; a sweep ends when all have been tried, an ascent when a sweep gains less than
0.1 %. Several ascents start from different tables; validation draws decide which one ships.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from selfheal_rl.core.values import N_ACTIONS
from selfheal_rl.trainer.seeds import TUNE_SEED, VALIDATE_SEED
from selfheal_rl.trainer.sim.compile import CompiledWorld
from selfheal_rl.trainer.train.ladder_play import (
    CELLS,
    Table,
    TablePolicy,
    play_table,
    starting_tables,
    try_rungs,
)
from selfheal_rl.trainer.train.validate import HeldOut, Score, Validator

MIN_GAIN = 1e-3
"""An ascent ends when a whole sweep gains less than this share of the utility."""
_MIN_READERS = 8
"""Cells that fewer tuning tasks read stay as they are: their figures would be noise."""
_SCREEN = 192
"""Tasks on which all actions are tried before the best few are tried on all."""
_FINALISTS = 3
_Z = 1.0
"""Standard errors of the paired difference by which a change must gain."""


@dataclass(frozen=True)
class Effort:
    """How much tuning spends.

    Attributes:
        draws: tuning deployments per world.
        tasks: failing tasks per deployment.
        screen_tasks: the same in the first, short ascent from every start.
        refine: starts that are tuned in full.
        decisions: simulated at least; rounds on fresh tasks follow until they are used.
        sweeps: at most, per ascent.
    """

    draws: int = 32
    tasks: int = 256
    screen_tasks: int = 32
    refine: int = 2
    decisions: int = 30_000_000
    sweeps: int = 12


@dataclass
class Tuned:
    """A tuned table.

    Attributes:
        table: uint8 (31, 6, 2).
        start: the table it began from.
        score: on validation draws.
        decisions: simulated in all, for every start and for validation.
        starts: validation utility of each start before and after tuning.
    """

    table: Table
    start: str
    score: Score
    decisions: int
    starts: dict[str, dict[str, float]] = field(default_factory=dict)


Report = Callable[[str, float, int], None]
"""Called with a stage, the utility there and the decisions simulated so far."""


class Memory(Protocol):
    """Keeps finished ascents by their stage."""

    def get(self, stage: str) -> tuple[Table, int] | None:
        """The table and the decisions of a finished ascent."""
        ...

    def put(self, stage: str, table: Table, decisions: int) -> None:
        """Keep a finished ascent."""
        ...


class LadderTuner:
    """Tunes tables for one world or the mean of several.

    Args:
        worlds: equal weight each.
        effort: how much to spend.
        report: progress.
        memory: of finished ascents, so that an interrupted tuning goes on behind them.
    """

    def __init__(
        self,
        worlds: Sequence[CompiledWorld],
        effort: Effort,
        report: Report = lambda stage, utility, decisions: None,
        memory: Memory | None = None,
    ) -> None:
        self.worlds, self.effort, self.report = tuple(worlds), effort, report
        self._memory, self._ascents = memory, 0
        self.decisions = 0
        self._validator = Validator(worlds, effort.draws, effort.tasks, VALIDATE_SEED)

    def tune(self) -> Tuned:
        """All starts, the best of them in full, rounds on fresh tasks, the best on validation."""
        short = self._tasks(0, self.effort.screen_tasks)
        found: list[tuple[float, str, Table]] = []
        starts: dict[str, dict[str, float]] = {}
        for name, table in starting_tables().items():
            before = self._score(table).utility
            tuned = self._ascend(short, table, f"from {name}")
            utility = self._score(tuned).utility
            starts[name] = {"start": before, "tuned": utility}
            found += [(before, name, table), (utility, name, tuned)]
        others = [table for _, _, table in found]
        found = sorted(found, key=lambda f: -f[0])[: self.effort.refine]
        ready = 0
        while ready < 1 or self.decisions < self.effort.decisions:
            tasks = self._tasks(ready, self.effort.tasks)
            for _, name, table in list(found):
                tuned = self._ascend(tasks, table, f"round {ready + 1}, {name}", others)
                found.append((self._score(tuned).utility, name, tuned))
            found = _distinct(sorted(found, key=lambda f: -f[0]))[: self.effort.refine]
            ready += 1
        _, name, table = found[0]
        return Tuned(table, name, self._score(table), self.decisions, starts)

    def _tasks(self, nth: int, tasks: int) -> list[HeldOut]:
        seed = TUNE_SEED + nth
        return [HeldOut.draw(world, seed, self.effort.draws, tasks) for world in self.worlds]

    def _score(self, table: Table) -> Score:
        score = self._validator.score(TablePolicy(table))
        self.decisions += score.decisions
        return score

    def _ascend(
        self, tasks: list[HeldOut], start: Table, stage: str, others: Sequence[Table] = ()
    ) -> Table:
        # Numbered, since two ascents of a round may have begun from tables of one name.
        self._ascents += 1
        key = f"{self._ascents}: {stage}"
        kept = None if self._memory is None else self._memory.get(key)
        if kept is not None:
            self.decisions += kept[1]
            return kept[0]
        state = _Ascent(tasks, start.copy())
        before, spent = state.utility, self.decisions
        for sweep in range(self.effort.sweeps):
            if sweep == 0 and others:
                for place in np.ndindex(CELLS[0], CELLS[2]):
                    state.cross(place, others)
            for cell in state.cells():
                state.improve(cell)
            self.decisions = spent + state.decisions
            self.report(f"{stage}, sweep {sweep + 1}", state.utility, self.decisions)
            if state.utility - before < MIN_GAIN * abs(state.utility):
                break
            before = state.utility
        if self._memory is not None:
            self._memory.put(key, state.table, state.decisions)
        return state.table


class _Ascent:
    """A table with what every tuning task is worth under it and which cells it reads."""

    def __init__(self, tasks: list[HeldOut], table: Table) -> None:
        self.tasks, self.table, self.decisions = tasks, table, 0
        self.looked = [np.zeros((len(t.tasks), *CELLS), np.bool_) for t in tasks]
        self.worth: list[NDArray[np.float64]] = []
        for held_out, looked in zip(tasks, self.looked, strict=True):
            result = play_table(held_out, table, looked)
            self.worth.append(result.utility)
            self.decisions += result.decisions

    @property
    def utility(self) -> float:
        """Mean of the worlds' mean utilities."""
        return float(np.mean([worth.mean() for worth in self.worth]))

    def cells(self) -> list[tuple[int, int, int]]:
        """Cells (kind, rung, unsafe) that enough tasks read, most used first."""
        readers = np.sum([looked.sum(axis=0) for looked in self.looked], axis=0).ravel()
        order = np.argsort(-readers, kind="stable")
        used = order[readers[order] >= _MIN_READERS]
        kinds, rungs, unsafe = np.unravel_index(used, CELLS)
        return list(zip(kinds.tolist(), rungs.tolist(), unsafe.tolist(), strict=True))

    def improve(self, cell: tuple[int, int, int]) -> None:
        """Try every action in a cell, in its place or pushed in before it; keep what gains."""
        kind, rung, unsafe = cell
        now = self.table[kind, :, unsafe]
        actions = np.arange(N_ACTIONS, dtype=np.uint8)
        put, pushed = (np.tile(now, (N_ACTIONS, 1)) for _ in range(2))
        put[:, rung] = pushed[:, rung] = actions
        pushed[:, rung + 1 :] = now[rung:-1]
        self.choose((kind, unsafe), np.concatenate([put, pushed]), rung)

    def cross(self, place: tuple[int, int], tables: Sequence[Table]) -> None:
        """Try the list of rungs that each of ``tables`` has there."""
        kind, unsafe = place
        self.choose(place, np.stack([table[kind, :, unsafe] for table in tables]), 0)

    def choose(self, place: tuple[int, int], rungs: NDArray[np.uint8], first: int) -> None:
        """Keep the best of some lists of rungs that agree with the present one before ``first``."""
        kind, unsafe = place
        now = self.table[kind, :, unsafe]
        rungs = np.unique(rungs[(rungs != now).any(axis=1)], axis=0)
        readers = [
            np.flatnonzero(looked[:, kind, first:, unsafe].any(axis=1)) for looked in self.looked
        ]
        total = sum(map(len, readers))
        if total < _MIN_READERS or not len(rungs):
            return
        if total > 2 * _SCREEN and len(rungs) > _FINALISTS:
            step = total // _SCREEN
            gains = self._gains(place, rungs, [at[::step] for at in readers]).mean(axis=1)
            rungs = rungs[np.argsort(-gains, kind="stable")[:_FINALISTS]]
        gains = self._gains(place, rungs, readers)
        best = int(gains.mean(axis=1).argmax())
        error = gains[best].std() / np.sqrt(total)
        if gains[best].mean() > max(_Z * error, 1e-9):
            self._accept(place, rungs[best], readers)

    def _gains(
        self, place: tuple[int, int], rungs: NDArray[np.uint8], readers: list[NDArray[np.int64]]
    ) -> NDArray[np.float64]:
        """Utility that each list gains in each task that reads it, (K, readers)."""
        parts = []
        for held_out, worth, at in zip(self.tasks, self.worth, readers, strict=True):
            if len(at):
                utility, decisions = try_rungs(held_out, self.table, place, rungs, at)
                self.decisions += decisions
                parts.append(utility - worth[at])
        return np.concatenate(parts, axis=1)

    def _accept(
        self, place: tuple[int, int], rungs: NDArray[np.uint8], readers: list[NDArray[np.int64]]
    ) -> None:
        self.table[place[0], :, place[1]] = rungs
        for held_out, worth, looked, at in zip(
            self.tasks, self.worth, self.looked, readers, strict=True
        ):
            if len(at):
                looked[at] = False
                result = play_table(held_out.take(at), self.table, looked)
                worth[at] = result.utility
                self.decisions += result.decisions


def _distinct(found: list[tuple[float, str, Table]]) -> list[tuple[float, str, Table]]:
    kept: list[tuple[float, str, Table]] = []
    for item in found:
        if not any(np.array_equal(item[2], other[2]) for other in kept):
            kept.append(item)
    return kept
