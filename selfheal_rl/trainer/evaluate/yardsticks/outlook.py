"""What resuming a task is worth: the value planners put behind the incident at hand."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfheal_rl.core.situation import FACTS
from selfheal_rl.trainer.seeds import TRAIN_SEED
from selfheal_rl.trainer.sim.compile import CompiledWorld
from selfheal_rl.trainer.sim.deployments import draw_deployments
from selfheal_rl.trainer.sim.episodes import SimPolicy, TaskResults, View, run_tasks

F32 = NDArray[np.float32]
CALIBRATION_TASKS = 4096
_STEP, _INCIDENTS = FACTS["share.step"], FACTS["count.task_failures"]


@dataclass(frozen=True)
class Incidents:
    """Mean figures of one incident of a world under a sensible policy.

    Attributes:
        loss: P(the incident loses the task).
        cost: utility paid for it when the task survives, quality included.
        seconds: it takes.
    """

    loss: float = 0.1
    cost: float = 0.02
    seconds: float = 20.0

    @classmethod
    def measure(cls, world: CompiledWorld, policy: SimPolicy) -> "Incidents":
        """Play tasks on training draws and average over incidents."""
        deployments = draw_deployments(world, 64, TRAIN_SEED)
        tasks = np.arange(CALIBRATION_TASKS)
        result = run_tasks(
            world, deployments, policy, tasks, tasks % 64, seed=TRAIN_SEED, only_failing=True
        )
        return cls.of(world, result)

    @classmethod
    def of(cls, world: CompiledWorld, result: TaskResults) -> "Incidents":
        """The figures behind ``result``; healthy steps are taken at their mean number."""
        met = result.incidents > 0
        whole = met & result.completed
        count = max(float(result.incidents[whole].sum()), 1.0)
        shape, prices = world.world.task, world.world.prices
        healthy = mean_steps(world) * step_cost(world)
        paid = prices.task - result.utility[whole] - healthy
        busy = result.seconds[whole] - mean_steps(world) * shape.step_seconds
        lost = float((met & ~result.completed).sum()) / max(float(result.incidents.sum()), 1.0)
        return cls(
            loss=min(max(lost, 0.0), 0.9),
            cost=max(float(paid.sum()) / count, 0.0),
            seconds=max(float(busy.sum()) / count, 0.0),
        )


def mean_steps(world: CompiledWorld) -> float:
    """Mean number of steps of a task."""
    return 0.5 * (world.world.task.steps_low + world.world.task.steps_high)


def step_cost(world: CompiledWorld) -> float:
    """Utility paid for one healthy step."""
    task, prices = world.world.task, world.world.prices
    return prices.second * task.step_seconds + prices.kilotoken * 1e-3 * task.step_tokens


@dataclass(frozen=True)
class Ahead:
    """What lies behind the present incident, per row; arrays of shape (N,).

    Attributes:
        steps: left after the failed one.
        rate: expected failure rate a step.
        survives: P(no later incident loses the task).
        cost: utility still to be paid when the task is resumed.
        busy: seconds still needed, later incidents included.
        spread: standard deviation of those seconds, about.
    """

    steps: F32
    rate: F32
    survives: F32
    cost: F32
    busy: F32
    spread: F32

    def take(self, at: Any) -> "Ahead":
        """Only the rows ``at``."""
        return Ahead(*(getattr(self, name)[at] for name in self.__dataclass_fields__))

    def in_time(self, left_s: F32) -> F32:
        """P(the task ends before its deadline, ``left_s`` seconds away); broadcasts."""
        z = (left_s - self.busy) / self.spread
        # A ramp instead of the normal distribution function: planners spend their time here.
        result: F32 = np.clip(np.float32(0.5) + np.float32(0.4) * z, 0.0, 1.0)
        return result


def ahead_of(
    view: View,
    world: CompiledWorld,
    incidents: Incidents,
    *,
    steps: F32 | None = None,
    done: F32 | None = None,
    factor: F32 | float = 1.0,
) -> Ahead:
    """The rest of each task, from facts alone unless more is given.

    The failure rate has a gamma prior over tasks (shape ``frailty_shape``, mean the world's). After
    k failures in s steps, the present one included, its mean is
    ``rate * (shape + k) / (shape + rate * s)``.

    Args:
        view: the decisions at hand.
        world: compiled.
        incidents: mean figures of later incidents.
        steps: steps left, where known.
        done: steps done, where known.
        factor: of the deployment on the failure rate, where known.
    """
    task = world.world.task
    share, count = view.facts[_STEP], view.facts[_INCIDENTS] + np.float32(1.0)
    n = np.float32(mean_steps(world))
    left = n * (1.0 - share) if steps is None else steps
    past = n * share if done is None else done
    mean = np.float32(task.failure_rate) * factor
    shape = np.float32(task.frailty_shape)
    rate = np.clip(mean * (shape + count) / (shape + mean * past), 0.0, 0.9)
    rate = np.where(count >= task.max_failures, 0.0, rate).astype(np.float32)
    met = rate * left
    survives = (1.0 - rate * np.float32(incidents.loss)) ** left
    reached = 0.5 * (1.0 + survives)
    cost = reached * (left * np.float32(step_cost(world)) + met * np.float32(incidents.cost))
    busy = left * np.float32(task.step_seconds) + met * np.float32(incidents.seconds)
    spread = 1.0 + np.float32(incidents.seconds) * np.sqrt(met)
    f4 = np.float32
    return Ahead(
        left.astype(f4),
        rate,
        survives.astype(f4),
        cost.astype(f4),
        busy.astype(f4),
        spread.astype(f4),
    )
