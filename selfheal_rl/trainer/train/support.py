"""What training has shown a policy: bounds of each slot, and the actions that were ever legal."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from selfheal_rl.core.situation import N_SLOTS, SLOTS
from selfheal_rl.core.values import N_ACTIONS
from selfheal_rl.trainer.train.network import Layer, Network

_NEVER_TRAINED = -1e4
"""Logit of an action that was never legal in training: below any other, above a closed one."""
_FIXED = 1e-6
_SLACK = {
    "kind": 0.5,
    "seen": 0.5,
    "effects": 0.5,
    "effect_state": 0.5,
    "tries": 0.34,
    "count": 0.25,
    "share": 0.25,
    "seconds": 0.15,
}
"""Block of slots -> what may lie outside the bounds before a policy abstains.

A one-hot or posterior counts as unseen from 0.5 on, where it becomes the leading one; one more
try of an action is 1/3. Blocks that are not named (flags, availability, belief) never make a
policy abstain: legality covers the former, the belief stays in [0, 1] by construction.
"""
_STRICT = frozenset({"kind", "seen", "effects", "effect_state"})
"""Blocks whose slots matter also when they never varied in training."""


@dataclass
class Seen:
    """Bounds over every state of training.

    Attributes:
        low, high: float32 (width,), smallest and largest value of each slot.
        legal: bool (17,), actions that were legal at least once.
    """

    low: NDArray[np.float32]
    high: NDArray[np.float32]
    legal: NDArray[np.bool_]

    @classmethod
    def nothing(cls, width: int) -> "Seen":
        """Before the first state."""
        bounds = np.full((2, width), np.inf, np.float32)
        return cls(bounds[0], -bounds[1], np.zeros(N_ACTIONS, np.bool_))

    def add(self, observations: Tensor, masks: Tensor) -> None:
        """Widen by states (N, width) with their masks (N, 17)."""
        low, high = torch.aminmax(observations, dim=0)
        np.minimum(self.low, low.numpy(), out=self.low)
        np.maximum(self.high, high.numpy(), out=self.high)
        self.legal |= masks.any(0).numpy()

    def join(self, other: "Seen") -> "Seen":
        """Bounds over the states of both."""
        return Seen(
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            self.legal | other.legal,
        )

    def close(self, network: Network) -> Network:
        """The network without what it cannot have learned.

        A slot that never varied gets weight 0, its constant share going to the bias; an action
        that was never legal is never chosen while another is open. In training nothing changes.
        """
        fixed = self.high - self.low < _FIXED
        actor = [*_folded(network.actor, fixed, self.low)]
        weight, bias = (x.copy() for x in actor[-1])
        weight[~self.legal], bias[~self.legal] = 0.0, _NEVER_TRAINED
        actor[-1] = (weight, bias)
        return Network(tuple(actor), _folded(network.critic, fixed, self.low))

    def bounds(self) -> dict[str, Any]:
        """``{"low", "high"}`` of the observation's slots, slack included, ready for a manifest.

        Equal bounds mark a slot that never varied and that a policy must not react to.
        """
        low, high = self.low[:N_SLOTS].copy(), self.high[:N_SLOTS].copy()
        for i, slot in enumerate(SLOTS):
            block = slot.name.split(".")[0]
            fixed = high[i] - low[i] < _FIXED and block not in _STRICT
            slack = 0.0 if fixed else _SLACK.get(block, 2.0)
            low[i], high[i] = max(low[i] - slack, -1.0), min(high[i] + slack, 1.0)
        return {
            "low": [round(float(x), 6) for x in low],
            "high": [round(float(x), 6) for x in high],
        }

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Named arrays; :meth:`from_arrays` reads them back."""
        return {"seen.low": self.low, "seen.high": self.high, "seen.legal": self.legal}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "Seen":
        """Inverse of :meth:`arrays`."""
        return cls(*(arrays[f"seen.{name}"].copy() for name in ("low", "high", "legal")))


def _folded(
    layers: tuple[Layer, ...], fixed: NDArray[np.bool_], value: NDArray[np.float32]
) -> tuple[Layer, ...]:
    weight, bias = layers[0]
    bias = bias + weight[:, fixed] @ value[fixed]
    weight = np.where(fixed, np.float32(0.0), weight)
    return ((weight, bias.astype(np.float32)), *layers[1:])
