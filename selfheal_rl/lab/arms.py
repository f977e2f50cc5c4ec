"""The arms: the same agent and tools, wrapped by one way of handling errors each."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from selfheal_rl.core.values import Clock, UnknownIdError
from selfheal_rl.lab.draws import rng_of
from selfheal_rl.lab.rivals import RIVALS, rival
from selfheal_rl.lab.rivals.borrowed_time import borrowed_time
from selfheal_rl.lab.rivals.caps import Caps
from selfheal_rl.lab.tools import Bench, Function, Tool
from selfheal_rl.lab.world import TaskWorld

Finish = Callable[[bool], None]


@dataclass(frozen=True)
class Setup:
    """What an arm starts from.

    Attributes:
        bench: the tools and their components.
        clock: virtual, shared by agent, service and healer.
        seed: of the run.
        journal: path or URL of the journal; None keeps none.
    """

    bench: Bench
    clock: Clock
    seed: int
    journal: str | None


class Hands:
    """Tools as one arm wraps them. This one adds nothing: the bare agent.

    Args:
        name: of the arm.
        setup: what to wrap.
    """

    def __init__(self, name: str, setup: Setup) -> None:
        self.name = name
        self.setup = setup
        self.tools: Mapping[str, Function] = {
            tool.name: self.wrap(tool) for tool in setup.bench.tools().values()
        }

    def wrap(self, tool: Tool) -> Function:
        """The tool as the agent calls it."""
        return tool.function

    def task(self, world: TaskWorld) -> AbstractContextManager[Finish]:
        """Around one task; yields a function that takes whether it succeeded."""
        del world
        return nullcontext(_no_report)

    def stops(self, error: Exception) -> bool:
        """Whether the error means that the arm stopped the task and calls for a person."""
        del error
        return False

    def close(self) -> None:
        """Let go of what the arm holds."""


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
            yield _no_report
        self._caps = None

    def stops(self, error: Exception) -> bool:
        """True where the library's error ends the agent's whole run."""
        return bool(self._library.ENDS_THE_RUN)


def _bound(function: Function, arguments: dict[str, Any]) -> Callable[[], Any]:
    return lambda: function(**arguments)


def _no_report(success: bool) -> None:
    """Nobody asks how the task ended."""


@dataclass(frozen=True)
class Arm:
    """One way of handling errors.

    Attributes:
        name: as given on the command line.
        summary: one line for people.
        start: wraps the tools for one seed.
    """

    name: str
    summary: str
    start: Callable[[Setup], Hands]


def _rival_arm(name: str, summary: str) -> Arm:
    return Arm(name, summary, lambda setup: RivalHands(name, setup))


ARMS: dict[str, Arm] = {
    arm.name: arm
    for arm in (
        Arm("bare", "the agent alone", lambda setup: Hands("bare", setup)),
        *(_rival_arm(name, f"{name} with its defaults") for name in RIVALS),
    )
}
"""Every arm by name."""


def find_arm(name: str) -> Arm:
    """The arm of that name.

    Raises:
        UnknownIdError: there is none; the message names the nearest.
    """
    if name in ARMS:
        return ARMS[name]
    near = get_close_matches(name, ARMS, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise UnknownIdError(f"unknown arm {name!r}: {hint}expected one of {', '.join(ARMS)}")
