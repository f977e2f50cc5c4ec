"""Validation: greedy play on held-out deployments, the same luck for every checkpoint."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from selfheal_rl.trainer.seeds import VALIDATE_SEED
from selfheal_rl.trainer.sim.compile import CompiledWorld
from selfheal_rl.trainer.sim.deployments import Deployments, draw_deployments
from selfheal_rl.trainer.sim.episodes import SimPolicy, TaskResults, run_tasks


@dataclass(frozen=True)
class HeldOut:
    """Tasks of one world, a fixed number per drawn deployment.

    Attributes:
        world: compiled.
        deployments: what ``draws`` indexes.
        tasks: ids, (M,).
        draws: deployment per task, (M,).
        seed: of the luck.
    """

    world: CompiledWorld
    deployments: Deployments
    tasks: NDArray[np.int64]
    draws: NDArray[np.int64]
    seed: int

    @classmethod
    def draw(cls, world: CompiledWorld, seed: int, draws: int, tasks: int) -> "HeldOut":
        """``tasks`` tasks for each of ``draws`` deployments under one of the seed families."""
        return cls(
            world,
            draw_deployments(world, draws, seed),
            np.arange(draws * tasks),
            np.repeat(np.arange(draws), tasks),
            seed,
        )

    def take(self, at: NDArray[np.int64]) -> "HeldOut":
        """The tasks with indices ``at``; ids and luck stay."""
        return replace(self, tasks=self.tasks[at], draws=self.draws[at])

    def play(self, policy: SimPolicy, *, only_failing: bool = True) -> TaskResults:
        """Every task once."""
        return run_tasks(
            self.world,
            self.deployments,
            policy,
            self.tasks,
            self.draws,
            seed=self.seed,
            only_failing=only_failing,
        )


@dataclass(frozen=True)
class Score:
    """Means over failing tasks.

    Attributes:
        utility: mean of the worlds' means.
        completion: share of tasks completed, likewise.
        worlds: mean utility by world.
        decisions: simulated to measure it.
    """

    utility: float
    completion: float
    worlds: dict[str, float]
    decisions: int


class Validator:
    """Scores policies on validation draws.

    Args:
        worlds: the training worlds.
        draws: deployments per world.
        tasks: failing tasks per deployment.
        seed: one of the seed families.
    """

    def __init__(
        self,
        worlds: Sequence[CompiledWorld],
        draws: int,
        tasks: int,
        seed: int = VALIDATE_SEED,
    ) -> None:
        self.sets = [HeldOut.draw(world, seed, draws, tasks) for world in worlds]

    def score(self, policy: SimPolicy) -> Score:
        """Play every task under ``policy``."""
        results = [held_out.play(policy) for held_out in self.sets]
        utilities = {
            held_out.world.world.id: float(result.utility.mean())
            for held_out, result in zip(self.sets, results, strict=True)
        }
        return Score(
            utility=float(np.mean(list(utilities.values()))),
            completion=float(np.mean([result.completed.mean() for result in results])),
            worlds=utilities,
            decisions=sum(result.decisions for result in results),
        )
