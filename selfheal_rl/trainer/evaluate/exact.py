"""The optimum of a tiny world, and the value of any policy there, by enumeration.

It needs a world with one host, one incident a task, no durations, fixed figures, read-only tools
and symptoms that stay: then what is known in an incident is its symptom and the attempts so far,
and a policy's incident is one line of attempts that all failed. Values are expected utilities per
task, tasks without a failure included, under the simulator's own tables. Waits count with their
mean, which is exact since utility is linear in time.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from selfheal_rl.core.situation import MAX_ATTEMPTS_INCIDENT, planned_wait_s
from selfheal_rl.core.values import (
    ACTIONS,
    CATEGORY,
    EFFECTS,
    N_ACTIONS,
    TERMINAL,
    Category,
    ConfigError,
    RepairAction,
)
from selfheal_rl.trainer.evaluate.yardsticks.incident import MEAN_JITTER
from selfheal_rl.trainer.evaluate.yardsticks.outlook import step_cost
from selfheal_rl.trainer.sim.compile import CompiledWorld, compile_world
from selfheal_rl.trainer.sim.deployments import Deployments, draw_deployments
from selfheal_rl.trainer.sim.dynamics import RepairCore
from selfheal_rl.trainer.sim.episodes import SimPolicy, run_tasks

A = RepairAction
F64 = NDArray[np.float64]
Index = NDArray[np.int64]
CHAIN_TASKS = 2048
_RUNS = tuple(c for c in Category if c is not Category.WAIT)


@dataclass(frozen=True)
class Start:
    """Where incidents begin: groups of symptoms that look alike, and steps.

    Attributes:
        weight: float64 (C, G, S), P(a task's incident has cause c, symptom group g, step s).
        calm: expected utility of a task without failure, times its probability.
        before: expected utility paid up to and with the first failure.
        group: int64 (V,), symptom group of each variant.
    """

    weight: F64
    calm: float
    before: float
    group: Index


class ExactWorld:
    """A world solved by enumeration.

    Args:
        world: compiled.

    Raises:
        ConfigError: the world is not of the kind that can be enumerated.
    """

    def __init__(self, world: CompiledWorld) -> None:
        _check(world)
        self.world = world
        self.deployments = draw_deployments(world, 1, 0)
        self.success = self.deployments.success[0].astype(np.float64)
        self.prices = world.world.prices
        self.start = _start(world, self.deployments)
        available = world.available[:, : len(world.available[0])].max(axis=1) > 0
        useful = (self.success.max(axis=0) > 0) | (world.after_inspect.max(axis=0) > 0)
        self.repairs = tuple(a for a in ACTIONS if a not in TERMINAL and available[a] and useful[a])
        self._degrades = bool(available[A.DEGRADE])

    # ---- one attempt ----------------------------------------------------------------------

    def heals(self, action: int, nth: Index | int, informed: NDArray[np.bool_] | bool) -> F64:
        """P(heals | cause), shape (C,) or (C, states)."""
        w = self.world
        wear = w.wear.astype(np.float64)
        p = self.success[:, action]
        gain = w.after_inspect[:, action].astype(np.float64)
        if isinstance(nth, np.ndarray):
            wear, p, gain = wear[:, None], p[:, None], gain[:, None]
        worn = p * wear**nth
        return np.asarray(1.0 - (1.0 - worn) * (1.0 - gain * np.asarray(informed)), np.float64)

    def cost(self, action: int, n_backoffs: Index | int) -> F64:
        """Expected utility paid for one attempt, waits included."""
        w, p = self.world, self.prices
        seconds = float(w.seconds[action]) + np.zeros(np.shape(n_backoffs))
        if action == A.BACKOFF:
            seconds = seconds + planned_wait_s(n_backoffs, 0.0) * float(MEAN_JITTER)
        fixed = p.kilotoken * 1e-3 * w.tokens[action] + p.human_minute * w.minutes[action]
        return np.asarray(p.second * seconds + float(fixed), np.float64)

    def healed(self, action: int) -> F64:
        """Value of the rest of the task once ``action`` has healed, shape (C, 1, S)."""
        w = self.world
        steps = self.start.weight.shape[2]
        worth = self.prices.task * float(w.quality[action]) * (1.0 - w.harm[:, action])
        left = (steps - 1 - np.arange(steps)) * step_cost(w)
        return np.asarray(worth[:, None, None] - left[None, None, :], np.float64)

    @property
    def end(self) -> float:
        """Value of the best way to stop."""
        give_up = -float(self.cost(A.ESCALATE, 0))
        if not self._degrades:
            return give_up
        worth = self.prices.task * self.world.world.degrade_quality
        return max(give_up, worth - float(self.cost(A.DEGRADE, 0)))

    @cached_property
    def _latency(self) -> float:
        return self.prices.second * float(self.world.latency_s[0])

    # ---- values ---------------------------------------------------------------------------

    @property
    def base(self) -> float:
        """Utility that no decision changes."""
        return self.start.calm + self.start.before

    @property
    def give_up(self) -> float:
        """Expected utility of escalating every failure at once."""
        cost = float(self.cost(A.ESCALATE, 0))
        return self.base - float(self.start.weight.sum()) * cost

    @cached_property
    def optimum(self) -> float:
        """Expected utility of the best policy."""
        return self.base + float(_Tree(self).value().sum())

    def value(self, policy: SimPolicy, tasks: int = CHAIN_TASKS) -> float:
        """Expected utility of a policy that is deterministic in what it sees.

        The lines of attempts are read off the simulator with every success rate set to zero.
        Where a policy reacts to the jitter of waits, the mean over ``tasks`` jitters is taken.

        Args:
            policy: any.
            tasks: played to read the lines off.
        """
        total = np.zeros(self.start.weight.shape[1:])
        count = np.zeros_like(total)
        for (group, step), line in _lines(self, policy, tasks):
            total[group, step] += self._line(group, step, line)
            count[group, step] += 1.0
        unseen = (count == 0) & (self.start.weight.sum(axis=0) > 0)
        total[unseen] = self.start.weight.sum(axis=0)[unseen] * self.end
        return self.base + float((total / np.maximum(count, 1.0)).sum())

    def score(self, policy: SimPolicy) -> float:
        """``(V - V_give-up) / (V* - V_give-up)``: 1 is optimal, 0 as bad as giving up."""
        return (self.value(policy) - self.give_up) / (self.optimum - self.give_up)

    def _line(self, group: int, step: int, line: list[int]) -> float:
        """Value of one line of attempts, times the chance that it begins."""
        alive = self.start.weight[:, group, step].copy()
        tries = np.zeros(N_ACTIONS, np.int64)
        value = 0.0
        for action in line:
            backoffs = int(tries[A.BACKOFF])
            value -= float(self.cost(action, backoffs)) * alive.sum()
            if action in TERMINAL:
                if action == A.DEGRADE:
                    worth = self.prices.task * self.world.world.degrade_quality
                    value += worth * alive.sum()
                return float(value)
            h = self.heals(action, int(tries[action]), bool(tries[A.INSPECT] > 0))
            value += float((alive * h * self.healed(action)[:, 0, step]).sum())
            alive = alive * (1.0 - h)
            if action == A.CONTINUE:
                alive = alive * (1.0 - self.world.world.agent.gives_up)
            value -= self._latency * alive.sum()
            tries[action] += 1
        return float(value + alive.sum() * self.end)


class _Tree:
    """All histories of failed attempts, level by level, merged where nothing tells them apart.

    A state is the number of tries of each repair, how many of them came before the first
    inspection, and the run of the latest category.
    """

    def __init__(self, exact: ExactWorld) -> None:
        self.x = exact
        self.repairs = exact.repairs
        self.inspect = self.repairs.index(A.INSPECT) if A.INSPECT in self.repairs else -1
        self.category = [
            _RUNS.index(c) if (c := CATEGORY[a]) in _RUNS else -1 for a in self.repairs
        ]

    def value(self) -> F64:
        """Value of the start, per symptom group and step, times the chance to be there; (G, S)."""
        n = len(self.repairs)
        first = np.zeros((1, 2 * n + 2), np.int64)
        first[0, 2 * n] = -1
        levels, children, weights = [first], [], [self.x.start.weight[:, None]]
        for _ in range(MAX_ATTEMPTS_INCIDENT):
            states, child, weight = self._grow(levels[-1], weights[-1])
            levels.append(states)
            children.append(child)
            weights.append(weight)
        value = weights[-1].sum(axis=0) * self.x.end
        for states, child, weight in zip(
            levels[-2::-1], children[::-1], weights[-2::-1], strict=True
        ):
            value = self._back(states, child, weight, value)
        return np.asarray(value[0], np.float64)

    def _grow(self, states: Index, weight: F64) -> tuple[Index, Index, F64]:
        """States one attempt on, the index of each child (-1 closed), and their weights."""
        n = len(self.repairs)
        rows, owner, column, grown = [], [], [], []
        for i in range(n):
            at = np.flatnonzero(self._legal(states, i))
            after = states[at].copy()
            after[:, i] += 1
            after[:, n + i] += (after[:, n + i] >= 0) & ~self._informed(states[at])
            category = self.category[i]
            same = (after[:, 2 * n] == category) & (category >= 0)
            after[:, 2 * n + 1] = np.where(same, 2, 1 if category >= 0 else 0)
            after[:, 2 * n] = category
            rows.append(after)
            owner.append(at)
            column.append(np.full(len(at), i))
            grown.append(weight[:, at] * self._stays(states[at], i))
        joined = np.concatenate(rows)
        unique, first, inverse = np.unique(joined, axis=0, return_index=True, return_inverse=True)
        child = np.full((len(states), n), -1, np.int64)
        child[np.concatenate(owner), np.concatenate(column)] = inverse.ravel()
        return unique, child, np.concatenate(grown, axis=1)[:, first]

    def _back(self, states: Index, child: Index, weight: F64, value: F64) -> F64:
        x = self.x
        best = weight.sum(axis=0) * x.end
        for i, action in enumerate(self.repairs):
            at = np.flatnonzero(child[:, i] >= 0)
            if not len(at):
                continue
            here = weight[:, at]
            h = self._heals(states[at], i)[:, :, None, None]
            cost = x.cost(action, self._backoffs(states[at]))[:, None, None]
            now = (here * h * x.healed(action)[:, None]).sum(axis=0) - cost * here.sum(axis=0)
            on = here * self._stays(states[at], i)
            after = value[child[at, i]] - x._latency * on.sum(axis=0)
            best[at] = np.maximum(best[at], now + after)
        return np.asarray(best, np.float64)

    def _legal(self, states: Index, i: int) -> NDArray[np.bool_]:
        n, category = len(self.repairs), self.category[i]
        closed = (states[:, 2 * n] == category) & (states[:, 2 * n + 1] >= 2) & (category >= 0)
        return np.asarray(~closed)

    def _informed(self, states: Index) -> NDArray[np.bool_]:
        if self.inspect < 0:
            return np.zeros(len(states), np.bool_)
        return np.asarray(states[:, self.inspect] > 0)

    def _backoffs(self, states: Index) -> Index:
        if A.BACKOFF not in self.repairs:
            return np.zeros(len(states), np.int64)
        return states[:, self.repairs.index(A.BACKOFF)]

    def _heals(self, states: Index, i: int) -> F64:
        return self.x.heals(self.repairs[i], states[:, i], self._informed(states))

    def _stays(self, states: Index, i: int) -> F64:
        stays = 1.0 - self._heals(states, i)
        if self.repairs[i] is A.CONTINUE:
            stays = stays * (1.0 - self.x.world.world.agent.gives_up)
        return stays[:, :, None, None]


def _check(world: CompiledWorld) -> None:
    w = world.world
    reads = w.task.tool_effects.get("read", 0.0) == 1.0
    conditions = {
        "exact = true": w.exact,
        "one host": len(w.hosts) == 1,
        "max_failures = 1": w.task.max_failures == 1,
        "steps_low = steps_high": w.task.steps_low == w.task.steps_high,
        "no durations": not world.temporal.any(),
        "stay = 1": w.stay == 1.0,
        "read-only tools": reads,
        "one latency": len(set(world.latency_s.tolist())) == 1,
        "no retry-after": not (world.retry_truth.any() or world.retry_fixed.any()),
    }
    missing = [name for name, holds in conditions.items() if not holds]
    if missing:
        raise ConfigError(
            f"world {w.id!r} cannot be enumerated: expected {', '.join(missing)}; "
            "use toy-exact or a world of its kind"
        )


def _start(world: CompiledWorld, deployments: Deployments) -> Start:
    task, prices = world.world.task, world.world.prices
    causes = np.bincount(deployments.cause_pick[0], minlength=world.n_causes) / 1024.0
    looks = np.concatenate([world.posterior, world.effect_state_rows, world.signs]).T
    looks = np.column_stack([looks, world.signature])
    _, group = np.unique(looks.round(6), axis=0, return_inverse=True)
    group = group.ravel().astype(np.int64)
    rate = np.clip(task.failure_rate * world.frailty.astype(np.float64), 1e-4, 0.95)
    steps = task.steps_low
    fails = np.array([((1.0 - rate) ** s * rate).mean() for s in range(steps)])
    weight = np.zeros((world.n_causes, int(group.max()) + 1, steps))
    for c in range(world.n_causes):
        shown = group[world.symptom_pick[c] * len(EFFECTS)]
        by_group = np.bincount(shown, minlength=weight.shape[1]) / len(shown)
        weight[c] = causes[c] * by_group[:, None] * fails[None, :]
    cost = step_cost(world)
    calm = (1.0 - fails.sum()) * (prices.task - steps * cost)
    latency = prices.second * float(world.latency_s[0])
    before = -float((fails * ((np.arange(steps) + 1) * cost + latency)).sum())
    return Start(weight, float(calm), before, group)


def _lines(
    exact: ExactWorld, policy: SimPolicy, tasks: int
) -> list[tuple[tuple[int, int], list[int]]]:
    """Symptom group, step and attempts of each task's incident when nothing ever helps."""
    world = exact.world.world
    stoic = world.model_copy(update={"agent": world.agent.model_copy(update={"gives_up": 0.0})})
    compiled = compile_world(stoic)
    compiled.after_inspect = np.zeros_like(compiled.after_inspect)
    nothing = replace(exact.deployments, success=np.zeros_like(exact.deployments.success))
    begun: dict[int, tuple[int, int]] = {}
    lines: dict[int, list[int]] = {}

    def watch(core: RepairCore, index: Index, actions: Index) -> None:
        for row, task in enumerate(index.tolist()):
            if task not in begun:
                begun[task] = (
                    int(exact.start.group[core.variant[row]]),
                    int(core.step_no[row]),
                )
            lines.setdefault(task, []).append(int(actions[row]))

    ids = np.arange(tasks)
    draws = np.zeros(tasks, np.int64)
    run_tasks(compiled, nothing, policy, ids, draws, seed=0, only_failing=True, observer=watch)
    return [(begun[task], line) for task, line in lines.items()]
