"""Time as a dependency: real in production, virtual in tests, the lab and simulators."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """What the healer needs of time. All figures are seconds."""

    def now(self) -> float:
        """Seconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back."""
        ...

    def sleep(self, seconds: float) -> None:
        """Block for ``seconds``."""
        ...

    async def asleep(self, seconds: float) -> None:
        """Wait for ``seconds`` without blocking the event loop."""
        ...


class SystemClock:
    """The machine's own clock."""

    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)

    async def asleep(self, seconds: float) -> None:
        """Wait on the event loop."""
        await asyncio.sleep(seconds)


class VirtualClock:
    """A clock that jumps: sleeping advances it at once, so a run of hours takes moments."""

    def __init__(self, start_s: float = 1_700_000_000.0) -> None:
        self._start = start_s
        self._elapsed = 0.0

    def now(self) -> float:
        """Virtual seconds since the epoch."""
        return self._start + self._elapsed

    def monotonic(self) -> float:
        """Virtual seconds since the clock was made."""
        return self._elapsed

    def sleep(self, seconds: float) -> None:
        """Advance by ``seconds`` at once."""
        self.advance(seconds)

    async def asleep(self, seconds: float) -> None:
        """Advance by ``seconds`` and let other tasks run."""
        self.advance(seconds)
        await asyncio.sleep(0)

    def advance(self, seconds: float) -> None:
        """Move time forward.

        Raises:
            ValueError: ``seconds`` is negative.
        """
        if seconds < 0:
            raise ValueError(f"cannot advance by {seconds!r} s: expected a figure >= 0")
        self._elapsed += seconds
