"""Gymnasium's contract, keyed luck, and agreement of simulator and runtime."""

import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from selfheal_rl.core.catalog import list_worlds
from selfheal_rl.core.values import ConfigError, RepairAction
from selfheal_rl.trainer.sim import (
    ENV_ID,
    RepairBatch,
    belief_tables,
    load_world,
    run_tasks,
)
from selfheal_rl.trainer.sim.agreement import compare
from selfheal_rl.trainer.sim.deployments import draw_deployments

A = RepairAction
WORLDS = list_worlds()


class Uniform:
    """Any legal action, keyed by nothing but its generator."""

    name = "uniform"

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def choose(self, view):
        return (self.rng.random(view.mask.shape) * view.mask).argmax(axis=1)


class Always:
    def __init__(self, action: A) -> None:
        self.action, self.name = action, action.slug

    def choose(self, view):
        return np.where(view.mask[:, self.action], self.action, A.ESCALATE)


@pytest.mark.parametrize("world", WORLDS)
def test_check_env_passes_without_warnings(world):
    env = gym.make(ENV_ID, world=world, render_mode="ansi", pool=8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped)


@pytest.mark.parametrize("world", WORLDS)
def test_a_state_shows_an_incident_that_encodes_to_the_same_vector_and_mask(world):
    # A sample; `python bench/agreement.py` compares 10,000 states of each world.
    found = compare(load_world(world), 192, seed=3)
    assert found.states == 192
    assert found.worst <= 1e-6
    assert found.masks_differ == 0


def test_same_seed_same_trajectory_and_another_seed_another():
    def play(seed: int) -> np.ndarray:
        env = gym.make_vec(ENV_ID, num_envs=32, world="toy-exact", pool=4)
        env.reset(seed=seed)
        rewards = [env.step(env.action_masks().argmax(axis=1))[1] for _ in range(20)]
        return np.array(rewards)

    np.testing.assert_array_equal(play(1), play(1))
    assert not np.array_equal(play(1), play(2))


def test_twin_runs_meet_the_same_luck_however_tasks_are_batched():
    world = load_world("mcp-office")
    drawn = draw_deployments(world, 4, 5)
    tasks, draws = np.arange(256), np.arange(256) % 4
    policy = Always(A.REPROMPT)
    whole = run_tasks(world, drawn, policy, tasks, draws, seed=9)
    half = run_tasks(world, drawn, policy, tasks[128:], draws[128:], seed=9)
    np.testing.assert_array_equal(whole.utility[128:], half.utility)


def test_a_task_has_the_same_first_failure_whatever_the_policy():
    world = load_world("mcp-office")
    drawn = draw_deployments(world, 4, 5)
    first: dict[str, np.ndarray] = {}

    def watch(name):
        def observer(core, index, actions):
            if name not in first:
                first[name] = np.stack([index, core.cause, core.variant, core.effects])

        return observer

    tasks = np.arange(128)
    for policy in (Always(A.RETRY), Always(A.INSPECT)):
        run_tasks(world, drawn, policy, tasks, tasks % 4, seed=2, observer=watch(policy.name))
    np.testing.assert_array_equal(first["retry"], first["inspect"])


@pytest.mark.parametrize("world", WORLDS)
def test_rewards_sum_to_the_utility_of_the_task(world):
    compiled = load_world(world)
    batch = RepairBatch([compiled], 16, belief_tables([compiled]), seed=1, pool=4)
    batch.reset()
    core = batch.parts[0].core
    total = core.utility.copy()
    rng = np.random.default_rng(1)
    checked = 0
    for _ in range(30):
        _, mask = batch.observe()
        reward, done, records = batch.step((rng.random(mask.shape) * mask).argmax(axis=1))
        total += reward
        for row, utility in zip(records[0].row, records[0].utility, strict=True):
            assert total[row] == pytest.approx(utility, abs=1e-5)
            checked += 1
        total[done] = core.utility[done]
    assert checked > 20


@pytest.mark.parametrize("world", WORLDS)
def test_every_incident_ends_within_the_bound(world):
    compiled = load_world(world)
    drawn = draw_deployments(compiled, 4, 1)
    longest = 0

    def observer(core, index, actions):
        nonlocal longest
        longest = max(longest, int(core.attempts.max()))

    tasks = np.arange(300)
    for seed in range(2):
        result = run_tasks(
            compiled, drawn, Uniform(seed), tasks, tasks % 4, seed=seed, observer=observer
        )
        assert result.attempts.max() <= 24
    assert longest <= 8


def test_an_illegal_action_ends_the_task_and_says_so():
    env = gym.make(ENV_ID, world="toy-exact", pool=2)
    _, info = env.reset(seed=0)
    illegal = int(np.flatnonzero(~info["action_mask"])[0])
    *_, terminated, _, info = env.step(illegal)
    assert terminated
    assert info["illegal_action"]
    assert info["task"]["escalated"]


def test_stepping_before_reset_names_the_cause():
    env = gym.make(ENV_ID, world="toy-exact", pool=2).unwrapped
    with pytest.raises(ConfigError, match="reset"):
        env.step(15)
