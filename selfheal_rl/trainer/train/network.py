"""A trained network as plain arrays, and as a policy in the simulator."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfheal_rl.core.situation import BeliefTables
from selfheal_rl.core.values import ConfigError
from selfheal_rl.trainer.sim.dynamics import RepairCore
from selfheal_rl.trainer.sim.episodes import View
from selfheal_rl.trainer.train.vecenv import Privileged

Float = NDArray[np.float32]
Layer = tuple[Float, Float]
"""Weight (out, in) and bias (out,)."""


@dataclass(frozen=True, eq=False)
class Network:
    """Two towers of tanh layers with a linear head each.

    Attributes:
        actor: layers from the observation to 17 logits.
        critic: layers from the observation to one value, the expected utility still to come.
    """

    actor: tuple[Layer, ...]
    critic: tuple[Layer, ...]

    @property
    def width(self) -> int:
        """Length of the observation."""
        return int(self.actor[0][0].shape[1])

    @property
    def hash(self) -> str:
        """SHA-256 over all weights, in hex."""
        digest = hashlib.sha256()
        for name, array in self.arrays().items():
            digest.update(name.encode() + np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def logits(self, observation: Float) -> Float:
        """Unmasked logits, (N, 17)."""
        return _forward(self.actor, observation)

    def values(self, observation: Float) -> Float:
        """Values, (N,)."""
        return _forward(self.critic, observation)[:, 0]

    def arrays(self) -> dict[str, Float]:
        """Named arrays, ``actor.0.weight`` and so on; :meth:`from_arrays` reads them back."""
        named: dict[str, Float] = {}
        for tower in ("actor", "critic"):
            for i, (weight, bias) in enumerate(getattr(self, tower)):
                named[f"{tower}.{i}.weight"], named[f"{tower}.{i}.bias"] = weight, bias
        return named

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "Network":
        """Inverse of :meth:`arrays`.

        Raises:
            ConfigError: a tower is missing or its layers do not fit.
        """
        towers = {name: _tower(name, arrays) for name in ("actor", "critic")}
        return cls(**towers)

    @classmethod
    def of(cls, policy: Any) -> "Network":
        """Copies of the weights of an SB3 actor-critic with two tanh towers."""
        from selfheal_rl.trainer.train.towers import Towers

        towers = Towers(policy)
        return cls(*(tuple(map(_layer, tower)) for tower in (towers.actor, towers.critic)))


def _layer(linear: Any) -> Layer:
    return linear.weight.detach().numpy().copy(), linear.bias.detach().numpy().copy()


def _tower(name: str, arrays: Mapping[str, NDArray[Any]]) -> tuple[Layer, ...]:
    layers: list[Layer] = []
    while f"{name}.{len(layers)}.weight" in arrays:
        i = len(layers)
        weight = np.asarray(arrays[f"{name}.{i}.weight"], np.float32)
        layers.append((weight, np.asarray(arrays[f"{name}.{i}.bias"], np.float32)))
    shapes = [w.shape for w, _ in layers]
    fits = all(above[1] == below[0] for below, above in pairwise(shapes))
    if not layers or not fits:
        raise ConfigError(f"network tower {name!r} has layers of shapes {shapes}; train again")
    return tuple(layers)


def _forward(layers: tuple[Layer, ...], x: Float) -> Float:
    for weight, bias in layers[:-1]:
        x = np.tanh(x @ weight.T + bias)
    weight, bias = layers[-1]
    out: Float = x @ weight.T + bias
    return out


@dataclass(frozen=True, eq=False)
class MeanNetwork:
    """The mean of several networks' logits."""

    members: tuple[Network, ...]

    def logits(self, observation: Float) -> Float:
        """Unmasked logits, (N, 17)."""
        total = sum(member.logits(observation) for member in self.members)
        return np.asarray(total / np.float32(len(self.members)), np.float32)


class NetworkPolicy:
    """Greedy play of a network in the simulator.

    Args:
        network: its weights.
        tables: belief tables it was trained with.
        name: shown in tables.
        privileged: extra inputs, for yardsticks.
    """

    def __init__(
        self,
        network: Network | MeanNetwork,
        tables: BeliefTables,
        name: str = "ppo",
        privileged: Privileged | None = None,
    ) -> None:
        self.network, self.tables, self.name, self.privileged = network, tables, name, privileged

    def choose(self, view: View) -> NDArray[np.int64]:
        """The legal action of the highest logit, per row."""
        logits = self.network.logits(self.inputs(view))
        return np.asarray(np.where(view.mask, logits, -np.inf).argmax(axis=1), np.int64)

    def inputs(self, view: View) -> Float:
        """What the network reads, (N, width)."""
        observation = view.observation(self.tables)
        if self.privileged is None:
            return observation
        core: RepairCore = view.core
        return np.concatenate([observation, self.privileged(core)], axis=1)
