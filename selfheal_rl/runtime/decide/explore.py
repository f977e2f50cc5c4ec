"""Opt-in exploration: without it a log has no overlap and can judge no other policy."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from selfheal_rl.core.situation import FACTS
from selfheal_rl.core.values import ACTIONS, LEVEL, N_ACTIONS, TERMINAL, ConfigError, RepairAction

A = RepairAction
MAX_LEVEL = 2
_REVERSIBLE_READ = frozenset(
    {
        A.CONTINUE,
        A.RETRY,
        A.BACKOFF,
        A.FIX_ARGUMENTS,
        A.REPAIR_OUTPUT,
        A.INSPECT,
        A.FALLBACK_TOOL,
        A.RESET_COMPONENT,
    }
)
_REVERSIBLE_WRITE = frozenset({A.CONTINUE, A.RETRY, A.BACKOFF, A.INSPECT})
"""For a call that writes: only what repeats it as it is (legality has shown that this is safe)."""


def _members(actions: frozenset[RepairAction]) -> NDArray[np.bool_]:
    allowed = [a in actions and a not in TERMINAL and LEVEL[a] <= MAX_LEVEL for a in ACTIONS]
    return np.array(allowed, np.bool_)


_READ, _WRITE = _members(_REVERSIBLE_READ), _members(_REVERSIBLE_WRITE)
_WRITES = [FACTS["effects.write"], FACTS["effects.unknown"]]


@dataclass(frozen=True, slots=True)
class Exploration:
    """How often the healer tries something else than its selector says.

    Attributes:
        epsilon: share of decisions that are explored, 0 to 0.5. Among the legal, reversible
            actions of level 2 and below one is drawn evenly; at most once an incident.
    """

    epsilon: float

    def __post_init__(self) -> None:
        if not 0.0 <= self.epsilon <= 0.5:
            raise ConfigError(f"explore is {self.epsilon!r}; expected a share from 0 to 0.5")


def explorable(facts: NDArray[np.float32], mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Actions that exploration may choose at a single row.

    Args:
        facts: float32, shape (N_FACTS, 1).
        mask: bool, shape (17,).
    """
    writes = bool(facts[_WRITES, 0].sum() > 0.5)
    return mask & (_WRITE if writes else _READ)


def mix(
    base: NDArray[np.floating], candidates: NDArray[np.bool_], epsilon: float
) -> NDArray[np.float64]:
    """Probabilities of the whole selector: (1 - epsilon) base + epsilon uniform(candidates).

    Args:
        base: shape (17,), sums to 1.
        candidates: bool, shape (17,); when none is True the base is returned.
        epsilon: share that is explored.
    """
    total = int(candidates.sum())
    composite = np.asarray(base, np.float64)
    if not total or epsilon <= 0.0:
        return composite
    return (1.0 - epsilon) * composite + epsilon * candidates / total


def pick(probabilities: NDArray[np.float64], uniform: float) -> int:
    """The action at quantile ``uniform`` of ``probabilities`` (17,); never one of probability 0."""
    edges = np.cumsum(probabilities)
    index = int(np.searchsorted(edges, uniform * edges[-1], side="right"))
    if index >= N_ACTIONS or probabilities[index] <= 0.0:
        index = int(np.flatnonzero(probabilities > 0.0)[-1])
    return index
