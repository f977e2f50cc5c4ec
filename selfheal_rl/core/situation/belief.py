"""Root-cause belief: one pure function, the same for simulator and runtime.

The posterior is linear in the log domain over what has been seen in the incident:

    log b(c) = log p(c) + sum_f w[c, f] x[f] + log S_c(t)      (then normalised)

with ``x`` the belief features (kinds seen, effect state, signs, tries so far), ``w`` their
log-likelihoods, and ``S_c(t)`` the probability that a cause that ends by itself has not ended
after ``t`` seconds. This is naive Bayes (Mitchell, Machine Learning, ch. 6.9) with survival
evidence. The tables are means of the training mixture and travel in a policy's manifest.
"""

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfheal_rl.core.situation.facts import FactMatrix
from selfheal_rl.core.situation.layout import BELIEF_FEATURE_NAMES, BELIEF_FEATURES, FACTS
from selfheal_rl.core.values import N_ACTIONS, ConfigError, RepairAction

MAX_CAUSES = 24
TIME_EDGES: NDArray[np.float32] = np.geomspace(0.25, 86_400.0, 47).astype(np.float32)
"""Upper edges in seconds of the cells in which survival is tabulated; 48 cells."""
_LOG_FIRST = float(np.log(TIME_EDGES[0]))
_PER_LOG = (len(TIME_EDGES) - 1) / (float(np.log(TIME_EDGES[-1])) - _LOG_FIRST)
_CELLS_PER_LOG, _CELL_OFFSET = np.float32(_PER_LOG), np.float32(1.0 - _LOG_FIRST * _PER_LOG)
N_CELLS = len(TIME_EDGES) + 1
_CLIP_LOW, _CLIP_HIGH = np.float32(TIME_EDGES[0] * 0.999), np.float32(TIME_EDGES[-1] * 1.001)
SHORT_S = 2.0
"""Seconds that pass, about, while a call is simply made again."""
_INCIDENT_S, _WAIT_S = FACTS["seconds.incident"], FACTS["seconds.next_wait"]
_SHORT = np.float32(SHORT_S)
_ONE = np.float32(1.0)
_FloatArray = NDArray[np.float32]


def time_cell(seconds: Any) -> NDArray[np.int32]:
    """The survival table's cell for durations in seconds; 0 below the first edge."""
    # np.clip takes twice as long on one row
    cell: NDArray[np.float32] = np.log(np.minimum(np.maximum(seconds, _CLIP_LOW), _CLIP_HIGH))
    cell *= _CELLS_PER_LOG
    cell += _CELL_OFFSET
    return cell.astype(np.int32)


@dataclass(frozen=True, eq=False)
class BeliefTables:
    """Likelihoods of a training mixture.

    Attributes:
        causes: names of the root causes, at most 24; those that end by themselves come first.
        log_prior: float32 (C,), bias included.
        weights: float32 (C, F), F = len(BELIEF_FEATURE_NAMES).
        log_survival: float32 (T, N_CELLS), log P(still lasting) at a cell's lower edge,
            for the first T causes.
        success: float32 (17, C), P(action heals | cause) apart from time passing.
        short_gain: float32 (17, T), factor on P(the cause ends within ``SHORT_S``).
        wait_gain: float32 (17, T), factor on P(the cause ends within the planned wait).
    """

    causes: tuple[str, ...]
    log_prior: _FloatArray
    weights: _FloatArray
    log_survival: _FloatArray
    success: _FloatArray
    short_gain: _FloatArray
    wait_gain: _FloatArray

    def __post_init__(self) -> None:
        c, t, f = len(self.causes), len(self.log_survival), len(BELIEF_FEATURE_NAMES)
        expected = {
            "log_prior": (c,),
            "weights": (c, f),
            "log_survival": (t, N_CELLS),
            "success": (N_ACTIONS, c),
            "short_gain": (N_ACTIONS, t),
            "wait_gain": (N_ACTIONS, t),
        }
        if not 1 <= c <= MAX_CAUSES:
            raise ConfigError(f"got {c} root causes; expected 1 to {MAX_CAUSES}; merge some")
        for name, shape in expected.items():
            found = getattr(self, name).shape
            if found != shape:
                raise ConfigError(f"belief table {name!r} has shape {found}; expected {shape}")

    @cached_property
    def weights64(self) -> NDArray[np.float64]:
        """``weights`` in double precision."""
        return self.weights.astype(np.float64)

    @cached_property
    def combined(self) -> _FloatArray:
        """Success given a cause, and minus the gains from its ending, (17, C + 2 T)."""
        gains = np.stack([self.short_gain, self.wait_gain], axis=2).reshape(N_ACTIONS, -1)
        table = np.concatenate([self.success, -gains], axis=1)
        table[[RepairAction.ESCALATE, RepairAction.DEGRADE]] = 0.0
        return table

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, ready for JSON; floats rounded to 6 significant digits."""
        data: dict[str, Any] = {"causes": list(self.causes)}
        for name in _ARRAYS:
            array = getattr(self, name)
            rounded = [float(f"{x:.6g}") for x in array.ravel().tolist()]
            data[name] = {"shape": list(array.shape), "values": rounded}
        return data

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "BeliefTables":
        """Inverse of :meth:`to_dict`.

        Raises:
            ConfigError: a table is missing or has the wrong shape.
        """
        try:
            arrays = {
                name: np.asarray(data[name]["values"], np.float32).reshape(data[name]["shape"])
                for name in _ARRAYS
            }
            causes = tuple(str(c) for c in data["causes"])
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(f"belief tables cannot be read: {error}; export again") from error
        return cls(causes=causes, **arrays)

    def canonical(self) -> "BeliefTables":
        """These tables as they read back from JSON, so that hashes and decisions agree."""
        return BeliefTables.from_dict(self.to_dict())

    @property
    def hash(self) -> str:
        """SHA-256 over the canonical JSON form."""
        text = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


_ARRAYS = ("log_prior", "weights", "log_survival", "success", "short_gain", "wait_gain")


def root_cause_belief(facts: FactMatrix, tables: BeliefTables) -> tuple[_FloatArray, _FloatArray]:
    """Posterior over root causes and the chance that each action heals.

    Args:
        facts: float32, shape (N_FACTS, N).
        tables: likelihoods over C causes.

    Returns:
        ``(posterior, success)``: float32 of shapes (C, N) and (17, N), both in [0, 1].
    """
    n_causes, n_temporal = len(tables.causes), len(tables.log_survival)
    # Posterior and chances of ending in one array, so that one product gives the success.
    parts = np.empty((n_causes + 2 * n_temporal, facts.shape[1]), np.float32)
    posterior = parts[:n_causes]
    # Summed in float64: one row and N rows take different paths through BLAS and must agree.
    score = tables.weights64 @ facts[BELIEF_FEATURES].astype(np.float64)
    score += tables.log_prior[:, None]
    if n_temporal:
        ending = parts[n_causes:].reshape(n_temporal, 2, -1)
        score[:n_temporal] += _minus_ending(facts, tables, ending)
    score -= score.max(axis=0)
    np.exp(score.astype(np.float32), out=posterior)
    posterior /= posterior.sum(axis=0)
    if n_temporal:
        ending *= posterior[:n_temporal, None]
    success: _FloatArray = tables.combined @ parts
    return posterior, np.minimum(success, _ONE, out=success)


def _minus_ending(facts: FactMatrix, tables: BeliefTables, out: _FloatArray) -> _FloatArray:
    """Fill ``out`` (T, 2, N) with -P(it ends soon), -P(it ends within the wait).

    Returns:
        Log P(still lasting) now, (T, N).
    """
    times = np.empty((3, facts.shape[1]), np.float32)
    elapsed = facts[_INCIDENT_S]
    times[0] = elapsed
    np.add(elapsed, _SHORT, out=times[1])
    np.add(elapsed, facts[_WAIT_S], out=times[2])
    survival = tables.log_survival.take(time_cell(times), axis=1)
    lasting = survival[:, 0]
    np.subtract(survival[:, 1:], survival[:, :1], out=out)
    np.expm1(out, out=out)
    return lasting


def uninformed_tables() -> BeliefTables:
    """One cause and no evidence: for selectors that do not look at the belief."""
    zeros = np.zeros
    return BeliefTables(
        causes=("unknown",),
        log_prior=zeros(1, np.float32),
        weights=zeros((1, len(BELIEF_FEATURE_NAMES)), np.float32),
        log_survival=zeros((0, N_CELLS), np.float32),
        success=zeros((N_ACTIONS, 1), np.float32),
        short_gain=zeros((N_ACTIONS, 0), np.float32),
        wait_gain=zeros((N_ACTIONS, 0), np.float32),
    )
