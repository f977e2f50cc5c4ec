"""Training recipes: everything that decides what a run learns, as data."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field, field_validator, model_validator

from selfheal_rl.core.catalog import find_recipe, find_world, load_toml, unknown_key
from selfheal_rl.core.values import KINDS, ConfigError, Effects, FaultKind, Frozen
from selfheal_rl.runtime.diagnose import classify
from selfheal_rl.trainer.sim.compile import CompiledWorld, compile_world, symptom_snapshot
from selfheal_rl.trainer.sim.schema import Cause, World

MAX_SEED = 9_999
Positive = Annotated[float, Field(gt=0.0)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
Seed = Annotated[int, Field(ge=0, le=MAX_SEED)]


class Ppo(Frozen):
    """The learner's settings. Pairs go linearly from first to last over training."""

    envs: int = Field(1024, ge=1, le=65_536)
    """Tasks played side by side."""
    steps: int = Field(16, ge=2, le=4096)
    """Decisions per task and rollout."""
    batch: int = Field(2048, ge=2)
    """Decisions per gradient step."""
    epochs: int = Field(4, ge=1, le=64)
    learning_rate: tuple[Positive, Positive] = (3e-3, 1.5e-4)
    entropy: tuple[Share, Share] = (0.02, 0.002)
    """Coefficient of the entropy bonus; it must start high enough to meet rare repairs."""
    gamma: Share = 1.0
    """Utility is undiscounted: anything below 1 learns another aim."""
    gae_lambda: Share = 0.95
    clip: Share = 0.2
    value_weight: Positive = 0.5
    max_gradient: Positive = 0.5
    hidden: tuple[int, ...] = Field((64, 64), min_length=1, max_length=4)

    @model_validator(mode="after")
    def _batch_fits(self) -> "Ppo":
        if self.batch > self.envs * self.steps:
            raise ValueError(
                f"batch = {self.batch} is above envs x steps = {self.envs * self.steps}; "
                "expected at most one rollout per gradient step"
            )
        return self


class Validation(Frozen):
    """How checkpoints are chosen: greedy play on deployments never trained on."""

    every: int = Field(250_000, ge=1)
    """Decisions between two validations."""
    draws: int = Field(16, ge=1)
    """Deployments per world."""
    tasks: int = Field(96, ge=1)
    """Failing tasks per deployment."""


class Recipe(Frozen):
    """One training run: worlds, seeds, budget, learner."""

    title: str = ""
    worlds: tuple[str, ...] = Field(min_length=1)
    """Ids or paths; each gets an equal share of the rows. Leave one out to test transfer."""
    drop_causes: tuple[str, ...] = ()
    """Root causes to leave out of training."""
    drop_kinds: tuple[FaultKind, ...] = ()
    """Leaves out every root cause whose main symptom is of such a kind."""
    seeds: tuple[Seed, ...] = Field((0,), min_length=1)
    decisions: int = Field(ge=1)
    """Simulated decisions per seed."""
    pool: int = Field(1024, ge=1)
    """Deployments drawn per world; each task meets one of them."""
    privileged: bool = False
    """Adds root cause, remaining time and true success rates: the clairvoyant yardstick."""
    until_gain: Share | None = None
    """Go on past ``decisions``, a fifth more each time, until that gains less than this share."""
    max_decisions: int | None = None
    """Where ``until_gain`` stops in any case; four times ``decisions`` when left out."""
    ppo: Ppo = Ppo()
    validation: Validation = Validation()

    @field_validator("seeds")
    @classmethod
    def _distinct(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(value)) != len(value):
            raise ValueError(f"seeds = {list(value)} names one twice; expected distinct seeds")
        return value

    @field_validator("drop_kinds", mode="before")
    @classmethod
    def _known_kinds(cls, value: Sequence[str]) -> Sequence[str]:
        known = [k.value for k in KINDS]
        for kind in value:
            if kind not in known:
                raise ValueError(unknown_key(str(kind), known))
        return value


def load_recipe(reference: str | os.PathLike[str]) -> Recipe:
    """Read a recipe by bundled id or path.

    Raises:
        UnknownIdError: no such recipe.
        ConfigError: it does not fit the format.
    """
    return load_toml(find_recipe(reference), Recipe)


def world_files(recipe: Recipe) -> tuple[Path, ...]:
    """The TOML file of each world of the recipe, in order."""
    return tuple(find_world(world) for world in recipe.worlds)


def training_worlds(recipe: Recipe) -> tuple[CompiledWorld, ...]:
    """The recipe's worlds without the root causes it drops.

    Raises:
        UnknownIdError: no such world.
        ConfigError: a cause to drop is in no world, or nothing is left of one.
    """
    worlds = [load_toml(path, World) for path in world_files(recipe)]
    known = {name for world in worlds for name in world.causes}
    for name in recipe.drop_causes:
        if name not in known:
            raise ConfigError(f"drop_causes: {unknown_key(name, sorted(known))}")
    return tuple(compile_world(_without(world, recipe)) for world in worlds)


def main_kind(cause: Cause) -> FaultKind:
    """The kind under which the classifier sees the cause's most frequent symptom."""
    symptom = max(cause.symptoms, key=lambda s: s.share)
    return classify(symptom_snapshot(cause, symptom, Effects.READ)).kind


def _without(world: World, recipe: Recipe) -> World:
    gone = {
        name
        for name, cause in world.causes.items()
        if name in recipe.drop_causes or main_kind(cause) in recipe.drop_kinds
    }
    while more := {n for n, c in world.causes.items() if c.otherwise in gone} - gone:
        gone |= more  # a write-only cause goes with the cause that reads meet in its place
    if not gone:
        return world
    left = {name: cause for name, cause in world.causes.items() if name not in gone}
    if not left:
        raise ConfigError(
            f"world {world.id!r}: every root cause is dropped; expected one to be left; "
            "take the world out of the recipe instead"
        )
    return world.model_copy(update={"causes": left, "kind_mix": {}})
