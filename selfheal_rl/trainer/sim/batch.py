"""Endless tasks over a mixture of worlds: what learners step, whatever their API."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from selfheal_rl.core.situation import BeliefTables, FactMatrix, encode, legal_mask
from selfheal_rl.core.values import ConfigError
from selfheal_rl.trainer.sim.compile import CompiledWorld
from selfheal_rl.trainer.sim.deployments import Deployments, draw_deployments
from selfheal_rl.trainer.sim.dynamics import RepairCore
from selfheal_rl.trainer.sim.luck import key_of
from selfheal_rl.trainer.sim.state import Ended


@dataclass
class _Part:
    core: RepairCore
    rows: slice
    next_task: int


class RepairBatch:
    """N rows of tasks; a finished row starts its next task at once.

    Args:
        worlds: the mixture; rows are split evenly, in order.
        n: rows in all, at least one per world.
        tables: belief tables of the policy that will act.
        seed: keys all luck; also draws the deployments unless given.
        pool: deployments to draw per world.
        deployments: drawn deployments per world, instead of ``pool``.
        only_failing: skip tasks without a failure.
    """

    def __init__(
        self,
        worlds: Sequence[CompiledWorld],
        n: int,
        tables: BeliefTables,
        *,
        seed: int,
        pool: int = 1024,
        deployments: Sequence[Deployments] | None = None,
        only_failing: bool = True,
    ) -> None:
        if n < len(worlds) or not worlds:
            raise ConfigError(
                f"got n = {n} rows for {len(worlds)} worlds; expected n >= worlds >= 1"
            )
        self.n, self.tables, self.seed = n, tables, seed
        drawn = deployments or [
            draw_deployments(w, pool, seed * 1000 + i) for i, w in enumerate(worlds)
        ]
        edges = [n * i // len(worlds) for i in range(len(worlds) + 1)]
        self.parts = [
            _Part(
                RepairCore(w, d, hi - lo, seed=seed * 1000 + i, only_failing=only_failing),
                slice(lo, hi),
                0,
            )
            for i, (w, d, lo, hi) in enumerate(
                zip(worlds, drawn, edges[:-1], edges[1:], strict=True)
            )
        ]

    def reset(self) -> None:
        """Start every row afresh, from task 0 on."""
        for part in self.parts:
            part.next_task = 0
            self._refill(part, np.arange(part.core.n))

    def _refill(self, part: _Part, rows: NDArray[np.int64]) -> None:
        while len(rows):
            tasks = part.next_task + np.arange(len(rows))
            part.next_task += len(rows)
            draws = key_of(part.core.seed ^ 0x5EED, tasks) % np.uint64(len(part.core.deployments))
            waits = part.core.begin(rows, tasks, draws.astype(np.int64))
            part.core.alive[rows[~waits]] = False
            rows = rows[~waits]

    @property
    def facts(self) -> FactMatrix:
        """Facts of all rows, shape (N_FACTS, n)."""
        if len(self.parts) == 1:
            return self.parts[0].core.facts
        return np.concatenate([p.core.facts for p in self.parts], axis=1)

    def observe(self) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """``(observation, mask)`` of shapes (n, N_SLOTS) and (n, 17)."""
        facts = self.facts
        return encode(facts, self.tables), legal_mask(facts)

    def step(
        self, actions: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], NDArray[np.bool_], list[Ended]]:
        """One decision per row; finished rows begin their next task.

        Returns:
            ``(reward, done, ended)``; ``ended`` holds one record per world, ``row`` counted over
            all rows.
        """
        rewards, dones, records = [], [], []
        for part in self.parts:
            reward, done, ended = part.core.step(actions[part.rows])
            self._refill(part, np.flatnonzero(done))
            ended.row = ended.row + part.rows.start
            rewards.append(reward)
            dones.append(done)
            records.append(ended)
        if len(self.parts) == 1:
            return rewards[0], dones[0], records
        return np.concatenate(rewards), np.concatenate(dones), records
