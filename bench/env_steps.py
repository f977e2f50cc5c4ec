"""Decisions a second of the vectorised core, observation and mask included; one core."""

import statistics
import time
from collections.abc import Callable

import gymnasium as gym
import numpy as np

from selfheal_rl.core.situation import encode, legal_mask
from selfheal_rl.trainer.sim import ENV_ID, RepairBatch, belief_tables, load_world

TASKS = 4096
STEPS = 150
WORLD = "mcp-office"


def _median(function: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def _vectorised() -> tuple[float, float, float]:
    """Seconds per decision of step plus observe, and of encode plus mask; best round, median."""
    world = load_world(WORLD)
    tables = belief_tables([world])
    batch = RepairBatch([world], TASKS, tables, seed=1)
    batch.reset()
    rng = np.random.default_rng(0)
    _, mask = batch.observe()
    times = []
    for _ in range(STEPS):
        actions = (rng.random(mask.shape, dtype=np.float32) * mask).argmax(axis=1)
        start = time.perf_counter()
        batch.step(actions)
        _, mask = batch.observe()
        times.append(time.perf_counter() - start)
    facts = batch.facts
    encoding = _median(lambda: (encode(facts, tables), legal_mask(facts)), STEPS)
    tenth = sorted(times)[len(times) // 10]
    return statistics.median(times) / TASKS, tenth / TASKS, encoding / TASKS


def _single() -> float:
    """Seconds per decision of ``gymnasium.make`` with one task."""
    env = gym.make(ENV_ID, world=WORLD)
    env.reset(seed=0)
    rng = np.random.default_rng(0)

    def play() -> None:
        for _ in range(100):
            mask = env.unwrapped.action_masks()  # type: ignore[attr-defined]
            *_, done, _, _ = env.step(int(rng.choice(np.flatnonzero(mask))))
            if done:
                env.reset()

    return _median(play, 10) / 100


def run() -> list[dict[str, object]]:
    """Rows ``{name, value, unit, against, ratio}``."""
    median, tenth, encoding = _vectorised()
    single = _single()
    against = "one task at a time through gymnasium.make, same run"
    return [
        {
            "name": f"environment decisions, {TASKS} tasks, median step",
            "value": 1.0 / median,
            "unit": "decisions/s",
            "against": against,
            "ratio": single / median,
        },
        {
            "name": f"environment decisions, {TASKS} tasks, fastest tenth of steps",
            "value": 1.0 / tenth,
            "unit": "decisions/s",
            "against": against,
            "ratio": single / tenth,
        },
        {
            "name": "encode and mask",
            "value": encoding * 1e6,
            "unit": "us a row",
            "against": "step, encode and mask together",
            "ratio": encoding / median,
        },
    ]


if __name__ == "__main__":
    for row in run():
        print(row)
