"""stamina: ``@retry(on=Exception)`` with its defaults: 10 attempts within 45 s, then the error."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import stamina
import stamina._core
import tenacity
import tenacity.nap

ENDS_THE_RUN = False


def attempt(call: Callable[[], Any]) -> Any:
    """Run ``call`` under ``@stamina.retry(on=Exception)``."""
    return stamina.retry(on=Exception)(call)()


def modules() -> tuple[ModuleType, ...]:
    """Modules whose time is lent: stamina runs on tenacity."""
    return (stamina._core, tenacity, tenacity.nap)
