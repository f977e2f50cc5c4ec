"""A contextual bandit: one linear score per action, learned by ridge regression in the simulator.

    w_a = argmin_w sum_i (x_i . w - g_i)^2 + ridge |w|^2   over the decisions i that took action a

with x the observation and g the utility from the decision to the end of the task. It plans nothing
and gives no credit beyond regression: what a repair policy gains over it is the gain of learning
to act in sequence. Explores epsilon-greedily (Sutton and Barto, 2018, ch. 2) and refits after each
round, older rounds fading.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from selfheal_rl.core.situation import N_SLOTS, BeliefTables
from selfheal_rl.core.values import N_ACTIONS, ConfigError
from selfheal_rl.trainer.seeds import TRAIN_SEED
from selfheal_rl.trainer.sim.compile import CompiledWorld
from selfheal_rl.trainer.sim.deployments import draw_deployments
from selfheal_rl.trainer.sim.dynamics import RepairCore
from selfheal_rl.trainer.sim.episodes import View, run_tasks

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
_CLOSED = np.float32(-1e9)
_NEVER_TRIED = -1e4
_POOL = 256


@dataclass(frozen=True)
class BanditOptions:
    """How the bandit learns.

    Attributes:
        rounds: refits.
        tasks: failing tasks per world and round.
        explore: share of random legal actions, from the first to the last round, geometric.
        ridge: of the regression, in rows.
        fade: weight that earlier rounds keep at each refit.
    """

    rounds: int = 16
    tasks: int = 4096
    explore: tuple[float, float] = (1.0, 0.05)
    ridge: float = 3.0
    fade: float = 0.8

    def __post_init__(self) -> None:
        if self.rounds < 1 or self.tasks < 1 or not 0.0 <= self.fade <= 1.0:
            raise ConfigError(f"got {self}; expected rounds, tasks >= 1 and fade in [0, 1]")


@dataclass(frozen=True)
class Bandit:
    """Linear scores.

    Attributes:
        weight: float32 (17, N_SLOTS).
        bias: float32 (17,).
        value_weight: float32 (N_SLOTS,), of the utility to come under its own play.
        value_bias: beside it.
        tables: belief tables of its observation.
        decisions: simulated to learn it.
    """

    weight: F32
    bias: F32
    value_weight: F32
    value_bias: float
    tables: BeliefTables
    decisions: int
    name: str = "bandit"

    def choose(self, view: View) -> NDArray[np.int64]:
        """The legal action of the highest score."""
        score = view.observation(self.tables) @ self.weight.T + self.bias
        return np.asarray(np.where(view.mask, score, _CLOSED).argmax(axis=1), np.int64)


class _Explorer:
    name = "bandit"

    def __init__(self, bandit: Bandit, share: float, rng: np.random.Generator) -> None:
        self._bandit, self._share, self._rng = bandit, share, rng

    def choose(self, view: View) -> NDArray[np.int64]:
        greedy = self._bandit.choose(view)
        random = (view.mask * self._rng.random(view.mask.shape)).argmax(axis=1)
        explores = self._rng.random(len(greedy)) < self._share
        return np.where(explores, random, greedy).astype(np.int64)


class _Regression:
    """Sums of outer products per action; the last column of x is 1."""

    def __init__(self, ridge: float) -> None:
        self._ridge = ridge
        self._xx = np.zeros((N_ACTIONS, N_SLOTS + 1, N_SLOTS + 1))
        self._xy = np.zeros((N_ACTIONS, N_SLOTS + 1))

    def fade(self, factor: float) -> None:
        self._xx *= factor
        self._xy *= factor

    def add(self, x: F32, actions: NDArray[np.int64], gain: F64) -> None:
        one = np.concatenate([x, np.ones((len(x), 1), np.float32)], axis=1)
        for a in np.unique(actions).tolist():
            rows = one[actions == a]
            self._xx[a] += rows.T @ rows
            self._xy[a] += gain[actions == a] @ rows

    def value(self) -> tuple[F32, float]:
        """Regression over all actions together."""
        damp = np.eye(N_SLOTS + 1) * self._ridge
        w = np.linalg.solve(self._xx.sum(axis=0) + damp, self._xy.sum(axis=0))
        return w[:-1].astype(np.float32), float(w[-1])

    def solve(self) -> tuple[F32, F32]:
        weight = np.zeros((N_ACTIONS, N_SLOTS), np.float32)
        bias = np.full(N_ACTIONS, _NEVER_TRIED, np.float32)
        damp = np.eye(N_SLOTS + 1) * self._ridge
        damp[-1, -1] = 1e-3  # the mean is not shrunk
        for a in range(N_ACTIONS):
            if self._xx[a, -1, -1] >= 1.0:
                w = np.linalg.solve(self._xx[a] + damp, self._xy[a])
                weight[a], bias[a] = w[:-1], w[-1]
        return weight, bias


def train_bandit(
    worlds: Sequence[CompiledWorld],
    tables: BeliefTables,
    options: BanditOptions,
    rng: np.random.Generator,
    progress: Callable[[int], None] | None = None,
) -> Bandit:
    """Learn on training draws.

    Args:
        worlds: the mixture.
        tables: its belief tables.
        options: see there.
        rng: of the exploration.
        progress: told the number of decisions after each round.
    """
    drawn = [draw_deployments(w, _POOL, TRAIN_SEED + i) for i, w in enumerate(worlds)]
    weight = np.zeros((N_ACTIONS, N_SLOTS), np.float32)
    zeros = np.zeros(N_SLOTS, np.float32)
    bandit = Bandit(weight, np.zeros(N_ACTIONS, np.float32), zeros, 0.0, tables, 0)
    regression = _Regression(options.ridge)
    for k, share in enumerate(np.geomspace(*options.explore, options.rounds)):
        regression.fade(options.fade)
        explorer = _Explorer(bandit, float(share), rng)
        tasks = k * options.tasks + np.arange(options.tasks)
        decisions = bandit.decisions
        for i, (world, deployments) in enumerate(zip(worlds, drawn, strict=True)):
            seen: list[tuple[F32, NDArray[np.int64], NDArray[np.int64], F64]] = []

            def watch(
                core: RepairCore,
                index: NDArray[np.int64],
                actions: NDArray[np.int64],
                seen: list[tuple[F32, NDArray[np.int64], NDArray[np.int64], F64]] = seen,
            ) -> None:
                observation = View(core).observation(tables)
                seen.append((observation, index.copy(), actions, core.utility.copy()))

            result = run_tasks(
                world,
                deployments,
                explorer,
                tasks,
                tasks % _POOL,
                seed=TRAIN_SEED + i,
                only_failing=True,
                observer=watch,
            )
            for observation, index, actions, before in seen:
                regression.add(observation, actions, result.utility[index] - before)
            decisions += result.decisions
        bandit = Bandit(*regression.solve(), *regression.value(), tables, decisions)
        if progress is not None:
            progress(decisions)
    return bandit
