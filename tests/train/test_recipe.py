from pathlib import Path

import pytest

from selfheal_rl.core.catalog import list_recipes
from selfheal_rl.core.values import ConfigError, FaultKind
from selfheal_rl.trainer.train.recipe import (
    Recipe,
    load_recipe,
    main_kind,
    training_worlds,
)
from selfheal_rl.trainer.train.train import with_options


@pytest.mark.parametrize("name", sorted(list_recipes()))
def test_bundled_recipes_load_with_their_worlds(name: str) -> None:
    recipe = load_recipe(name)
    assert recipe.title
    assert len(training_worlds(recipe)) == len(recipe.worlds)
    assert recipe.ppo.gamma == 1.0, "utility is undiscounted"


def test_unknown_key_names_the_nearest(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('worlds = ["toy-exact"]\ndecisions = 10\n[ppo]\nlerning_rate = [1, 1]\n')
    with pytest.raises(ConfigError, match="did you mean 'learning_rate'"):
        load_recipe(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seeds": [1, 1]}, "distinct"),
        ({"seeds": [10_000]}, "9999"),
        ({"drop_kinds": ["tmeout"]}, "timeout"),
        ({"ppo": {"envs": 2, "steps": 2, "batch": 64}}, "batch = 64"),
        ({"worlds": []}, "worlds"),
    ],
)
def test_wrong_values_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Recipe.model_validate({"worlds": ["toy-exact"], "decisions": 10} | change)


def test_unknown_cause_names_the_nearest() -> None:
    recipe = Recipe(worlds=("toy-exact",), decisions=10, drop_causes=("blipp",))
    with pytest.raises(ConfigError, match="did you mean 'blip'"):
        training_worlds(recipe)


def test_a_dropped_cause_is_gone_and_no_cause_refers_to_it() -> None:
    whole = training_worlds(Recipe(worlds=("mcp-office",), decisions=10))[0]
    name = whole.cause_names[0]
    recipe = Recipe(worlds=("mcp-office",), decisions=10, drop_causes=(name,))
    left = training_worlds(recipe)[0]
    assert name not in left.cause_names
    assert all(c.otherwise != name for c in left.causes)
    assert set(left.cause_names) < set(whole.cause_names)


def test_a_dropped_kind_takes_every_cause_that_mainly_shows_it() -> None:
    whole = training_worlds(Recipe(worlds=("mcp-office",), decisions=10))[0]
    kind = main_kind(whole.causes[0])
    recipe = Recipe(worlds=("mcp-office",), decisions=10, drop_kinds=(kind,))
    left = training_worlds(recipe)[0]
    assert left.n_causes < whole.n_causes
    assert kind not in {main_kind(c) for c in left.causes}


def test_dropping_everything_is_refused() -> None:
    kinds = tuple(FaultKind)
    with pytest.raises(ConfigError, match="every root cause is dropped"):
        training_worlds(Recipe(worlds=("toy-exact",), decisions=10, drop_kinds=kinds))


def test_options_of_the_command_line_replace_values_and_keep_a_validation() -> None:
    recipe = with_options(load_recipe("quick"), decisions=1000, seeds=(7,), worlds=None)
    assert (recipe.decisions, recipe.seeds) == (1000, (7,))
    assert recipe.validation.every <= 1000
    assert recipe.worlds == load_recipe("quick").worlds
