"""States met in training by a network: for parity checks and golden decisions."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from selfheal_rl.core.situation import BeliefTables
from selfheal_rl.trainer.seeds import TRAIN_SEED
from selfheal_rl.trainer.sim.batch import RepairBatch
from selfheal_rl.trainer.train.network import MeanNetwork, Network
from selfheal_rl.trainer.train.recipe import Recipe, training_worlds
from selfheal_rl.trainer.train.rundir import privileged_inputs
from selfheal_rl.trainer.train.vecenv import RepairVecEnv

_EXPLORED = 0.2


@dataclass(frozen=True)
class States:
    """N states.

    Attributes:
        facts: float32 (N_FACTS, N).
        observation: float32 (N, width).
        mask: bool (N, 17).
    """

    facts: NDArray[np.float32]
    observation: NDArray[np.float32]
    mask: NDArray[np.bool_]


def visit(
    recipe: Recipe,
    tables: BeliefTables,
    network: Network | MeanNetwork,
    n: int,
    rng: np.random.Generator,
) -> States:
    """``n`` states that ``network`` meets, a fifth of its choices replaced by random ones."""
    rows = 512
    batch = RepairBatch(training_worlds(recipe), rows, tables, seed=TRAIN_SEED, pool=64)
    env = RepairVecEnv(batch, privileged_inputs() if recipe.privileged else None)
    observation = env.reset()
    facts: list[NDArray[np.float32]] = []
    observations: list[NDArray[np.float32]] = []
    masks: list[NDArray[np.bool_]] = []
    while len(facts) * rows < n:
        facts.append(batch.facts.copy())
        observations.append(np.ascontiguousarray(observation))
        masks.append(env.mask)
        logits = np.where(env.mask, network.logits(observation), -np.inf)
        random = (env.mask * rng.random(env.mask.shape)).argmax(axis=1)
        explores = rng.random(rows) < _EXPLORED
        env.step_async(np.where(explores, random, logits.argmax(axis=1)))
        observation = env.step_wait()[0]
    return States(
        np.ascontiguousarray(np.concatenate(facts, axis=1)[:, :n]),
        np.ascontiguousarray(np.concatenate(observations)[:n]),
        np.ascontiguousarray(np.concatenate(masks)[:n]),
    )
