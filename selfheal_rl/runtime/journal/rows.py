"""From the vocabulary's values to the journal's rows, and back."""

import json
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from selfheal_rl.core.values import (
    Attempt,
    Capabilities,
    Decision,
    Diagnosis,
    ErrorSnapshot,
    Failure,
    Incident,
    Outcome,
    RepairAction,
    Verdict,
)
from selfheal_rl.core.values.redaction import redact_text, redact_value, shape_of

MAX_DEPTH = 40
MAX_TEXT = 16_384
"""Characters kept of one text of a snapshot: three quarters from its start, one from its end."""


@dataclass(frozen=True, slots=True)
class LoggedAttempt:
    """One attempt with its place in the journal."""

    incident_id: str
    seq: int
    """Position in the incident, from 0."""
    attempt: Attempt
    censored: bool = False
    """True when the incident's end after this attempt was not observed."""
    tenant: str = ""
    """Filled in by readers."""
    task_id: str | None = None
    """Filled in by readers; None for an orphan."""


@dataclass(frozen=True, slots=True)
class IncidentSummary:
    """One line of the list of incidents."""

    id: str
    tenant: str
    task_id: str | None
    tool: str
    kind: str
    """Most probable kind of the first failure."""
    opened: float
    """Seconds since the epoch."""
    closed: float | None
    verdict: Verdict
    censored: bool
    failures: int
    attempts: int
    seconds: float
    """Spent in attempts."""
    tokens: int
    task_success: bool | None
    """None when the task's outcome was never reported."""


def attempt_row(
    incident_id: str, seq: int, attempt: Attempt, censored: bool = False
) -> dict[str, Any]:
    """The row of one attempt; reasons and note are redacted."""
    d = attempt.decision
    return {
        "incident_id": incident_id,
        "seq": seq,
        "action": int(d.action),
        "intended": None if d.intended is None else int(d.intended),
        "variant": d.variant,
        "propensity": d.propensity,
        "probabilities": np.asarray(d.probabilities, "<f8").tobytes(),
        "mask": "".join("1" if allowed else "0" for allowed in d.mask),
        "observation": np.asarray(d.observation, "<f4").tobytes(),
        "selector": d.selector,
        "policy_hash": d.policy_hash,
        "spec_hash": d.spec_hash,
        "randomisation_unit": d.randomisation_unit,
        "override": _storable(redact_text(d.override)),
        "reasons": json.dumps([_storable(redact_text(r)) for r in d.reasons]),
        "outcome": attempt.outcome.value,
        "started": attempt.started,
        "seconds": attempt.seconds,
        "tokens": attempt.tokens,
        "verified": int(attempt.verified),
        "censored": int(censored),
        "note": _storable(redact_text(attempt.note)),
    }


def attempt_of(row: Mapping[str, Any]) -> Attempt:
    """The attempt of a row."""
    decision = Decision(
        action=RepairAction(row["action"]),
        intended=None if row["intended"] is None else RepairAction(row["intended"]),
        variant=row["variant"],
        probabilities=tuple(np.frombuffer(row["probabilities"], "<f8").tolist()),
        propensity=row["propensity"],
        mask=tuple(digit == "1" for digit in row["mask"]),
        selector=row["selector"],
        policy_hash=row["policy_hash"],
        spec_hash=row["spec_hash"],
        reasons=tuple(json.loads(row["reasons"])),
        override=row["override"],
        randomisation_unit=row["randomisation_unit"],
        observation=tuple(np.frombuffer(row["observation"], "<f4").tolist()),
    )
    return Attempt(
        decision=decision,
        outcome=Outcome(row["outcome"]),
        started=row["started"],
        seconds=row["seconds"],
        tokens=row["tokens"],
        verified=bool(row["verified"]),
        note=row["note"],
    )


def redact_snapshot(
    snapshot: ErrorSnapshot, key: bytes, allow: Collection[str] = ()
) -> ErrorSnapshot:
    """The snapshot as the journal keeps it.

    Secrets are redacted everywhere, long texts lose their middle, and the call's arguments are
    replaced by their shapes (name, type, length, hash under the tenant's ``key``); redacting a
    snapshot from a journal again would hash the shapes, so do it once.
    """
    data = snapshot.model_dump(
        mode="json", exclude={"call": {"arguments"}, "agent_state": True}, fallback=str
    )
    identity = {name: data[name] for name in ("tenant", "task_id")}
    data["agent_state"] = snapshot.agent_state
    data = _plain(redact_value(_shorten(data))) | identity
    data["call"]["arguments"] = _plain(shape_of(snapshot.call.arguments, key, allow=allow))
    return ErrorSnapshot.model_validate(data)


def failure_row(
    incident_id: str, seq: int, failure: Failure, key: bytes, allow: Collection[str]
) -> dict[str, Any]:
    """The row of one failure, redacted."""
    diagnosis = failure.diagnosis
    diagnosis = diagnosis.model_copy(
        update={"signature": _storable(redact_text(diagnosis.signature))}
    )
    return {
        "incident_id": incident_id,
        "seq": seq,
        "time": failure.snapshot.time,
        "kind": diagnosis.kind.value,
        "snapshot": redact_snapshot(failure.snapshot, key, allow).model_dump_json(),
        "diagnosis": diagnosis.model_dump_json(),
    }


def failure_of(row: Mapping[str, Any]) -> Failure:
    """The failure of a row."""
    return Failure(
        snapshot=ErrorSnapshot.model_validate_json(row["snapshot"]),
        diagnosis=Diagnosis.model_validate_json(row["diagnosis"]),
    )


def incident_row(
    incident_id: str, failure: Failure, capabilities: Capabilities, next_wait_s: float
) -> dict[str, Any]:
    """The row of an incident that opens with this failure."""
    return {
        "id": incident_id,
        "tenant": failure.snapshot.tenant,
        "task_id": failure.snapshot.task_id,
        "tool": _storable(redact_text(failure.snapshot.call.tool)),
        "kind": failure.diagnosis.kind.value,
        "opened": failure.snapshot.time,
        "closed": None,
        "verdict": Verdict.OPEN.value,
        "censored": 0,
        "next_wait_s": next_wait_s,
        "capabilities": capabilities.model_dump_json(),
    }


def incident_of(
    row: Mapping[str, Any], failures: list[Failure], attempts: list[Attempt]
) -> Incident:
    """The incident of its rows."""
    return Incident(
        id=row["id"],
        failures=tuple(failures),
        attempts=tuple(attempts),
        capabilities=Capabilities.model_validate_json(row["capabilities"]),
        verdict=Verdict(row["verdict"]),
        next_wait_s=row["next_wait_s"],
        censored=bool(row["censored"]),
    )


def _shorten(value: Any, depth: int = 0) -> Any:
    """The value with texts over the limit cut in their middle, after redacting both ends.

    Each end is redacted at twice its kept length, so that a secret across the cut is seen whole.
    """
    if isinstance(value, str):
        if len(value) <= MAX_TEXT:
            return value
        head, tail = MAX_TEXT * 3 // 4, MAX_TEXT // 4
        start = redact_text(value[: head * 2])[:head]
        end = redact_text(value[-tail * 2 :])[-tail:]
        return f"{start} ...({len(value) - head - tail} characters cut)... {end}"
    if depth > MAX_DEPTH:
        return "..."
    if isinstance(value, dict):
        return {name: _shorten(item, depth + 1) for name, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_shorten(item, depth + 1) for item in value]
    return value


def _plain(value: Any) -> Any:
    """The value as plain JSON; an object of another type becomes its type's name."""
    if isinstance(value, str):
        return _storable(value)
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {_storable(str(name)): _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in value]
    return f"<{type(value).__name__}>"


def _storable(text: str) -> str:
    """Text that every database takes: valid Unicode without NUL."""
    return str(text).encode("utf-8", "replace").decode("utf-8").replace("\0", "\ufffd")
