"""Do simulator and runtime agree? Sampled states, taken through the runtime's own path."""

from dataclasses import dataclass

import numpy as np

from selfheal_rl.core.situation import encode, facts_of, legal_mask
from selfheal_rl.trainer.sim.batch import RepairBatch
from selfheal_rl.trainer.sim.belief_tables import belief_tables
from selfheal_rl.trainer.sim.compile import CompiledWorld
from selfheal_rl.trainer.sim.render import incident_of_row

_ROWS = 256
_MAX_ROUNDS_APART = 3


@dataclass(frozen=True)
class Agreement:
    """What the comparison of sampled states found.

    Attributes:
        states: compared.
        worst: largest difference of an observation's entry.
        masks_differ: states whose masks differ.
    """

    states: int
    worst: float
    masks_differ: int


def compare(world: CompiledWorld, states: int, *, seed: int, pool: int = 64) -> Agreement:
    """Sample states under random legal actions; encode each from its error snapshots.

    Every state is shown as an incident of ``ErrorSnapshot`` values, which go through the
    runtime's classifier, facts and encoder; the result is held against the simulator's own.

    Args:
        world: compiled.
        states: how many to compare.
        seed: of luck and actions.
        pool: deployments to draw.
    """
    tables = belief_tables([world])
    batch = RepairBatch([world], _ROWS, tables, seed=seed, pool=pool)
    batch.reset()
    rng = np.random.default_rng(seed)
    core, worst, differ, seen = batch.parts[0].core, 0.0, 0, 0
    while seen < states:
        observation, mask = batch.observe()
        for row in rng.permutation(_ROWS)[: min(_ROWS // 4, states - seen)]:
            facts = facts_of(incident_of_row(core, int(row)))
            worst = max(worst, float(np.abs(encode(facts, tables)[0] - observation[row]).max()))
            differ += int((legal_mask(facts)[0] != mask[row]).any())
            seen += 1
        for _ in range(int(rng.integers(1, _MAX_ROUNDS_APART + 1))):
            batch.step((rng.random(mask.shape) * mask).argmax(axis=1))
            _, mask = batch.observe()
    return Agreement(seen, worst, differ)
