"""A world as arrays: what the vectorised core indexes into."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from selfheal_rl.core.catalog import find_world, load_toml
from selfheal_rl.core.situation import MAX_ATTEMPTS_INCIDENT, available_actions
from selfheal_rl.core.values import (
    ACTIONS,
    EFFECT_STATES,
    EFFECTS,
    KINDS,
    N_ACTIONS,
    SEAMS,
    Diagnosis,
    Effects,
    ErrorSnapshot,
    FailedCall,
    RepairAction,
)
from selfheal_rl.runtime.diagnose import classify
from selfheal_rl.trainer.sim.schema import Cause, Symptom, World

A = RepairAction
PICK = 1024
"""Resolution of the tables that turn a uniform into a cause, symptom or host."""
_AFTER_END = frozenset(
    {A.CONTINUE, A.RETRY, A.BACKOFF, A.FIX_ARGUMENTS, A.REPROMPT, A.INSPECT}
    | {A.FALLBACK_MODEL, A.REFRESH_CONTEXT, A.RESET_COMPONENT, A.APPLY_FIX, A.ROLLBACK}
)
"""Actions that make the call again, so that they heal a cause which has ended."""
F32 = NDArray[np.float32]


def pick_table(weights: NDArray[np.float64]) -> NDArray[np.int64]:
    """Inverse distribution function over PICK equal cells; every weight > 0 gets its share."""
    edges = np.cumsum(weights) / weights.sum()
    return np.searchsorted(edges, (np.arange(PICK) + 0.5) / PICK).astype(np.int64)


def action_row(values: dict[str, float], default: float = 0.0) -> F32:
    """Float32 of shape (17,) from slugs to figures."""
    row = np.full(N_ACTIONS, default, np.float32)
    for name, value in values.items():
        row[RepairAction.parse(name)] = value
    return row


def symptom_snapshot(cause: Cause, symptom: Symptom, effects: Effects) -> ErrorSnapshot:
    """The parts of a snapshot that the symptom fixes; the state adds time, budgets and so on."""
    retry_after = {"none": None, "truth": 1.0}.get(str(symptom.retry_after), symptom.retry_after)
    return ErrorSnapshot(
        time=0.0,
        status=symptom.state,
        error_type=symptom.error_type,
        message=symptom.message,
        http_status=symptom.status,
        retry_after_s=retry_after,
        seam=cause.seam,
        call=FailedCall(tool="tool", effects=effects, is_model_call=cause.seam.value == "model"),
        alarm=None if symptom.alarm is None else symptom.alarm.value,
    )


@dataclass(frozen=True)
class Variant:
    """A symptom met by a call of certain effects, as the classifier sees it."""

    cause: int
    symptom: Symptom
    snapshot: ErrorSnapshot
    diagnosis: Diagnosis


class CompiledWorld:
    """Arrays of a world; C causes, V variants (symptom x effects), P host profiles."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.cause_names = tuple(world.causes)
        causes = tuple(world.causes.values())
        self.causes = causes
        self.n_causes = len(causes)
        self._compile_causes(causes)
        self._compile_variants(causes)
        self._compile_actions()
        self._compile_hosts()
        self._compile_tasks()

    def _compile_causes(self, causes: tuple[Cause, ...]) -> None:
        index = {name: i for i, name in enumerate(self.cause_names)}
        world = self.world
        self.share = np.array([c.share for c in causes])
        self.ok = np.array([action_row({a: e.ok for a, e in c.repair.items()}) for c in causes])
        self.n = np.array([action_row({a: e.n for a, e in c.repair.items()}) for c in causes])
        self.temporal = np.array([c.duration is not None for c in causes])
        self.shared = np.array([c.shared for c in causes])
        self.lost = np.array([c.writes_only for c in causes])
        """The call took effect and its reply was lost: repeating it blindly does harm."""
        self.otherwise = np.array(
            [index[c.otherwise] if c.otherwise else i for i, c in enumerate(causes)]
        )
        self.seam = np.array([SEAMS.index(c.seam) for c in causes])
        self.wear = np.array([world.wear if c.wear is None else c.wear for c in causes], np.float32)
        uses = np.arange(MAX_ATTEMPTS_INCIDENT + 1, dtype=np.float32)
        self.worn: F32 = self.wear[:, None] ** uses[None, :]
        """Factor on success after so many uses of the action, (C, 9)."""
        self.median_s = np.array([c.duration.median_s if c.duration else 0.0 for c in causes])
        self.sigma = np.array([c.duration.sigma if c.duration else 0.0 for c in causes])
        default = np.array([1.0 if a in _AFTER_END else 0.0 for a in ACTIONS], np.float32)
        self.after_end = np.zeros((self.n_causes, N_ACTIONS), np.float32)
        for i, cause in enumerate(causes):
            if cause.duration is not None:
                self.after_end[i] = default
                for name, p in cause.after_end.items():
                    self.after_end[i, A.parse(name)] = p
        self.harm = np.array([action_row({a: h.p for a, h in c.harm.items()}) for c in causes])
        self.after_inspect = np.array([action_row(dict(c.after_inspect)) for c in causes])
        # quantiles of the standard normal for durations: 256 equal cells
        self.duration_s = self._durations()

    def _durations(self) -> F32:
        z = np.array([NormalDist().inv_cdf((i + 0.5) / 256) for i in range(256)])
        seconds = self.median_s[:, None] * np.exp(self.sigma[:, None] * z[None, :])
        seconds[~self.temporal] = np.inf
        result: F32 = seconds.astype(np.float32)
        return result

    def _compile_variants(self, causes: tuple[Cause, ...]) -> None:
        self.variants: list[Variant] = []
        base: list[int] = []
        self.symptom_pick = np.zeros((self.n_causes, PICK), np.int64)
        for i, cause in enumerate(causes):
            first = len(self.variants) // len(EFFECTS)
            base.append(first)
            weights = np.array([s.share for s in cause.symptoms], np.float64)
            self.symptom_pick[i] = first + pick_table(weights)
            for symptom in cause.symptoms:
                for effects in EFFECTS:
                    snapshot = symptom_snapshot(cause, symptom, effects)
                    self.variants.append(Variant(i, symptom, snapshot, classify(snapshot)))
        v = self.variants
        self.posterior = np.array([x.diagnosis.posterior for x in v], np.float32).T.copy()
        self.effect_state = np.array(
            [EFFECT_STATES.index(x.diagnosis.effect_state) for x in v], np.int64
        )
        kinds = [KINDS.index(x.diagnosis.kind) for x in v]
        self.kind = np.array(kinds, np.int64)
        signatures = sorted({x.diagnosis.signature for x in v})
        self.signature = np.array([signatures.index(x.diagnosis.signature) for x in v], np.int64)
        self.latency_s = np.array([x.symptom.latency_s for x in v], np.float32)
        after = [x.symptom.retry_after for x in v]
        self.retry_truth = np.array([r == "truth" for r in after])
        self.retry_fixed = np.array([r if isinstance(r, float) else 0.0 for r in after], np.float32)
        self.context = np.array(
            [-1.0 if x.symptom.context is None else x.symptom.context for x in v], np.float32
        )
        hundreds = np.array([(x.symptom.status or 0) // 100 for x in v])
        soft = np.array([x.snapshot.is_soft for x in v])
        has_after = np.array([r != "none" for r in after])
        self.signs = np.stack(
            [soft, has_after, hundreds == 2, hundreds == 4, hundreds == 5]
        ).astype(np.float32)
        self.effect_state_rows = np.eye(3, dtype=np.float32)[:, self.effect_state]

    def _compile_actions(self) -> None:
        costs = {RepairAction.parse(name): cost for name, cost in self.world.costs.items()}
        self.seconds = np.zeros(N_ACTIONS, np.float32)
        self.tokens = np.zeros(N_ACTIONS, np.float32)
        self.minutes = np.zeros(N_ACTIONS, np.float32)
        self.quality = np.ones(N_ACTIONS, np.float32)
        for action, cost in costs.items():
            self.seconds[action] = cost.seconds
            self.tokens[action] = cost.tokens
            self.minutes[action] = cost.human_minutes
            self.quality[action] = cost.quality
        prices = self.world.prices
        self.price = (
            prices.second * self.seconds
            + prices.kilotoken * 1e-3 * self.tokens
            + prices.human_minute * self.minutes
        )
        """Utility paid for one use of each action, waits apart, (17,)."""

    def _compile_hosts(self) -> None:
        hosts = self.world.hosts
        self.host_pick = pick_table(np.array([h.share for h in hosts], np.float64))
        self.available = np.zeros((N_ACTIONS, len(hosts) * len(SEAMS)), np.float32)
        for i, host in enumerate(hosts):
            for j, seam in enumerate(SEAMS):
                column = available_actions(host.capabilities, seam)
                self.available[:, i * len(SEAMS) + j] = column

    def _compile_tasks(self) -> None:
        task = self.world.task
        weights = np.array([task.tool_effects.get(e.value, 0.0) for e in EFFECTS], np.float64)
        self.effects_pick = pick_table(weights)
        # Gamma factor on the failure rate with mean 1, as 256 equal cells of its distribution.
        rng = np.random.default_rng(12_345)
        sample = np.sort(rng.gamma(task.frailty_shape, 1.0 / task.frailty_shape, 256 * 64))
        cells = sample.reshape(256, 64).mean(axis=1)
        self.frailty = (cells / cells.mean()).astype(np.float32)

    @cached_property
    def mean_success(self) -> F32:
        """P(action heals | cause) at first use and before time helps; shape (C, 17)."""
        p = np.where(self.n > 0, (self.ok + 0.5) / (self.n + 1.0), 0.0)
        if self.world.exact:
            p = np.where(self.n > 0, self.ok / np.maximum(self.n, 1e-9), 0.0)
        result: F32 = p.astype(np.float32)
        return result


def compile_world(world: World) -> CompiledWorld:
    """Arrays for the simulator; runs the real classifier on every symptom."""
    return CompiledWorld(world)


def load_world(id_or_path: str | Path) -> CompiledWorld:
    """Find, read, validate and compile a world.

    Raises:
        UnknownIdError: no such world.
        ConfigError: the file does not fit the format.
    """
    return compile_world(load_toml(find_world(str(id_or_path)), World))
