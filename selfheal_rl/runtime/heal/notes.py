"""What people read: the note on an exception, the line in the log, the record of an incident."""

from typing import Any

from selfheal_rl.core.values import Incident, RepairAction, Verdict, repeat_is_unsafe
from selfheal_rl.runtime.heal.call import ResultInfo

_ATTRIBUTE = "__selfheal_incident__"
_NOTE = "selfheal: "


def attach(error: BaseException, incident: Incident) -> None:
    """Put the incident and a note on ``error``; the note of an earlier incident is replaced."""
    notes: list[str] = getattr(error, "__notes__", [])
    kept = [note for note in notes if not note.startswith(_NOTE)]
    try:
        if len(kept) != len(notes):
            error.__notes__ = kept
        error.add_note(_note(incident))
        setattr(error, _ATTRIBUTE, incident)
    except (AttributeError, TypeError):
        return  # an exception with slots takes no attributes; the agent still gets its own object


def incident(error: BaseException) -> Incident | None:
    """The record of what was tried before ``error`` reached the agent; None for other errors.

    Example:
        >>> incident(ValueError("never healed")) is None
        True
    """
    found: Any = getattr(error, _ATTRIBUTE, None)
    return found if isinstance(found, Incident) else None


def _tried(found: Incident) -> str:
    actions = [a.decision.action for a in found.attempts]
    ends = (RepairAction.ESCALATE, RepairAction.CONTINUE)
    return ", ".join(a.slug for a in actions if a not in ends) or "nothing"


def _note(found: Incident) -> str:
    snapshot, diagnosis = found.snapshot, found.diagnosis
    text = (
        f"{_NOTE}{found.verdict.value}; {snapshot.call.tool} failed as {diagnosis.kind.value}; "
        f"tried {_tried(found)} (incident {found.id})"
    )
    if len(found.failures) > 1:
        text += f"; last error: {snapshot.error_type}: {snapshot.message[:200]}"
    if repeat_is_unsafe(
        snapshot.call.effects,
        diagnosis.effect_state,
        has_key=snapshot.call.has_idempotency_key,
        probed_not_started=snapshot.probed_not_started,
    ):
        text += "; the call may have taken effect: find out before you repeat it"
    return text


def summary(found: Incident, info: ResultInfo) -> str:
    """One line for the log."""
    text = (
        f"{found.snapshot.call.tool}: {found.diagnosis.kind.value} -> {found.verdict.value} "
        f"by {info.action} after {len(found.attempts)} decisions (incident {found.id})"
    )
    if found.verdict in (Verdict.HEALED, Verdict.DEGRADED) and info.equivalence != "same":
        text += f"; the result is {info.equivalence}"
    return text
