"""``selfheal_rl/Repair-v0``: the vectorised core behind Gymnasium's two interfaces."""

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from selfheal_rl.core.situation import N_SLOTS, BeliefTables
from selfheal_rl.core.values import N_ACTIONS, ConfigError, ErrorSnapshot, RepairAction
from selfheal_rl.trainer.sim.batch import RepairBatch
from selfheal_rl.trainer.sim.belief_tables import belief_tables
from selfheal_rl.trainer.sim.compile import CompiledWorld, load_world
from selfheal_rl.trainer.sim.deployments import TRAINING_POOL, Deployments, draw_deployments
from selfheal_rl.trainer.sim.render import incident_of_row, snapshot_of_row
from selfheal_rl.trainer.sim.state import Ended

ENV_ID = "selfheal_rl/Repair-v0"
Worlds = str | CompiledWorld | Sequence[str | CompiledWorld]


def _compiled(world: Worlds) -> list[CompiledWorld]:
    items = [world] if isinstance(world, str | CompiledWorld) else list(world)
    return [w if isinstance(w, CompiledWorld) else load_world(w) for w in items]


def observation_space() -> gym.Space[NDArray[np.float32]]:
    """Box(-1, 1, (N_SLOTS,), float32)."""
    return gym.spaces.Box(-1.0, 1.0, (N_SLOTS,), np.float32)


class _Worlds:
    """Compiled worlds, their deployments and the belief tables: shared by both interfaces."""

    def __init__(self, world: Worlds, belief: BeliefTables | None, pool: int, pool_seed: int):
        self.worlds = _compiled(world)
        self.tables = belief or belief_tables(self.worlds)
        self.deployments: list[Deployments] = [
            draw_deployments(w, pool, pool_seed * 1000 + i) for i, w in enumerate(self.worlds)
        ]

    def batch(self, n: int, seed: int, only_failing: bool) -> RepairBatch:
        batch = RepairBatch(
            self.worlds,
            n,
            self.tables,
            seed=seed,
            deployments=self.deployments,
            only_failing=only_failing,
        )
        batch.reset()
        return batch


_SUMMARY = (
    "task",
    "completed",
    "utility",
    "quality",
    "seconds",
    "tokens",
    "attempts",
    "incidents",
    "escalated",
    "degraded",
    "harmed",
)


def _summary(ended: Ended, i: int) -> dict[str, Any]:
    return {name: getattr(ended, name)[i].item() for name in _SUMMARY}


class RepairEnv(gym.Env[NDArray[np.float32], np.int64]):
    """One task an episode; the agent acts at failures and alarms only.

    ``reset`` and ``step`` give the mask of legal actions in ``info["action_mask"]`` (bool, (17,)),
    as does :meth:`action_masks`. The last step's info has ``info["task"]`` with the task's end
    state and costs. An illegal action ends the task as ``escalate`` does, with
    ``info["illegal_action"] = True``.

    Args:
        world: id, path or compiled world.
        belief: tables of the policy that will act; None for this world's own.
        pool: deployments to draw from.
        pool_seed: seed of that pool.
        only_failing: skip tasks without a failure.
        render_mode: ``"ansi"`` or None.
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012  (as Gymnasium has it)

    def __init__(
        self,
        world: Worlds = "mcp-office",
        *,
        belief: BeliefTables | None = None,
        pool: int = TRAINING_POOL,
        pool_seed: int = 0,
        only_failing: bool = True,
        render_mode: str | None = None,
    ) -> None:
        self._worlds = _Worlds(world, belief, pool, pool_seed)
        if len(self._worlds.worlds) != 1:
            raise ConfigError(
                f"got {len(self._worlds.worlds)} worlds for a single environment; expected one; "
                "use gymnasium.make_vec for a mixture"
            )
        self.observation_space = observation_space()
        self.action_space = gym.spaces.Discrete(N_ACTIONS)
        self.render_mode = render_mode
        self._only_failing = only_failing
        self._batch: RepairBatch | None = None
        self._mask = np.ones(N_ACTIONS, np.bool_)
        self._running = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Start the next task; a seed starts the sequence of tasks anew."""
        super().reset(seed=seed)
        if self._batch is None or seed is not None or self._running:
            fresh = seed if seed is not None else int(self.np_random.integers(2**31))
            self._batch = self._worlds.batch(1, fresh, self._only_failing)
        self._running = True
        return self._observe()

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Carry out one repair; see the class for ``info``."""
        batch = self._started()
        chosen = int(action)
        illegal = not self._mask[chosen]
        played = int(RepairAction.ESCALATE) if illegal else chosen
        reward, done, records = batch.step(np.array([played], np.int64))
        observation, info = self._observe()
        if illegal:
            info["illegal_action"] = True
        if done[0]:
            self._running = False
            info["task"] = _summary(records[0], 0)
        return observation, float(reward[0]), bool(done[0]), False, info

    def _started(self) -> RepairBatch:
        if self._batch is None or not self._running:
            raise ConfigError("step() was called with no task running; call reset() first")
        return self._batch

    def _observe(self) -> tuple[NDArray[np.float32], dict[str, Any]]:
        assert self._batch is not None
        observation, mask = self._batch.observe()
        self._mask = mask[0]
        return np.ascontiguousarray(observation[0]), {"action_mask": self._mask.copy()}

    def action_masks(self) -> NDArray[np.bool_]:
        """Legal actions now; bool, shape (17,). The name sb3-contrib looks for."""
        return self._mask.copy()

    def snapshot(self) -> ErrorSnapshot:
        """The error snapshot that the present state stands for."""
        return snapshot_of_row(self._started().parts[0].core, 0)

    def render(self) -> str | None:
        """The open incident as text, in ``ansi`` mode."""
        if self.render_mode != "ansi":
            return None
        incident = incident_of_row(self._started().parts[0].core, 0)
        tried = ", ".join(a.decision.action.slug for a in incident.attempts) or "nothing"
        s = incident.snapshot
        return (
            f"step {s.step} of {s.n_steps}: {incident.diagnosis.kind} "
            f"({incident.diagnosis.effect_state}) {s.message}\n  tried: {tried}"
        )


class RepairVectorEnv(VectorEnv[NDArray[np.float32], NDArray[np.int64], NDArray[Any]]):
    """The same with N tasks at once, over one world or a mixture.

    A finished row shows the first state of its next task in the same step
    (``AutoresetMode.SAME_STEP``); an ended task has no last observation, since nothing may be
    learned from one (it terminates, never truncates). ``info["action_mask"]`` is bool (N, 17);
    ``info["tasks"]`` lists the records of ended tasks, one per world.
    """

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(
        self,
        num_envs: int = 1,
        world: Worlds = "mcp-office",
        *,
        belief: BeliefTables | None = None,
        pool: int = TRAINING_POOL,
        pool_seed: int = 0,
        only_failing: bool = True,
        render_mode: str | None = None,
    ) -> None:
        self.num_envs = num_envs
        self.render_mode = render_mode
        self._worlds = _Worlds(world, belief, pool, pool_seed)
        self._only_failing = only_failing
        self.single_observation_space = observation_space()
        self.single_action_space = gym.spaces.Discrete(N_ACTIONS)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._batch: RepairBatch | None = None
        self._mask = np.ones((num_envs, N_ACTIONS), np.bool_)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Start all rows; luck is keyed by ``seed`` (one figure for all rows)."""
        if isinstance(seed, list):
            seed = seed[0]
        super().reset(seed=seed)
        fresh = seed if seed is not None else int(self.np_random.integers(2**31))
        self._batch = self._worlds.batch(self.num_envs, fresh, self._only_failing)
        observation, self._mask = self._batch.observe()
        return observation, {"action_mask": self._mask}

    def step(
        self, actions: NDArray[np.int64]
    ) -> tuple[
        NDArray[np.float32],
        NDArray[Any],
        NDArray[Any],
        NDArray[Any],
        dict[str, Any],
    ]:
        """One repair per row; illegal actions escalate, ``info["illegal_action"]`` marks them."""
        if self._batch is None:
            raise ConfigError("step() was called before reset(); call reset() first")
        chosen = np.asarray(actions, np.int64)
        illegal = ~np.take_along_axis(self._mask, chosen[:, None], axis=1)[:, 0]
        played = np.where(illegal, np.int64(RepairAction.ESCALATE), chosen)
        reward, done, records = self._batch.step(played)
        observation, self._mask = self._batch.observe()
        info: dict[str, Any] = {"action_mask": self._mask, "tasks": records}
        if illegal.any():
            info["illegal_action"] = illegal
        return observation, reward.astype(np.float64), done, np.zeros(len(done), np.bool_), info

    def action_masks(self) -> NDArray[np.bool_]:
        """Legal actions now; bool, shape (N, 17)."""
        return self._mask

    def snapshot(self, row: int) -> ErrorSnapshot:
        """The error snapshot that row ``row`` stands for."""
        if self._batch is None:
            raise ConfigError("snapshot() was called before reset(); call reset() first")
        for part in self._batch.parts:
            if part.rows.start <= row < part.rows.stop:
                return snapshot_of_row(part.core, row - part.rows.start)
        raise ConfigError(f"got row {row!r}; expected 0 to {self.num_envs - 1}")


def register() -> None:
    """Make ``gymnasium.make`` and ``make_vec`` know the environment; safe to call twice."""
    if ENV_ID not in gym.registry:
        gym.register(
            ENV_ID,
            entry_point="selfheal_rl.trainer.sim.env:RepairEnv",
            vector_entry_point="selfheal_rl.trainer.sim.env:RepairVectorEnv",
        )
