"""Everything that decides the future of a run, as named arrays, and back.

Weights, Adam's moments, the learner's random generator and the whole state of the simulator: with
them a continued run takes the same decisions as one that was never stopped.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from selfheal_rl.trainer.sim.batch import RepairBatch
from selfheal_rl.trainer.train.ppo import RepairPPO
from selfheal_rl.trainer.train.storage import Arrays, RunError
from selfheal_rl.trainer.train.support import Seen

_MOMENTS = ("step", "exp_avg", "exp_avg_sq")


def batch_state(batch: RepairBatch) -> Arrays:
    """The simulator's arrays, part by part."""
    state: Arrays = {}
    for i, part in enumerate(batch.parts):
        state[f"part.{i}.next_task"] = np.array(part.next_task)
        for name, value in vars(part.core).items():
            if isinstance(value, np.ndarray):
                state[f"part.{i}.core.{name}"] = value
    return state


def restore_batch(batch: RepairBatch, state: Arrays) -> None:
    """Inverse of :func:`batch_state` on a batch made with the same arguments."""
    for i, part in enumerate(batch.parts):
        part.next_task = int(state[f"part.{i}.next_task"])
        prefix = f"part.{i}.core."
        for name, value in state.items():
            if name.startswith(prefix):
                _fits(name, getattr(part.core, name.removeprefix(prefix), None), value)
                setattr(part.core, name.removeprefix(prefix), value.copy())


def learner_state(learner: RepairPPO) -> Arrays:
    """Weights, optimiser and generator."""
    state: Arrays = {
        f"policy.{name}": value.detach().numpy().copy()
        for name, value in learner.policy.state_dict().items()
    }
    optimizer = learner.policy.optimizer
    for i, parameter in enumerate(learner.policy.parameters()):
        for moment, value in optimizer.state.get(parameter, {}).items():
            state[f"adam.{i}.{moment}"] = value.numpy().copy()
    state |= learner.seen.arrays()
    state["generator"] = learner.generator.get_state().numpy().copy()
    return state


def restore_learner(learner: RepairPPO, state: Arrays) -> None:
    """Inverse of :func:`learner_state` on a learner of the same recipe.

    Raises:
        RunError: the arrays are those of another network.
    """
    with torch.no_grad():
        for name, target in learner.policy.state_dict().items():
            value = state.get(f"policy.{name}")
            _fits(name, target.numpy(), value)
            target.copy_(torch.from_numpy(value))
    optimizer = learner.policy.optimizer
    for i, parameter in enumerate(learner.policy.parameters()):
        if f"adam.{i}.step" in state:
            optimizer.state[parameter] = {
                moment: torch.from_numpy(state[f"adam.{i}.{moment}"].copy()) for moment in _MOMENTS
            }
    learner.seen = Seen.from_arrays(state)
    learner.generator.set_state(torch.from_numpy(state["generator"].copy()))


def _fits(name: str, target: Any, value: NDArray[Any] | None) -> None:
    found = None if value is None else value.shape
    if not isinstance(target, np.ndarray) or found != target.shape:
        expected = getattr(target, "shape", None)
        raise RunError(
            f"checkpoint: {name} has shape {found}; expected {expected}; it belongs to another "
            "recipe or release; train again with another --out"
        )
