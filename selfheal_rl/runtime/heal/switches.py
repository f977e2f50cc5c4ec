"""Two switches for the whole process: healing off, and a mode for a user's own tests."""

from collections.abc import Iterator
from contextlib import contextmanager

from selfheal_rl.core.values import ConfigError

_active = True
_test_attempts: int | None = None


def set_active(active: bool) -> None:
    """Turn healing on or off everywhere; off, a failing call fails as if it were not wrapped.

    Args:
        active: False to stop all healers at once.
    """
    global _active
    _active = active


def is_active() -> bool:
    """Whether healers act."""
    return _active


def set_testing(testing: bool, *, attempts: int = 1) -> None:
    """Switch the mode for tests of an agent: nothing waits, and repairs are capped.

    Args:
        testing: True to switch it on.
        attempts: repair attempts per incident while it is on, 0 or more.

    Raises:
        ConfigError: ``attempts`` is negative.

    Example:
        >>> set_testing(True, attempts=2)
        >>> attempts_cap()
        2
        >>> set_testing(False)
    """
    global _test_attempts
    if attempts < 0:
        raise ConfigError(f"attempts is {attempts!r}; expected a number >= 0")
    _test_attempts = attempts if testing else None


def attempts_cap() -> int | None:
    """The cap of the mode for tests; None when it is off."""
    return _test_attempts


@contextmanager
def while_testing(attempts: int = 1) -> Iterator[None]:
    """The mode for tests inside a ``with`` block.

    Args:
        attempts: as for :func:`set_testing`.
    """
    before = _test_attempts
    set_testing(True, attempts=attempts)
    try:
        yield
    finally:
        set_testing(before is not None, attempts=before or 0)
