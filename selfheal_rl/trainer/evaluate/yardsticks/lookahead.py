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
from selfheal_rl.core.values import N_ACTIONS, ConfigError, RepairAction
from selfheal_rl.trainer.evaluate.yardsticks.incident import REPAIRS, Ledger, State
from selfheal_rl.trainer.evaluate.yardsticks.outlook import Ahead, Incidents, ahead_of
from selfheal_rl.trainer.sim.compile import CompiledWorld
from selfheal_rl.trainer.sim.episodes import View

A = RepairAction
F32 = NDArray[np.float32]
_CHUNK = 4096
_CLOSED = np.float32(-1e9)
_GRID = np.geomspace(0.1, 1e5, 255).astype(np.float32)
_BYPASSES = frozenset({A.FALLBACK_TOOL, A.FALLBACK_MODEL})


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
        self._powers = world.wear[:, None] ** np.arange(10, dtype=np.float32)
        self._temporal = np.flatnonzero(world.temporal)
        self._survival = _survival(world)
        self._residual = _residual(world)
        self._tells = _tells(world)
        self._useful = (world.mean_success.max(axis=0) > 0) | (world.after_end.max(axis=0) > 0)
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
        state = x.state
        q = np.full((N_ACTIONS, len(state)), _CLOSED, np.float32)
        q[A.ESCALATE] = -self.ledger.cost[A.ESCALATE]
        q[A.DEGRADE] = np.where(state.legal(A.DEGRADE), self.ledger.degrade(state), _CLOSED)
        for action in REPAIRS:
            if not self._useful[action]:
                continue
            at = np.flatnonzero(state.legal(action))
            if len(at):
                part = x if len(at) == len(state) else _take(x, at)
                q[action, at] = self._try(part, action, depth)
        return q

    def _try(self, x: _Context, action: RepairAction, depth: int) -> F32:
        ledger, state, p = self.ledger, x.state, self.ledger.prices
        seconds = np.full(len(state), self.world.seconds[action], np.float32)
        cost = np.full(len(state), ledger.cost[action], np.float32)
        if action is A.BACKOFF:
            seconds += state.mean_wait()
            cost += np.float32(p.second) * state.mean_wait()
        heals, ended = self._heals(state, action, seconds)
        healed = x.belief * heals
        value = self._healed(x, action, seconds, healed, ended)
        failed = x.belief - healed
        misses = failed.sum(axis=0)
        later = state.failed(action, seconds)
        if depth > 1:
            belief = failed / np.maximum(misses, 1e-9)
            after = self._plan(_Context(x.ahead, later, belief), depth - 1).max(axis=0)
        else:
            after = ledger.end(later)
        after = after - np.float32(p.second) * state.latency
        result: F32 = value - cost + misses * (1.0 - ledger.gives_up[action]) * after
        return result

    def _heals(self, state: State, action: RepairAction, seconds: F32) -> tuple[F32, F32]:
        """P(heals | cause) of shape (C, N) and P(the temporal causes have ended), (T, N)."""
        w = self.world
        nth = np.minimum(state.tries[action], self._powers.shape[1] - 1)
        heals: F32 = w.mean_success[:, action, None] * self._powers[:, nth]
        gain = w.after_inspect[:, action]
        if gain.any():
            informed = (state.tries[A.INSPECT] > 0).astype(np.float32)
            heals = 1.0 - (1.0 - heals) * (1.0 - gain[:, None] * informed)
        t = self._temporal
        if not len(t):
            return heals, np.zeros((0, len(state)), np.float32)
        before = self._survival[:, _cell(state.elapsed)]
        after = self._survival[:, _cell(state.elapsed + seconds)]
        ended = 1.0 - after / np.maximum(before, 1e-6)
        if action is A.BACKOFF:
            told = self._tells[t, None] * (state.retry_after > 0)
            ended = np.maximum(ended, told)
        better = np.maximum(heals[t], w.after_end[t, action, None])
        heals[t] += ended * (better - heals[t])
        return heals, ended

    def _healed(
        self, x: _Context, action: RepairAction, seconds: F32, healed: F32, ended: F32
    ) -> F32:
        """Sum over causes of P(heals) times what resuming is then worth, shape (N,)."""
        w, p = self.world, self.ledger.prices
        worth = self.ledger.resume(x.state, x.ahead, action, seconds)
        mass = healed.sum(axis=0)
        harmed = w.harm[:, action] @ healed
        value = (mass - harmed) * worth - mass * x.ahead.cost
        value -= harmed * x.state.writes * np.float32(p.harm)
        shared = w.shared[self._temporal]
        if action not in _BYPASSES and shared.any():
            lasting = healed[self._temporal] * (1.0 - ended)
            again = self._met_again(x, seconds) * shared[:, None]
            loss = self.incidents.loss * worth + np.float32(self.incidents.cost)
            value -= (lasting * again).sum(axis=0) * loss
        return value.astype(np.float32)

    def _met_again(self, x: _Context, seconds: F32) -> F32:
        """P(a shared fault that is still there hits a later step), shape (T, N)."""
        task = self.world.world.task
        rest = self._residual[:, _cell(x.state.elapsed + seconds)]
        steps = np.minimum(rest / max(task.step_seconds, 1e-6), x.ahead.steps)
        return np.asarray(1.0 - (1.0 - 1.0 / max(task.tools, 2)) ** steps, np.float32)


def _take(x: _Context, at: NDArray[np.int64]) -> _Context:
    return _Context(x.ahead.take(at), x.state.take(at), x.belief[:, at])


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
    return np.minimum(log * scale, len(_GRID) - 1).astype(np.int64)


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
