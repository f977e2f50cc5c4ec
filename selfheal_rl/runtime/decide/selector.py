"""What chooses a repair: one Protocol for rule tables, networks and anything a user brings."""

from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

FloatMatrix = NDArray[np.float32]
BoolMatrix = NDArray[np.bool_]


@runtime_checkable
class Selector(Protocol):
    """Chooses among the legal repairs of N incidents at once.

    A selector that reads the observation says so with an attribute ``tables`` (the belief tables
    to encode it with); one that has none may be given an empty observation of shape (N, 0). An
    attribute ``hash`` names its weights or table in journals.
    """

    name: str

    def probabilities(
        self, facts: FloatMatrix, observation: FloatMatrix, mask: BoolMatrix
    ) -> FloatMatrix:
        """Probability of each action.

        Args:
            facts: float32, shape (N_FACTS, N).
            observation: float32 in [-1, 1], shape (N, N_SLOTS).
            mask: bool, shape (N, 17), True where legal.

        Returns:
            float32, shape (N, 17); rows sum to 1 and are zero where ``mask`` is False.
        """
        ...


def one_hot(actions: NDArray[np.integer], n_actions: int) -> FloatMatrix:
    """Probabilities of a deterministic choice.

    Args:
        actions: integers, shape (N,).
        n_actions: number of columns.
    """
    chosen = np.zeros((len(actions), n_actions), np.float32)
    chosen[np.arange(len(actions)), actions] = 1.0
    return chosen
