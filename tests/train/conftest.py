"""A run of seconds that several tests share."""

from collections.abc import Callable
from pathlib import Path

import pytest

from selfheal_rl.trainer.train.recipe import Recipe
from selfheal_rl.trainer.train.rundir import RunDirectory
from selfheal_rl.trainer.train.seed_run import SeedRun

TINY = {
    "worlds": ["toy-exact"],
    "seeds": [3, 4],
    "decisions": 4096,
    "pool": 4,
    "ppo": {"envs": 64, "steps": 8, "batch": 256, "epochs": 2, "hidden": [16, 16]},
    "validation": {"every": 1024, "draws": 1, "tasks": 64},
}


@pytest.fixture(scope="session")
def tiny() -> Recipe:
    return Recipe.model_validate(TINY)


@pytest.fixture
def new_run(tiny: Recipe, tmp_path: Path) -> Callable[[str], RunDirectory]:
    return lambda name: RunDirectory.create(tmp_path / name, tiny, name="tiny", command="test")


@pytest.fixture(scope="session")
def finished(tiny: Recipe, tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """Both seeds of the tiny recipe, trained to the end."""
    run = RunDirectory.create(
        tmp_path_factory.mktemp("runs") / "done", tiny, name="tiny", command="selfheal train tiny"
    )
    for seed in tiny.seeds:
        SeedRun(run, seed).run()
    return run
