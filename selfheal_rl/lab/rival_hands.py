"""Tools under one library's default retry."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from selfheal_rl.lab.draws import rng_of
from selfheal_rl.lab.hands import Finish, Hands, Setup, no_report
from selfheal_rl.lab.rivals import rival
from selfheal_rl.lab.rivals.borrowed_time import borrowed_time
from selfheal_rl.lab.rivals.caps import Caps
from selfheal_rl.lab.tools import Function, Tool
from selfheal_rl.lab.world import TaskWorld


class RivalHands(Hands):
    """Tools under one library's default retry."""

    def __init__(self, name: str, setup: Setup) -> None:
        self._library = rival(name)
        self._caps: Caps | None = None
        super().__init__(name, setup)

    def wrap(self, tool: Tool) -> Function:
        """The tool under the library's decorator, within the common caps."""

        def wrapped(**arguments: Any) -> Any:
            if self._caps is None:
                raise RuntimeError("no task is in play: expected task() around the call")
            call = _bound(tool.function, arguments)
            return self._caps.run(tool.name, call, self._library.attempt)

        return wrapped

    @contextmanager
    def task(self, world: TaskWorld) -> Iterator[Finish]:
        """Lend the library the task's clock and seeded luck."""
        rng = rng_of(world.task.seed, world.task.index, self.name)
        self._caps = Caps(world)
        with borrowed_time(self._library.modules(), world.clock, rng):
            yield no_report
        self._caps = None

    def stops(self, error: Exception) -> bool:
        """True where the library's error ends the agent's whole run."""
        return bool(self._library.ENDS_THE_RUN)


def _bound(function: Function, arguments: dict[str, Any]) -> Callable[[], Any]:
    return lambda: function(**arguments)
