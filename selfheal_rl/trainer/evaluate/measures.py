"""Measures with 95 % intervals that cover deployments and training seeds.

Every interval is a percentile bootstrap: deployments are drawn with replacement as clusters, and
so are training seeds (Davison and Hinkley, Bootstrap Methods, 1997, ch. 3.8).
"""

from dataclasses import asdict, dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
REPLICATES = 2000
WORST = 0.1
"""Share of the deployments that make the worst decile."""
_TINY = 1e-12


@dataclass(frozen=True)
class Figure:
    """A mean and its 95 % interval."""

    mean: float
    low: float
    high: float

    def to_json(self) -> dict[str, float]:
        """Plain data."""
        return asdict(self)

    @classmethod
    def of(cls, mean: float, replicates: F64) -> "Figure":
        """The interval holds 95 % of the replicates."""
        low, high = np.percentile(replicates, [2.5, 97.5])
        return cls(float(mean), float(low), float(high))


class Bootstrap:
    """Resamples of deployments and training seeds, the same for all measures of one world.

    Args:
        draws: number of deployments.
        rng: source of the resamples.
        replicates: how many.
    """

    def __init__(self, draws: int, rng: np.random.Generator, replicates: int = REPLICATES) -> None:
        self.draws, self.replicates = draws, replicates
        self._draw = rng.integers(0, draws, (replicates, draws))
        self._rng = rng
        self._seeds: dict[int, NDArray[np.int64]] = {}

    def per_draw(self, values: F64) -> F64:
        """Means over resampled seeds of each resampled deployment, shape (replicates, draws).

        Args:
            values: per seed and draw, shape (seeds, draws).
        """
        n = len(values)
        if n == 1:
            return np.asarray(values[0][self._draw], np.float64)
        if n not in self._seeds:
            self._seeds[n] = self._rng.integers(0, n, (self.replicates, n))
        picked = np.stack([(self._seeds[n] == s).mean(axis=1) for s in range(n)], axis=1)
        by_draw = picked @ values
        return np.asarray(np.take_along_axis(by_draw, self._draw, axis=1), np.float64)

    def means(self, values: F64) -> F64:
        """Replicates of the overall mean, shape (replicates,)."""
        return np.asarray(self.per_draw(values).mean(axis=1), np.float64)

    def mean(self, values: F64) -> Figure:
        """The mean of per-seed, per-draw means, shape (seeds, draws)."""
        return Figure.of(float(values.mean()), self.means(values))

    def worst_decile(self, values: F64) -> Figure:
        """Mean over the worst tenth of the deployments."""
        k = n_worst(self.draws)
        point = float(np.sort(values.mean(axis=0))[:k].mean())
        resampled = np.partition(self.per_draw(values), k - 1, axis=1)[:, :k]
        return Figure.of(point, resampled.mean(axis=1))

    def difference(self, values: F64, other: F64) -> Figure:
        """Paired difference of means."""
        point = float(values.mean() - other.mean())
        return Figure.of(point, self.means(values) - self.means(other))

    def gap_closed(self, policy: F64, rule: F64, ceiling: F64) -> Figure | None:
        """``(U_policy - U_rule) / (U_ceiling - U_rule)``; None where there is no gap."""
        gap = float(ceiling.mean() - rule.mean())
        if gap <= _TINY:
            return None
        base = self.means(rule)
        gaps = self.means(ceiling) - base
        point = float(policy.mean() - rule.mean()) / gap
        # A resample without a gap says nothing; it is pushed to the side its numerator points to.
        return Figure.of(point, (self.means(policy) - base) / np.maximum(gaps, _TINY))


def n_worst(draws: int) -> int:
    """Number of deployments in the worst decile."""
    return max(1, round(WORST * draws))


@dataclass(frozen=True)
class Twins:
    """A policy and the agent alone on the same tasks with the same luck.

    Attributes:
        p: P(the agent alone fails).
        r: P(the policy completes | alone fails).
        d: P(the policy fails | alone completes).
        break_even: p* = d / (r + d), the share of failing tasks above which the policy pays.
        tasks: compared.
    """

    p: Figure
    r: Figure
    d: Figure
    break_even: Figure
    tasks: int


def twins(policy: list[NDArray[np.bool_]], alone: NDArray[np.bool_], boot: Bootstrap) -> Twins:
    """Compare completions task by task.

    Args:
        policy: per training seed, bool of shape (draws, tasks).
        alone: the same tasks under ``agent-alone``.
        boot: resamples over these draws.
    """
    fails = (~alone).mean(axis=1)[None]
    rescued = np.stack([(c & ~alone).mean(axis=1) for c in policy])
    broken = np.stack([(~c & alone).mean(axis=1) for c in policy])
    p = boot.means(fails)
    r = boot.means(rescued) / np.maximum(p, _TINY)
    d = boot.means(broken) / np.maximum(1.0 - p, _TINY)
    fail = float(fails.mean())
    r0 = float(rescued.mean()) / max(fail, _TINY)
    d0 = float(broken.mean()) / max(1.0 - fail, _TINY)
    return Twins(
        p=Figure.of(fail, p),
        r=Figure.of(r0, r),
        d=Figure.of(d0, d),
        break_even=Figure.of(d0 / max(r0 + d0, _TINY), d / np.maximum(r + d, _TINY)),
        tasks=alone.size * len(policy),
    )


def share(hits: int, n: int) -> Figure | None:
    """A share with Wilson's 95 % interval (1927); None of nothing."""
    if n == 0:
        return None
    z, p = 1.959964, hits / n
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return Figure(p, max(0.0, middle - half), min(1.0, middle + half))
