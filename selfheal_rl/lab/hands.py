"""The tools as an arm wraps them, for one seed of one arm."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from selfheal_rl.core.values import Clock
from selfheal_rl.lab.tools import Bench, Function, Tool
from selfheal_rl.lab.world import TaskWorld

Finish = Callable[[bool], None]
"""Told whether the task ended in the right state."""


@dataclass(frozen=True)
class Setup:
    """What an arm starts from.

    Attributes:
        bench: the tools and their components.
        clock: virtual, shared by agent, service and healer.
        seed: of the run.
        journal: path or URL of the journal; None keeps none.
        policy: of the arm ``policy``: a bundled id, or an artifact's folder.
    """

    bench: Bench
    clock: Clock
    seed: int
    journal: str | None = None
    policy: str = "default"


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
        return nullcontext(no_report)

    def step(self, number: int) -> None:
        """The agent begins a step, from 1."""

    def stops(self, error: Exception) -> bool:
        """Whether the error means that the arm stopped the task and calls for a person."""
        del error
        return False

    @property
    def selector(self) -> str:
        """Name of what decides; empty where no healer does."""
        return ""

    @property
    def troubles(self) -> tuple[str, ...]:
        """Faults of the arm's own machinery, in words."""
        return ()

    def close(self) -> None:
        """Let go of what the arm holds."""


def no_report(success: bool) -> None:
    """Nobody asks how the task ended."""
