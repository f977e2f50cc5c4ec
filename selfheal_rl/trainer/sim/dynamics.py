"""The vectorised core: N tasks at once, struct of arrays, no Python loop over tasks.

One step is one repair decision. The core runs ahead to the next failure, alarm or end, so every
row that is not finished waits for a decision. Reward is utility: the value of a completed task,
less prices of time, tokens, people and harm; it is undiscounted and sums to the task's utility.
"""

import numpy as np
from numpy.typing import NDArray

from selfheal_rl.core.situation import (
    FACTS,
    MAX_ATTEMPTS_INCIDENT,
    MAX_ATTEMPTS_TASK,
    N_FACTS,
    FactMatrix,
    jittered_wait_s,
    repeat_unsafe,
    rows,
)
from selfheal_rl.core.values import (
    CATEGORIES,
    CATEGORY,
    EFFECTS,
    N_ACTIONS,
    REPEATS,
    TERMINAL,
    RepairAction,
)
from selfheal_rl.trainer.sim.compile import PICK, CompiledWorld
from selfheal_rl.trainer.sim.deployments import Deployments
from selfheal_rl.trainer.sim.luck import draw, fraction, integer, key_of
from selfheal_rl.trainer.sim.present import present
from selfheal_rl.trainer.sim.state import Ended, TaskState

A = RepairAction
_TRIES = rows("tries")
_CATEGORY = np.array(
    [CATEGORIES.index(c) if (c := CATEGORY[a]) is not None else -1 for a in RepairAction]
)
_REPEATS = np.isin(np.arange(N_ACTIONS), sorted(REPEATS))
_TERMINAL = np.isin(np.arange(N_ACTIONS), sorted(TERMINAL))
_PICK_BITS = PICK.bit_length() - 1
_FIRST, _OUTCOME, _AGAIN, _GAP = 1, 2, 3, 4


class RepairCore(TaskState):
    """N tasks of one world and what happens to them.

    Args:
        world: compiled.
        deployments: what each task's draw indexes.
        n: rows.
        seed: of the keyed luck.
        only_failing: condition every task on at least one failure (training).
    """

    def __init__(
        self,
        world: CompiledWorld,
        deployments: Deployments,
        n: int,
        *,
        seed: int,
        only_failing: bool = True,
    ) -> None:
        super().__init__(n)
        self.world, self.deployments, self.seed = world, deployments, seed
        self.only_failing = only_failing
        self.prices = world.world.prices
        self._facts: FactMatrix = np.zeros((N_FACTS, n), np.float32)
        self._facts[FACTS["share.money_left"]] = 1.0
        self._stale = True

    def begin(
        self, at: NDArray[np.int64], tasks: NDArray[np.int64], draws: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Start tasks in the given rows and run them to their first failure.

        Args:
            at: rows, shape (M,).
            tasks: task ids, shape (M,); they key all luck.
            draws: deployment of each, shape (M,).

        Returns:
            bool, shape (M,): True where the task meets a failure and waits for a decision; False
            where it ends without one (its utility and times are in the state).
        """
        w, shape = self.world, self.world.world.task
        key = key_of(self.seed, tasks)
        bits = draw(key, _FIRST, 0, 0)
        self.task[at], self.draw[at], self.key[at] = tasks, draws, key
        span = shape.steps_high - shape.steps_low + 1
        self.n_steps[at] = shape.steps_low + integer(bits, 40, 20) * span // 2**20
        self.host[at] = w.host_pick[integer(bits, 0, _PICK_BITS)]
        frailty = w.frailty[integer(bits, 20, 8)]
        rate = shape.failure_rate * frailty * self.deployments.rate[draws]
        self.log_calm[at] = np.log1p(-np.clip(rate, 1e-4, 0.95))
        self.clear(at)
        return self._run_ahead(at, first=True)

    def step(
        self, actions: NDArray[np.int64], waits_s: NDArray[np.float32] | None = None
    ) -> tuple[NDArray[np.float32], NDArray[np.bool_], Ended]:
        """Apply one decision per row (rows that are not alive are left alone).

        Args:
            actions: int, shape (n,).
            waits_s: seconds that ``backoff`` waits, shape (n,); None for our own schedule. For
                libraries with a schedule of theirs.

        Returns:
            ``(reward, done, ended)`` with reward float32 (n,) and done bool (n,). Finished rows
            stay finished until :meth:`begin` is called for them.
        """
        w = self.world
        actions = self._within_caps(np.asarray(actions, np.int64))
        before = self.utility.copy()
        heal, duplicate, lost, give_up = self._outcome(actions, waits_s)
        terminal = _TERMINAL[actions] & self.alive
        stop = terminal | give_up
        self._charge_harm(actions, heal, duplicate, lost)
        self.quality *= np.where(heal, w.quality[actions], np.float32(1.0))
        again = self.alive & ~heal & ~stop
        self._fail_again(np.flatnonzero(again), actions)
        healed = np.flatnonzero(heal & self.alive)
        waits = self._heal(healed, actions)
        done = stop.copy()
        done[healed[~waits]] = True
        ended = self._end(np.flatnonzero(stop), actions, healed[~waits])
        reward = (self.utility - before).astype(np.float32)
        self.alive &= ~done
        return reward, done, ended

    def _within_caps(self, actions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Escalate where attempts or time are used up: the caps hold for every policy."""
        over = (self.attempts >= MAX_ATTEMPTS_INCIDENT) | (self.task_attempts >= MAX_ATTEMPTS_TASK)
        over |= self.now >= self.world.world.task.deadline_s
        return np.where(over & ~_TERMINAL[actions], np.int64(A.ESCALATE), actions)

    def _outcome(
        self, actions: NDArray[np.int64], waits_s: NDArray[np.float32] | None
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
        """``(heals, side effect twice, heals with harm, agent gives up)``, bool (n,) each."""
        w, cause, facts, acts = self.world, self.cause, self.facts, self.alive
        nth = facts[_TRIES.start + actions, self.columns].astype(np.int64)
        place = self.step_no * 8 + np.minimum(self.incidents, 7)
        pair = cause * N_ACTIONS + actions
        bits = draw(self.key, _OUTCOME, place, pair, nth)
        u, harm = fraction(bits, 40, 24), fraction(bits, 20, 20)
        self._pay(actions, self._waits(actions, bits) if waits_s is None else waits_s)
        p = self.deployments.success[self.draw, cause, actions] * w.worn[cause, nth]
        at = np.flatnonzero(facts[_TRIES.start + A.INSPECT] > 0)
        p[at] = 1.0 - (1.0 - p[at]) * (1.0 - w.after_inspect.take(pair[at]))
        at = np.flatnonzero(self.now >= self.ends)
        p[at] = np.maximum(p[at], w.after_end.take(pair[at]))
        duplicate = _REPEATS[actions] & w.lost[cause] & acts
        if duplicate.any():
            duplicate &= repeat_unsafe(facts)
        heal = ((u < p) | duplicate) & ~_TERMINAL[actions] & acts
        lost = heal & (harm < w.harm.take(pair))
        give_up = acts & ~heal & (actions == A.CONTINUE) & (harm < w.world.agent.gives_up)
        return heal, duplicate, lost, give_up

    def _waits(self, actions: NDArray[np.int64], bits: NDArray[np.uint64]) -> NDArray[np.float32]:
        waits = np.zeros(self.n, np.float32)
        at = np.flatnonzero(actions == A.BACKOFF)
        made = self.facts[_TRIES.start + A.BACKOFF, at]
        waits[at] = jittered_wait_s(made, self.retry_after[at], fraction(bits[at], 0, 20))
        return waits

    def _pay(self, actions: NDArray[np.int64], waits_s: NDArray[np.float32]) -> None:
        """Charge time, tokens and people; only ``backoff`` waits, finished rows pay nothing."""
        w = self.world
        waits = np.where(actions == A.BACKOFF, waits_s, np.float32(0.0))
        self.now += (w.seconds[actions] + waits) * self.alive
        self.tokens += w.tokens[actions] * self.alive
        self.utility -= (w.price[actions] + self.prices.second * waits) * self.alive

    def _charge_harm(
        self,
        actions: NDArray[np.int64],
        heal: NDArray[np.bool_],
        duplicate: NDArray[np.bool_],
        lost: NDArray[np.bool_],
    ) -> None:
        harmed = lost | duplicate
        self.broken |= harmed
        # A wrong task is already worth nothing; side effects outside it cost extra.
        writes = (self.effects >= 2) & harmed
        self.utility -= np.where(writes, self.prices.harm, 0.0)

    def _fail_again(self, at: NDArray[np.int64], actions: NDArray[np.int64]) -> None:
        """The attempt did not help: charge the failing call and show what it shows."""
        if not len(at):
            return
        w = self.world
        tried = actions[at]
        self._facts[_TRIES.start + tried, at] += 1.0
        self.attempts[at] += 1
        self.task_attempts[at] += 1
        place = self.step_no[at] * 8 + np.minimum(self.incidents[at], 7)
        cause = self.cause[at]
        bits = draw(self.key[at], _AGAIN, place, self.attempts[at], cause)
        pick = w.symptom_pick[cause, integer(bits, 40, _PICK_BITS)]
        old = self.variant[at]
        stays = fraction(bits, 0, 20) < w.world.stay
        variant = np.where(stays, old, pick * len(EFFECTS) + self.effects[at])
        category, before = _CATEGORY[tried], self.category[at]
        again = (category == before) & (category >= 0)
        self.run[at] = np.where(again, 2, 1)
        self.category[at] = category
        self.same[at] = w.signature[variant] == w.signature[old]
        self.progress[at] = w.kind[variant] != w.kind[old]
        self.actions_tried[self.attempts[at] - 1, at] = tried
        self._show(at, variant)

    def _show(self, at: NDArray[np.int64], variant: NDArray[np.int64]) -> None:
        """Charge the failing call's latency and note what the failure shows."""
        w = self.world
        latency = w.latency_s[variant]
        self.now[at] += latency
        self.utility[at] -= self.prices.second * latency
        self.variant[at] = variant
        self.effect_state[at] = np.maximum(self.effect_state[at], w.effect_state[variant])
        self.variants_seen[self.attempts[at], at] = variant
        remaining = np.maximum(self.ends[at] - self.now[at], 0.0)
        truth = np.ceil(np.where(remaining < 1e9, remaining, 0.0))
        self.retry_after[at] = np.where(w.retry_truth[variant], truth, w.retry_fixed[variant])
        self._stale = True

    @property
    def facts(self) -> FactMatrix:
        """Facts of every row, float32 (N_FACTS, n); built when first looked at after a change."""
        if self._stale:
            present(self, self.world, self._facts)
            self._stale = False
        return self._facts

    def _heal(self, at: NDArray[np.int64], actions: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Close incidents and run on; True where another failure waits."""
        if not len(at):
            return np.zeros(0, np.bool_)
        self.attempts[at] += 1
        self.task_attempts[at] += 1
        self.step_no[at] += 1
        # The substitute stays in use while the shared fault lasts.
        self.bypassed[at] |= (actions[at] == A.FALLBACK_TOOL) & self.world.shared[self.cause[at]]
        self.bypassed[at] |= (actions[at] == A.FALLBACK_MODEL) & self.world.shared[self.cause[at]]
        return self._run_ahead(at, first=False)

    def _run_ahead(self, at: NDArray[np.int64], *, first: bool) -> NDArray[np.bool_]:
        """Healthy steps until the next failure or the end of the task.

        Returns:
            bool (len(at),): True where a failure waits; the others have been settled.
        """
        shape = self.world.world.task
        left = self.n_steps[at] - self.step_no[at]
        bits = draw(self.key[at], _GAP, self.step_no[at], self.incidents[at])
        u = fraction(bits, 40, 24)
        log_calm = self.log_calm[at]
        if first and self.only_failing:
            u = np.maximum(1.0 - u * -np.expm1(log_calm * left), 1e-7)
        gap = np.floor(np.log(u) / log_calm).astype(np.int64)
        recur, again = self._recurrence(at, bits, gap)
        gap = np.where(again, recur, gap)
        fails = (gap < left) & (self.incidents[at] < shape.max_failures)
        steps = np.where(fails, gap + 1, left)
        self.now[at] += np.where(fails, gap, left) * shape.step_seconds
        self.step_no[at] += np.where(fails, gap, left)
        cost = self.prices.second * shape.step_seconds
        cost += self.prices.kilotoken * 1e-3 * shape.step_tokens
        self.utility[at] -= steps * cost
        self._open(at[fails], again[fails])
        self._settle(at[~fails])
        return fails

    def _recurrence(
        self, at: NDArray[np.int64], bits: NDArray[np.uint64], gap: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """When a fault that outlives its incident is met again, unless it is bypassed."""
        shape = self.world.world.task
        lasting = (self.outage_until[at] > self.now[at]) & ~self.bypassed[at]
        lasting &= self.outage_tool[at] >= 0
        if shape.tools == 1:
            recur = np.zeros(len(at), np.int64)
        else:
            log_miss = np.float32(np.log1p(-1.0 / shape.tools))
            recur = np.floor(np.log(fraction(bits, 0, 20)) / log_miss).astype(np.int64)
        when = self.now[at] + recur * shape.step_seconds
        return recur, lasting & (recur <= gap) & (when < self.outage_until[at])

    def _open(self, at: NDArray[np.int64], recurring: NDArray[np.bool_]) -> None:
        """A new incident: draw its cause, tool, symptom and duration."""
        if not len(at):
            return
        w, shape = self.world, self.world.world.task
        key, step = self.key[at], self.step_no[at]
        bits = draw(key, _FIRST, step + 1, np.minimum(self.incidents[at], 63))
        cell = integer(bits, 54, _PICK_BITS)
        cause = self.deployments.cause_pick[self.draw[at], cell].astype(np.int64)
        tool = integer(bits, 20, 16) * shape.tools >> 16
        tool = np.where(recurring, self.outage_tool[at], tool)
        of_tool = draw(key, _FIRST, tool, 4001)
        effects = w.effects_pick[integer(of_tool, 0, _PICK_BITS)]
        cause = np.where(recurring, self.outage_cause[at], cause)
        cause = np.where(w.lost[cause] & (effects == 0), w.otherwise[cause], cause)
        pick = w.symptom_pick[cause, integer(bits, 44, _PICK_BITS)]
        duration = w.duration_s[cause, integer(bits, 36, 8)]
        ends = np.where(recurring, self.outage_until[at], self.now[at] + duration)
        self.cause[at], self.tool[at], self.effects[at] = cause, tool, effects
        self.has_key[at] = (effects > 0) & (fraction(of_tool, 20, 20) < shape.key_share)
        self.opened[at] = self.now[at]
        self.ends[at] = ends
        started = w.shared[cause] & ~recurring
        mark = at[started]
        self.outage_until[mark], self.outage_cause[mark] = ends[started], cause[started]
        self.outage_tool[mark], self.bypassed[mark] = tool[started], False
        self.last_ok[at] = np.maximum(self.now[at] - shape.tools * shape.step_seconds, 0.0)
        self.attempts[at] = 0
        self.category[at], self.run[at], self.fresh[at] = -1, 0, True
        self.effect_state[at] = 0
        self.same[at] = self.progress[at] = False
        self.incidents[at] += 1
        self._show(at, pick * len(EFFECTS) + effects)
        self.opened[at] = self.now[at]

    def _settle(self, at: NDArray[np.int64]) -> None:
        """Add the value of tasks that ran to their end."""
        if len(at):
            good = self.completed_rows(at)
            self.utility[at] += np.where(good, self.prices.task * self.quality[at], 0.0)

    def completed_rows(self, at: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether the tasks in rows ``at``, run to their end, reached the right end state."""
        in_time = self.now[at] <= self.world.world.task.deadline_s
        return in_time & ~self.broken[at]

    def _end(
        self,
        stopped: NDArray[np.int64],
        actions: NDArray[np.int64],
        finished: NDArray[np.int64],
    ) -> Ended:
        degraded = stopped[actions[stopped] == A.DEGRADE]
        unbroken = ~self.broken[degraded]
        worth = self.prices.task * self.world.world.degrade_quality
        self.utility[degraded] += np.where(unbroken, worth * self.quality[degraded], 0.0)
        at = np.concatenate([finished, stopped])
        completed = np.zeros(len(at), np.bool_)
        completed[: len(finished)] = self.completed_rows(finished)
        last = np.full(len(at), -1, np.int64)
        last[len(finished) :] = actions[stopped]
        return self.ended(at, completed, last)

    def ended(
        self,
        at: NDArray[np.int64],
        completed: NDArray[np.bool_],
        last: NDArray[np.int64] | None = None,
    ) -> Ended:
        """The record of tasks that are over in rows ``at``."""
        final = np.full(len(at), -1, np.int64) if last is None else last
        return Ended(
            row=at,
            task=self.task[at],
            draw=self.draw[at],
            completed=completed,
            utility=self.utility[at],
            quality=np.where(completed, self.quality[at], 0.0).astype(np.float32),
            seconds=self.now[at],
            tokens=self.tokens[at],
            attempts=self.task_attempts[at],
            incidents=self.incidents[at],
            escalated=final == A.ESCALATE,
            degraded=final == A.DEGRADE,
            harmed=self.broken[at],
        )

    def keep(self, at: NDArray[np.int64]) -> None:
        """Drop all rows but ``at``; for runs over a fixed list of tasks."""
        self.take(at)
        self._facts = np.ascontiguousarray(self._facts[:, at])
