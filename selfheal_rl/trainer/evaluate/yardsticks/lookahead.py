"""Bayes belief over root causes and one or two steps of planning, without any learning.

    Q(a) = -cost(a) + sum_c b(c) [h(a,c) V_healed(a,c) + (1 - h(a,c)) (1 - g(a)) V_failed(a)]

with b the same belief a learned policy is shown, h the world's mean chance to heal (wear, what an
inspection showed, and causes that end by themselves included), g the chance that the agent, left
alone, loses the task, V_healed the value of resuming, and V_failed that of the best end (one step)
or of the best next action under the belief after the failure (two steps).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from selfheal_rl.core.situation import BeliefTables, root_cause_belief
from selfheal_rl.core.values import ConfigError, RepairAction
from selfheal_rl.trainer.evaluate.yardsticks.incident import REPAIRS, Ledger, State
from selfheal_rl.trainer.evaluate.yardsticks.outlook import Ahead, Incidents, ahead_of
from selfheal_rl.trainer.sim.compile import CompiledWorld
from selfheal_rl.trainer.sim.episodes import View

A = RepairAction
F32 = NDArray[np.float32]
_CHUNK = 4096
_CLOSED = np.float32(-1e9)
_GRID = np.geomspace(0.1, 1e5, 255).astype(np.float32)
_BYPASSES = [int(A.FALLBACK_TOOL), int(A.FALLBACK_MODEL)]


@dataclass(frozen=True)
class _Context:
    """What one batch of rows shares over all steps of planning."""

    ahead: Ahead
    state: State
    belief: F32
    """(C, N)"""


class Lookahead:
    """Plans with a world's mean figures under a belief.

    Args:
        world: compiled; its figures are used, never a deployment's.
        tables: belief tables, those of the policy it is compared with.
        depth: 1 or 2 steps.
        incidents: figures of later incidents; measured with the one-step form when None.
    """

    def __init__(
        self,
        world: CompiledWorld,
        tables: BeliefTables,
        depth: int,
        incidents: Incidents | None = None,
    ) -> None:
        if depth not in (1, 2):
            raise ConfigError(f"got depth = {depth}; expected 1 or 2 steps of planning")
        self.name = f"lookahead-{depth}"
        self.world, self.tables, self.depth = world, tables, depth
        self.ledger = Ledger(world)
        self._rows = _rows_of_causes(world, tables)
        wears, group = np.unique(world.wear, return_inverse=True)
        self._group = group.astype(np.int64)
        self._powers = (wears[:, None] ** np.arange(10, dtype=np.float32)).astype(np.float32)
        self._success = _parts(world, self._group, np.ones_like(world.harm, np.float32))
        self._harmful = _parts(world, self._group, world.harm.astype(np.float32))
        self._temporal = np.flatnonzero(world.temporal)
        self._survival = _survival(world)
        self._residual = _residual(world)
        self._tells = _tells(world)
        self.incidents = incidents or Incidents()
        if incidents is None:
            self.incidents = Incidents.measure(world, Lookahead(world, tables, 1, Incidents()))

    def choose(self, view: View) -> NDArray[np.int64]:
        """One legal action per row."""
        n = view.facts.shape[1]
        chosen = np.empty(n, np.int64)
        ahead = ahead_of(view, self.world, self.incidents)
        for lo in range(0, n, _CHUNK):
            at = slice(lo, min(lo + _CHUNK, n))
            q = self.q_values(view.facts[:, at], ahead.take(at))
            chosen[at] = np.where(view.mask[at].T, q, _CLOSED).argmax(axis=0)
        return chosen

    def q_values(self, facts: F32, ahead: Ahead) -> F32:
        """Value of each action, shape (17, N); closed ones hold a very small number."""
        posterior, _ = root_cause_belief(facts, self.tables)
        belief = posterior[self._rows]
        total = belief.sum(axis=0)
        prior = (self.world.share / self.world.share.sum()).astype(np.float32)
        belief = np.where(total > 1e-6, belief / np.maximum(total, 1e-6), prior[:, None])
        context = _Context(ahead, State.of(facts), belief.astype(np.float32))
        return self._plan(context, self.depth)

    def _plan(self, x: _Context, depth: int) -> F32:
        state, ledger = x.state, self.ledger
        legal, seconds = state.legal(), ledger.seconds(x.state)
        heals = self._heals(state, seconds)
        mass, value = self._healed(x, seconds, heals)
        q: F32 = value - ledger.charge(seconds)
        lost = np.float32(ledger.prices.second) * state.latency
        stays = (1.0 - mass) * (1.0 - ledger.gives_up[:, None])
        if depth == 1:
            q += stays * (ledger.end(state) - lost)
        else:
            for action in REPAIRS:
                at = np.flatnonzero(legal[action])
                if len(at):
                    after = self._after(x, action, seconds[action], heals, at, depth)
                    q[action, at] += stays[action, at] * (after - lost[at])
        q[A.ESCALATE] = -ledger.cost[A.ESCALATE]
        q[A.DEGRADE] = ledger.degrade(state)
        q[~legal] = _CLOSED
        return q

    def _after(
        self,
        x: _Context,
        action: RepairAction,
        seconds: F32,
        heals: "_Heals",
        at: NDArray[np.int64],
        depth: int,
    ) -> F32:
        """Value of the best next action once ``action`` failed in the rows ``at``."""
        failed = x.belief[:, at] * (1.0 - heals.of(self, action, at))
        belief = failed / np.maximum(failed.sum(axis=0), np.float32(1e-9))
        later = x.state.take(at).failed(action, seconds[at])
        best: F32 = self._plan(_Context(x.ahead.take(at), later, belief), depth - 1).max(axis=0)
        return best

    def _heals(self, state: State, seconds: F32) -> "_Heals":
        """The chances to heal, by parts that are linear in the belief."""
        w, t = self.world, self._temporal
        wear = self._powers[:, np.minimum(state.tries, self._powers.shape[1] - 1)]
        informed = (state.tries[A.INSPECT] > 0).astype(np.float32)
        if not len(t):
            return _Heals(wear, informed, np.zeros((0, *seconds.shape), np.float32), None)
        before = self._survival[:, _cell(state.elapsed)]
        after = self._survival[:, _cell(state.elapsed + seconds)]
        ended = 1.0 - after / np.maximum(before, np.float32(1e-6))[:, None]
        told = self._tells[t, None] * (state.retry_after > 0)
        ended[:, A.BACKOFF] = np.maximum(ended[:, A.BACKOFF], told)
        plain = w.mean_success[t][:, :, None] * wear[self._group[t]]
        gain = w.after_inspect[t][:, :, None] * informed
        plain = 1.0 - (1.0 - plain) * (1.0 - gain)
        extra = ended * (np.maximum(plain, w.after_end[t][:, :, None]) - plain)
        return _Heals(wear, informed, extra.astype(np.float32), ended.astype(np.float32))

    def _healed(self, x: _Context, seconds: F32, heals: "_Heals") -> tuple[F32, F32]:
        """P(each action heals) and that times what resuming is then worth; both (17, N)."""
        w, p = self.world, self.ledger.prices
        worth = self.ledger.resume(x.state, x.ahead, seconds)
        part = x.belief[self._temporal][:, None] * heals.extra
        mass = self._linear(self._success, x.belief, heals) + part.sum(axis=0)
        harm = w.harm[self._temporal][:, :, None]
        harmed = self._linear(self._harmful, x.belief, heals) + (part * harm).sum(axis=0)
        value = (mass - harmed) * worth - mass * x.ahead.cost
        value -= harmed * (x.state.writes * np.float32(p.harm))
        if heals.ended is not None and w.shared.any():
            value -= self._meeting_again(x, seconds, heals, heals.ended, worth)
        return mass, value.astype(np.float32)

    def _linear(self, parts: list["_Part"], belief: F32, heals: "_Heals") -> F32:
        """Sum over causes of belief times chance to heal apart from time; shape (17, N)."""
        total = np.zeros(heals.wear.shape[1:], np.float32)
        for part in parts:
            known = belief[part.rows]
            fresh = part.success @ known
            fresh -= (part.spoilt @ known) * heals.informed
            total += heals.wear[part.group] * fresh
            total += (part.gain @ known) * heals.informed
        return total

    def _meeting_again(
        self, x: _Context, seconds: F32, heals: "_Heals", ended: F32, worth: F32
    ) -> F32:
        """Expected loss by a shared fault that outlasts the incident and hits a later step."""
        w, task, t = self.world, self.world.world.task, self._temporal
        s = np.flatnonzero(w.shared[t])
        cause = t[s]
        rest = self._residual[s][:, _cell(x.state.elapsed)]
        steps = np.minimum(rest / max(task.step_seconds, 1e-6), x.ahead.steps)
        again = 1.0 - np.float32(1.0 - 1.0 / max(task.tools, 2)) ** steps
        plain = w.mean_success[cause][:, :, None] * heals.wear[self._group[cause]]
        meets = x.belief[cause][:, None] * plain * (1.0 - ended[s]) * again[:, None]
        total = meets.sum(axis=0)
        total[_BYPASSES] = 0.0
        loss: F32 = total * (self.incidents.loss * worth + np.float32(self.incidents.cost))
        return loss


@dataclass(frozen=True)
class _Part:
    """Causes of one wear factor; matrices of shape (17, causes)."""

    group: int
    rows: NDArray[np.int64]
    success: F32
    spoilt: F32
    """success x gain: what an inspection adds is not added twice."""
    gain: F32


@dataclass(frozen=True)
class _Heals:
    """Chances to heal before they meet a belief.

    Attributes:
        wear: float32 (G, 17, N), factor by earlier uses, per group of causes.
        informed: float32 (N,), 1 where an inspection was made.
        extra: float32 (T, 17, N), what time passing adds for causes that end by themselves.
        ended: float32 (T, 17, N), P(they have ended); None without such causes.
    """

    wear: F32
    informed: F32
    extra: F32
    ended: F32 | None

    def of(self, planner: Lookahead, action: RepairAction, at: NDArray[np.int64]) -> F32:
        """P(heals | cause) of one action, shape (C, rows)."""
        w = planner.world
        wear = self.wear[planner._group][:, action, at]
        heals = w.mean_success[:, action, None] * wear
        gain = w.after_inspect[:, action, None] * self.informed[at]
        heals = 1.0 - (1.0 - heals) * (1.0 - gain)
        heals[planner._temporal] += self.extra[:, action, at]
        return np.asarray(heals, np.float32)


def _parts(world: CompiledWorld, group: NDArray[np.int64], weight: F32) -> list[_Part]:
    parts = []
    for g in range(int(group.max()) + 1):
        rows = np.flatnonzero(group == g)
        success, gain = world.mean_success[rows], world.after_inspect[rows]
        factor = weight[rows]
        matrices = (success * factor, success * gain * factor, gain * factor)
        parts.append(_Part(g, rows, *(np.ascontiguousarray(m.T, np.float32) for m in matrices)))
    return parts


def _rows_of_causes(world: CompiledWorld, tables: BeliefTables) -> NDArray[np.int64]:
    missing = [c for c in world.cause_names if c not in tables.causes]
    if missing:
        raise ConfigError(
            f"the belief tables know nothing of {missing}, causes of world {world.world.id!r}; "
            "expected tables of a mixture that holds this world"
        )
    return np.array([tables.causes.index(c) for c in world.cause_names], np.int64)


def _cell(seconds: F32) -> NDArray[np.int64]:
    log = np.log(np.maximum(seconds, _GRID[0]) / _GRID[0])
    scale = (len(_GRID) - 1) / float(np.log(_GRID[-1] / _GRID[0]))
    cell: NDArray[np.int64] = np.minimum(log * scale, len(_GRID) - 1).astype(np.int64)
    return cell


def _survival(world: CompiledWorld) -> F32:
    """P(a cause still lasts after a time), temporal causes only, shape (T, grid)."""
    table = np.zeros((int(world.temporal.sum()), len(_GRID)), np.float32)
    for i, c in enumerate(np.flatnonzero(world.temporal)):
        durations = np.sort(world.duration_s[c])
        table[i] = 1.0 - np.searchsorted(durations, _GRID, side="right") / len(durations)
    return table


def _residual(world: CompiledWorld) -> F32:
    """Median seconds a cause lasts on, given that it has lasted a time; shape (T, grid)."""
    table = np.zeros((int(world.temporal.sum()), len(_GRID)), np.float32)
    for i, c in enumerate(np.flatnonzero(world.temporal)):
        durations = np.sort(world.duration_s[c])
        first = np.searchsorted(durations, _GRID, side="right")
        middle = np.minimum((first + len(durations)) // 2, len(durations) - 1)
        table[i] = np.maximum(durations[middle] - _GRID, 0.0)
    return table


def _tells(world: CompiledWorld) -> F32:
    """Share of a cause's retry-after headers that state the truth, shape (C,)."""
    share = np.zeros(world.n_causes, np.float32)
    for c in range(world.n_causes):
        first = world.symptom_pick[c] * 4
        truth = world.retry_truth[first].mean()
        fixed = (world.retry_fixed[first] > 0).mean()
        share[c] = truth / max(truth + fixed, 1e-9)
    return share
