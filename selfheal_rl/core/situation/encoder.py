"""The slot table and the encoder: facts and belief to one fixed observation vector.

All slots are hand-scaled into [-1, 1]; there are no running statistics to drift from the weights.
"""

import hashlib
import json
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from selfheal_rl.core.situation.belief import (
    MAX_CAUSES,
    SHORT_S,
    TIME_EDGES,
    BeliefTables,
    root_cause_belief,
)
from selfheal_rl.core.situation.facts import FactMatrix
from selfheal_rl.core.situation.layout import (
    BLOCKS,
    FACTS,
    MAX_ATTEMPTS_INCIDENT,
    MAX_ATTEMPTS_TASK,
    N_FACTS,
)
from selfheal_rl.core.values import ACTIONS, KINDS, ObservationError


@dataclass(frozen=True)
class Slot:
    """One entry of the observation.

    Attributes:
        name: as shown in reasons and plots.
        fact: the fact it is made from, or ``belief`` / ``success``.
        transform: ``copy``, ``scale`` or ``log`` (see :class:`layout.Block`).
        low: smallest value.
        high: largest value.
    """

    name: str
    fact: str
    transform: str
    low: float = 0.0
    high: float = 1.0


def _slots() -> tuple[Slot, ...]:
    transforms = [block.transform for block in BLOCKS for _ in block.members]
    direct = [Slot(name, name, t) for name, t in zip(FACTS, transforms, strict=True)]
    causes = [Slot(f"belief.{i:02d}", "belief", "copy") for i in range(MAX_CAUSES)]
    success = [Slot(f"success.{a.slug}", "success", "copy") for a in ACTIONS]
    return tuple(direct + causes + success)


SLOTS: tuple[Slot, ...] = _slots()
N_SLOTS = len(SLOTS)
SLOT_INDEX: dict[str, int] = {slot.name: i for i, slot in enumerate(SLOTS)}
_BELIEF = N_FACTS
_SUCCESS = N_FACTS + MAX_CAUSES


def _block_rows(transform: str) -> slice:
    rows = [i for i, slot in enumerate(SLOTS[:N_FACTS]) if slot.transform == transform]
    return slice(rows[0], rows[-1] + 1)


_COPY, _SCALE, _LOG = (_block_rows(t) for t in ("copy", "scale", "log"))
_FACTORS = np.concatenate(
    [np.full((len(b.members), 1), b.scale, np.float32) for b in BLOCKS if b.transform == "scale"]
)
_LOG_FACTOR = np.float32(next(b.scale for b in BLOCKS if b.transform == "log"))


def _spec_hash() -> str:
    spec = {
        "slots": [[s.name, s.fact, s.transform] for s in SLOTS],
        "scales": [[b.name, b.scale] for b in BLOCKS],
        "actions": [a.slug for a in ACTIONS],
        "kinds": [k.value for k in KINDS],
        "bounds": [MAX_ATTEMPTS_INCIDENT, MAX_ATTEMPTS_TASK],
        "time": [round(float(TIME_EDGES[0]), 4), round(float(TIME_EDGES[-1]), 1), len(TIME_EDGES)],
        "short_s": SHORT_S,
    }
    return hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:16]


SPEC_HASH = _spec_hash()
"""Identifies the meaning of an observation; a policy made for another spec is refused."""


def encode(facts: FactMatrix, tables: BeliefTables) -> NDArray[np.float32]:
    """The observation.

    Args:
        facts: float32, shape (N_FACTS, N).
        tables: belief tables of the policy that will read the observation.

    Returns:
        float32, shape (N, N_SLOTS), within [-1, 1]; column-major memory (a transposed view).
    """
    out = np.empty((N_SLOTS, facts.shape[1]), np.float32)
    np.minimum(facts[_COPY], 1.0, out=out[_COPY])
    np.multiply(facts[_SCALE], _FACTORS, out=out[_SCALE])
    np.minimum(out[_SCALE], 1.0, out=out[_SCALE])
    log = out[_LOG]
    np.log1p(facts[_LOG], out=log)
    log *= _LOG_FACTOR
    np.minimum(log, 1.0, out=log)
    posterior, success = root_cause_belief(facts, tables)
    n_causes = len(posterior)
    out[_BELIEF : _BELIEF + n_causes] = posterior
    if n_causes < MAX_CAUSES:
        out[_BELIEF + n_causes : _SUCCESS] = 0.0
    out[_SUCCESS:] = success
    return out.T


def check_observation(observation: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return ``observation`` when its width and type fit this spec.

    Raises:
        ObservationError: wrong width, type or values that are not finite.
    """
    if observation.ndim != 2 or observation.shape[1] != N_SLOTS:
        raise ObservationError(
            f"got an observation of shape {observation.shape}; expected (N, {N_SLOTS}) for spec "
            f"{SPEC_HASH}; encode it with this version's encode()"
        )
    if observation.dtype != np.float32 or not np.isfinite(observation).all():
        raise ObservationError(
            f"got an observation of type {observation.dtype} with "
            f"{int((~np.isfinite(observation)).sum())} values that are not finite; "
            "expected finite float32 as encode() gives"
        )
    return observation
