"""The healing loop without input and output: what it asks of its driver, and the two drivers.

The loop is a generator that yields effects and receives replies, so that sync and async code
share every line of it. A failing call comes back as a :class:`Reply`, never as an exception.
"""

import asyncio
import inspect
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from selfheal_rl.core.values import Clock
from selfheal_rl.runtime.heal.switches import attempts_cap

R = TypeVar("R")


@dataclass(slots=True)
class Reply:
    """What a call came to: a value or an error, and the seconds it took."""

    value: Any = None
    error: Exception | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Invoke:
    """Call the user's function; answered by its Reply.

    Attributes:
        timeout_s: seconds after which an async call is cancelled; None for no limit.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True)
class Sleep:
    """Wait; answered by an empty Reply."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Write:
    """Do blocking input or output of our own (the journal); answered by its Reply."""

    function: Callable[[], Any]


Effect = Invoke | Sleep | Write
Steps = Generator[Effect, Reply, R]


def run_sync(steps: Steps[R], clock: Clock) -> R:
    """Drive ``steps`` to its end on this thread."""
    try:
        effect = next(steps)
        while True:
            effect = steps.send(perform(effect, clock))
    except StopIteration as stop:
        result: R = stop.value
        return result
    finally:
        steps.close()


async def run_async(steps: Steps[R], clock: Clock) -> R:
    """Drive ``steps`` to its end without blocking the event loop."""
    try:
        effect = next(steps)
        while True:
            effect = steps.send(await aperform(effect, clock))
    except StopIteration as stop:
        result: R = stop.value
        return result
    finally:
        steps.close()


def perform(effect: Effect, clock: Clock) -> Reply:
    """Carry out one effect on this thread; what the function raises is in the reply."""
    started = clock.monotonic()
    try:
        if isinstance(effect, Invoke):
            value = effect.function(*effect.args, **effect.kwargs)
        elif isinstance(effect, Sleep):
            value = None
            if attempts_cap() is None:
                clock.sleep(effect.seconds)
        else:
            value = effect.function()
    except Exception as error:
        return Reply(error=error, seconds=max(0.0, clock.monotonic() - started))
    return Reply(value, seconds=max(0.0, clock.monotonic() - started))


async def aperform(effect: Effect, clock: Clock) -> Reply:
    """Carry out one effect without blocking the event loop."""
    started = clock.monotonic()
    try:
        if isinstance(effect, Invoke):
            value = await _acall(effect)
        elif isinstance(effect, Sleep):
            value = None
            if attempts_cap() is None:
                await clock.asleep(effect.seconds)
        else:
            value = await asyncio.to_thread(effect.function)
    except Exception as error:
        return Reply(error=error, seconds=max(0.0, clock.monotonic() - started))
    return Reply(value, seconds=max(0.0, clock.monotonic() - started))


async def _acall(effect: Invoke) -> Any:
    if not inspect.iscoroutinefunction(effect.function):
        # A sync hook or fallback of an async tool may block: it must not hold up the loop.
        value = await asyncio.to_thread(effect.function, *effect.args, **effect.kwargs)
    else:
        value = effect.function(*effect.args, **effect.kwargs)
    if inspect.isawaitable(value):
        if effect.timeout_s is None:
            return await value
        return await asyncio.wait_for(value, effect.timeout_s)
    return value
