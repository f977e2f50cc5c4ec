"""The wrappers around a tool. The healthy path is kept to a few dozen bytecodes."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from selfheal_rl.core.values import Effects
from selfheal_rl.runtime.heal.call import ResultInfo, Tool
from selfheal_rl.runtime.heal.effects import Invoke, Reply, Steps, run_async, run_sync
from selfheal_rl.runtime.heal.loop import Final, heal, settle
from selfheal_rl.runtime.heal.notes import incident
from selfheal_rl.runtime.heal.switches import is_active
from selfheal_rl.runtime.heal.task import CURRENT, Task, ToolRecord
from selfheal_rl.runtime.heal.trouble import Trouble

if TYPE_CHECKING:
    from selfheal_rl.runtime.heal.healer import Healer

_SAME_MOMENT_S = 1e-3
"""Slack between the two clocks."""


def wrap(healer: "Healer", tool: Tool) -> Any:
    """``tool.function`` with healing; sync stays sync and async stays async."""
    return (_wrap_async if tool.is_async else _wrap_sync)(healer, tool)


def _wrap_sync(healer: "Healer", tool: Tool) -> Callable[..., Any]:
    function, own, name, clock = tool.function, tool.record, tool.spec.name, healer.clock
    monotonic, current, checked = clock.monotonic, CURRENT.get, bool(tool.checks)

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        task = current()
        record = own if task is None else task.records.get(name) or task.record(name)
        if tool.sticky is None:
            started = monotonic()
            try:
                value = function(*args, **kwargs)
            except Exception as error:
                reply = Reply(error=error, seconds=monotonic() - started)
            else:
                if not (checked or record.dirty):
                    record.ok += 1
                    record.last_ok = monotonic()
                    return value
                reply = Reply(value, seconds=monotonic() - started)
            steps = after(healer, tool, args, kwargs, reply, record, task)
        else:
            steps = _around(healer, tool, args, kwargs, record, task)
        final = run_sync(steps, clock)
        if final.error is not None:
            raise final.error
        return final.value

    return wrapper


def _wrap_async(healer: "Healer", tool: Tool) -> Callable[..., Any]:
    function, own, name, clock = tool.function, tool.record, tool.spec.name, healer.clock
    monotonic, current = clock.monotonic, CURRENT.get
    checked = bool(tool.checks) or tool.spec.timeout_s is not None

    @functools.wraps(function)
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        task = current()
        record = own if task is None else task.records.get(name) or task.record(name)
        if tool.sticky is None and tool.spec.timeout_s is None:
            started = monotonic()
            try:
                value = await function(*args, **kwargs)
            except Exception as error:
                reply = Reply(error=error, seconds=monotonic() - started)
            else:
                if not (checked or record.dirty):
                    record.ok += 1
                    record.last_ok = monotonic()
                    return value
                reply = Reply(value, seconds=monotonic() - started)
            steps = after(healer, tool, args, kwargs, reply, record, task)
        else:
            steps = _around(healer, tool, args, kwargs, record, task)
        final = await run_async(steps, clock)
        if final.error is not None:
            raise final.error
        return final.value

    return wrapper


def after(
    healer: "Healer",
    tool: Tool,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    reply: Reply,
    record: ToolRecord,
    task: Task | None,
) -> Steps[Final]:
    """What follows a call's reply: its checks, then healing or bookkeeping."""
    trouble = _trouble(healer, tool, reply)
    if trouble is not None:
        if not _is_ours(healer, tool, trouble):
            record.failed()
            return Final(trouble.value, trouble.error)
        call = healer.call_of(tool, args, kwargs, trouble, record, task)
        return (yield from heal(healer, call))
    now = healer.clock.monotonic()
    if record.dirty:
        yield from settle(healer, record, now)
    else:
        record.succeeded(now)
    return Final(reply.value)


def _is_ours(healer: "Healer", tool: Tool, trouble: Trouble) -> bool:
    """False for what is only observed: control flow, and what an inner seam has dealt with."""
    if not is_active():
        return False
    error = trouble.error
    if error is None:
        return True
    if isinstance(error, healer.pass_through):
        return False
    handled = incident(error)
    if handled is None or handled.snapshot.call.tool == tool.spec.name:
        return True
    # A tool that called another healed tool: to repeat it would multiply the attempts.
    last = handled.attempts[-1]
    closed = last.started + last.seconds
    return closed < healer.clock.now() - trouble.seconds - _SAME_MOMENT_S


def _trouble(healer: "Healer", tool: Tool, reply: Reply) -> Trouble | None:
    try:
        return tool.checks.trouble_of(reply)
    except Exception as fault:  # a user's detector that fails must not cost the agent its result
        healer.note_fault(f"checks of {tool.spec.name}", fault)
        return Trouble(error=reply.error, seconds=reply.seconds) if reply.error else None


def _around(
    healer: "Healer",
    tool: Tool,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    record: ToolRecord,
    task: Task | None,
) -> Steps[Final]:
    """A call while a fallback is preferred: the fallback first, the tool itself behind it."""
    sticky = tool.sticky
    if sticky is not None and healer.clock.monotonic() < sticky[1]:
        fallback = tool.spec.fallbacks[sticky[0]]
        reply = yield Invoke(fallback.call, args, kwargs, tool.spec.timeout_s)
        if _trouble(healer, tool, reply) is None:
            info = ResultInfo(equivalence=fallback.equivalence, max_age_s=fallback.max_age_s)
            info.value = reply.value
            healer.substituted(info)
            return Final(reply.value)
        if tool.spec.effects not in (Effects.READ, Effects.IDEMPOTENT_WRITE):
            # The fallback may have written: what follows is a failure, not another try.
            return (yield from after(healer, tool, args, kwargs, reply, record, task))
    tool.sticky = None  # half open: this one call tries the tool itself
    reply = yield Invoke(tool.function, args, kwargs, tool.spec.timeout_s)
    return (yield from after(healer, tool, args, kwargs, reply, record, task))


__all__ = ["after", "wrap"]
