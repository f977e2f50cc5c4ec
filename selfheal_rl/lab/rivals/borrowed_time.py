"""Lend a library the lab's clock and a seeded generator, without touching anybody else's."""

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random
from types import ModuleType
from typing import Any

from selfheal_rl.core.values import Clock


class _LentTime:
    """Stands for the ``time`` module: its clocks and its sleep are virtual."""

    def __init__(self, clock: Clock) -> None:
        self.sleep = clock.sleep
        self.monotonic = clock.monotonic
        self.time = clock.now

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


@contextmanager
def borrowed_time(modules: Sequence[ModuleType], clock: Clock, rng: Random) -> Iterator[None]:
    """Within the block, ``time`` and ``random`` of these modules are the lab's.

    Only the modules' own names are exchanged, so every other user of ``time`` is left alone.

    Args:
        modules: of a library; a name they do not import is skipped.
        clock: virtual.
        rng: seeded.
    """
    lent = {"time": (time, _LentTime(clock)), "random": (random, rng)}
    changed = [
        (module, name, original)
        for module in modules
        for name, (original, _) in lent.items()
        if getattr(module, name, None) is original
    ]
    for module, name, _ in changed:
        setattr(module, name, lent[name][1])
    try:
        yield
    finally:
        for module, name, original in changed:
            setattr(module, name, original)
