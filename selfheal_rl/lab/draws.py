"""Keyed randomness: a draw depends on its key alone, so every arm meets the same luck."""

import math
from random import Random


def rng_of(*key: object) -> Random:
    """A generator for one key, e.g. ``rng_of(seed, task, "faults")``.

    Args:
        key: parts whose texts make the key.
    """
    return Random("/".join(map(str, key)))


def log_uniform(rng: Random, low: float, high: float) -> float:
    """A figure between ``low`` and ``high`` whose logarithm is uniform, rounded to 0.1."""
    return round(math.exp(rng.uniform(math.log(low), math.log(high))), 1)
