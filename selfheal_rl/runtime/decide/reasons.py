"""Why a decision fell as it did: the facts whose change would flip it.

For each of a handful of facts the selector is asked again with that fact changed and all else
equal (a counterfactual). A fact whose change leads to another action is a reason.
"""

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

import numpy as np

from selfheal_rl.core.situation import FACTS, encode, legal_mask, rows
from selfheal_rl.core.values import (
    EFFECT_STATES,
    KIND_INDEX,
    KINDS,
    EffectState,
    FaultKind,
    RepairAction,
)
from selfheal_rl.runtime.decide.selector import BoolMatrix, FloatMatrix, Selector

MAX_REASONS = 5
_KIND, _SEEN = rows("kind"), rows("seen")
_TRIES, _RUN = rows("tries"), rows("run")
_EFFECT_STATE, _AVAILABLE = rows("effect_state"), rows("available")
_OTHER_KINDS = (
    FaultKind.TIMEOUT,
    FaultKind.RATE_LIMIT,
    FaultKind.BAD_ARGUMENTS,
    FaultKind.CODE_EXCEPTION,
)
_LONG_WAIT_S = 60.0


@runtime_checkable
class Explains(Protocol):
    """A selector that has something to say of its own."""

    def reason(self, facts: FloatMatrix, action: RepairAction) -> str:
        """In words, for the single row ``facts`` (N_FACTS, 1); '' for nothing."""
        ...


def reasons_for(
    selector: Selector,
    facts: FloatMatrix,
    observation: FloatMatrix,
    mask: BoolMatrix,
    action: RepairAction,
) -> tuple[str, ...]:
    """Up to five reasons, most telling first.

    Args:
        selector: that decided.
        facts: float32, shape (N_FACTS, 1).
        observation: as the selector saw it, shape (1, N_SLOTS) or (1, 0).
        mask: bool, shape (1, 17).
        action: what was decided.
    """
    found: list[str] = []
    if isinstance(selector, Explains) and (own := selector.reason(facts, action)):
        found.append(own)
    if int(mask[0].sum()) == 1:
        return (*found, "no other action is legal here")
    changed = list(_changes(facts, action))
    columns = np.concatenate([column for _, column in changed], axis=1)
    tables = getattr(selector, "tables", None)
    seen = np.empty((len(changed), 0), np.float32) if tables is None else encode(columns, tables)
    answers = selector.probabilities(columns, seen, legal_mask(columns)).argmax(axis=1)
    for (text, _), other in zip(changed, answers.tolist(), strict=True):
        if other != action:
            found.append(f"{text}, it would be {RepairAction(other).slug}")
    return tuple(dict.fromkeys(found))[:MAX_REASONS]


def _changes(facts: FloatMatrix, action: RepairAction) -> Iterator[tuple[str, FloatMatrix]]:
    yield from _kinds(facts)
    yield from _history(facts, action)
    yield from _effects(facts)
    yield from _signs(facts)
    yield from _host(facts, action)


def _kinds(facts: FloatMatrix) -> Iterator[tuple[str, FloatMatrix]]:
    now = KINDS[int(facts[_KIND, 0].argmax())]
    for kind in _OTHER_KINDS:
        if kind is now:
            continue
        other = facts.copy()
        a, b = _KIND.start + KIND_INDEX[now], _KIND.start + KIND_INDEX[kind]
        other[[a, b]] = other[[b, a]]
        seen = _SEEN.start + KIND_INDEX[kind]
        other[seen] = np.maximum(other[seen], other[b])
        yield f"{now.value} was seen; were it {kind.value}", other


def _history(facts: FloatMatrix, action: RepairAction) -> Iterator[tuple[str, FloatMatrix]]:
    tries = int(facts[_TRIES, 0].sum())
    if tries:
        first = facts.copy()
        first[_TRIES] = 0.0
        first[_RUN] = 0.0
        first[FACTS["share.attempts_left"]] = 1.0
        told = "1 attempt has" if tries == 1 else f"{tries} attempts have"
        yield f"{told} failed; at the first failure", first
    tried = facts.copy()
    tried[_TRIES.start + action] += 2.0
    yield f"had {action.slug} failed twice already", tried


def _effects(facts: FloatMatrix) -> Iterator[tuple[str, FloatMatrix]]:
    state = EFFECT_STATES[int(facts[_EFFECT_STATE, 0].argmax())]
    other_state = EffectState.MAYBE if state is EffectState.NOT_STARTED else EffectState.NOT_STARTED
    other = facts.copy()
    other[_EFFECT_STATE] = 0.0
    other[_EFFECT_STATE.start + EFFECT_STATES.index(other_state)] = 1.0
    yield f"the call's effect is {state.value}; were it {other_state.value}", other


def _signs(facts: FloatMatrix) -> Iterator[tuple[str, FloatMatrix]]:
    asked, has = FACTS["seconds.retry_after"], FACTS["sign.has_retry_after"]
    wait, deadline = FACTS["seconds.next_wait"], FACTS["seconds.deadline_left"]
    other = facts.copy()
    if facts[has, 0] > 0.5:
        other[[asked, has]] = 0.0
        other[wait] = 1.0
        yield f"the server asked for {facts[asked, 0]:.0f} s; had it not", other
    else:
        other[has] = 1.0
        other[[asked, wait]] = _LONG_WAIT_S
        yield f"had the server asked for {_LONG_WAIT_S:.0f} s", other
    if facts[deadline, 0] > _LONG_WAIT_S / 2:
        short = facts.copy()
        short[deadline] = 0.5
        yield "with half a second left to the deadline", short


def _host(facts: FloatMatrix, action: RepairAction) -> Iterator[tuple[str, FloatMatrix]]:
    without = facts.copy()
    without[_AVAILABLE.start + action] = 0.0
    yield f"were {action.slug} not available", without
    offers = np.flatnonzero(facts[_AVAILABLE, 0] > 0.5)
    for other_action in (RepairAction.FALLBACK_TOOL, RepairAction.RESET_COMPONENT):
        if other_action not in offers and other_action != action:
            offered = facts.copy()
            offered[_AVAILABLE.start + other_action] = 1.0
            yield f"did the host offer {other_action.slug}", offered
