"""Keyed randomness: every draw is a hash of what it is for, never of the order of calls.

Two policies that reach the same place in the same task meet the same luck (twin runs), and
running many tasks at once changes nothing. The mixer is SplitMix64's finaliser (Steele, Lea and
Flood, OOPSLA 2014).
"""

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.uint64]
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_M1 = np.uint64(0xBF58476D1CE4E5B9)
_M2 = np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31 = np.uint64(30), np.uint64(27), np.uint64(31)


def mix(x: Keys) -> Keys:
    """Hash 64-bit keys, shape (N,), to 64 well-mixed bits."""
    x = x + _GOLDEN
    x ^= x >> _S30
    x *= _M1
    x ^= x >> _S27
    x *= _M2
    x ^= x >> _S31
    return x


def key_of(seed: int, ids: NDArray[np.int64]) -> Keys:
    """One key per id under a seed; ids of shape (N,)."""
    base = mix(np.array([seed & 0xFFFFFFFFFFFFFFFF], np.uint64))
    return mix(ids.astype(np.uint64) ^ base)


def draw(keys: Keys, *parts: NDArray[np.int64] | int) -> Keys:
    """Bits for the place named by ``parts`` (each below 2**12 or so) under ``keys``."""
    place: NDArray[np.int64] | int = 0
    for part in parts:
        place = place * 4099 + part
    return mix(keys ^ (np.asarray(place, np.int64).astype(np.uint64) * _M2))


def fraction(bits: Keys, shift: int, width: int) -> NDArray[np.float32]:
    """A uniform in (0, 1) from ``width`` (at most 24) of the bits, starting at ``shift``."""
    part = (bits >> np.uint64(shift)).astype(np.uint32) & np.uint32((1 << width) - 1)
    return (part.astype(np.float32) + np.float32(0.5)) * np.float32(2.0**-width)


def integer(bits: Keys, shift: int, width: int) -> NDArray[np.int64]:
    """An integer in [0, 2**width) from the bits starting at ``shift``."""
    return ((bits >> np.uint64(shift)) & np.uint64((1 << width) - 1)).astype(np.int64)
