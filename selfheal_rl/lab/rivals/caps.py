"""The caps every arm runs under: attempts per trouble of a tool, and the task's deadline."""

from collections.abc import Callable
from typing import Any

from selfheal_rl.core.situation import MAX_ATTEMPTS_INCIDENT
from selfheal_rl.lab.world import TaskWorld

Call = Callable[[], Any]


class CapReached(BaseException):
    """Stops a library that would go on; no ``Exception``, so that the library does not retry it."""


class Caps:
    """Counts a task's repeats per tool, as one incident would.

    Args:
        world: of the task.
    """

    def __init__(self, world: TaskWorld) -> None:
        self._world = world
        self._repeats: dict[str, int] = {}

    def run(self, tool: str, call: Call, attempt: Callable[[Call], Any]) -> Any:
        """Run a call by a library, within the caps.

        Args:
            tool: name of the tool; its repeats count until it succeeds.
            call: the call.
            attempt: the library's way of running it.

        Raises:
            Exception: what the library raises, or the call's last error once a cap is reached.
        """
        errors: list[Exception] = []

        def once() -> Any:
            if errors:
                self._count(tool)
            try:
                result = call()
            except Exception as error:
                errors.append(error)
                raise
            self._repeats.pop(tool, None)
            return result

        try:
            return attempt(once)
        except CapReached:
            raise errors[-1] from None

    def _count(self, tool: str) -> None:
        made = self._repeats.get(tool, 0)
        if made >= MAX_ATTEMPTS_INCIDENT or self._world.time_is_up:
            raise CapReached
        self._repeats[tool] = made + 1
