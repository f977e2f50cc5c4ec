"""Run the lab: every arm on the same tasks and the same faults."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from selfheal_rl.core.values import ConfigError, Prices, VirtualClock
from selfheal_rl.lab.agent import Agent, TaskAbandoned, TaskStopped
from selfheal_rl.lab.arms import ARMS, find_arm
from selfheal_rl.lab.hands import Hands, Setup
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


@dataclass(frozen=True)
class LabConfig:
    """What to run.

    Attributes:
        tasks: tasks per seed, >= 1.
        seeds: seeds, numbered from 0, >= 1.
        arms: names of arms, in the order of the table.
        journal: path or URL of the journal for healer arms; None keeps none.
        policy: of the arm ``policy``: a bundled id, or an artifact's folder.
        prices: of time, people and harm.

    Raises:
        ConfigError: a number is too small, or an arm is unknown.
    """

    tasks: int = 40
    seeds: int = 3
    arms: tuple[str, ...] = ("bare", "tenacity", "stamina", "ladder-tuned", "policy")
    journal: str | None = None
    policy: str = "default"
    prices: Prices = field(default_factory=Prices)

    def __post_init__(self) -> None:
        for name in ("tasks", "seeds"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)!r}: expected a number >= 1")
        if not self.arms:
            raise ConfigError(f"no arm to run: expected at least one of {', '.join(ARMS)}")
        for name in self.arms:
            find_arm(name)
        object.__setattr__(self, "arms", tuple(dict.fromkeys(self.arms)))


@dataclass
class ArmRun:
    """What one arm did.

    Attributes:
        results: of every task, seed by seed.
        selector: what decided; empty where no healer did.
        troubles: faults of the arm's own machinery, in words.
    """

    results: list[TaskResult] = field(default_factory=list)
    selector: str = ""
    troubles: list[str] = field(default_factory=list)


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
    runs = run_arms(config, progress)
    alone = runs["bare"].results
    rows = []
    for name in config.arms:
        run = runs[name]
        row = summarise(run.results, alone, config.prices)
        if not row["injected"]:
            raise ConfigError(
                f"arm {name!r} met no fault in {row['tasks']} tasks, so its row says nothing; "
                "run more tasks"
            )
        rows.append(row | {"selector": run.selector, "troubles": run.troubles})
    return rows


def run_arms(config: LabConfig, progress: Progress | None = None) -> dict[str, ArmRun]:
    """What every arm did, the bare agent included; see :func:`run_lab`."""
    runs = {name: ArmRun() for name in ("bare", *config.arms)}
    with serving() as service, tempfile.TemporaryDirectory(prefix="selfheal-lab-") as folder:
        for name, run in runs.items():
            for seed in range(config.seeds):
                _run_seed(run, name, seed, config, service, Path(folder), progress)
    return runs


def _run_seed(
    run: ArmRun,
    name: str,
    seed: int,
    config: LabConfig,
    service: Service,
    folder: Path,
    progress: Progress | None,
) -> None:
    clock = VirtualClock()
    bench = Bench(service.url)
    hands = ARMS[name].start(Setup(bench, clock, seed, config.journal, config.policy))
    try:
        for index in range(config.tasks):
            place = folder / f"{name}-{seed}-{index}"
            place.mkdir()
            world = TaskWorld.make(seed, index, place, clock)
            run.results.append(_run_task(hands, world, bench, service))
            clock.advance(BETWEEN_TASKS_S)
            if progress is not None:
                progress(name, 1)
        run.selector = hands.selector
        run.troubles += [text for text in hands.troubles if text not in run.troubles]
    finally:
        hands.close()


def _run_task(hands: Hands, world: TaskWorld, bench: Bench, service: Service) -> TaskResult:
    make_shop(world.shop_db, world.task)
    bench.mount(world)
    service.world = world
    end, stopped = "", False
    try:
        with hands.task(world) as finish:
            try:
                Agent(world, hands).run()
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
