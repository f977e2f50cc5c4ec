"""Run the lab: every arm on the same tasks and the same faults."""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator

from selfheal_rl.core.values import ConfigError, Frozen, Prices, VirtualClock
from selfheal_rl.lab.agent import Agent, TaskAbandoned, TaskStopped
from selfheal_rl.lab.arms import ARMS, Arm, Hands, Setup, find_arm
from selfheal_rl.lab.judge import judge
from selfheal_rl.lab.results import TaskResult, summarise
from selfheal_rl.lab.service import Service, serving
from selfheal_rl.lab.shop import make_shop
from selfheal_rl.lab.tools import Bench
from selfheal_rl.lab.world import TaskWorld

BETWEEN_TASKS_S = 3600.0
"""Virtual seconds between two tasks, so that no cool-down of one reaches into the next."""
Progress = Callable[[str, int], None]
"""Called after each task with the arm's name and the number of tasks done."""


class LabConfig(Frozen):
    """What to run.

    Attributes:
        tasks: tasks per seed, >= 1.
        seeds: seeds, numbered from 0, >= 1.
        arms: names of arms, in the order of the table.
        journal: path or URL of the journal for healer arms; None keeps none.
        prices: of time, people and harm.
    """

    tasks: int = Field(60, ge=1)
    seeds: int = Field(3, ge=1)
    arms: tuple[str, ...] = ("bare", "tenacity", "stamina", "ladder-tuned", "policy")
    journal: str | None = None
    prices: Prices = Prices()

    @field_validator("arms")
    @classmethod
    def _known(cls, arms: tuple[str, ...]) -> tuple[str, ...]:
        if not arms:
            raise ConfigError(f"no arm to run: expected at least one of {', '.join(ARMS)}")
        for name in arms:
            find_arm(name)
        return tuple(dict.fromkeys(arms))


def run_lab(config: LabConfig, progress: Progress | None = None) -> list[dict[str, Any]]:
    """Run every arm on the same seeded tasks and return one row per arm.

    The bare agent always runs, because ``disrupted`` counts tasks that it completes and an arm
    does not; it has a row only when asked for.

    Args:
        config: what to run.
        progress: told after every task.

    Raises:
        ConfigError: an arm's policy or library is missing, or no fault was injected.
    """
    results = run_tasks(config, progress)
    alone = results["bare"]
    rows = [summarise(results[name], alone, config.prices) for name in config.arms]
    for row in rows:
        if not row["injected"]:
            raise ConfigError(
                f"arm {row['arm']!r} met no fault in {row['tasks']} tasks, so its row says "
                "nothing; run more tasks"
            )
    return rows


def run_tasks(config: LabConfig, progress: Progress | None = None) -> dict[str, list[TaskResult]]:
    """Every task's result by arm, the bare agent's included; see :func:`run_lab`."""
    names = dict.fromkeys(("bare", *config.arms))
    results: dict[str, list[TaskResult]] = {}
    with serving() as service, tempfile.TemporaryDirectory(prefix="selfheal-lab-") as folder:
        for name in names:
            results[name] = []
            for seed in range(config.seeds):
                arm = ARMS[name]
                results[name] += _run_seed(arm, seed, config, service, Path(folder), progress)
    return results


def _run_seed(
    arm: Arm,
    seed: int,
    config: LabConfig,
    service: Service,
    folder: Path,
    progress: Progress | None,
) -> Sequence[TaskResult]:
    clock = VirtualClock()
    bench = Bench(service.url)
    hands = arm.start(Setup(bench, clock, seed, config.journal))
    done: list[TaskResult] = []
    try:
        for index in range(config.tasks):
            place = folder / f"{arm.name}-{seed}-{index}"
            place.mkdir()
            done.append(_run_task(hands, TaskWorld.make(seed, index, place, clock), bench, service))
            clock.advance(BETWEEN_TASKS_S)
            if progress is not None:
                progress(arm.name, 1)
    finally:
        hands.close()
    return done


def _run_task(hands: Hands, world: TaskWorld, bench: Bench, service: Service) -> TaskResult:
    make_shop(world.shop_db, world.task)
    bench.mount(world)
    service.world = world
    end, stopped = "", False
    try:
        with hands.task(world) as finish:
            try:
                Agent(world, hands.tools, hands.stops).run()
            except TaskAbandoned as abandoned:
                end = str(abandoned)
            except TaskStopped as stop:
                end, stopped = str(stop), True
            bench.unmount()  # nothing may hold a lock while the judge looks
            state = judge(world)
            finish(state.completed)
    finally:
        service.world = None
        bench.unmount()
    return TaskResult(
        arm=hands.name,
        seed=world.task.seed,
        index=world.task.index,
        completed=state.completed,
        harm=state.harm,
        seconds=round(world.seconds, 6),
        escalated=stopped,
        injected=world.injected,
        calls=world.calls,
        faults=tuple(fault.spec.name for fault in world.faults.values()),
        missing=state.missing,
        end=end,
    )
