"""One policy played over the held-out tasks of one world: what every measure is made from."""

import os
import tempfile
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from selfheal_rl.core.situation import rows
from selfheal_rl.core.values import N_ACTIONS, N_KINDS, ConfigError
from selfheal_rl.trainer.seeds import REPORT_SEED
from selfheal_rl.trainer.sim.compile import CompiledWorld
from selfheal_rl.trainer.sim.deployments import Deployments, draw_deployments
from selfheal_rl.trainer.sim.dynamics import RepairCore
from selfheal_rl.trainer.sim.episodes import SimPolicy, TaskResults, View, run_tasks

CHUNK = 16_384
"""Tasks played at once: large enough for numpy, small enough for the cache."""
_KIND = rows("kind")
Progress = Callable[[int], None]
Index = NDArray[np.int64]


@dataclass(frozen=True)
class HeldOutSet:
    """The tasks every policy is judged on.

    Attributes:
        world: compiled.
        deployments: the held-out draws.
        tasks_per_draw: tasks of each.
        seed: of draws and luck.
    """

    world: CompiledWorld
    deployments: Deployments
    tasks_per_draw: int
    seed: int

    @classmethod
    def of(
        cls, world: CompiledWorld, draws: int, tasks_per_draw: int, seed: int = REPORT_SEED
    ) -> "HeldOutSet":
        """Draw deployments under the report's seed.

        Raises:
            ConfigError: fewer than one draw or task.
        """
        if draws < 1 or tasks_per_draw < 1:
            raise ConfigError(
                f"got draws = {draws}, tasks = {tasks_per_draw}; expected at least 1 of each"
            )
        return cls(world, draw_deployments(world, draws, seed), tasks_per_draw, seed)

    def __len__(self) -> int:
        return len(self.deployments) * self.tasks_per_draw


@dataclass(frozen=True)
class Cell:
    """Results of one policy (one training seed) in one world.

    Attributes:
        completed, escalated, degraded, harmed: bool, shape (draws, tasks).
        utility: float32, same shape; so are seconds, tokens, attempts and incidents.
        tried: int64 (31, 17), decisions by kind seen and action.
        healed: int64 (31, 17), those after which the task went on healed.
        opened: int64 (31,), incidents by the kind first seen.
        recovered: int64 (31,), those that were healed in the end.
        decisions: taken in all.
        decide_s: seconds spent choosing.
    """

    completed: NDArray[np.bool_]
    escalated: NDArray[np.bool_]
    degraded: NDArray[np.bool_]
    harmed: NDArray[np.bool_]
    utility: NDArray[np.float32]
    seconds: NDArray[np.float32]
    tokens: NDArray[np.float32]
    attempts: NDArray[np.float32]
    incidents: NDArray[np.float32]
    tried: Index
    healed: Index
    opened: Index
    recovered: Index
    decisions: int
    decide_s: float

    def save(self, path: Path) -> None:
        """Write as ``.npz`` without pickles, whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(suffix=".npz", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                arrays: dict[str, Any] = {f.name: np.asarray(getattr(self, f.name)) for f in _CELL}
                np.savez_compressed(file, **arrays)
            Path(name).replace(path)
        finally:
            Path(name).unlink(missing_ok=True)

    @classmethod
    def load(cls, path: Path) -> "Cell | None":
        """Read a saved cell; None when there is none or it is damaged."""
        try:
            with np.load(path, allow_pickle=False) as data:
                values = {f.name: data[f.name] for f in _CELL}
        except (OSError, ValueError, KeyError, EOFError, BadZipFile, zlib.error):
            return None
        values |= {"decisions": int(values["decisions"]), "decide_s": float(values["decide_s"])}
        return cls(**values)


_CELL = fields(Cell)
_PER_TASK: tuple[str, ...] = (
    *("completed", "escalated", "degraded", "harmed"),
    *("utility", "seconds", "tokens", "attempts", "incidents"),
)
_BOOLS = frozenset({"completed", "escalated", "degraded", "harmed"})


class _Tally:
    """Counts tries and heals by kind and action, and times the choices."""

    def __init__(self, policy: SimPolicy) -> None:
        self.policy, self.name = policy, policy.name
        self.wait_s = getattr(policy, "wait_s", None)
        self.tried = np.zeros((N_KINDS, N_ACTIONS), np.int64)
        self.healed = np.zeros_like(self.tried)
        self.opened = np.zeros(N_KINDS, np.int64)
        self.recovered = np.zeros(N_KINDS, np.int64)
        self.decide_s = 0.0
        self._first: Index = np.zeros(0, np.int64)

    def start(self, n: int) -> None:
        """Expect a chunk of ``n`` tasks."""
        self._first = np.zeros(n, np.int64)

    def choose(self, view: View) -> Index:
        """Let the policy choose."""
        begin = time.perf_counter()
        actions = self.policy.choose(view)
        self.decide_s += time.perf_counter() - begin
        return actions

    def before(self, core: RepairCore, index: Index, actions: Index) -> None:
        """Remember what is seen and where each task is."""
        self._kind = core.facts[_KIND].argmax(axis=0)
        self._step = core.step_no.copy()
        fresh = core.attempts == 0
        self._first[index[fresh]] = self._kind[fresh]
        self.opened += np.bincount(self._kind[fresh], minlength=N_KINDS)
        self.tried += _table(self._kind, actions)

    def after(self, core: RepairCore, index: Index, actions: Index) -> None:
        """Count the rows that went on to a later step: they were healed."""
        healed = core.step_no > self._step
        self.healed += _table(self._kind[healed], actions[healed])
        self.recovered += np.bincount(self._first[index[healed]], minlength=N_KINDS)


def _table(kind: Index, actions: Index) -> Index:
    flat = np.bincount(kind * N_ACTIONS + actions, minlength=N_KINDS * N_ACTIONS)
    return flat.reshape(N_KINDS, N_ACTIONS).astype(np.int64)


def play(held: HeldOutSet, policy: SimPolicy, progress: Progress | None = None) -> Cell:
    """Play every held-out task once.

    Args:
        held: the tasks.
        policy: chooses the repairs.
        progress: told the number of tasks finished after each chunk.
    """
    draws, per_draw = len(held.deployments), held.tasks_per_draw
    total = len(held)
    parts: dict[str, list[NDArray[Any]]] = {name: [] for name in _PER_TASK}
    tally, decisions = _Tally(policy), 0
    for lo in range(0, total, CHUNK):
        tasks = np.arange(lo, min(lo + CHUNK, total))
        tally.start(len(tasks))
        result = run_tasks(
            held.world,
            held.deployments,
            tally,
            tasks,
            tasks // per_draw,
            seed=held.seed,
            observer=tally.before,
            after=tally.after,
        )
        decisions += result.decisions
        _collect(parts, result)
        if progress is not None:
            progress(len(tasks))
    joined = {name: np.concatenate(part).reshape(draws, per_draw) for name, part in parts.items()}
    return Cell(
        **joined,
        tried=tally.tried,
        healed=tally.healed,
        opened=tally.opened,
        recovered=tally.recovered,
        decisions=decisions,
        decide_s=tally.decide_s,
    )


def _collect(parts: dict[str, list[NDArray[Any]]], result: TaskResults) -> None:
    for name, part in parts.items():
        part.append(getattr(result, name).astype(np.bool_ if name in _BOOLS else np.float32))
