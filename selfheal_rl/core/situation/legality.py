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
from selfheal_rl.core.situation.layout import AVAILABLE, FACTS, MAX_ATTEMPTS_INCIDENT
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

SPENDS_TOKENS = frozenset({A.REPROMPT, A.FALLBACK_MODEL, A.REFRESH_CONTEXT, A.APPLY_FIX, A.REPLAN})
SAME_DEPENDENCY = frozenset({A.RETRY, A.BACKOFF, A.FIX_ARGUMENTS, A.APPLY_FIX})
"""Actions that call the failing dependency again without repairing it first."""

_RULES: tuple[tuple[str, frozenset[RepairAction]], ...] = (
    ("a possible side effect would be repeated", REPEATS),
    ("no attempt is left in this incident", frozenset(ACTIONS) - TERMINAL),
    ("no attempt is left in this task", frozenset(ACTIONS) - TERMINAL),
    ("the wait would pass the deadline", frozenset({A.BACKOFF})),
    ("the deadline has passed", frozenset(ACTIONS) - TERMINAL),
    ("the token budget is spent", SPENDS_TOKENS),
    ("the money budget is spent", SPENDS_TOKENS),
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
_TINY = 1e-6
_BIG = 8.0

_TESTS: tuple[tuple[dict[str, float], float], ...] = (
    # A write or unknown call, not known to be safe: any shield outweighs both.
    (
        {"effects.write": 1.0, "effects.unknown": 1.0, "effect_state.not_started": -_BIG}
        | {"flag.has_key": -_BIG, "flag.probed_not_started": -_BIG},
        0.5,
    ),
    ({"share.attempts_left": -1.0}, -_TINY),
    ({"share.task_attempts_left": -1.0}, -_TINY),
    ({"seconds.next_wait": 1.0, "seconds.deadline_left": -1.0}, 0.0),
    ({"seconds.deadline_left": -1.0}, -_TINY),
    ({"share.tokens_left": -1.0}, -_TINY),
    ({"share.money_left": -1.0}, -_TINY),
    ({"flag.breaker_open": 1.0}, 0.5),
    ({"flag.stream_started": 1.0}, 0.5),
    ({f"kind.{FaultKind.UNSAFE_OUTPUT.value}": 1.0}, 0.5),
    *(({f"run.{category.value}": 1.0}, 0.75) for category in CATEGORIES),
)
"""Per rule: a linear form over facts and the value above which the rule closes its actions."""
_USED = tuple(dict.fromkeys(name for form, _ in _TESTS for name in form))
_ROWS = np.array([FACTS[name] for name in _USED])
_FORMS = np.array([[form.get(name, 0.0) for name in _USED] for form, _ in _TESTS], np.float32)
_UNSAFE, _UNSAFE_ROWS = _FORMS[0][_FORMS[0] != 0], _ROWS[_FORMS[0] != 0]
_LIMITS = np.array([[limit] for _, limit in _TESTS], np.float32)


def _flags(facts: FactMatrix) -> NDArray[np.bool_]:
    flags: NDArray[np.bool_] = (_FORMS @ facts.take(_ROWS, axis=0)) > _LIMITS
    return flags


def repeat_unsafe(facts: FactMatrix) -> NDArray[np.bool_]:
    """Where repeating the call could apply a side effect twice; bool, shape (N,)."""
    unsafe: NDArray[np.bool_] = (_UNSAFE @ facts.take(_UNSAFE_ROWS, axis=0)) > _LIMITS[0]
    return unsafe


def legal_mask(facts: FactMatrix) -> NDArray[np.bool_]:
    """The action mask.

    Args:
        facts: float32, shape (N_FACTS, N).

    Returns:
        bool, shape (N, 17), True where the action may be taken. ``escalate`` always is.
    """
    open_: NDArray[np.bool_] = (_CLOSE @ _flags(facts).astype(np.float32)) < 0.5
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
        for column in np.flatnonzero((_CLOSE[action] > 0) & (flags)):
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
