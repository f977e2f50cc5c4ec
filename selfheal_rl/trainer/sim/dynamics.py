"""The vectorised core: N tasks at once, struct of arrays, no Python loop over tasks.

One step is one repair decision. The core runs ahead to the next failure, alarm or end, so every
row that is not finished waits for a decision. Reward is utility: the value of a completed task,
less prices of time, tokens, people and harm; it is undiscounted and sums to the task's utility.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from selfheal_rl.core.situation import (
    FACTS,
    MAX_ATTEMPTS_INCIDENT,
    MAX_ATTEMPTS_TASK,
    N_FACTS,
    FactMatrix,
    jittered_wait_s,
    planned_wait_s,
    repeat_unsafe,
    rows,
)
from selfheal_rl.core.values import (
    CATEGORIES,
    CATEGORY,
    EFFECTS,
    N_ACTIONS,
    REPEATS,
    SEAMS,
    TERMINAL,
    RepairAction,
)
from selfheal_rl.trainer.sim.compile import PICK, CompiledWorld
from selfheal_rl.trainer.sim.deployments import Deployments
from selfheal_rl.trainer.sim.luck import draw, key_of, uniforms

A = RepairAction
_KIND, _SEEN, _TRIES, _RUN = rows("kind"), rows("seen"), rows("tries"), rows("run")
_EFFECT_STATE, _SIGN, _AVAILABLE = rows("effect_state"), rows("sign"), rows("available")
_EFFECTS = rows("effects")
_CATEGORY = np.array(
    [CATEGORIES.index(c) if (c := CATEGORY[a]) is not None else -1 for a in RepairAction]
)
_REPEATS = np.isin(np.arange(N_ACTIONS), sorted(REPEATS))
_TERMINAL = np.isin(np.arange(N_ACTIONS), sorted(TERMINAL))
_FIRST, _OUTCOME, _AGAIN, _GAP = 1, 2, 3, 4
HISTORY = MAX_ATTEMPTS_INCIDENT + 1
EWMA = 0.2
"""Weight of the latest call in a tool's failure rate, as the runtime keeps it."""


@dataclass
class Ended:
    """Tasks that ended in a step, one entry per ended row.

    Attributes:
        row: index into the core's rows.
        task: task ids.
        draw: deployment of each.
        completed: bool; end state right and in time, without a human.
        utility: the whole task's.
        quality: of the result, 0 when not completed.
        seconds: since the task began.
        tokens: spent on repairs.
        attempts: decisions that were not terminal.
        incidents: failures met.
        escalated, degraded, harmed: bool.
    """

    row: NDArray[np.int64]
    task: NDArray[np.int64]
    draw: NDArray[np.int64]
    completed: NDArray[np.bool_]
    utility: NDArray[np.float64]
    quality: NDArray[np.float32]
    seconds: NDArray[np.float64]
    tokens: NDArray[np.float32]
    attempts: NDArray[np.int64]
    incidents: NDArray[np.int64]
    escalated: NDArray[np.bool_]
    degraded: NDArray[np.bool_]
    harmed: NDArray[np.bool_]


class RepairCore:
    """State of N tasks of one world.

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
        self.world, self.deployments, self.n, self.seed = world, deployments, n, seed
        self.only_failing = only_failing
        self.prices = world.world.prices
        self.facts: FactMatrix = np.zeros((N_FACTS, n), np.float32)
        self.facts[FACTS["share.money_left"]] = 1.0
        for name, dtype in _STATE.items():
            setattr(self, name, np.zeros(n, dtype))
        self.variants_seen = np.zeros((HISTORY, n), np.int16)
        self.actions_tried = np.zeros((HISTORY, n), np.int8)
        self.alive = np.zeros(n, np.bool_)
        self._columns = np.arange(n)

    # State arrays, declared for readers and type checkers; all of shape (n,).
    task: NDArray[np.int64]
    draw: NDArray[np.int64]
    key: NDArray[np.uint64]
    n_steps: NDArray[np.int64]
    step_no: NDArray[np.int64]
    host: NDArray[np.int64]
    now: NDArray[np.float64]
    opened: NDArray[np.float64]
    ends: NDArray[np.float64]
    cause: NDArray[np.int64]
    variant: NDArray[np.int64]
    tool: NDArray[np.int64]
    effects: NDArray[np.int64]
    has_key: NDArray[np.bool_]
    attempts: NDArray[np.int64]
    task_attempts: NDArray[np.int64]
    incidents: NDArray[np.int64]
    rate: NDArray[np.float64]
    quality: NDArray[np.float32]
    broken: NDArray[np.bool_]
    utility: NDArray[np.float64]
    tokens: NDArray[np.float32]
    retry_after: NDArray[np.float32]
    last_ok: NDArray[np.float64]
    outage_until: NDArray[np.float64]
    outage_cause: NDArray[np.int64]
    outage_tool: NDArray[np.int64]
    bypassed: NDArray[np.bool_]

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
        u, v, h = uniforms(draw(key, _FIRST, 0, 0))
        self.task[at], self.draw[at], self.key[at] = tasks, draws, key
        span = shape.steps_high - shape.steps_low + 1
        self.n_steps[at] = shape.steps_low + (v * span).astype(np.int64)
        self.host[at] = w.host_pick[(h * PICK).astype(np.int64)]
        frailty = w.frailty[(u * 256).astype(np.int64)]
        rate = shape.failure_rate * frailty * self.deployments.rate[draws]
        self.rate[at] = np.clip(rate, 1e-4, 0.95)
        for name in _ZEROED:
            getattr(self, name)[at] = 0
        self.quality[at] = 1.0
        self.outage_tool[at] = -1
        self.alive[at] = True
        return self._run_ahead(at, first=True)

    def step(
        self, actions: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], NDArray[np.bool_], Ended]:
        """Apply one decision per row (rows that are not alive are left alone).

        Args:
            actions: int, shape (n,).

        Returns:
            ``(reward, done, ended)`` with reward float32 (n,) and done bool (n,). Finished rows
            stay finished until :meth:`begin` is called for them.
        """
        w = self.world
        actions = self._within_caps(np.asarray(actions, np.int64))
        before = self.utility.copy()
        heal, duplicate, lost, give_up = self._outcome(actions)
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
        self, actions: NDArray[np.int64]
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
        w, cause, col = self.world, self.cause, self._columns
        nth = self.facts[_TRIES.start + actions, col].astype(np.int64)
        place = self.step_no * 8 + np.minimum(self.incidents, 7)
        bits = draw(self.key, _OUTCOME, place, cause * N_ACTIONS + actions, nth)
        u, harm, other = uniforms(bits)
        seconds = w.seconds[actions].copy()
        waiting = actions == A.BACKOFF
        tries_wait = self.facts[_TRIES.start + A.BACKOFF]
        seconds += np.where(waiting, jittered_wait_s(tries_wait, self.retry_after, other), 0)
        acts = self.alive
        tokens = w.tokens[actions]
        self.now += np.where(acts, seconds, 0.0)
        self.tokens += np.where(acts, tokens, 0.0).astype(np.float32)
        self._pay(acts, seconds, tokens, w.minutes[actions])
        p = self.deployments.success[self.draw, cause, actions]
        p = p * w.wear[cause] ** nth.astype(np.float32)
        informed = self.facts[_TRIES.start + A.INSPECT] > 0
        gain = w.after_inspect[cause, actions] * informed
        p = 1.0 - (1.0 - p) * (1.0 - gain)
        over = self.now >= self.ends
        p = np.where(over, np.maximum(p, w.after_end[cause, actions]), p)
        unsafe = repeat_unsafe(self.facts) & _REPEATS[actions]
        duplicate = unsafe & w.lost[cause] & acts
        heal = ((u < p) | duplicate) & ~_TERMINAL[actions] & acts
        lost = heal & (harm < w.harm[cause, actions])
        give_up = acts & ~heal & (actions == A.CONTINUE) & (harm < w.world.agent.gives_up)
        return heal, duplicate, lost, give_up

    def _pay(
        self,
        where: NDArray[np.bool_],
        seconds: NDArray[np.float32],
        tokens: NDArray[np.float32],
        minutes: NDArray[np.float32],
    ) -> None:
        p = self.prices
        cost = p.second * seconds + p.kilotoken * 1e-3 * tokens + p.human_minute * minutes
        self.utility -= np.where(where, cost, 0.0)

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
        w, f = self.world, self.facts
        tried = actions[at]
        f[_TRIES.start + tried, at] += 1.0
        self.attempts[at] += 1
        self.task_attempts[at] += 1
        place = self.step_no[at] * 8 + np.minimum(self.incidents[at], 7)
        u, stay, _ = uniforms(draw(self.key[at], _AGAIN, place, self.attempts[at], self.cause[at]))
        pick = w.symptom_pick[self.cause[at], (u * PICK).astype(np.int64)]
        fresh = pick * len(EFFECTS) + self.effects[at]
        old = self.variant[at]
        variant = np.where(stay < w.world.stay, old, fresh)
        self._update_run(at, tried)
        f[FACTS["flag.same_message"], at] = w.signature[variant] == w.signature[old]
        f[FACTS["flag.progress"], at] = w.kind[variant] != w.kind[old]
        self.actions_tried[self.attempts[at] - 1, at] = tried
        self._show(at, variant)

    def _update_run(self, at: NDArray[np.int64], tried: NDArray[np.int64]) -> None:
        f = self.facts
        category = _CATEGORY[tried]
        has = category >= 0
        column, row = at[has], _RUN.start + category[has]
        length = f[row, column]
        f[_RUN, at] = 0.0
        f[row, column] = np.where(length > 0, 1.0, 0.5)

    def _show(self, at: NDArray[np.int64], variant: NDArray[np.int64]) -> None:
        """Charge the failing call's latency and set what the failure shows."""
        w, f = self.world, self.facts
        latency = w.latency_s[variant]
        self.now[at] += latency
        self.utility[at] -= self.prices.second * latency
        self.variant[at] = variant
        self.variants_seen[self.attempts[at], at] = variant
        remaining = np.maximum(self.ends[at] - self.now[at], 0.0)
        truth = np.where(np.isfinite(remaining), remaining, 0.0).astype(np.float32)
        truth = np.ceil(truth)
        self.retry_after[at] = np.where(w.retry_truth[variant], truth, w.retry_fixed[variant])
        f[_KIND, at] = w.posterior[:, variant]
        f[_SEEN, at] = np.maximum(f[_SEEN, at], w.posterior[:, variant])
        f[_EFFECT_STATE, at] = w.effect_state_rows[:, variant]
        f[_SIGN, at] = w.signs[:, variant]
        f[FACTS["seconds.latency"], at] = latency
        context = w.context[variant]
        usual = self._usual_context(at)
        f[FACTS["share.context"], at] = np.where(context >= 0, context, usual)
        self._show_counters(at)

    def _usual_context(self, at: NDArray[np.int64]) -> NDArray[np.float32]:
        share = (self.step_no[at] / np.maximum(self.n_steps[at], 1) * 0.6).astype(np.float32)
        return share

    def _show_counters(self, at: NDArray[np.int64]) -> None:
        f, shape = self.facts, self.world.world.task
        attempts, task_attempts = self.attempts[at], self.task_attempts[at]
        f[FACTS["share.attempts_left"], at] = (
            MAX_ATTEMPTS_INCIDENT - attempts
        ) / MAX_ATTEMPTS_INCIDENT
        f[FACTS["share.task_attempts_left"], at] = (
            np.maximum(MAX_ATTEMPTS_TASK - task_attempts, 0) / MAX_ATTEMPTS_TASK
        )
        left = np.maximum(1.0 - self.tokens[at] / np.float32(shape.token_budget), 0.0)
        f[FACTS["share.tokens_left"], at] = left
        f[FACTS["share.failure_rate"], at] = 1.0 - (1.0 - EWMA) ** (attempts + 1)
        f[FACTS["count.tool_failures"], at] = attempts + 1
        f[FACTS["seconds.incident"], at] = self.now[at] - self.opened[at]
        f[FACTS["seconds.task"], at] = self.now[at]
        f[FACTS["seconds.deadline_left"], at] = np.maximum(shape.deadline_s - self.now[at], 0.0)
        f[FACTS["seconds.retry_after"], at] = self.retry_after[at]
        tries = f[_TRIES.start + A.BACKOFF, at]
        f[FACTS["seconds.next_wait"], at] = planned_wait_s(tries, self.retry_after[at])
        f[FACTS["seconds.since_ok"], at] = self.now[at] - self.last_ok[at]

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
        u, v, _ = uniforms(draw(self.key[at], _GAP, self.step_no[at], self.incidents[at]))
        rate = self.rate[at]
        if first and self.only_failing:
            u = 1.0 - u * (1.0 - (1.0 - rate) ** left)
        gap = np.floor(np.log(u) / np.log1p(-rate)).astype(np.int64)
        recur, again = self._recurrence(at, v, gap)
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
        self, at: NDArray[np.int64], v: NDArray[np.float32], gap: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """When a fault that outlives its incident is met again, unless it is bypassed."""
        shape = self.world.world.task
        lasting = (self.outage_until[at] > self.now[at]) & ~self.bypassed[at]
        lasting &= self.outage_tool[at] >= 0
        if shape.tools == 1:
            recur = np.zeros(len(at), np.int64)
        else:
            recur = np.floor(np.log(v) / np.log1p(-1.0 / shape.tools)).astype(np.int64)
        when = self.now[at] + recur * shape.step_seconds
        return recur, lasting & (recur <= gap) & (when < self.outage_until[at])

    def _open(self, at: NDArray[np.int64], recurring: NDArray[np.bool_]) -> None:
        """A new incident: draw its cause, tool, symptom and duration."""
        if not len(at):
            return
        w, f, shape = self.world, self.facts, self.world.world.task
        key, step = self.key[at], self.step_no[at]
        u, v, d = uniforms(draw(key, _FIRST, step + 1, np.minimum(self.incidents[at], 63)))
        bits = draw(key, _FIRST, step + 1, np.minimum(self.incidents[at], 63), 1)
        t, k, e = uniforms(bits)
        cell = (u * PICK).astype(np.int64)
        cause = self.deployments.cause_pick[self.draw[at], cell].astype(np.int64)
        tool = np.where(recurring, self.outage_tool[at], (t * shape.tools).astype(np.int64))
        te, tk, _ = uniforms(draw(key, _FIRST, tool, 4001))
        effects = w.effects_pick[(te * PICK).astype(np.int64)]
        cause = np.where(recurring, self.outage_cause[at], cause)
        cause = np.where(w.lost[cause] & (effects == 0), w.otherwise[cause], cause)
        pick = w.symptom_pick[cause, (v * PICK).astype(np.int64)]
        duration = w.duration_s[cause, (d * 256).astype(np.int64)]
        ends = np.where(recurring, self.outage_until[at], self.now[at] + duration)
        self.cause[at], self.tool[at], self.effects[at] = cause, tool, effects
        self.has_key[at] = (effects > 0) & (tk < shape.key_share)
        self.opened[at] = self.now[at]
        self.ends[at] = ends
        started = w.shared[cause] & ~recurring
        mark = at[started]
        self.outage_until[mark], self.outage_cause[mark] = ends[started], cause[started]
        self.outage_tool[mark], self.bypassed[mark] = tool[started], False
        self.last_ok[at] = np.maximum(self.now[at] - shape.tools * shape.step_seconds, 0.0)
        self.attempts[at] = 0
        self._open_facts(at, effects)
        self.incidents[at] += 1
        self._show(at, pick * len(EFFECTS) + effects)
        self.opened[at] = self.now[at]
        f[FACTS["seconds.incident"], at] = 0.0

    def _open_facts(self, at: NDArray[np.int64], effects: NDArray[np.int64]) -> None:
        f = self.facts
        f[_SEEN, at] = 0.0
        f[_TRIES, at] = 0.0
        f[_RUN, at] = 0.0
        f[_EFFECTS, at] = 0.0
        f[_EFFECTS.start + effects, at] = 1.0
        f[FACTS["flag.has_key"], at] = self.has_key[at]
        f[FACTS["flag.same_message"], at] = 0.0
        f[FACTS["flag.progress"], at] = 0.0
        profile = self.host[at] * len(SEAMS) + self.world.seam[self.cause[at]]
        f[_AVAILABLE, at] = self.world.available[:, profile]
        f[FACTS["share.step"], at] = (self.step_no[at] + 1) / self.n_steps[at]
        f[FACTS["count.task_failures"], at] = self.incidents[at]

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
        self.n = len(at)
        for name in _STATE:
            setattr(self, name, getattr(self, name)[at])
        self.alive = self.alive[at]
        self.facts = np.ascontiguousarray(self.facts[:, at])
        self.variants_seen = self.variants_seen[:, at]
        self.actions_tried = self.actions_tried[:, at]
        self._columns = np.arange(self.n)


_STATE: dict[str, type] = {
    "task": np.int64,
    "draw": np.int64,
    "key": np.uint64,
    "n_steps": np.int64,
    "step_no": np.int64,
    "host": np.int64,
    "now": np.float64,
    "opened": np.float64,
    "ends": np.float64,
    "cause": np.int64,
    "variant": np.int64,
    "tool": np.int64,
    "effects": np.int64,
    "has_key": np.bool_,
    "attempts": np.int64,
    "task_attempts": np.int64,
    "incidents": np.int64,
    "rate": np.float64,
    "quality": np.float32,
    "broken": np.bool_,
    "utility": np.float64,
    "tokens": np.float32,
    "retry_after": np.float32,
    "last_ok": np.float64,
    "outage_until": np.float64,
    "outage_cause": np.int64,
    "outage_tool": np.int64,
    "bypassed": np.bool_,
}
_ZEROED = (
    ("step_no", "now", "attempts", "task_attempts", "incidents", "broken", "utility", "tokens")
    + ("outage_until", "outage_cause", "bypassed", "retry_after", "last_ok")
)
