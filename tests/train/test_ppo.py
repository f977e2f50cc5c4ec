"""Our learner against sb3-contrib's own code: the same maths, without its loops."""

import numpy as np
import pytest
import torch
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported
from stable_baselines3.common.buffers import RolloutBuffer
from torch.nn import functional as F

from selfheal_rl.core.situation import N_SLOTS
from selfheal_rl.core.values import N_ACTIONS
from selfheal_rl.trainer.sim.batch import RepairBatch
from selfheal_rl.trainer.sim.belief_tables import belief_tables
from selfheal_rl.trainer.sim.compile import load_world
from selfheal_rl.trainer.train.ppo import RepairPPO, Schedule, advantages_of, sample
from selfheal_rl.trainer.train.vecenv import RepairVecEnv


def make_env(n: int = 32) -> RepairVecEnv:
    world = load_world("toy-exact")
    return RepairVecEnv(RepairBatch([world], n, belief_tables([world]), seed=5, pool=4))


@pytest.fixture
def learner() -> RepairPPO:
    return RepairPPO(
        make_env(),
        entropy=Schedule(0.02, 0.002),
        seed=1,
        hidden=(16, 16),
        n_steps=8,
        batch_size=64,
        gamma=1.0,
        learning_rate=Schedule(3e-3, 1e-4),
    )


def test_gradient_is_that_of_sb3(learner: RepairPPO) -> None:
    learner.begin()
    learner.advance(0.0)  # so that old and new policy differ
    store, policy = learner.rollout, learner.policy
    batch = {
        name: getattr(store, name).flatten(0, 1)[:64]
        for name in ("observations", "masks", "actions", "values", "log_probs", "advantages")
    }
    learner.ent_coef = 0.01
    learner.backward(batch, clip=0.05)
    found = [p.grad.clone() for p in policy.parameters()]

    # The body of MaskablePPO.train for one minibatch.
    values, log_prob, entropy = policy.evaluate_actions(
        batch["observations"], batch["actions"], action_masks=batch["masks"].numpy()
    )
    advantages = batch["advantages"]
    advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    ratio = torch.exp(log_prob - batch["log_probs"])
    clipped = advantages * torch.clamp(ratio, 1 - 0.05, 1 + 0.05)
    loss = -torch.min(advantages * ratio, clipped).mean()
    returns = batch["advantages"] + batch["values"]
    value_loss = F.mse_loss(returns, values.flatten())
    loss = loss - 0.01 * entropy.mean() + learner.vf_coef * value_loss
    policy.optimizer.zero_grad()
    loss.backward()
    assert ((ratio - 1).abs() > 0.05).any(), "the test must reach the clipped branch"
    for parameter, gradient in zip(policy.parameters(), found, strict=True):
        torch.testing.assert_close(gradient, parameter.grad, atol=2e-6, rtol=1e-4)


def test_rollout_holds_what_the_policy_says_of_it(learner: RepairPPO) -> None:
    learner.begin()
    learner.collect_rollouts(learner.rows, learner._init_callback(None), None, learner.n_steps)
    store = learner.rollout
    values, log_prob, _ = learner.policy.evaluate_actions(
        store.observations.flatten(0, 1),
        store.actions.flatten(),
        action_masks=store.masks.flatten(0, 1).numpy(),
    )
    torch.testing.assert_close(values.flatten(), store.values.flatten(), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(log_prob, store.log_probs.flatten(), atol=1e-5, rtol=1e-4)
    assert store.masks.gather(2, store.actions[..., None]).all(), "a closed action was taken"


def test_advantages_are_those_of_sb3() -> None:
    rng = np.random.default_rng(0)
    t, n = 7, 5
    env = make_env(n)
    buffer = RolloutBuffer(
        t, env.observation_space, env.action_space, "cpu", gae_lambda=0.9, gamma=0.97, n_envs=n
    )
    rewards = rng.normal(size=(t, n)).astype(np.float32)
    values = rng.normal(size=(t, n)).astype(np.float32)
    dones = (rng.random((t, n)) < 0.3).astype(np.float32)
    last = rng.normal(size=n).astype(np.float32)
    buffer.rewards, buffer.values = rewards, values
    buffer.episode_starts = np.concatenate([np.zeros((1, n), np.float32), dones[:-1]])
    buffer.compute_returns_and_advantage(torch.from_numpy(last), dones[-1])
    found = advantages_of(*(torch.from_numpy(x) for x in (rewards, values, dones, last)), 0.97, 0.9)
    np.testing.assert_allclose(found.numpy(), buffer.advantages, atol=1e-5)


def test_samples_follow_the_probabilities_and_never_a_closed_action() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.full((50_000, N_ACTIONS), -1e8)
    logits[:, 3], logits[:, 9], logits[:, 16] = 0.0, 1.0, -12.0
    drawn = sample(logits, generator)[:, 0]
    assert set(drawn.tolist()) <= {3, 9, 16}
    share = (drawn == 9).float().mean().item()
    wanted = float(torch.softmax(torch.tensor([0.0, 1.0]), 0)[1])
    assert abs(share - wanted) < 4 * (wanted * (1 - wanted) / 50_000) ** 0.5


def test_stock_learner_runs_on_the_same_rows() -> None:
    env = make_env(8)
    assert is_masking_supported(env)
    stock = MaskablePPO("MlpPolicy", env, n_steps=8, batch_size=32, n_epochs=1, seed=0)
    stock.learn(64)
    masks = get_action_masks(env)
    assert masks.shape == (8, N_ACTIONS)
    assert masks.any(axis=1).all()
    np.testing.assert_array_equal(masks, env.mask)


def test_rows_refuse_what_they_are_not() -> None:
    env = make_env(4)
    assert env.reset().shape == (4, N_SLOTS)
    assert env.env_is_wrapped(object) == [False] * 4
    assert env.get_attr("render_mode", [0, 2]) == [None, None]
    with pytest.raises(AttributeError, match="no attribute 'unwrapped'"):
        env.get_attr("unwrapped")
    with pytest.raises(AttributeError, match="share all attributes"):
        env.set_attr("seed", 1)
    with pytest.raises(AttributeError, match="expected 'action_masks'"):
        env.env_method("render")


def test_totals_are_those_of_the_tasks_that_ended() -> None:
    env = make_env(16)
    env.reset()
    reward_sum = np.zeros(16)
    first = np.full(16, np.nan)
    for _ in range(200):
        env.step_async(np.full(16, 15))  # escalate: every decision ends a task
        _, reward, done, _ = env.step_wait()
        assert done.all()
        reward_sum += reward
        first = np.where(np.isnan(first), reward, first)
    totals = env.take_totals()
    assert totals.tasks == 16 * 200
    assert totals.completed == 0
    assert env.take_totals().tasks == 0
