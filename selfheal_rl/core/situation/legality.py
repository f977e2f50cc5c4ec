"""Which actions are open in a situation, by the same array code for one row and for N.

Every decision that does not end the incident uses up one of at most
``MAX_ATTEMPTS_INCIDENT`` attempts; when none is left only ``escalate`` and ``degrade`` are legal.
So an incident has at most ``MAX_ATTEMPTS_INCIDENT + 1`` decisions, and a task at most
``MAX_ATTEMPTS_TASK`` plus one per incident. The bound is over decisions; over time it holds only
where a call can be stopped.
"""

import numpy as np
from numpy.typing import NDArray

from selfheal_rl.core.situation.facts import FactMatrix
from selfheal_rl.core.situation.layout import AVAILABLE, FACTS, MAX_ATTEMPTS_INCIDENT, RUN
from selfheal_rl.core.values import (
    ACTIONS,
    CATEGORIES,
    CATEGORY,
    N_ACTIONS,
    REPEATS,
    TERMINAL,
    Category,
    FaultKind,
    IllegalMaskError,
    RepairAction,
)

A = RepairAction
MAX_DECISIONS_INCIDENT = MAX_ATTEMPTS_INCIDENT + 1

SPENDS_TOKENS = frozenset(
    {A.REPROMPT, A.FALLBACK_MODEL, A.REFRESH_CONTEXT, A.APPLY_FIX, A.REPLAN}
)
SAME_DEPENDENCY = frozenset({A.RETRY, A.BACKOFF, A.FIX_ARGUMENTS, A.APPLY_FIX})
"""Actions that call the failing dependency again without repairing it first."""

_RULES: tuple[tuple[str, frozenset[RepairAction]], ...] = (
    ("a possible side effect would be repeated", REPEATS),
    ("no attempt is left", frozenset(ACTIONS) - TERMINAL),
    ("the wait would pass the deadline", frozenset({A.BACKOFF})),
    ("the deadline has passed", frozenset(ACTIONS) - TERMINAL),
    ("the token or money budget is spent", SPENDS_TOKENS),
    ("the breaker of this dependency is open", SAME_DEPENDENCY),
    (
        "part of the stream has been delivered",
        frozenset(ACTIONS) - TERMINAL - {A.CONTINUE},
    ),
    ("the output is unsafe", frozenset(ACTIONS) - {A.ESCALATE}),
)
_N_FLAGS = len(_RULES)


def _close_matrix() -> NDArray[np.float32]:
    close = np.zeros((N_ACTIONS, _N_FLAGS + len(CATEGORIES)), np.float32)
    for column, (_, actions) in enumerate(_RULES):
        close[sorted(actions), column] = 1.0
    for column, category in enumerate(CATEGORIES, start=_N_FLAGS):
        if category is not Category.WAIT:
            members = [a for a in ACTIONS if CATEGORY[a] is category]
            close[members, column] = 1.0
    return close


_CLOSE = _close_matrix()
_WRITE, _UNKNOWN = FACTS["effects.write"], FACTS["effects.unknown"]
_NOT_STARTED = FACTS["effect_state.not_started"]
_HAS_KEY, _PROBED = FACTS["flag.has_key"], FACTS["flag.probed_not_started"]
_ATTEMPTS, _TASK_ATTEMPTS = FACTS["share.attempts_left"], FACTS["share.task_attempts_left"]
_TOKENS, _MONEY = FACTS["share.tokens_left"], FACTS["share.money_left"]
_DEADLINE, _WAIT = FACTS["seconds.deadline_left"], FACTS["seconds.next_wait"]
_BREAKER, _STREAM = FACTS["flag.breaker_open"], FACTS["flag.stream_started"]
_UNSAFE_KIND = FACTS[f"kind.{FaultKind.UNSAFE_OUTPUT.value}"]


def repeat_unsafe(facts: FactMatrix) -> NDArray[np.bool_]:
    """Where repeating the call could apply a side effect twice; bool, shape (N,)."""
    may_write = facts[_WRITE] + facts[_UNKNOWN]
    shielded = facts[_NOT_STARTED] + facts[_HAS_KEY] + facts[_PROBED]
    return (may_write > 0.5) & (shielded < 0.5)


def _flags(facts: FactMatrix) -> FactMatrix:
    g = np.empty((_CLOSE.shape[1], facts.shape[1]), np.float32)
    g[0] = repeat_unsafe(facts)
    np.less_equal(np.minimum(facts[_ATTEMPTS], facts[_TASK_ATTEMPTS]), 1e-6, out=g[1])
    deadline = facts[_DEADLINE]
    np.greater(facts[_WAIT], deadline, out=g[2])
    np.less_equal(deadline, 0.0, out=g[3])
    np.less_equal(np.minimum(facts[_TOKENS], facts[_MONEY]), 0.0, out=g[4])
    g[5] = facts[_BREAKER]
    g[6] = facts[_STREAM]
    np.greater(facts[_UNSAFE_KIND], 0.5, out=g[7])
    np.greater(facts[RUN], 0.75, out=g[_N_FLAGS:])
    return g


def legal_mask(facts: FactMatrix) -> NDArray[np.bool_]:
    """The action mask.

    Args:
        facts: float32, shape (N_FACTS, N).

    Returns:
        bool, shape (N, 17), True where the action may be taken. ``escalate`` always is.
    """
    open_ = (_CLOSE @ _flags(facts)) < 0.5
    open_ &= facts[AVAILABLE] > 0.5
    open_[A.ESCALATE] = True
    return open_.T


def closed_because(facts: FactMatrix) -> dict[RepairAction, str]:
    """Why each closed action of a single row is closed, for people.

    Args:
        facts: float32, shape (N_FACTS, 1).
    """
    flags = _flags(facts)[:, 0]
    reasons: dict[RepairAction, str] = {}
    for action in ACTIONS:
        if action is A.ESCALATE:
            continue
        if facts[AVAILABLE.start + action, 0] <= 0.5:
            reasons[action] = "the host does not offer it here, or its level is above permission"
            continue
        for column in np.flatnonzero((_CLOSE[action] > 0) & (flags > 0.5)):
            if column < _N_FLAGS:
                reasons[action] = _RULES[column][0]
            else:
                name = CATEGORIES[column - _N_FLAGS].value
                reasons[action] = f"category {name!r} was tried twice in a row"
            break
    return reasons


def check_mask(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return ``mask`` when every row leaves something to choose.

    Args:
        mask: bool, shape (N, 17) or (17,).

    Raises:
        IllegalMaskError: wrong shape or type, or a row that is all False.
    """
    if mask.dtype != np.bool_ or mask.shape[-1] != N_ACTIONS or mask.ndim not in (1, 2):
        raise IllegalMaskError(
            f"got a mask of shape {mask.shape} and type {mask.dtype}; expected bool of shape "
            f"(N, {N_ACTIONS}); pass the mask from legal_mask() or info['action_mask']"
        )
    if not mask.any(axis=-1).all():
        raise IllegalMaskError(
            "got a mask that is all False; expected at least one legal action per row "
            "(escalate is always legal); pass the mask from legal_mask()"
        )
    return mask
