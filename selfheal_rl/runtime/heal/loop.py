"""The healing loop: capture, diagnose, legality, decide, act, verify, journal."""

import logging
import threading
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from selfheal_rl.core.situation import MAX_DECISIONS_INCIDENT
from selfheal_rl.core.values import (
    Attempt,
    BudgetLeft,
    Capabilities,
    Decision,
    Failure,
    HealingFailed,
    Incident,
    Outcome,
    RepairAction,
    Telemetry,
    Verdict,
)
from selfheal_rl.runtime.diagnose import classify
from selfheal_rl.runtime.heal.actions import EXECUTORS, Repair
from selfheal_rl.runtime.heal.call import Call
from selfheal_rl.runtime.heal.effects import Steps
from selfheal_rl.runtime.heal.notes import attach, summary
from selfheal_rl.runtime.heal.options import DEADLINE_S
from selfheal_rl.runtime.heal.switches import attempts_cap
from selfheal_rl.runtime.heal.task import ToolRecord
from selfheal_rl.runtime.heal.trouble import Trouble
from selfheal_rl.runtime.journal import JournalProtocol

if TYPE_CHECKING:
    from selfheal_rl.runtime.heal.healer import Healer

log = logging.getLogger("selfheal_rl")
A = RepairAction


@dataclass(slots=True)
class Final:
    """What goes to the agent: a value, or an exception to raise."""

    value: Any = None
    error: BaseException | None = None
    incident: Incident | None = None


def heal(healer: "Healer", call: Call) -> Steps[Final]:
    """Heal one failed call; whatever goes wrong here, the agent gets its own error.

    Args:
        healer: whose options, selector and journal apply.
        call: with its first trouble.
    """
    try:
        final = yield from _heal(healer, call)
    except Exception as fault:
        healer.note_fault("loop", fault)
        final = _own(call)
    except GeneratorExit:
        _abandon(healer, call)
        raise
    finally:
        call.incident.busy = False
    return final


def _abandon(healer: "Healer", call: Call) -> None:
    """The call was cancelled or interrupted while it was being healed."""
    incident = call.incident
    incident.verdict = Verdict.ABANDONED
    call.record.incident, call.record.dirty = None, False

    def write() -> None:
        healer.write(lambda j: j.record_verdict(incident.id, Verdict.ABANDONED, True))

    if call.tool.is_async:
        # The event loop must not wait; a thread that is no daemon ends its write in any case.
        threading.Thread(target=write, name="selfheal-journal").start()
    else:
        write()


def _heal(healer: "Healer", call: Call) -> Steps[Final]:
    yield from _fail(healer, call, call.first)
    for _ in range(MAX_DECISIONS_INCIDENT):
        decision = _decide(healer, call)
        started = call.clock.now()
        before = call.clock.monotonic()
        repair = yield from _run(healer, call, decision)
        seconds = max(0.0, call.clock.monotonic() - before)
        attempt = _attempt(decision, repair, started, seconds)
        seq = len(call.incident.attempts)
        call.incident.attempts.append(attempt)
        censored = decision.action is A.CONTINUE
        record = partial(_record_attempt, call.incident.id, seq, attempt, censored)
        yield from healer.journal_write(record)
        if decision.action not in (A.ESCALATE, A.DEGRADE):
            call.record.spent += 1
            if call.task is not None:
                call.task.attempts += 1
        if repair.outcome is not Outcome.FAILED or repair.ends or repair.returns:
            return (yield from _finish(healer, call, decision, repair))
        yield from _fail(healer, call, repair.trouble or call.latest, fresh=bool(repair.trouble))
    stop = Repair(Outcome.STOPPED, note="the bound on decisions was reached", ends=True)
    return (yield from _finish(healer, call, None, stop))


def _record_attempt(
    incident_id: str, seq: int, attempt: Attempt, censored: bool, journal: JournalProtocol
) -> None:
    journal.record_attempt(incident_id, seq, attempt, censored)


def _run(healer: "Healer", call: Call, decision: Decision) -> Steps[Repair]:
    try:
        return (yield from EXECUTORS[decision.action].run(call))
    except Exception as fault:
        # A bug of an executor is a failed attempt; a terminal one still ends the incident.
        healer.note_fault(f"executor {decision.action.slug}", fault)
        ends = decision.action in (A.ESCALATE, A.DEGRADE, A.CONTINUE)
        return Repair(Outcome.STOPPED if ends else Outcome.FAILED, note=repr(fault), ends=ends)


def _attempt(decision: Decision, repair: Repair, started: float, seconds: float) -> Attempt:
    if repair.variant:
        decision = decision.model_copy(update={"variant": repair.variant})
    return Attempt(
        decision=decision,
        outcome=repair.outcome,
        started=started,
        seconds=seconds,
        verified=repair.verified,
        note=repair.note,
    )


def _decide(healer: "Healer", call: Call) -> Decision:
    incident = call.incident
    key = (*incident.key, len(incident.attempts))
    decision = healer.decider.decide(incident.frozen(), key, incident.explored)
    if decision.randomisation_unit and decision.propensity < 1.0:
        incident.explored = True
    return decision


def _fail(healer: "Healer", call: Call, trouble: Trouble, *, fresh: bool = True) -> Steps[None]:
    """Add a failure to the incident: snapshot, diagnosis, capabilities, journal."""
    incident, record = call.incident, call.record
    call.latest = trouble
    if fresh:
        record.failed()
    now = call.clock.monotonic()
    if not incident.failures:
        incident.opened = now
    health = record.health(now, call.task.others_failing(call.spec.name) if call.task else 0.0)
    budget = _budget_left(healer, call, now)
    if fresh or not incident.failures:
        snapshot = trouble.snapshot(
            call=call.failed_call(call.spec.seam),
            now=call.clock.now(),
            seam=call.spec.seam,
            telemetry=Telemetry(latency_s=max(0.0, trouble.seconds)),
            health=health,
            budget=budget,
            task_failures=incident.task_failures,
            **_task_fields(call),
        )
        failure = Failure(snapshot=snapshot, diagnosis=classify(snapshot))
    else:
        before = incident.failures[-1]
        update = {"time": call.clock.now(), "health": health, "budget": budget}
        failure = before.model_copy(update={"snapshot": before.snapshot.model_copy(update=update)})
    seq = len(incident.failures)
    incident.failures.append(failure)
    incident.capabilities = capabilities_of(healer, call)
    capabilities, wait = incident.capabilities, incident.next_wait_s
    yield from healer.journal_write(
        lambda j: j.record_failure(incident.id, seq, failure, capabilities, wait)
    )


def _task_fields(call: Call) -> dict[str, Any]:
    task = call.task
    if task is None:
        return {}
    return {
        "tenant": task.tenant,
        "task_id": task.id,
        "goal": task.goal,
        "task_type": task.task_type,
        "step": task.current_step,
        "n_steps": task.n_steps,
        "task_started": task.started,
    }


def _budget_left(healer: "Healer", call: Call, now: float) -> BudgetLeft:
    budget, incident, task = healer.budget, call.incident, call.task
    spent = sum(a.decision.action not in (A.ESCALATE, A.DEGRADE) for a in incident.attempts)
    left = budget.seconds - (now - incident.opened)
    task_left = task.seconds_left() if task is not None else None
    deadline = min(left, task_left) if task_left is not None else min(left, DEADLINE_S)
    tokens = money = 1.0
    if task is not None and budget.tokens:
        tokens = 1.0 - task.tokens / budget.tokens
    if task is not None and budget.money:
        money = 1.0 - task.money / budget.money
    cap = attempts_cap()
    allowed = budget.attempts if cap is None else min(cap, budget.attempts)
    used = task.attempts if task is not None else spent
    return BudgetLeft(
        attempts=max(0, allowed - spent - incident.inherited),
        task_attempts=max(0, budget.task_attempts - used),
        deadline_s=max(0.0, deadline),
        tokens=min(max(tokens, 0.0), 1.0),
        money=min(max(money, 0.0), 1.0),
    )


def capabilities_of(healer: "Healer", call: Call) -> Capabilities:
    """What the host offers for this call as it stands; the rest is masked."""

    def offers(action: RepairAction) -> bool:
        executor = EXECUTORS.get(action)
        try:
            return executor is not None and executor.needs(call)
        except Exception as fault:
            healer.note_fault(f"executor {action.slug}", fault)
            return False

    return Capabilities(
        seams=frozenset({call.spec.seam}),
        permission=healer.permission,
        fallback_tool=offers(A.FALLBACK_TOOL),
        reset_hook=offers(A.RESET_COMPONENT),
        degrade_builder=offers(A.DEGRADE),
        argument_schema=offers(A.FIX_ARGUMENTS),
        output_validator=offers(A.REPAIR_OUTPUT),
    )


def _finish(
    healer: "Healer", call: Call, decision: Decision | None, repair: Repair
) -> Steps[Final]:
    incident, record = call.incident, call.record
    incident.verdict = _verdict(call, decision, repair)
    if incident.verdict is Verdict.HANDED_BACK and not call.latest.is_soft:
        # Whether the agent recovers by itself shows in the tool's next call.
        record.incident, record.dirty = incident, True
    else:
        record.incident, record.dirty = None, False
    verdict = incident.verdict
    yield from healer.journal_write(lambda j: j.record_verdict(incident.id, verdict))
    frozen = incident.frozen(censored=verdict is Verdict.HANDED_BACK)
    returns = repair.returns or repair.outcome is Outcome.HEALED
    if verdict is Verdict.HEALED:
        record.succeeded(call.clock.monotonic())
    call.info.incident_id = incident.id
    call.info.action = decision.action.slug if decision is not None else A.ESCALATE.slug
    call.info.verified = repair.verified
    call.info.value = repair.value
    healer.closed(frozen, call.info if returns else None)
    if returns:
        log.warning("%s", summary(frozen, call.info))
        return Final(repair.value, None, frozen)
    final = _own(call, frozen)
    log.warning("%s", summary(frozen, call.info))
    error = final.error
    if error is not None:
        attach(error, frozen)
        own = call.first.error
        if healer.raise_healing_failed and own is not None:
            return Final(error=_healing_failed(own, frozen), incident=frozen)
    return final


def _verdict(call: Call, decision: Decision | None, repair: Repair) -> Verdict:
    if repair.outcome is Outcome.HEALED:
        return Verdict.HEALED
    if decision is not None and decision.action is A.CONTINUE:
        return Verdict.HANDED_BACK
    if repair.returns:
        return Verdict.DEGRADED
    left = call.incident.failures[-1].snapshot.budget
    return Verdict.EXHAUSTED if not min(left.attempts, left.task_attempts) else Verdict.ESCALATED


def _own(call: Call, frozen: Incident | None = None) -> Final:
    """The agent's own: its exception object, its error result, or the check's objection."""
    first = call.first
    if first.error is not None:
        return Final(error=first.error, incident=frozen)
    if not first.is_soft:
        return Final(first.value, None, frozen)
    if frozen is None:  # a fault of ours: a check's doubt must not cost the agent its result
        return Final(first.value)
    if first.objection is not None:
        return Final(error=first.objection, incident=frozen)
    text = f"the result of {call.spec.name!r} was stopped: {first.alarm}"
    return Final(error=HealingFailed(text), incident=frozen)


def _healing_failed(error: BaseException, frozen: Incident) -> HealingFailed:
    failed = HealingFailed(
        f"healing ended {frozen.verdict.value} after {len(frozen.attempts)} decisions; "
        f"the agent's own error is the cause of this one"
    )
    failed.__cause__ = error
    attach(failed, frozen)
    return failed


def settle(healer: "Healer", record: ToolRecord, now: float) -> Steps[None]:
    """The tool succeeded by itself after its incident was handed back: the agent healed it."""
    incident = record.incident
    record.incident, record.dirty = None, False
    record.succeeded(now)
    if incident is not None:
        incident.verdict = Verdict.HEALED
        yield from healer.journal_write(lambda j: j.record_verdict(incident.id, Verdict.HEALED))
