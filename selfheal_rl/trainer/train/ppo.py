"""MaskablePPO for thousands of rows on one thread: the same maths, without loops over rows.

``MaskablePPO.collect_rollouts`` and ``train`` walk over rows in Python and build validated
distribution objects per minibatch. Here both work on preallocated tensors; loss, advantages and
clipping are those of Schulman et al. (2017) as sb3-contrib implements them, which a test checks.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.buffers import MaskableRolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import VecEnv
from torch import Tensor, nn

from selfheal_rl.core.values import N_ACTIONS
from selfheal_rl.trainer.train.support import Seen
from selfheal_rl.trainer.train.towers import Towers
from selfheal_rl.trainer.train.vecenv import RepairVecEnv

MASKED = -1e8
"""Logit of a closed action."""


def linear(start: float, end: float, progress: float) -> float:
    """Value on the line from ``start`` (progress 0) to ``end`` (progress 1)."""
    return start + (end - start) * min(max(progress, 0.0), 1.0)


@dataclass(frozen=True)
class Schedule:
    """From ``start`` to ``end`` over training; callable with SB3's progress *remaining*."""

    start: float
    end: float

    def __call__(self, remaining: float) -> float:
        """The value when the share ``remaining`` of training is left."""
        return linear(self.start, self.end, 1.0 - remaining)


def masked_log_softmax(logits: Tensor, mask: Tensor) -> Tensor:
    """Log-probabilities (N, 17); closed actions lie near ``MASKED``."""
    return torch.log_softmax(torch.where(mask, logits, MASKED), dim=1)


def sample(logits: Tensor, generator: torch.Generator) -> Tensor:
    """One action per row of masked logits by inversion; a closed action is never drawn.

    Returns:
        int64 (N, 1).
    """
    cumulative = torch.softmax(logits, dim=1).cumsum(1)
    # Kept off 1, so that rounding cannot step past the last open action.
    u = torch.rand(len(logits), 1, generator=generator) * (1.0 - 1e-6)
    return (cumulative > u * cumulative[:, -1:]).int().argmax(1, keepdim=True)


def advantages_of(
    rewards: Tensor, values: Tensor, dones: Tensor, last: Tensor, gamma: float, lam: float
) -> Tensor:
    """Generalised advantage estimation (Schulman et al. 2016, eq. 16).

    Args:
        rewards: (T, N).
        values: (T, N), of the states acted in.
        dones: (T, N), 1.0 where the step ended the episode.
        last: (N,), value of the state after the last step.
        gamma: discount.
        lam: weight of longer returns.
    """
    advantages = torch.empty_like(rewards)
    running = torch.zeros_like(last)
    following = last
    for t in range(len(rewards) - 1, -1, -1):
        goes_on = 1.0 - dones[t]
        delta = rewards[t] + gamma * following * goes_on - values[t]
        running = delta + gamma * lam * goes_on * running
        advantages[t] = running
        following = values[t]
    return advantages


class Rollout:
    """Preallocated tensors of one rollout, (T, N, ...)."""

    def __init__(self, steps: int, rows: int, width: int) -> None:
        self.observations = torch.zeros(steps, rows, width)
        self.masks = torch.zeros(steps, rows, N_ACTIONS, dtype=torch.bool)
        self.actions = torch.zeros(steps, rows, dtype=torch.int64)
        self.rewards = torch.zeros(steps, rows)
        self.dones = torch.zeros(steps, rows)
        self.values = torch.zeros(steps, rows)
        self.log_probs = torch.zeros(steps, rows)
        self.advantages = torch.zeros(steps, rows)


class _NoBuffer(MaskableRolloutBuffer):
    """Takes the place of SB3's buffer, whose memory would never be used."""

    def reset(self) -> None:
        self.pos, self.full = 0, False


class RepairPPO(MaskablePPO):
    """MaskablePPO on a :class:`RepairVecEnv`.

    Everything random (actions, order of minibatches) comes from ``generator``; with the state of
    the environment it determines the future of a run.

    Args:
        env: the rows.
        entropy: coefficient of the entropy bonus over training.
        seed: of weights and ``generator``.
        hidden: width of the tanh layers of both towers.
        **options: as for ``MaskablePPO``.
    """

    def __init__(
        self,
        env: RepairVecEnv,
        *,
        entropy: Schedule,
        seed: int,
        hidden: tuple[int, ...] = (64, 64),
        **options: Any,
    ) -> None:
        self.entropy = entropy
        self.generator = torch.Generator().manual_seed(seed)
        layers = list(hidden)
        super().__init__(
            "MlpPolicy",
            env,
            seed=seed,
            device="cpu",
            rollout_buffer_class=_NoBuffer,
            policy_kwargs={
                "net_arch": {"pi": layers, "vf": layers},
                "activation_fn": nn.Tanh,
                "optimizer_kwargs": {"eps": 1e-5, "fused": True},
            },
            **options,
        )
        width = int(np.prod(env.observation_space.shape or (1,)))
        self.rollout = Rollout(self.n_steps, env.num_envs, width)
        self.towers = Towers(self.policy)
        self.set_logger(Logger(None, []))
        self.seen = Seen.nothing(width)

    @property
    def rows(self) -> RepairVecEnv:
        """The environment."""
        assert isinstance(self.env, RepairVecEnv)
        return self.env

    @property
    def rollout_size(self) -> int:
        """Decisions between two updates."""
        return int(self.n_steps * self.n_envs)

    def begin(self) -> None:
        """Start every row afresh."""
        self._last_obs = self.rows.reset()

    def resume(self, decisions: int, updates: int) -> None:
        """Take up a run whose weights, optimiser, generator and rows have been restored."""
        self.num_timesteps, self._n_updates = decisions, updates
        self._last_obs = self.rows.observe()

    def advance(self, progress: float) -> None:
        """One rollout and one update.

        Args:
            progress: share of training that is done, for the schedules; above 1 counts as 1.
        """
        self._current_progress_remaining = 1.0 - min(progress, 1.0)
        callback = self._init_callback(None)
        self.collect_rollouts(self.rows, callback, None, self.n_steps)
        self.train()

    def collect_rollouts(
        self,
        env: VecEnv,
        callback: BaseCallback,
        rollout_buffer: Any,
        n_rollout_steps: int,
        use_masking: bool = True,
    ) -> bool:
        """Fill ``self.rollout`` with ``n_rollout_steps`` decisions per row; always masked."""
        callback.on_rollout_start()
        assert isinstance(env, RepairVecEnv)
        store = self.rollout
        with torch.no_grad():
            observation = self._last_obs
            for t in range(n_rollout_steps):
                store.observations[t] = torch.from_numpy(observation)
                store.masks[t] = torch.from_numpy(env.mask)
                self._act(t)
                env.step_async(store.actions[t].numpy())
                observation, reward, done, _ = env.step_wait()
                store.rewards[t] = torch.from_numpy(reward)
                store.dones[t] = torch.from_numpy(done)
                self.num_timesteps += env.num_envs
                callback.update_locals(locals())
                if not callback.on_step():
                    return False
            self._last_obs = observation
            self._last_episode_starts = done
            _, last = self.towers.forward(torch.from_numpy(observation))
            store.advantages[:] = advantages_of(
                store.rewards, store.values, store.dones, last, self.gamma, self.gae_lambda
            )
        self.seen.add(store.observations.flatten(0, 1), store.masks.flatten(0, 1))
        callback.on_rollout_end()
        return True

    def _act(self, t: int) -> None:
        store = self.rollout
        logits, values = self.towers.forward(store.observations[t])
        log_probs = masked_log_softmax(logits, store.masks[t])
        actions = sample(log_probs, self.generator)
        store.actions[t] = actions.squeeze(1)
        store.values[t] = values
        store.log_probs[t] = log_probs.gather(1, actions).squeeze(1)

    def train(self) -> None:
        """Update the policy from ``self.rollout``."""
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        self.ent_coef = self.entropy(self._current_progress_remaining)
        store = self.rollout
        flat = {
            name: getattr(store, name).flatten(0, 1)
            for name in ("observations", "masks", "actions", "values", "log_probs", "advantages")
        }
        n, size = len(flat["actions"]), int(self.batch_size or 0)
        figures = torch.zeros(5)
        updates = 0
        for _ in range(self.n_epochs):
            order = torch.randperm(n, generator=self.generator)
            for start in range(0, n, size):
                at = order[start : start + size]
                figures += self._update({k: v.index_select(0, at) for k, v in flat.items()})
                updates += 1
        self._n_updates += self.n_epochs
        self._record(figures / updates)

    def _update(self, batch: dict[str, Tensor]) -> Tensor:
        """One gradient step; returns the figures that :meth:`_record` names."""
        clip = float(self.clip_range(self._current_progress_remaining))  # type: ignore[operator]
        figures = self.backward(batch, clip)
        nn.utils.clip_grad_norm_(self.policy.parameters(), self.max_grad_norm)
        self.policy.optimizer.step()
        return figures

    @torch.no_grad()
    def backward(self, batch: dict[str, Tensor], clip: float) -> Tensor:
        """Gradient of the clipped surrogate, value and entropy loss.

        With ratio r, advantage A, probabilities p and entropy H (Schulman et al. 2017, eq. 9):

            L = mean(-min(rA, clip(r)A)) - c_e mean(H) + c_v mean((v - R)^2)
            dL/dlogits = (-rA [rA <= clip(r)A] (onehot - p) + c_e p (log p + H)) / M

        Args:
            batch: ``observations, masks, actions, values, log_probs, advantages`` of M decisions.
            clip: width of the trust region around a ratio of 1.

        Returns:
            Policy loss, value loss, entropy, approximate KL divergence, share of clipped ratios.
        """
        logits, values = self.towers.forward(batch["observations"], keep=True)
        log_probs = masked_log_softmax(logits, batch["masks"])
        probs = log_probs.softmax(1)
        actions = batch["actions"][:, None]
        log_ratio = log_probs.gather(1, actions).squeeze(1) - batch["log_probs"]
        ratio = log_ratio.exp()
        advantage = batch["advantages"]
        error = values - (advantage + batch["values"])
        if self.normalize_advantage:
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        gain, bounded = advantage * ratio, advantage * ratio.clamp(1.0 - clip, 1.0 + clip)
        entropy = -(probs * log_probs).sum(1)
        weight = torch.where(gain <= bounded, gain, 0.0)
        d_logits = probs * (weight[:, None] + self.ent_coef * (log_probs + entropy[:, None]))
        d_logits.scatter_add_(1, actions, -weight[:, None])
        m = len(ratio)
        self.towers.backward(d_logits / m, error * (2.0 * self.vf_coef / m))
        return torch.stack(
            [
                -torch.min(gain, bounded).mean(),
                error.square().mean(),
                entropy.mean(),
                (ratio - 1.0 - log_ratio).mean(),
                ((ratio - 1.0).abs() > clip).float().mean(),
            ]
        )

    def _record(self, figures: Tensor) -> None:
        names = ("policy_gradient_loss", "value_loss", "entropy", "approx_kl", "clip_fraction")
        for name, value in zip(names, figures.tolist(), strict=True):
            self.logger.record(f"train/{name}", value)
        self.logger.record("train/entropy_coefficient", self.ent_coef)
