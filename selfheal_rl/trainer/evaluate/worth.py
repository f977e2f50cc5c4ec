"""Is a world worth learning on? Refuse prices under which the answer is trivial."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from selfheal_rl.core.catalog import list_worlds
from selfheal_rl.core.values import ACTIONS, TERMINAL, ConfigError, RepairAction
from selfheal_rl.trainer.evaluate.yardsticks.clairvoyant import Clairvoyant
from selfheal_rl.trainer.seeds import VALIDATE_SEED
from selfheal_rl.trainer.sim.compile import CompiledWorld, load_world
from selfheal_rl.trainer.sim.deployments import draw_deployments
from selfheal_rl.trainer.sim.dynamics import RepairCore
from selfheal_rl.trainer.sim.episodes import View, run_tasks

A = RepairAction
MIN_MARGIN = 0.15
"""Utility by which the clairvoyant must beat the best constant policy, on tasks with a failure."""
MAX_ESCALATED = 0.5
"""Largest share of repairable incidents that the clairvoyant may escalate."""
REPAIRABLE = 0.2
"""An incident is repairable when some legal action heals it with at least this probability."""
_WIDTHS = (4, 3)


@dataclass(frozen=True)
class Worth:
    """What decides whether a world is refused; utilities are means over failing tasks."""

    world: str
    clairvoyant: float
    best_constant: float
    constant: str
    escalated: float
    """Share of repairable incidents that the clairvoyant escalates."""

    @property
    def margin(self) -> float:
        """Clairvoyant less best constant policy."""
        return self.clairvoyant - self.best_constant

    def to_json(self) -> dict[str, float | str]:
        """Plain figures."""
        return asdict(self) | {"margin": self.margin}


class Constant:
    """One action wherever it is legal, else ``escalate``, the one that always is."""

    def __init__(self, action: RepairAction) -> None:
        self.action, self.name = action, f"always-{action.slug}"

    def choose(self, view: View) -> NDArray[np.int64]:
        """One action per row."""
        return np.where(view.mask[:, self.action], self.action, A.ESCALATE)


class _Count:
    """Counts repairable incidents and those that were escalated."""

    def __init__(self) -> None:
        self.repairable = 0
        self.escalated = 0

    def __call__(
        self, core: RepairCore, index: NDArray[np.int64], actions: NDArray[np.int64]
    ) -> None:
        first = core.attempts == 0
        success = core.deployments.success[core.draw, core.cause]
        best = (success * View(core).mask).max(axis=1)
        able = first & ((best >= REPAIRABLE) | np.isfinite(core.ends))
        self.repairable += int(able.sum())
        self.escalated += int((able & (actions == A.ESCALATE)).sum())


def weigh(world: CompiledWorld, *, tasks: int = 2048) -> Worth:
    """Play failing tasks of held-out draws under the clairvoyant and every constant policy."""
    deployments = draw_deployments(world, 32, VALIDATE_SEED)
    ids = np.arange(tasks)
    draws = ids % len(deployments)

    def utility(policy: Constant | Clairvoyant, count: _Count | None = None) -> float:
        result = run_tasks(
            world,
            deployments,
            policy,
            ids,
            draws,
            seed=VALIDATE_SEED,
            only_failing=True,
            observer=count,
        )
        return float(result.utility.mean())

    constants = {a.slug: utility(Constant(a)) for a in ACTIONS if a not in TERMINAL}
    constants |= {a.slug: utility(Constant(a)) for a in TERMINAL}
    best = max(constants, key=constants.__getitem__)
    count = _Count()
    top = utility(Clairvoyant(world, widths=_WIDTHS), count)
    share = count.escalated / max(count.repairable, 1)
    return Worth(world.world.id, top, constants[best], best, share)


def require_worth(world: CompiledWorld, *, tasks: int = 2048) -> Worth:
    """The figures of :func:`weigh`, when they leave something to learn.

    Raises:
        ConfigError: the world's prices make one constant answer nearly as good as knowing
            everything, or make giving up the best answer to most repairable incidents.
    """
    worth = weigh(world, tasks=tasks)
    if worth.margin < MIN_MARGIN:
        raise ConfigError(
            f"world {worth.world!r}: knowing everything is worth {worth.clairvoyant:.3f} a failing "
            f"task, always {worth.constant!r} {worth.best_constant:.3f}, a margin of "
            f"{worth.margin:.3f}; expected at least {MIN_MARGIN}; check prices and costs"
        )
    if worth.escalated > MAX_ESCALATED:
        raise ConfigError(
            f"world {worth.world!r}: the clairvoyant escalates {worth.escalated:.0%} of the "
            f"repairable incidents; expected at most {MAX_ESCALATED:.0%}; repairs are priced too "
            "dear or people too cheap"
        )
    return worth


def check_own(references: Iterable[str]) -> None:
    """Refuse a user's own world that is not worth it; the bundled ones are checked by the tests.

    Args:
        references: ids or paths of worlds.

    Raises:
        ConfigError: as :func:`require_worth`.
    """
    for reference in references:
        if reference not in list_worlds():
            require_worth(load_world(reference))
