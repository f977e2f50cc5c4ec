"""Worlds whose prices make the answer trivial are refused, with the figures."""

import re

import pytest

from selfheal_rl.core.catalog import find_world
from selfheal_rl.core.values import ConfigError
from selfheal_rl.trainer.evaluate.worth import MIN_MARGIN, check_own, require_worth
from selfheal_rl.trainer.sim import compile_world, load_world


def reprice(**prices: float):
    world = load_world("toy-exact").world
    return compile_world(
        world.model_copy(update={"prices": world.prices.model_copy(update=prices)})
    )


def test_the_shipped_toy_world_is_worth_learning_on():
    assert require_worth(load_world("toy-exact"), tasks=512).margin > MIN_MARGIN


def test_prices_under_which_giving_up_is_best_are_refused():
    with pytest.raises(ConfigError, match=r"margin of .* expected at least 0\.15"):
        require_worth(reprice(kilotoken=5.0), tasks=512)


def test_a_users_own_world_is_weighed_before_it_is_used(tmp_path):
    text = find_world("toy-exact").read_text("utf-8")
    path = tmp_path / "free.toml"
    path.write_text(re.sub(r"kilotoken = [\d.]+", "kilotoken = 5.0", text), "utf-8")
    check_own(["toy-exact"])
    with pytest.raises(ConfigError, match="check prices"):
        check_own([str(path)])
