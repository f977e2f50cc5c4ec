"""Keyed randomness: a draw depends on what it is for, never on the order of calls."""

import hashlib
import struct

_SCALE = 2.0**-53


def keyed_uniform(seed: int, *key: str | int) -> float:
    """A draw from [0, 1) that is a hash of ``seed`` and ``key``.

    The same key gives the same draw in every process, whatever was drawn before.

    Example:
        >>> keyed_uniform(7, "task-1", "search", 0, "jitter") == keyed_uniform(
        ...     7, "task-1", "search", 0, "jitter"
        ... )
        True
    """
    text = "\x1f".join((str(seed), *map(str, key)))
    digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()
    (value,) = struct.unpack("<Q", digest)
    return float((value >> 11) * _SCALE)
