"""Belief tables of a training mixture: its means, never those of the world or draw in play."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from selfheal_rl.core.situation import (
    BELIEF_FEATURE_NAMES,
    MAX_CAUSES,
    TIME_EDGES,
    BeliefTables,
)
from selfheal_rl.core.values import ACTIONS, N_ACTIONS, ConfigError, RepairAction
from selfheal_rl.trainer.sim.compile import CompiledWorld

_F64 = NDArray[np.float64]
SIGN_WEIGHT = 0.5
"""Tempering of signs and effect states, which are not independent of the kind (assumed)."""
_FLOOR = 2e-3
_MIN_FAIL = 0.05


def belief_tables(worlds: Sequence[CompiledWorld]) -> BeliefTables:
    """Merge causes by name over a mixture of worlds, weighted by their shares.

    Raises:
        ConfigError: the mixture has more than 24 distinct causes.
    """
    names = tuple(dict.fromkeys(name for w in worlds for name in w.cause_names))
    if len(names) > MAX_CAUSES:
        raise ConfigError(
            f"the mixture has {len(names)} root causes ({', '.join(names)}); expected at most "
            f"{MAX_CAUSES}; give causes that are alike in several worlds one name"
        )
    merged = [_merge(name, worlds) for name in names]
    # Causes that end by themselves come first, as the tables want them.
    order = sorted(range(len(names)), key=lambda i: merged[i]["ends"] <= 0)
    names, merged = tuple(names[i] for i in order), [merged[i] for i in order]
    prior = np.array([m["prior"] for m in merged])
    temporal = [m for m in merged if m["ends"] > 0]
    weights, bias = _weights(merged)
    success = np.array([m["success"] for m in merged]).T
    gains = np.array([m["gain"] for m in temporal]).reshape(-1, N_ACTIONS).T
    short, wait = gains.copy(), np.zeros_like(gains)
    short[RepairAction.BACKOFF] = 0.0
    wait[RepairAction.BACKOFF] = gains[RepairAction.BACKOFF]
    survival = np.array([m["survival"] for m in temporal])
    f4 = np.float32
    return BeliefTables(
        causes=names,
        log_prior=(np.log(prior / prior.sum()) + bias).astype(f4),
        weights=weights.astype(f4),
        log_survival=survival.astype(f4).reshape(len(temporal), len(TIME_EDGES) + 1),
        success=success.astype(f4),
        short_gain=short.astype(f4),
        wait_gain=wait.astype(f4),
    ).canonical()


def _merge(name: str, worlds: Sequence[CompiledWorld]) -> dict[str, _F64]:
    parts: list[tuple[float, dict[str, _F64]]] = []
    for world in worlds:
        if name in world.cause_names:
            c = world.cause_names.index(name)
            weight = float(world.share[c] / world.share.sum())
            parts.append((weight, _one_world(world, c)))
    total = sum(w for w, _ in parts)
    merged = {
        key: np.asarray(sum(w * p[key] for w, p in parts) / total, np.float64)
        for key in parts[0][1]
    }
    merged["prior"] = np.asarray(total / len(worlds))
    survival = np.maximum(merged["survival"], 1e-6)
    merged["survival"] = np.log(survival)
    return merged


def _one_world(world: CompiledWorld, c: int) -> dict[str, _F64]:
    picked = world.symptom_pick[c]
    effects = np.bincount(world.effects_pick, minlength=4) / len(world.effects_pick)
    variants = (picked[:, None] * 4 + np.arange(4)[None, :]).ravel()
    mass = np.tile(effects, len(picked)) / len(picked)
    sequence = {
        "seen": world.posterior[:, variants] @ mass,
        "state": world.effect_state_rows[:, variants] @ mass,
        "signs": world.signs[:, variants] @ mass,
    }
    durations = np.sort(world.duration_s[c].astype(np.float64))
    starts = np.concatenate([[0.0], TIME_EDGES.astype(np.float64)])
    lasting = 1.0 - np.searchsorted(durations, starts, side="right") / len(durations)
    return sequence | {
        "survival": lasting,
        "success": world.mean_success[c].astype(np.float64),
        "gain": world.after_end[c].astype(np.float64),
        "ends": np.asarray(float(world.temporal[c])),
    }


def _weights(merged: list[dict[str, _F64]]) -> tuple[_F64, _F64]:
    """Log-likelihood per feature and the bias of absent signs; shapes (C, F) and (C,)."""
    index = {name: i for i, name in enumerate(BELIEF_FEATURE_NAMES)}
    w = np.zeros((len(merged), len(index)))
    bias = np.zeros(len(merged))
    n_signs = len(merged[0]["signs"])
    first = next(i for n, i in index.items() if n.startswith("seen."))
    state = next(i for n, i in index.items() if n.startswith("effect_state."))
    sign = next(i for n, i in index.items() if n.startswith("sign."))
    tries = next(i for n, i in index.items() if n.startswith("tries."))
    for c, m in enumerate(merged):
        w[c, first : first + len(m["seen"])] = np.log(np.maximum(m["seen"], _FLOOR))
        w[c, state : state + 3] = SIGN_WEIGHT * np.log(np.maximum(m["state"], 0.02))
        p = np.clip(m["signs"], 0.02, 0.98)
        w[c, sign : sign + n_signs] = SIGN_WEIGHT * (np.log(p) - np.log1p(-p))
        bias[c] = SIGN_WEIGHT * float(np.log1p(-p).sum())
        failed = np.log(np.maximum(1.0 - m["success"], _MIN_FAIL))
        w[c, tries : tries + len(ACTIONS)] = failed
    # The softmax does not feel a shift per feature; small figures keep float32 sums exact enough
    # for one row and N rows to agree to 1e-6.
    return w - w.mean(axis=0), bias - bias.mean()
