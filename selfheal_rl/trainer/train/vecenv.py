"""The simulator as a stable-baselines3 ``VecEnv``: one array call per step, no loop over rows."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv

from selfheal_rl.core.situation import N_SLOTS
from selfheal_rl.core.values import N_ACTIONS
from selfheal_rl.trainer.sim.batch import RepairBatch
from selfheal_rl.trainer.sim.dynamics import RepairCore

Privileged = Callable[[RepairCore], NDArray[np.float32]]
"""Extra inputs of shape (n, k) that no deployed policy can see; for yardsticks only."""


@dataclass
class TaskTotals:
    """Sums over the tasks that ended since the last :meth:`RepairVecEnv.take_totals`."""

    tasks: int = 0
    utility: float = 0.0
    completed: int = 0
    attempts: int = 0

    @property
    def mean_utility(self) -> float:
        """Mean utility of a task; NaN when none ended."""
        return self.utility / self.tasks if self.tasks else float("nan")


class RepairVecEnv(VecEnv):
    """Rows of :class:`RepairBatch`, which begin their next task by themselves.

    Episodes never time out, so ``infos`` are empty and shared: learners must not write to them.

    Args:
        batch: the tasks; ``reset`` starts them afresh.
        privileged: appends columns to the observation.
    """

    def __init__(self, batch: RepairBatch, privileged: Privileged | None = None) -> None:
        self.batch = batch
        self.privileged = privileged
        self._extra = 0
        if privileged is not None:
            self._extra = privileged(batch.parts[0].core).shape[1]
        box = spaces.Box(-1.0, 1.0, (N_SLOTS + self._extra,), np.float32)
        super().__init__(batch.n, box, spaces.Discrete(N_ACTIONS))
        self.infos: list[dict[str, Any]] = [{}] * batch.n
        self.mask: NDArray[np.bool_] = np.zeros((batch.n, N_ACTIONS), np.bool_)
        self._actions: NDArray[np.int64] = np.zeros(batch.n, np.int64)
        self._totals = TaskTotals()

    def observe(self) -> NDArray[np.float32]:
        """The present observation, (n, N_SLOTS + k), and ``self.mask`` to go with it."""
        observation, self.mask = self.batch.observe()
        if self.privileged is None:
            return observation
        extra = [self.privileged(part.core) for part in self.batch.parts]
        return np.concatenate([observation, np.concatenate(extra)], axis=1)

    def reset(self) -> NDArray[np.float32]:
        """Start every row afresh and observe."""
        self.batch.reset()
        return self.observe()

    def step_async(self, actions: NDArray[np.int64]) -> None:
        """Take note of one action per row."""
        self._actions = actions

    def step_wait(
        self,
    ) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        """``(observation, reward, done, infos)`` after the noted actions."""
        reward, done, ended = self.batch.step(self._actions)
        totals = self._totals
        for record in ended:
            totals.tasks += len(record.row)
            totals.utility += float(record.utility.sum())
            totals.completed += int(record.completed.sum())
            totals.attempts += int(record.attempts.sum())
        return self.observe(), reward, done, self.infos

    def action_masks(self) -> NDArray[np.bool_]:
        """Legal actions of the present observation, bool (n, 17)."""
        return self.mask

    def take_totals(self) -> TaskTotals:
        """Totals since the last call, which start from zero again."""
        totals, self._totals = self._totals, TaskTotals()
        return totals

    def env_method(
        self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any
    ) -> list[Any]:
        """Only ``action_masks``: the (n, 17) array itself, which is a sequence of rows."""
        if method_name != "action_masks":
            raise AttributeError(f"rows have no method {method_name!r}; expected 'action_masks'")
        return self.mask if indices is None else self.mask[indices]  # type: ignore[return-value]

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """One value per row; rows share all attributes."""
        known = {"render_mode": None, "action_masks": self.action_masks}
        if attr_name not in known:
            raise AttributeError(f"rows have no attribute {attr_name!r}; expected {sorted(known)}")
        return [known[attr_name]] * len(self._rows(indices))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Not supported: rows are columns of arrays, not objects."""
        raise AttributeError(f"cannot set {attr_name!r}: rows share all attributes")

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Never wrapped."""
        return [False] * len(self._rows(indices))

    def close(self) -> None:
        """Nothing to close."""

    def _rows(self, indices: int | Iterable[int] | None) -> range | list[int]:
        if indices is None:
            return range(self.num_envs)
        return [indices] if isinstance(indices, int) else list(indices)
