"""What a state shows: all facts of all rows in one pass of array gathers."""

import numpy as np
from numpy.typing import NDArray

from selfheal_rl.core.situation import (
    FACTS,
    MAX_ATTEMPTS_INCIDENT,
    MAX_ATTEMPTS_TASK,
    FactMatrix,
    planned_wait_s,
    rows,
)
from selfheal_rl.core.values import CATEGORIES, EFFECT_STATES, EFFECTS, SEAMS, RepairAction
from selfheal_rl.trainer.sim.compile import CompiledWorld
from selfheal_rl.trainer.sim.state import HISTORY, TaskState

A = RepairAction
_KIND, _SEEN, _TRIES, _RUN = rows("kind"), rows("seen"), rows("tries"), rows("run")
_EFFECTS, _AVAILABLE = rows("effects"), rows("available")
_EFFECT_STATE, _SIGN = rows("effect_state"), rows("sign")
_STATES_EYE = np.eye(len(EFFECT_STATES), dtype=np.float32)
_EFFECTS_EYE = np.eye(len(EFFECTS), dtype=np.float32)
_ATTEMPTS_LEFT = (1.0 - np.arange(MAX_ATTEMPTS_INCIDENT + 2) / MAX_ATTEMPTS_INCIDENT).astype(
    np.float32
)
EWMA = 0.2
"""Weight of the latest call in a tool's failure rate, as the runtime keeps it."""
_FAILURE_RATE = (1.0 - (1.0 - EWMA) ** np.arange(1, HISTORY + 2)).astype(np.float32)


def _runs() -> FactMatrix:
    """Column (category + 1) * 3 + run of the run facts: 0, 0.5 or 1 in the category's row."""
    table = np.zeros((len(CATEGORIES), (len(CATEGORIES) + 1) * 3), np.float32)
    for i in range(len(CATEGORIES)):
        table[i, (i + 1) * 3 + 1], table[i, (i + 1) * 3 + 2] = 0.5, 1.0
    return table


_RUNS = _runs()


def present(state: TaskState, world: CompiledWorld, facts: FactMatrix) -> None:
    """Write the facts of every row; rows marked ``fresh`` start a new incident's history.

    Args:
    state: of N tasks.
    world: theirs.
    facts: float32 (N_FACTS, N); tries and kinds seen are carried over from what it holds.
    """
    w, f, variant = world, facts, state.variant
    keep = ~state.fresh
    np.take(w.posterior, variant, axis=1, out=f[_KIND], mode="clip")
    f[_SEEN] *= keep
    np.maximum(f[_SEEN], f[_KIND], out=f[_SEEN])
    f[_TRIES] *= keep
    state.fresh[:] = False
    np.take(w.signs, variant, axis=1, out=f[_SIGN], mode="clip")
    np.take(_STATES_EYE, state.effect_state, axis=1, out=f[_EFFECT_STATE], mode="clip")
    np.take(_EFFECTS_EYE, state.effects, axis=1, out=f[_EFFECTS], mode="clip")
    profile = state.host * len(SEAMS) + w.seam[state.cause]
    np.take(w.available, profile, axis=1, out=f[_AVAILABLE], mode="clip")
    code = (state.category + 1) * 3 + state.run
    np.take(_RUNS, code, axis=1, out=f[_RUN], mode="clip")
    f[FACTS["flag.has_key"]] = state.has_key
    f[FACTS["flag.same_message"]] = state.same
    f[FACTS["flag.progress"]] = state.progress
    f[FACTS["seconds.latency"]] = w.latency_s[variant]
    _shares(state, w, f, w.context[variant])
    _seconds(state, w, f)


def _shares(
    state: TaskState, world: CompiledWorld, f: FactMatrix, context: NDArray[np.float32]
) -> None:
    n_steps = state.n_steps.astype(np.float32)
    step = state.step_no.astype(np.float32)
    usual = step / n_steps * np.float32(0.6)
    f[FACTS["share.context"]] = np.where(context >= 0, context, usual)
    f[FACTS["share.step"]] = (step + np.float32(1.0)) / n_steps
    f[FACTS["share.attempts_left"]] = _ATTEMPTS_LEFT[state.attempts]
    left = MAX_ATTEMPTS_TASK - np.minimum(state.task_attempts, MAX_ATTEMPTS_TASK)
    f[FACTS["share.task_attempts_left"]] = left * (1.0 / MAX_ATTEMPTS_TASK)
    budget = np.float32(world.world.task.token_budget)
    f[FACTS["share.tokens_left"]] = np.maximum(1.0 - state.tokens / budget, 0.0)
    f[FACTS["share.failure_rate"]] = _FAILURE_RATE[state.attempts]
    f[FACTS["count.tool_failures"]] = state.attempts + 1
    f[FACTS["count.task_failures"]] = state.incidents - 1


def _seconds(state: TaskState, world: CompiledWorld, f: FactMatrix) -> None:
    now = state.now
    np.subtract(now, state.opened, out=f[FACTS["seconds.incident"]], casting="same_kind")
    f[FACTS["seconds.task"]] = now
    f[FACTS["seconds.deadline_left"]] = np.maximum(world.world.task.deadline_s - now, 0.0)
    f[FACTS["seconds.retry_after"]] = state.retry_after
    tries = f[_TRIES.start + A.BACKOFF]
    f[FACTS["seconds.next_wait"]] = planned_wait_s(tries, state.retry_after)
    np.subtract(now, state.last_ok, out=f[FACTS["seconds.since_ok"]], casting="same_kind")
