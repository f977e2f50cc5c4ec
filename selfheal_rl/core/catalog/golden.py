"""Golden decisions: states and what the policy answered there when it was exported.

They are replayed before a policy is taken into use, so that another runtime version or a damaged
file shows as a changed decision, not as a bad night.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfheal_rl.core.values.actions import N_ACTIONS
from selfheal_rl.core.values.errors import ArtifactError

_KEYS = ("facts", "observation", "mask", "probabilities")


@dataclass(frozen=True, slots=True)
class Golden:
    """N recorded decisions.

    Attributes:
        facts: float32, shape (number of facts, N).
        observation: float32 in [-1, 1], shape (N, number of slots).
        mask: bool, shape (N, 17); True where legal.
        probabilities: float32, shape (N, 17); rows sum to 1.
    """

    facts: NDArray[np.float32]
    observation: NDArray[np.float32]
    mask: NDArray[np.bool_]
    probabilities: NDArray[np.float32]

    @property
    def actions(self) -> NDArray[np.int64]:
        """The greedy action of each decision, shape (N,)."""
        return np.asarray(self.probabilities.argmax(axis=1), dtype=np.int64)

    def to_jsonl(self) -> bytes:
        """One JSON object per decision; float32 values survive the round trip exactly."""
        rows = zip(self.facts.T, self.observation, self.mask, self.probabilities, strict=True)
        lines = [
            json.dumps(
                {
                    "facts": _floats(facts),
                    "observation": _floats(observation),
                    "mask": [int(m) for m in mask],
                    "probabilities": _floats(probabilities),
                },
                separators=(",", ":"),
            )
            for facts, observation, mask, probabilities in rows
        ]
        return ("\n".join(lines) + "\n").encode()


def read_golden(path: str | os.PathLike[str]) -> Golden:
    """Read ``golden.jsonl``.

    Raises:
        ArtifactError: the file is absent, not JSON lines, or its rows differ in shape.
    """
    try:
        rows = [json.loads(line) for line in Path(path).read_text("utf-8").splitlines() if line]
        columns = {key: [row[key] for row in rows] for key in _KEYS}
        return _checked(path, columns)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ArtifactError(
            f"{path}: no readable golden decisions ({error!r}); expected one JSON object a line "
            f"with the keys {', '.join(_KEYS)}; export the policy again"
        ) from error


def _checked(path: str | os.PathLike[str], columns: dict[str, list[Any]]) -> Golden:
    if not columns["mask"]:
        raise ValueError("the file is empty")
    golden = Golden(
        facts=np.ascontiguousarray(np.array(columns["facts"], dtype=np.float32).T),
        observation=np.array(columns["observation"], dtype=np.float32),
        mask=np.array(columns["mask"], dtype=np.bool_),
        probabilities=np.array(columns["probabilities"], dtype=np.float32),
    )
    n = len(columns["mask"])
    if golden.mask.shape != (n, N_ACTIONS) or golden.probabilities.shape != (n, N_ACTIONS):
        raise ValueError(
            f"mask {golden.mask.shape} and probabilities {golden.probabilities.shape}, "
            f"expected ({n}, {N_ACTIONS})"
        )
    return golden


def _floats(values: NDArray[np.float32]) -> list[float]:
    # Nine significant digits identify every float32.
    return [float(f"{v:.9g}") for v in values.tolist()]
