"""A policy that abstains to rules where it has not been trained, or is not sure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfheal_rl.core.situation import N_SLOTS, SLOTS, encode, legal_mask
from selfheal_rl.core.values import ArtifactError, RepairAction
from selfheal_rl.runtime.decide.onnx_policy import OnnxPolicy
from selfheal_rl.runtime.decide.selector import BoolMatrix, FloatMatrix, Selector

_SLACK = 1e-4


@dataclass(frozen=True, eq=False)
class Support:
    """What a policy saw in training, from its manifest: ``{"low", "high", "disagreement"}``.

    A slot that never varied in training says nothing the policy could have learned from, so it is
    held at its training value. A slot that varied and now lies outside means a situation unlike
    any in training: there the policy abstains.

    Attributes:
        low, high: float32, shape (N_SLOTS,), bounds of each slot, slack included.
        fixed: bool, shape (N_SLOTS,), True where the slot never varied.
        disagreement: largest disagreement of the ensemble the policy acts on.
    """

    low: NDArray[np.float32]
    high: NDArray[np.float32]
    fixed: NDArray[np.bool_]
    disagreement: float

    @classmethod
    def of(cls, data: dict[str, Any]) -> "Support":
        """From a manifest's ``support``; an absent bound bounds nothing.

        Raises:
            ArtifactError: bounds of the wrong length or type.
        """
        try:
            low = np.array(_bound(data.get("low"), -1.0), np.float32)
            high = np.array(_bound(data.get("high"), 1.0), np.float32)
            limit = data.get("disagreement")
            disagreement = float("inf") if limit is None else float(limit)
        except (TypeError, ValueError) as error:
            raise ArtifactError(f"support of the policy cannot be read: {error}") from error
        if low.shape != (N_SLOTS,) or high.shape != (N_SLOTS,) or (low > high).any():
            raise ArtifactError(
                f"support of the policy has bounds of shapes {low.shape} and {high.shape}; "
                f"expected low <= high of shape ({N_SLOTS},); export the policy again"
            )
        return cls(low - _SLACK, high + _SLACK, (high - low) < _SLACK, disagreement)


def _bound(values: Sequence[float] | None, default: float) -> Sequence[float]:
    return [default] * N_SLOTS if values is None else values


class AbstainingSelector:
    """The policy inside its support, the rules outside; one selector to the outside.

    Args:
        policy: a network.
        rules: what decides where the network abstains.
    """

    def __init__(self, policy: OnnxPolicy, rules: Selector) -> None:
        self.policy, self.rules = policy, rules
        self.name, self.hash, self.tables = policy.name, policy.hash, policy.tables
        self.support = Support.of(policy.manifest.support)
        self._fixed = np.flatnonzero(self.support.fixed)
        middle = (self.support.low + self.support.high) / 2.0
        self._held = middle[self._fixed].astype(np.float32)
        self._low = np.where(self.support.fixed, -2.0, self.support.low).astype(np.float32)
        self._high = np.where(self.support.fixed, 2.0, self.support.high).astype(np.float32)
        self._unsure = self.support.disagreement
        self._fast = np.isinf(self._unsure) and policy.reads_rows
        self._held_policy = policy.holding(self._fixed, self._held)

    def _hold(self, observation: FloatMatrix) -> FloatMatrix:
        held = np.array(observation, np.float32, order="C")
        held[:, self._fixed] = self._held
        return held

    def outside(self, observation: FloatMatrix) -> NDArray[np.bool_]:
        """Where a slot lies outside what training has shown; bool, shape (N,)."""
        odd = (observation < self._low) | (observation > self._high)
        return np.asarray(odd.any(axis=1), np.bool_)

    def decided(
        self, observation: FloatMatrix, mask: BoolMatrix
    ) -> tuple[FloatMatrix, NDArray[np.bool_]]:
        """The network's masked logits (N, 17), and where it abstains (N,)."""
        held = self._hold(observation)
        abstains = self.outside(held)
        if np.isinf(self._unsure):
            return self.policy.logits(held, mask), abstains
        answer = self.policy.answer(held, mask)
        if answer.disagreement is not None:
            abstains |= answer.disagreement > self._unsure
        return answer.logits, abstains

    def action(self, facts: FloatMatrix) -> int:
        """The action of a single row of facts, (N_FACTS, 1): the fast path."""
        observation, mask = encode(facts, self.tables), legal_mask(facts)
        row = observation[0]
        inside = ((row >= self._low) & (row <= self._high)).all()
        if not inside or not self._fast:
            return int(self.probabilities(facts, observation, mask).argmax())
        return self._held_policy.action(observation, mask)

    def probabilities(
        self, facts: FloatMatrix, observation: FloatMatrix, mask: BoolMatrix
    ) -> FloatMatrix:
        """See :class:`~selfheal_rl.runtime.decide.selector.Selector`."""
        logits, abstains = self.decided(observation, mask)
        own = self.policy.distribution(logits, mask)
        if not abstains.any():
            return own
        other = self.rules.probabilities(facts, observation, mask)
        return np.where(abstains[:, None], other, own)

    def reason(self, facts: FloatMatrix, action: RepairAction) -> str:
        """Says when the rules decided, and why the policy did not."""
        observation = encode(facts, self.tables)
        _, abstains = self.decided(observation, legal_mask(facts))
        if not abstains[0]:
            return ""
        held = self._hold(observation)[0]
        odd = np.flatnonzero((held < self._low) | (held > self._high))
        why = (
            f"{SLOTS[int(odd[0])].name} is {held[odd[0]]:.2f}, outside what training has shown "
            f"({self._low[odd[0]]:.2f} to {self._high[odd[0]]:.2f})"
            if len(odd)
            else "its ensemble disagrees"
        )
        own = getattr(self.rules, "reason", None)
        told = f"; {own(facts, action)}" if own is not None else ""
        return f"{self.name} abstained: {why}; {self.rules.name} decided{told}"
