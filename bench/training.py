"""Wall-clock to the same validation utility: our learner against stock MaskablePPO.

Stock is sb3-contrib's ``MaskablePPO`` with its defaults on 8 scalar ``Repair-v0`` environments in
``DummyVecEnv``, trained for a fixed time. The target is the best validation utility it reached;
both sides are timed until they first reach it, validations left out. The same world, the same
deployments to validate on, one process, one thread, one after the other.
"""

import time
from collections.abc import Callable

import gymnasium as gym
import torch
from sb3_contrib import MaskablePPO
from stable_baselines3.common.vec_env import DummyVecEnv

from selfheal_rl.trainer.seeds import TRAIN_SEED
from selfheal_rl.trainer.sim import ENV_ID, RepairBatch, belief_tables, load_world
from selfheal_rl.trainer.train.ladder_play import TablePolicy, starting_tables
from selfheal_rl.trainer.train.network import Network, NetworkPolicy
from selfheal_rl.trainer.train.recipe import load_recipe
from selfheal_rl.trainer.train.seed_run import make_learner
from selfheal_rl.trainer.train.validate import Validator

WORLD = "mcp-office"
STOCK_S = 120.0
"""Seconds of training given to the stock learner."""
LIMIT_S = 120.0
"""Seconds after which ours is stopped whether or not it got there."""
SCALAR_ENVS = 8
Row = dict[str, object]


class _Timed:
    """A learning curve over seconds of training; validation stops the clock."""

    def __init__(self, score: Callable[[], float]) -> None:
        self._score = score
        self.seconds = 0.0
        self.decisions = 0
        self.curve: list[tuple[float, float]] = []

    def round(self, work: Callable[[], int]) -> float:
        """Do some training; returns the utility after it. ``work`` returns its decisions."""
        start = time.perf_counter()
        self.decisions += work()
        self.seconds += time.perf_counter() - start
        self.curve.append((self.seconds, self._score()))
        return self.curve[-1][1]

    def first(self, target: float) -> float | None:
        """Seconds to the first utility of at least ``target``."""
        return next((s for s, utility in self.curve if utility >= target), None)


def _stock(score: Callable[[Network], float]) -> _Timed:
    makers = [lambda i=i: gym.make(ENV_ID, world=WORLD, pool_seed=i) for i in range(SCALAR_ENVS)]
    model = MaskablePPO("MlpPolicy", DummyVecEnv(makers), seed=0, device="cpu")
    timed = _Timed(lambda: score(Network.of(model.policy)))
    rollout = model.n_steps * SCALAR_ENVS

    def work() -> int:
        model.learn(rollout, reset_num_timesteps=False)
        return rollout

    while timed.seconds < STOCK_S:
        timed.round(work)
    return timed


def _ours(score: Callable[[Network], float], target: float) -> _Timed:
    recipe = load_recipe("quick")
    world = load_world(WORLD)
    batch = RepairBatch([world], recipe.ppo.envs, belief_tables([world]), seed=TRAIN_SEED)
    learner = make_learner(recipe, 0, batch)
    learner.begin()
    timed = _Timed(lambda: score(Network.of(learner.policy)))

    def work() -> int:
        learner.advance(timed.decisions / recipe.decisions)
        return learner.rollout_size

    while timed.seconds < LIMIT_S and timed.round(work) < target:
        pass
    return timed


def run() -> list[Row]:
    """Rows for ``bench/run.py``."""
    torch.set_num_threads(1)
    world = load_world(WORLD)
    tables = belief_tables([world])
    validator = Validator([world], 16, 64)

    def score(network: Network) -> float:
        return validator.score(NetworkPolicy(network, tables)).utility

    rules = validator.score(TablePolicy(starting_tables()["hand-ladder"])).utility
    stock = _stock(score)
    target = max(utility for _, utility in stock.curve)
    ours = _ours(score, target)
    against = f"stock MaskablePPO, {SCALAR_ENVS} scalar envs"
    reached, needed = stock.first(target), ours.first(target)
    assert reached is not None
    return [
        {
            "name": f"training: to utility {target:.3f} in {WORLD} (hand ladder {rules:.3f})",
            "value": needed if needed is not None else ours.seconds,
            "unit": "s" if needed is not None else "s, not reached",
            "against": f"{against}: {reached:.1f} s",
            "ratio": reached / needed if needed else None,
        },
        {
            "name": "training: decisions per second, updates included",
            "value": ours.decisions / ours.seconds,
            "unit": "1/s",
            "against": f"{against}: {stock.decisions / stock.seconds:,.0f}/s",
            "ratio": (ours.decisions / ours.seconds) / (stock.decisions / stock.seconds),
        },
    ]
