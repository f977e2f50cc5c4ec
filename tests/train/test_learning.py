import pytest

from selfheal_rl.trainer.evaluate.exact import ExactWorld
from selfheal_rl.trainer.train.recipe import load_recipe, training_worlds
from selfheal_rl.trainer.train.rundir import RunDirectory
from selfheal_rl.trainer.train.seed_run import SeedRun


@pytest.mark.slow
def test_ppo_solves_the_toy_world(tmp_path) -> None:  # type: ignore[no-untyped-def]
    """Of what lies between giving up (0) and the optimum (1), by exact enumeration.

    Uniform choice among legal actions scores about 0.6, the best table of rules about 0.99.
    """
    recipe = load_recipe("toy")
    run = RunDirectory.create(tmp_path / "toy", recipe, name="toy", command="test")
    SeedRun(run, 0).run()
    exact = ExactWorld(training_worlds(recipe)[0])
    assert exact.score(run.policies()[0]) >= 0.99
