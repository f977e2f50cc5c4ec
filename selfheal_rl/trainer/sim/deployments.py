"""Deployments: what is unknown about a world, drawn. One draw is one system's true figures."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from selfheal_rl.trainer.sim.compile import PICK, CompiledWorld

TRAINING_POOL = 1024
HELD_OUT = 32


@dataclass(frozen=True)
class Deployments:
    """D drawn deployments of one world.

    Attributes:
        cause_pick: int64 (D, PICK), inverse distribution function over causes.
        success: float32 (D, C, 17), P(action heals | cause) at first use.
        rate: float32 (D,), factor on the failure rate.
    """

    cause_pick: NDArray[np.int16]
    success: NDArray[np.float32]
    rate: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.rate)


def draw_deployments(compiled: CompiledWorld, n: int, seed: int) -> Deployments:
    """Draw ``n`` deployments: Beta posteriors of repairs, a Dirichlet over causes.

    Args:
        compiled: the world.
        n: how many.
        seed: keep training, tuning, validation and report seeds apart.
    """
    rng = np.random.default_rng([seed, 7])
    world = compiled.world
    if world.exact:
        picks = _picks(compiled.share[None, :])
        index = np.zeros(n, np.int64)
        mean = compiled.mean_success[None]
        return Deployments(picks[index], mean[index], np.ones(n, np.float32))
    share = compiled.share / compiled.share.sum()
    shares = rng.dirichlet(share * world.share_n + 1e-3, size=n)
    ok, misses = compiled.ok + 0.5, np.maximum(compiled.n - compiled.ok, 0.0) + 0.5
    success = rng.beta(ok, misses, size=(n, *ok.shape))
    success[:, compiled.n <= 0] = 0.0
    rate = np.exp(rng.normal(0.0, 0.25, size=n))  # assumed: sd 25 % between deployments
    return Deployments(_picks(shares), success.astype(np.float32), rate.astype(np.float32))


def _picks(shares: NDArray[np.float64]) -> NDArray[np.int16]:
    edges = np.cumsum(shares, axis=1)
    edges /= edges[:, -1:]
    cells = (np.arange(PICK) + 0.5) / PICK
    rows = [np.searchsorted(row, cells) for row in edges]
    picks: NDArray[np.int16] = np.minimum(np.stack(rows), shares.shape[1] - 1).astype(np.int16)
    return picks
