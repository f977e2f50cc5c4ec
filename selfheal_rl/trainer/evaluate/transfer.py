"""What a policy is worth where it has not been trained: a world or a kind of fault left out."""

from collections.abc import Sequence
from dataclasses import dataclass

from selfheal_rl.core.catalog import find_world, load_toml
from selfheal_rl.core.values import ConfigError, FaultKind
from selfheal_rl.trainer.evaluate.variants import keep_kind
from selfheal_rl.trainer.sim.compile import CompiledWorld, compile_world, load_world
from selfheal_rl.trainer.sim.schema import World
from selfheal_rl.trainer.train.recipe import Recipe


@dataclass(frozen=True)
class LeftOut:
    """A recipe that never shows something, and the worlds that show it.

    Attributes:
        what: the world's id or the kind.
        recipe: to train with.
        worlds: to judge in.
    """

    what: str
    recipe: Recipe
    worlds: tuple[CompiledWorld, ...]


def leave_worlds_out(recipe: Recipe) -> tuple[LeftOut, ...]:
    """For each world of the recipe: the recipe without it, judged in it.

    Raises:
        ConfigError: the recipe has one world only.
    """
    if len(recipe.worlds) < 2:
        raise ConfigError(
            f"got a recipe with the worlds {list(recipe.worlds)}; expected at least two, so that "
            "something is left to train in"
        )
    return tuple(
        LeftOut(
            world,
            recipe.model_copy(update={"worlds": tuple(w for w in recipe.worlds if w != world)}),
            (load_world(world),),
        )
        for world in recipe.worlds
    )


def leave_kinds_out(recipe: Recipe, kinds: Sequence[FaultKind]) -> tuple[LeftOut, ...]:
    """For each kind: the recipe without causes that show mainly as it, judged on those alone.

    Raises:
        ConfigError: no world of the recipe has such a cause.
    """
    worlds = [load_toml(find_world(world), World) for world in recipe.worlds]
    found = []
    for kind in kinds:
        only = [kept for world in worlds if (kept := keep_kind(world, kind)) is not None]
        if not only:
            raise ConfigError(
                f"no cause of {', '.join(recipe.worlds)} shows mainly as {kind.value!r}; "
                "name another kind"
            )
        dropped = recipe.model_copy(update={"drop_kinds": (kind,)})
        found.append(LeftOut(kind.value, dropped, tuple(compile_world(world) for world in only)))
    return tuple(found)
