"""From an incident to one column of facts, and the availability of actions on a host."""

import numpy as np
from numpy.typing import NDArray

from selfheal_rl.core.situation.layout import (
    AVAILABLE,
    EFFECT_STATE,
    EFFECTS_ROWS,
    FACTS,
    KIND,
    MAX_ATTEMPTS_INCIDENT,
    MAX_ATTEMPTS_TASK,
    N_FACTS,
    RUN,
    SEEN,
    TRIES,
)
from selfheal_rl.core.values import (
    ACTIONS,
    CATEGORIES,
    CATEGORY,
    EFFECT_STATES,
    EFFECTS,
    LEVEL,
    N_ACTIONS,
    SEAMS_OF,
    Attempt,
    Capabilities,
    ErrorSnapshot,
    Failure,
    Incident,
    RepairAction,
    Seam,
)

FactMatrix = NDArray[np.float32]

_NEEDS: dict[RepairAction, str] = {
    RepairAction.FIX_ARGUMENTS: "argument_schema",
    RepairAction.REPAIR_OUTPUT: "output_validator",
    RepairAction.INSPECT: "probe",
    RepairAction.FALLBACK_MODEL: "fallback_model",
    RepairAction.FALLBACK_TOOL: "fallback_tool",
    RepairAction.REFRESH_CONTEXT: "context_editor",
    RepairAction.RESET_COMPONENT: "reset_hook",
    RepairAction.APPLY_FIX: "knowledge",
    RepairAction.ROLLBACK: "checkpointer",
    RepairAction.REPLAN: "dependency_graph",
    RepairAction.ASK_USER: "user",
    RepairAction.DEGRADE: "degrade_builder",
}
_ORDER = {seam: i for i, seam in enumerate(Seam)}


def available_actions(capabilities: Capabilities, seam: Seam) -> NDArray[np.bool_]:
    """Which actions the host can carry out for a failure at ``seam``, before any other rule.

    An action is available when its capability is registered, its level is within the permission,
    and it can run at the failing seam or at an outer seam the adapter publishes.

    Args:
        capabilities: what the host offers.
        seam: where the failure happened.

    Returns:
        bool, shape (17,).
    """
    reach = {s for s in capabilities.seams if _ORDER[s] >= _ORDER[seam]} | {seam}
    if seam is Seam.TOOL and Seam.MODEL in reach:
        # A model call is another call, not an outer layer of a tool call.
        reach.discard(Seam.MODEL)
    result = np.zeros(N_ACTIONS, np.bool_)
    for action in ACTIONS:
        need = _NEEDS.get(action)
        result[action] = (
            (need is None or getattr(capabilities, need))
            and LEVEL[action] <= capabilities.permission
            and bool(SEAMS_OF[action] & reach)
        )
    return result


def category_run(attempts: tuple[RepairAction, ...]) -> NDArray[np.float32]:
    """How often the latest category was tried in a row: 0, 0.5, or 1 at two or more.

    Args:
        attempts: actions tried in the incident, oldest first.

    Returns:
        float32, shape (11,), zero but for the latest category.
    """
    run = np.zeros(len(CATEGORIES), np.float32)
    if not attempts or CATEGORY[attempts[-1]] is None:
        return run
    latest = CATEGORY[attempts[-1]]
    length = 0
    for action in reversed(attempts):
        if CATEGORY[action] is not latest:
            break
        length += 1
    run[CATEGORIES.index(latest)] = min(length, 2) / 2.0
    return run


def _reach(failure: Failure) -> int:
    """How far the failed call may have got; an earlier call's effect outlasts a later refusal."""
    return EFFECT_STATES.index(failure.diagnosis.effect_state)


def facts_of(incident: Incident) -> FactMatrix:
    """One column of facts for the state an incident is in.

    Args:
        incident: with the latest failure last, and every attempt made since the first.

    Returns:
        float32, shape (N_FACTS, 1).
    """
    column = np.zeros((N_FACTS, 1), np.float32)
    f = column[:, 0]
    snap = incident.snapshot
    posteriors = np.asarray([x.diagnosis.posterior for x in incident.failures], np.float32)
    f[KIND] = posteriors[-1]
    f[SEEN] = posteriors.max(axis=0)
    f[EFFECTS_ROWS.start + EFFECTS.index(snap.call.effects)] = 1.0
    f[EFFECT_STATE.start + max(map(_reach, incident.failures))] = 1.0
    f[AVAILABLE] = available_actions(incident.capabilities, snap.seam)
    actions = tuple(attempt.decision.action for attempt in incident.attempts)
    f[RUN] = category_run(actions)
    f[TRIES] = np.bincount(actions, minlength=N_ACTIONS) if actions else 0.0
    _fill_flags(f, incident)
    _fill_shares(f, snap)
    _fill_signs(f, snap)
    _fill_seconds(f, incident)
    f[FACTS["count.task_failures"]] = snap.task_failures
    f[FACTS["count.tool_failures"]] = snap.health.consecutive_failures
    return column


def _fill_flags(f: FactMatrix, incident: Incident) -> None:
    snap = incident.snapshot
    f[FACTS["flag.has_key"]] = snap.call.has_idempotency_key
    f[FACTS["flag.probed_not_started"]] = snap.probed_not_started
    f[FACTS["flag.stream_started"]] = snap.call.stream_started
    f[FACTS["flag.breaker_open"]] = snap.health.breaker_open
    f[FACTS["flag.orphan"]] = snap.task_id is None
    if len(incident.failures) > 1:
        before, now = incident.failures[-2].diagnosis, incident.failures[-1].diagnosis
        f[FACTS["flag.same_message"]] = before.signature == now.signature
        f[FACTS["flag.progress"]] = before.kind is not now.kind


def _fill_shares(f: FactMatrix, snap: ErrorSnapshot) -> None:
    f[FACTS["share.attempts_left"]] = snap.budget.attempts / MAX_ATTEMPTS_INCIDENT
    f[FACTS["share.task_attempts_left"]] = snap.budget.task_attempts / MAX_ATTEMPTS_TASK
    f[FACTS["share.tokens_left"]] = snap.budget.tokens
    f[FACTS["share.money_left"]] = snap.budget.money
    f[FACTS["share.step"]] = 0.5 if snap.n_steps is None else snap.step / snap.n_steps
    f[FACTS["share.failure_rate"]] = snap.health.failure_rate
    f[FACTS["share.others_failing"]] = snap.health.others_failing
    limit = snap.telemetry.context_limit
    f[FACTS["share.context"]] = snap.telemetry.tokens_used / limit if limit else 0.0
    f[FACTS["share.drift"]] = snap.telemetry.drift
    f[FACTS["share.evidence"]] = snap.evidence.confidence


def _fill_signs(f: FactMatrix, snap: ErrorSnapshot) -> None:
    f[FACTS["sign.soft"]] = snap.is_soft
    f[FACTS["sign.has_retry_after"]] = snap.retry_after_s is not None
    if snap.http_status is not None:
        name = {2: "sign.status_2xx", 4: "sign.status_4xx", 5: "sign.status_5xx"}
        if (row := name.get(snap.http_status // 100)) is not None:
            f[FACTS[row]] = 1.0


def _fill_seconds(f: FactMatrix, incident: Incident) -> None:
    snap = incident.snapshot
    f[FACTS["seconds.incident"]] = max(0.0, snap.time - incident.failures[0].snapshot.time)
    if snap.task_started is not None:
        f[FACTS["seconds.task"]] = max(0.0, snap.time - snap.task_started)
    f[FACTS["seconds.deadline_left"]] = snap.budget.deadline_s
    f[FACTS["seconds.retry_after"]] = snap.retry_after_s or 0.0
    f[FACTS["seconds.next_wait"]] = incident.next_wait_s
    f[FACTS["seconds.latency"]] = snap.telemetry.latency_s
    f[FACTS["seconds.since_ok"]] = snap.health.since_ok_s


def spent(attempts: tuple[Attempt, ...]) -> tuple[float, int]:
    """Seconds and tokens that the attempts of an incident have cost so far."""
    return sum(a.seconds for a in attempts), sum(a.tokens for a in attempts)
