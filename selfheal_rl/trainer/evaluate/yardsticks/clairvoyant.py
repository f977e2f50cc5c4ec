"""Sees the root cause, the time it still lasts and the deployment's draw; not the coin flips.

A depth-limited search over sequences of repairs on the true figures, with waits played out until
the cause has ended. It bounds what any policy can reach from below only: it does not search over
what later incidents bring. The better of it and a network given the same inputs is reported.
"""

import os
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from selfheal_rl.core.situation import MAX_ATTEMPTS_INCIDENT, N_SLOTS, planned_wait_s
from selfheal_rl.core.values import N_ACTIONS, RepairAction
from selfheal_rl.runtime.decide.onnx_policy import OnnxPolicy
from selfheal_rl.trainer.evaluate.yardsticks.incident import MEAN_JITTER, Ledger, State
from selfheal_rl.trainer.evaluate.yardsticks.outlook import Ahead, Incidents, ahead_of
from selfheal_rl.trainer.sim.compile import CompiledWorld
from selfheal_rl.trainer.sim.dynamics import RepairCore
from selfheal_rl.trainer.sim.episodes import View

A = RepairAction
F32 = NDArray[np.float32]
WIDTHS = (6, 4, 3)
"""Actions tried at the first, second and third attempt of a sequence; the last sees all."""
_CHUNK = 1024
_CLOSED = np.float32(-1e9)
_BYPASSES = [int(A.FALLBACK_TOOL), int(A.FALLBACK_MODEL)]
_NEGLIGIBLE = np.float32(0.02)
"""P(a sequence gets this far) below which it is not looked at any further."""
_JITTER = np.float32(0.25)


@dataclass(frozen=True)
class _Truth:
    """What is known of each row beside the state; arrays of shape (..., N).

    Attributes:
        ahead: the rest of the task.
        success: float32 (17, N), P(heals) at first use under this deployment and cause.
        cause: int64 (N,).
        remaining: float32 (N,), seconds the cause still lasts; inf when it never ends.
        truthful: bool (N,), the retry-after shown is the time that remains.
        again: float32 (N,), loss of value per unit of chance to meet a shared fault again.
        shared: bool (N,).
    """

    ahead: Ahead
    success: F32
    cause: NDArray[np.int64]
    remaining: F32
    truthful: NDArray[np.bool_]
    again: F32
    shared: NDArray[np.bool_]

    def take(self, at: NDArray[np.int64] | slice) -> "_Truth":
        return _Truth(
            self.ahead.take(at),
            self.success[:, at],
            self.cause[at],
            self.remaining[at],
            self.truthful[at],
            self.again[at],
            self.shared[at],
        )


class Clairvoyant:
    """The planner.

    Args:
        world: compiled.
        incidents: figures of later incidents; measured by playing the planner when None.
        widths: actions tried per attempt of a sequence.
    """

    name = "clairvoyant"

    def __init__(
        self,
        world: CompiledWorld,
        incidents: Incidents | None = None,
        widths: tuple[int, ...] = WIDTHS,
    ) -> None:
        self.world, self.widths = world, widths
        self.ledger = Ledger(world)
        wears, group = np.unique(world.wear, return_inverse=True)
        self._group = group.astype(np.int64)
        self._powers = (wears[:, None] ** np.arange(10, dtype=np.float32)).astype(np.float32)
        if incidents is None:
            incidents = Incidents.measure(world, Clairvoyant(world, Incidents(), ()))
        self.incidents = incidents

    def choose(self, view: View) -> NDArray[np.int64]:
        """One legal action per row."""
        n = view.facts.shape[1]
        chosen = np.empty(n, np.int64)
        state = State.of(view.facts, view.core.quality.astype(np.float32))
        truth = self._truth(view)
        for lo in range(0, n, _CHUNK):
            at = slice(lo, min(lo + _CHUNK, n))
            q = self.q_values(state.take(at), truth.take(at))
            chosen[at] = np.where(view.mask[at].T, q, _CLOSED).argmax(axis=0)
        return chosen

    def q_values(self, state: State, truth: _Truth) -> F32:
        """Value of each action, shape (17, N); closed ones hold a very small number."""
        if truth.shared.any():
            first = self._q(state, truth).max(axis=0)
            whole = state.quality * np.float32(self.ledger.prices.task) * truth.ahead.survives
            loss = np.maximum(whole - truth.ahead.cost - first, np.float32(0.0))
            truth = replace(truth, again=np.where(truth.shared, loss, 0.0).astype(np.float32))
        return self._search(state, truth, self.widths)

    def _truth(self, view: View) -> _Truth:
        core, w = view.core, self.world
        steps = (core.n_steps - core.step_no - 1).astype(np.float32)
        ahead = ahead_of(
            view,
            w,
            self.incidents,
            steps=np.maximum(steps, 0.0).astype(np.float32),
            done=core.step_no.astype(np.float32),
            factor=core.deployments.rate[core.draw].astype(np.float32),
        )
        return _Truth(
            ahead=ahead,
            success=core.deployments.success[core.draw, core.cause].T.astype(np.float32),
            cause=core.cause,
            remaining=np.maximum(core.ends - core.now, 0.0).astype(np.float32),
            truthful=w.retry_truth[core.variant],
            again=np.zeros(core.n, np.float32),
            shared=w.shared[core.cause],
        )

    def _search(
        self, state: State, truth: _Truth, widths: tuple[int, ...], reach: F32 | float = 1.0
    ) -> F32:
        x = self._tries(state, truth)
        q = self._q(state, truth, x)
        if not widths:
            return q
        # All branches of all rows are one batch: numpy calls cost more than the figures in them.
        action = np.argpartition(-q, widths[0] - 1, axis=0)[: widths[0]]
        row = np.broadcast_to(np.arange(len(state)), action.shape)
        stays = x.stays[action, row]
        good = (q[action, row] > _CLOSED / 2) & (stays * reach > _NEGLIGIBLE)
        good &= (action != A.ESCALATE) & (action != A.DEGRADE)
        chosen, at = action[good], row[good]
        if len(at):
            seconds = x.seconds[chosen, at]
            later, after = self._after(state.take(at), truth.take(at), chosen, seconds)
            arrives = (stays * reach)[good]
            best = self._search(later, after, widths[1:], arrives).max(axis=0)
            tried = x.value[chosen, at] + stays[good] * best
            q[chosen, at] = np.maximum(q[chosen, at], tried)
        return q

    def _tries(self, state: State, truth: _Truth) -> "_Tries":
        """One attempt with each action, what follows its failure left open."""
        ledger, w, p = self.ledger, self.world, self.ledger.prices
        seconds = ledger.seconds(state)
        heals = self._heals(state, truth)
        ahead = truth.ahead
        harm = w.harm[truth.cause].T
        value = (1.0 - harm) * ledger.resume(state, ahead, seconds)
        value -= ahead.cost + harm * (state.writes * np.float32(p.harm))
        if truth.again.any():
            left = np.maximum(truth.remaining - seconds, np.float32(0.0))
            met = truth.again * self._met_again(ahead, left)
            met[_BYPASSES] = 0.0
            value -= met
        stays = (1.0 - heals) * (1.0 - ledger.gives_up[:, None])
        late = np.float32(p.second) * state.latency
        value = heals * value - ledger.charge(seconds) - stays * late
        return _Tries(seconds, heals, value.astype(np.float32), stays.astype(np.float32))

    def _q(self, state: State, truth: _Truth, x: "_Tries | None" = None) -> F32:
        """One attempt, then the best end or waiting on; shape (17, N)."""
        x = self._tries(state, truth) if x is None else x
        legal = state.legal()
        q: F32 = x.value + x.stays * self.ledger.end(state)
        q[A.ESCALATE] = -self.ledger.cost[A.ESCALATE]
        q[A.DEGRADE] = self.ledger.degrade(state)
        q[~legal] = _CLOSED
        at = np.flatnonzero(np.isfinite(truth.remaining) & legal[A.BACKOFF])
        if len(at):
            waited = self._wait_out(state.take(at), truth.take(at))
            q[A.BACKOFF, at] = np.maximum(q[A.BACKOFF, at], waited)
        return q

    def _met_again(self, ahead: Ahead, left: F32) -> F32:
        task = self.world.world.task
        steps = np.minimum(left * np.float32(1.0 / max(task.step_seconds, 1e-6)), ahead.steps)
        rate = np.float32(np.log1p(-1.0 / max(task.tools, 2)))
        return np.asarray(-np.expm1(rate * steps), np.float32)

    def _heals(self, state: State, truth: _Truth) -> F32:
        """P(heals) of each action at the next attempt, shape (17, N)."""
        w, cause = self.world, truth.cause
        nth = np.minimum(state.tries, self._powers.shape[1] - 1)
        heals = truth.success * self._powers[self._group[cause], nth]
        informed = np.flatnonzero(state.tries[A.INSPECT] > 0)
        if len(informed):
            gain = w.after_inspect[cause[informed]].T
            heals[:, informed] = 1.0 - (1.0 - heals[:, informed]) * (1.0 - gain)
        at = np.flatnonzero(np.isfinite(truth.remaining))
        if len(at):
            part, known = state.take(at), truth.take(at)
            over = (w.seconds[:, None] >= known.remaining[None, :]).astype(np.float32)
            grown = planned_wait_s(part.tries[A.BACKOFF], np.float32(0.0))
            need = known.remaining - w.seconds[A.BACKOFF]
            over[A.BACKOFF] = _ended_by_wait(grown, part.retry_after, need)
            now = heals[:, at]
            heals[:, at] = now + over * (np.maximum(now, w.after_end[cause[at]].T) - now)
        return np.asarray(heals, np.float32)

    def _after(
        self, state: State, truth: _Truth, action: NDArray[np.int64], seconds: F32
    ) -> tuple[State, _Truth]:
        later = state.failed(action, seconds)
        left = np.maximum(truth.remaining - seconds - state.latency, 0.0).astype(np.float32)
        shown = np.where(np.isfinite(left), np.ceil(left), 0.0).astype(np.float32)
        told = np.where(truth.truthful, shown, state.retry_after).astype(np.float32)
        return replace(later, retry_after=told), replace(truth, remaining=left)

    def _wait_out(self, state: State, truth: _Truth) -> F32:
        """Value of backing off until the cause has ended, or of the best end; shape (N,)."""
        w, p, first = self.world, self.ledger.prices, state.tries[A.BACKOFF]
        own, end = w.seconds[A.BACKOFF], self.ledger.end(state)
        success, after_end = truth.success[A.BACKOFF], w.after_end[truth.cause, A.BACKOFF]
        harm = w.harm[truth.cause, A.BACKOFF]
        worth = (1.0 - harm) * np.float32(p.task) * state.quality * truth.ahead.survives
        fixed = truth.ahead.cost + harm * state.writes * np.float32(p.harm)
        left, deadline, told = truth.remaining, state.deadline, state.retry_after
        path: list[tuple[F32, F32]] = []
        for k in range(MAX_ATTEMPTS_INCIDENT):
            grown = planned_wait_s(first + k, np.float32(0.0))
            over = _ended_by_wait(grown, told, left - own)
            heals = success * self._powers[self._group[truth.cause], np.minimum(first + k, 9)]
            heals = heals + over * (np.maximum(heals, after_end) - heals)
            seconds = own + np.maximum(grown * MEAN_JITTER, told)
            resumed = worth * truth.ahead.in_time(deadline - seconds) - fixed
            lasts = truth.again * self._met_again(truth.ahead, np.maximum(left - seconds, 0.0))
            legal = (state.left > k) & (deadline > 0.0) & (np.maximum(grown, told) <= deadline)
            passed = seconds + state.latency
            paid = self.ledger.cost[A.BACKOFF] + np.float32(p.second) * (
                seconds - own + (1.0 - heals) * state.latency
            )
            gained = np.where(legal, heals * (resumed - lasts) - paid, _CLOSED)
            path.append((gained, np.where(legal, 1.0 - heals, 0.0)))
            if not (legal & (heals < 1.0)).any():
                break
            left = np.maximum(left - passed, np.float32(0.0))
            deadline = deadline - passed
            told = np.where(truth.truthful, np.ceil(left), told)
        value = end
        for gained, stays in reversed(path):
            value = np.maximum(gained + stays * value, end)
        return np.asarray(value, np.float32)


def _ended_by_wait(grown: F32, told: F32, need: F32) -> F32:
    """P(the cause has ended after a jittered wait), shape (N,)."""
    share: F32 = np.clip((grown - need) / (_JITTER * grown), 0.0, 1.0)
    return np.where(told >= need, np.float32(1.0), share)


@dataclass(frozen=True)
class _Tries:
    """One attempt with each action; arrays of shape (17, N).

    Attributes:
        seconds: it takes on average.
        heals: P(it heals).
        value: of it, without what follows a failure.
        stays: P(it fails and the task goes on).
    """

    seconds: F32
    heals: F32
    value: F32
    stays: F32


N_PRIVILEGED = 4 * N_ACTIONS + 7
_HOUR = float(np.log1p(3600.0))


def clairvoyant_inputs(view: View | RepairCore) -> F32:
    """What a clairvoyant network sees beside the observation.

    The root cause is given by what it does rather than by a number, so that causes of several
    worlds share what is learned.

    Args:
        view: the decisions at hand, or the simulator's core.

    Returns:
        float32 in [0, 1], shape (N, N_PRIVILEGED). Per action: the deployment's true chance to
        heal at first use, the chance once the cause has ended, what an inspection adds, and the
        chance of harm. Then: time the cause still lasts (log scale, an hour is 1), whether it
        ends, whether the call took effect, whether later calls meet it, its wear factor, steps
        left (64 is 1), quality so far.
    """
    core = view.core if isinstance(view, View) else view
    w, cause = core.world, core.cause
    remaining = np.maximum(core.ends - core.now, 0.0)
    ends = np.isfinite(remaining)
    lasts = np.log1p(np.where(ends, remaining, 0.0)) / _HOUR
    left = (core.n_steps - core.step_no) / 64.0
    columns = [
        np.where(ends, np.minimum(lasts, 1.0), 1.0),
        ends,
        w.lost[cause],
        w.shared[cause],
        w.wear[cause],
        np.minimum(left, 1.0),
        core.quality,
    ]
    tables = [core.deployments.success[core.draw, cause], w.after_end[cause]]
    tables += [w.after_inspect[cause], w.harm[cause]]
    return np.concatenate([*tables, np.stack(columns, axis=1)], axis=1, dtype=np.float32)


class ClairvoyantNetwork:
    """A network trained on the observation and :func:`clairvoyant_inputs`.

    Args:
        policy: reads ``N_SLOTS + N_PRIVILEGED`` inputs.
    """

    def __init__(self, policy: OnnxPolicy) -> None:
        self.policy, self.name = policy, "clairvoyant-ppo"

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> "ClairvoyantNetwork":
        """Read its artifact.

        Raises:
            ArtifactError: damaged, or it reads other inputs.
        """
        return cls(OnnxPolicy.load(folder, width=N_SLOTS + N_PRIVILEGED))

    def choose(self, view: View) -> NDArray[np.int64]:
        """One legal action per row."""
        seen = [view.observation(self.policy.tables), clairvoyant_inputs(view)]
        return self.policy.actions(np.concatenate(seen, axis=1), view.mask)
