"""Healing of a block: the context-manager form, run again by a loop."""

from collections.abc import AsyncIterator, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from selfheal_rl.core.values import ConfigError
from selfheal_rl.runtime.heal.call import Tool
from selfheal_rl.runtime.heal.effects import Effect, Invoke, Reply, Steps, aperform, perform
from selfheal_rl.runtime.heal.loop import Final
from selfheal_rl.runtime.heal.register import make_tool
from selfheal_rl.runtime.heal.task import CURRENT
from selfheal_rl.runtime.heal.wrappers import after

if TYPE_CHECKING:
    from selfheal_rl.runtime.heal.healer import Healer

OPTIONS = ("effects", "name", "reset", "seam")


def block() -> None:
    """Stands for the body of the user's ``with``."""


class BlockAttempt:
    """One run of the block: ``with attempt: ...``. Its error is kept for the loop."""

    def __init__(self, number: int) -> None:
        self.number = number
        """From 1."""
        self.reply: Reply | None = None

    def __enter__(self) -> "BlockAttempt":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if error is None:
            self.reply = Reply()
            return False
        if not isinstance(error, Exception):
            return False
        self.reply = Reply(error=error)
        return True


class Attempts:
    """The loop's iterable; made by ``healer.attempts``."""

    def __init__(self, healer: "Healer", options: dict[str, Any]) -> None:
        odd = [name for name in options if name not in OPTIONS]
        if odd:
            raise ConfigError(
                f"healer.attempts got {odd[0]!r}; expected only {', '.join(OPTIONS)}: a block has "
                "no arguments and no result; use @healer.tool for the rest"
            )
        self._healer = healer
        self._tool: Tool = make_tool(
            block, {"name": "block", **options}, healer.clock, is_block=True
        )

    def _steps(self) -> Steps[Final]:
        healer, tool, task = self._healer, self._tool, CURRENT.get()
        name = tool.spec.name
        record = tool.record if task is None else task.record(name)
        reply = yield Invoke(block)
        return (yield from after(healer, tool, (), {}, reply, record, task))

    def __iter__(self) -> Iterator[BlockAttempt]:
        clock, steps, number = self._healer.clock, self._steps(), 0
        try:
            effect: Effect = next(steps)
            while True:
                if isinstance(effect, Invoke) and effect.function is block:
                    number += 1
                    attempt = BlockAttempt(number)
                    started = clock.monotonic()
                    yield attempt
                    reply = _reply_of(attempt, clock.monotonic() - started)
                else:
                    reply = perform(effect, clock)
                effect = steps.send(reply)
        except StopIteration as stop:
            final: Final = stop.value
        finally:
            steps.close()
        if final.error is not None:
            raise final.error

    async def __aiter__(self) -> AsyncIterator[BlockAttempt]:
        clock, steps, number = self._healer.clock, self._steps(), 0
        try:
            effect: Effect = next(steps)
            while True:
                if isinstance(effect, Invoke) and effect.function is block:
                    number += 1
                    attempt = BlockAttempt(number)
                    started = clock.monotonic()
                    yield attempt
                    reply = _reply_of(attempt, clock.monotonic() - started)
                else:
                    reply = await aperform(effect, clock)
                effect = steps.send(reply)
        except StopIteration as stop:
            final: Final = stop.value
        finally:
            steps.close()
        if final.error is not None:
            raise final.error


def _reply_of(attempt: BlockAttempt, seconds: float) -> Reply:
    if attempt.reply is None:
        raise ConfigError(
            "an attempt was not entered; write: for attempt in healer.attempts(...): "
            "with attempt: ..."
        )
    attempt.reply.seconds = max(0.0, seconds)
    return attempt.reply
