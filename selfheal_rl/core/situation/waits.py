"""How long ``backoff`` waits: one formula for the runtime and the simulator."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

BASE_WAIT_S = 1.0
"""First wait. Temporal and LangChain start at 1 s as well."""
MAX_WAIT_S = 60.0
"""Largest exponential wait (LangChain's cap); a server's retry-after may ask for more."""
JITTER = 0.25
"""Share of the exponential part that jitter may take away."""
_MAX_EXPONENT = 10


def planned_wait_s(n_backoffs: Any, retry_after_s: Any) -> NDArray[np.float32]:
    """The longest time the next ``backoff`` waits, before jitter.

    ``max(retry_after, min(60, 2**n))``: exponential, capped, and never below what the server asked.

    Args:
        n_backoffs: backoffs already made in this incident, scalar or shape (N,).
        retry_after_s: the server's figure in seconds, 0 when absent, scalar or shape (N,).

    Returns:
        Seconds, float32, of the broadcast shape.
    """
    exponent = np.minimum(np.asarray(n_backoffs, np.float32), _MAX_EXPONENT)
    grown = np.minimum(np.float32(BASE_WAIT_S) * np.exp2(exponent), np.float32(MAX_WAIT_S))
    return np.maximum(grown, np.asarray(retry_after_s, np.float32))


def jittered_wait_s(n_backoffs: Any, retry_after_s: Any, uniform: Any) -> NDArray[np.float32]:
    """The wait with jitter; at most :func:`planned_wait_s` and never below ``retry_after_s``.

    Args:
        n_backoffs: as in :func:`planned_wait_s`.
        retry_after_s: as in :func:`planned_wait_s`.
        uniform: a draw from [0, 1), scalar or shape (N,).
    """
    factor = np.float32(1.0) - np.float32(JITTER) * np.asarray(uniform, np.float32)
    grown = planned_wait_s(n_backoffs, np.float32(0.0)) * factor
    return np.maximum(grown, np.asarray(retry_after_s, np.float32)).astype(np.float32)
