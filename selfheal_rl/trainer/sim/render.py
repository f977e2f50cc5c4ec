"""The incident that a simulated state stands for, as the runtime would have recorded it."""

import numpy as np

from selfheal_rl.core.situation import FACTS, MAX_ATTEMPTS_INCIDENT, MAX_ATTEMPTS_TASK
from selfheal_rl.core.values import (
    EFFECTS,
    Attempt,
    BudgetLeft,
    Decision,
    ErrorSnapshot,
    FailedCall,
    Failure,
    Incident,
    Outcome,
    RepairAction,
    Telemetry,
    ToolHealth,
)
from selfheal_rl.runtime.diagnose import classify
from selfheal_rl.trainer.sim.dynamics import RepairCore

_CONTEXT_LIMIT = 1_000_000_000
"""Large, so that the share in use survives the round trip through whole tokens."""


def snapshot_of_row(core: RepairCore, row: int, nth: int | None = None) -> ErrorSnapshot:
    """The error snapshot that row ``row`` shows.

    Args:
        core: the simulator.
        row: which task.
        nth: which failure of the open incident, 0 the first; None for the latest.
    """
    attempts = int(core.attempts[row])
    latest = nth is None or nth == attempts
    which = attempts if nth is None else nth
    variant = core.world.variants[int(core.variants_seen[which, row])]
    call = FailedCall(
        tool=f"tool-{int(core.tool[row])}",
        effects=EFFECTS[int(core.effects[row])],
        has_idempotency_key=bool(core.has_key[row]),
        is_model_call=variant.snapshot.call.is_model_call,
    )
    has_after = variant.symptom.retry_after != "none"
    time = float(core.now[row] if latest else core.opened[row])
    return variant.snapshot.model_copy(
        update={
            "time": time,
            "task_id": f"task-{int(core.task[row])}",
            "task_started": 0.0,
            "step": int(core.step_no[row]) + 1,
            "n_steps": int(core.n_steps[row]),
            "retry_after_s": float(core.retry_after[row]) if has_after else None,
            "call": call,
            "telemetry": _telemetry(core, row, variant.symptom.latency_s),
            "health": _health(core, row),
            "budget": _budget(core, row),
            "task_failures": int(core.incidents[row]) - 1,
        }
    )


def _telemetry(core: RepairCore, row: int, latency_s: float) -> Telemetry:
    share = float(core.facts[FACTS["share.context"], row])
    return Telemetry(
        latency_s=latency_s,
        tokens_used=round(share * _CONTEXT_LIMIT),
        context_limit=_CONTEXT_LIMIT,
    )


def _health(core: RepairCore, row: int) -> ToolHealth:
    return ToolHealth(
        failure_rate=float(core.facts[FACTS["share.failure_rate"], row]),
        consecutive_failures=int(core.attempts[row]) + 1,
        since_ok_s=float(core.now[row] - core.last_ok[row]),
    )


def _budget(core: RepairCore, row: int) -> BudgetLeft:
    return BudgetLeft(
        attempts=MAX_ATTEMPTS_INCIDENT - int(core.attempts[row]),
        task_attempts=max(MAX_ATTEMPTS_TASK - int(core.task_attempts[row]), 0),
        deadline_s=max(core.world.world.task.deadline_s - float(core.now[row]), 0.0),
        tokens=float(core.facts[FACTS["share.tokens_left"], row]),
        money=1.0,
    )


def incident_of_row(core: RepairCore, row: int) -> Incident:
    """The whole open incident of row ``row``, diagnosed by the runtime's classifier."""
    attempts = int(core.attempts[row])
    snapshots = [snapshot_of_row(core, row, k) for k in range(attempts + 1)]
    tried = [RepairAction(int(a)) for a in core.actions_tried[:attempts, row]]
    return Incident(
        id=f"task-{int(core.task[row])}/{int(core.incidents[row])}",
        failures=tuple(Failure(snapshot=s, diagnosis=classify(s)) for s in snapshots),
        attempts=tuple(
            Attempt(
                decision=Decision(action=action),
                outcome=Outcome.FAILED,
                started=float(core.opened[row]),
            )
            for action in tried
        ),
        capabilities=core.world.world.hosts[int(core.host[row])].capabilities,
        next_wait_s=float(np.float32(core.facts[FACTS["seconds.next_wait"], row])),
    )
