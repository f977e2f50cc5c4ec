"""A runtime selector as a policy of the simulator."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from selfheal_rl.core.situation import BeliefTables, FactMatrix
from selfheal_rl.core.values import ACTIONS, IllegalMaskError
from selfheal_rl.trainer.sim.episodes import View


class Chooser(Protocol):
    """A selector whose name may be read-only."""

    @property
    def name(self) -> str:
        """As shown in tables."""
        ...

    def probabilities(
        self, facts: FactMatrix, observation: NDArray[np.float32], mask: NDArray[np.bool_]
    ) -> NDArray[np.float32]:
        """As a :class:`~selfheal_rl.runtime.decide.selector.Selector`'s."""
        ...


class SelectorPolicy:
    """Plays a selector's most probable action.

    Args:
        selector: ``tables`` says with which belief tables its observation is encoded; one without
            them reads facts only. ``ignores_mask`` marks a library's default, which knows no mask.
        name: as shown in tables; the selector's own when None.
    """

    def __init__(self, selector: Chooser, name: str | None = None) -> None:
        self.selector = selector
        self.name = name or selector.name
        self.ignores_mask = bool(getattr(selector, "ignores_mask", False))
        self.tables: BeliefTables | None = getattr(selector, "tables", None)
        self.wait_s = getattr(selector, "wait_s", None)
        """The selector's own schedule of waits; None for the healer's."""

    def choose(self, view: View) -> NDArray[np.int64]:
        """One action per row.

        Raises:
            IllegalMaskError: the selector chose a closed action.
        """
        if self.tables is None:
            observation = np.empty((view.facts.shape[1], 0), np.float32)
        else:
            observation = view.observation(self.tables)
        probabilities = self.selector.probabilities(view.facts, observation, view.mask)
        actions: NDArray[np.int64] = probabilities.argmax(axis=1).astype(np.int64)
        if not self.ignores_mask:
            check_legal(self.name, actions, view.mask)
        return actions


def check_legal(name: str, actions: NDArray[np.int64], mask: NDArray[np.bool_]) -> None:
    """Refuse closed actions.

    Raises:
        IllegalMaskError: names the policy and the action.
    """
    legal = mask[np.arange(len(actions)), actions]
    if not legal.all():
        row = int(np.flatnonzero(~legal)[0])
        allowed = [a.slug for a in ACTIONS if mask[row, a]]
        raise IllegalMaskError(
            f"{name!r} chose {ACTIONS[int(actions[row])].slug!r}, which is closed in row {row}; "
            f"expected one of {allowed}; a selector must put probability on legal actions only"
        )
