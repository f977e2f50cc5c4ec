"""tenacity: bare ``@retry``. It never stops and never waits; the error comes in a RetryError."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import tenacity
import tenacity.nap

ENDS_THE_RUN = False


def attempt(call: Callable[[], Any]) -> Any:
    """Run ``call`` under ``@tenacity.retry``."""
    return tenacity.retry(call)()


def modules() -> tuple[ModuleType, ...]:
    """Modules whose time is lent."""
    return (tenacity, tenacity.nap)
