"""Tools under the healer."""

from collections.abc import Iterator
from contextlib import contextmanager

from selfheal_rl.core.values import ConfigError, Verdict
from selfheal_rl.lab.agent import N_STEPS
from selfheal_rl.lab.hands import Finish, Hands, Setup
from selfheal_rl.lab.tools import CACHE_AGE_S, Function, Tool
from selfheal_rl.lab.world import DEADLINE_S, TaskWorld
from selfheal_rl.runtime.heal.healer import Healer
from selfheal_rl.runtime.heal.notes import incident
from selfheal_rl.runtime.heal.options import Budget, Fallback
from selfheal_rl.runtime.heal.task import Task

PERMISSION = 2
"""Level of every healer arm: fallbacks, resets and lossless mending, nothing beyond."""


class HealerHands(Hands):
    """Tools under the healer, at permission level 2.

    Args:
        name: of the arm.
        setup: what to wrap.
        policy: a bundled id or an artifact's folder; None for rules alone.
        rules: ladder that acts without a policy and behind one.

    Raises:
        ConfigError: the policy cannot be used; the arm would show the rules in its place.
    """

    def __init__(self, name: str, setup: Setup, *, policy: str | None, rules: str) -> None:
        self.healer = Healer(
            policy,
            permission=PERMISSION,
            journal=setup.journal,
            budget=Budget(seconds=DEADLINE_S),
            clock=setup.clock,
            seed=setup.seed,
            rules=rules,
        )
        self._task: Task | None = None
        if reasons := self.healer.health()["reasons"]:
            self.healer.close()
            raise ConfigError(f"arm {name!r} cannot run: {'; '.join(reasons)}")
        super().__init__(name, setup)

    def wrap(self, tool: Tool) -> Function:
        """The tool under the healer, with all that its owner declares."""
        fallbacks: tuple[Fallback, ...] = ()
        if tool.fallback is not None:
            age = CACHE_AGE_S if tool.stale else None
            kind = "stale" if tool.stale else "same"
            fallbacks = (Fallback(tool.fallback, equivalence=kind, max_age_s=age),)
        wrapped: Function = self.healer.tool(
            tool.function,
            name=tool.name,
            effects=tool.effects,
            fallbacks=fallbacks,
            idempotency_key=tool.key,
            arguments=tool.arguments,
            returns=tool.returns,
            reset=tool.reset,
            degrade=tool.degrade,
            error_in_result=tool.error_in_result,
        )
        return wrapped

    @contextmanager
    def task(self, world: TaskWorld) -> Iterator[Finish]:
        """A task of the healer, with the deadline and the end state's verdict."""
        order = world.task
        name = f"{self.name}-{order.seed}-{order.index}"
        goal = f"order {order.units} x {order.sku} and account for it"
        with self.healer.task(
            name, goal=goal, task_type="lab", deadline_s=DEADLINE_S, n_steps=N_STEPS
        ) as task:
            self._task = task
            yield lambda success: task.finish(success=success)
        self._task = None

    def step(self, number: int) -> None:
        """Tell the healer which step the agent is at."""
        if self._task is not None:
            self._task.step(number)

    def stops(self, error: Exception) -> bool:
        """True where the healer escalated, by choice or because nothing was left to try."""
        found = incident(error)
        return found is not None and found.verdict in (Verdict.ESCALATED, Verdict.EXHAUSTED)

    @property
    def selector(self) -> str:
        """Name of the policy or table in force."""
        return str(self.healer.health()["selector"])

    @property
    def troubles(self) -> tuple[str, ...]:
        """Faults of the healer itself."""
        return tuple(self.healer.health()["reasons"])

    def close(self) -> None:
        """Close the journal."""
        self.healer.close()
