"""What a call does to the world, and how far a failed call may have got."""

from enum import StrEnum


class Effects(StrEnum):
    """Declared by the owner of a tool; there is no default because a guess is dangerous."""

    READ = "read"
    IDEMPOTENT_WRITE = "idempotent_write"
    WRITE = "write"
    UNKNOWN = "unknown"


class EffectState(StrEnum):
    """Whether the failed call's effect may already be in place."""

    NOT_STARTED = "not_started"
    MAYBE = "maybe"
    DONE = "done"


EFFECTS: tuple[Effects, ...] = tuple(Effects)
EFFECT_STATES: tuple[EffectState, ...] = tuple(EffectState)


def repeat_is_unsafe(
    effects: Effects, state: EffectState, *, has_key: bool, probed_not_started: bool
) -> bool:
    """True when repeating the call could apply a side effect a second time.

    A write (or a tool of unknown effects) whose effect may be in place must not be repeated
    unless an idempotency key travels with it or a probe showed that nothing happened.
    """
    if effects in (Effects.READ, Effects.IDEMPOTENT_WRITE):
        return False
    if state is EffectState.NOT_STARTED:
        return False
    return not (has_key or probed_not_started)
