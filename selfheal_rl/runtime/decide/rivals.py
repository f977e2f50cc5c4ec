"""What users have today as selectors: the defaults of four libraries, and doing nothing.

Each selector reproduces the decision code of one library with its default options, under our
common caps on attempts and time only. Libraries know neither effects nor capabilities, so they
repeat a write whose reply was lost: ``ignores_mask`` says so, and who plays them charges the harm.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from selfheal_rl.core.situation import FACTS, FactMatrix, rows
from selfheal_rl.core.values import KIND_INDEX, N_ACTIONS, N_KINDS, FaultKind, RepairAction

A, _K = RepairAction, FaultKind
_KIND = rows("kind")
_CAPS = tuple(
    FACTS[name]
    for name in ("share.attempts_left", "share.task_attempts_left", "seconds.deadline_left")
)
_NONE_LEFT = 1e-6

LANGGRAPH_REFUSES: frozenset[FaultKind] = frozenset(
    {
        _K.DENIED,  # PermissionError, an OSError
        _K.NOT_FOUND,  # FileNotFoundError, an OSError
        _K.BAD_ARGUMENTS,  # ValueError, TypeError
        _K.PRECONDITION,  # RuntimeError
        _K.MALFORMED_CALL,  # ValueError
        _K.UNKNOWN_TOOL,  # KeyError
        _K.SCHEMA_MISMATCH,  # pydantic.ValidationError, a ValueError
        _K.PARSE_ERROR,  # json.JSONDecodeError, a ValueError
        _K.EMPTY_OUTPUT,  # ValueError
        _K.OUTPUT_TOO_LARGE,  # ValueError
        _K.RESOURCE_EXHAUSTED,  # OSError (no space, too many files)
        _K.MISSING_DEPENDENCY,  # ImportError
        _K.SYNTAX_ERROR,  # SyntaxError
        _K.CODE_EXCEPTION,  # RuntimeError, LookupError, ArithmeticError
    }
)
"""Kinds whose usual exception ``langgraph.types.default_retry_on`` does not retry.

A timeout is taken to be ``httpx.ReadTimeout``, which LangGraph retries; it would not retry the
builtin ``TimeoutError`` or ``requests.Timeout``. That is the reading in its favour.
"""


@dataclass(frozen=True)
class RivalSelector:
    """The default policy of one library.

    Attributes:
        name: of the library.
        repeat: ``retry`` when it repeats at once, ``backoff`` when it waits first.
        exhausted: what its user gets in the end: ``continue`` when the error goes back to the
            agent, ``escalate`` when it ends the run.
        retries: repeats of one call at most; None when it never stops.
        limit_s: seconds after which one call is not repeated any more; None for no limit.
        first_wait_s: the first wait; the n-th is ``first_wait_s * base**n`` (n from 0).
        base: growth of the wait.
        max_wait_s: largest wait.
        mean_jitter_s: mean of the random seconds added to each wait.
        refuses: kinds of fault it does not retry, where no HTTP status tells.
        refuses_4xx: True when it does not retry any HTTP 4xx.
        ignores_mask: True when it may choose what the legality table closes.
    """

    name: str
    repeat: RepairAction
    exhausted: RepairAction = A.CONTINUE
    retries: int | None = None
    limit_s: float | None = None
    first_wait_s: float = 0.0
    base: float = 2.0
    max_wait_s: float = 0.0
    mean_jitter_s: float = 0.0
    refuses: frozenset[FaultKind] = frozenset()
    refuses_4xx: bool = False
    ignores_mask: bool = True

    def probabilities(
        self, facts: FactMatrix, observation: NDArray[np.float32], mask: NDArray[np.bool_]
    ) -> NDArray[np.float32]:
        """The library's decision for each incident.

        Args:
            facts: float32, shape (N_FACTS, N).
            observation: not read.
            mask: not read; only ``escalate`` is chosen once attempts or time are used up.

        Returns:
            float32, shape (N, 17): one 1 a row.
        """
        del observation, mask
        return _one_hot(self.actions(facts))

    def actions(self, facts: FactMatrix) -> NDArray[np.intp]:
        """Index of the action chosen for each incident, shape (N,)."""
        soft = facts[FACTS["sign.soft"]] > 0.5
        chosen = np.where(self._repeats(facts), int(self.repeat), int(self.exhausted))
        # No exception was raised, so the library sees no failure at all.
        chosen = np.where(soft, int(A.CONTINUE), chosen)
        passes = self.wait_s(facts) >= facts[FACTS["seconds.deadline_left"]]
        stopped = _capped(facts) | ((chosen == A.BACKOFF) & passes)
        return np.where(stopped, int(A.ESCALATE), chosen).astype(np.intp)

    def wait_s(self, facts: FactMatrix) -> NDArray[np.float32]:
        """Seconds its own schedule waits on average before the next repeat, shape (N,).

        None of these libraries reads Retry-After.
        """
        n = np.minimum(self._repeats_of_this_call(facts), 30.0)
        grown = self.first_wait_s * np.float32(self.base) ** n + self.mean_jitter_s
        wait: NDArray[np.float32] = np.minimum(grown, self.max_wait_s).astype(np.float32)
        return wait

    def _repeats_of_this_call(self, facts: FactMatrix) -> NDArray[np.float32]:
        """Repeats since the agent last got the error: a new call has a new retry budget."""
        made: NDArray[np.float32] = facts[FACTS[f"tries.{self.repeat.slug}"]]
        if self.retries is None:
            return made
        handed_back = facts[FACTS["tries.continue"]]
        used_up = np.float32(self.retries) * handed_back
        left: NDArray[np.float32] = np.maximum(made - used_up, np.float32(0.0))
        return left

    def _repeats(self, facts: FactMatrix) -> NDArray[np.bool_]:
        goes_on = self._retryable(facts)
        if self.retries is not None:
            goes_on = goes_on & (self._repeats_of_this_call(facts) < self.retries)
        if self.limit_s is not None:
            first_call = facts[FACTS["tries.continue"]] < 0.5
            late = facts[FACTS["seconds.incident"]] >= self.limit_s
            goes_on = goes_on & ~(first_call & late)
        return goes_on

    def _retryable(self, facts: FactMatrix) -> NDArray[np.bool_]:
        table = np.ones(N_KINDS, np.bool_)
        table[[KIND_INDEX[kind] for kind in self.refuses]] = False
        by_kind: NDArray[np.bool_] = table[facts[_KIND].argmax(axis=0)]
        if not self.refuses_4xx:
            return by_kind
        is_4xx = facts[FACTS["sign.status_4xx"]] > 0.5
        is_5xx = facts[FACTS["sign.status_5xx"]] > 0.5
        return np.where(is_5xx, True, by_kind & ~is_4xx)


@dataclass(frozen=True)
class ConstantSelector:
    """One action whatever happens, ``escalate`` where it is closed.

    Attributes:
        name: of the selector.
        action: what it always chooses.
        ignores_mask: always False.
    """

    name: str
    action: RepairAction
    ignores_mask: bool = False

    def probabilities(
        self, facts: FactMatrix, observation: NDArray[np.float32], mask: NDArray[np.bool_]
    ) -> NDArray[np.float32]:
        """One 1 a row.

        Args:
            facts: float32, shape (N_FACTS, N), not read.
            observation: not read.
            mask: bool, shape (N, 17).
        """
        del facts, observation
        return _one_hot(np.where(mask[:, self.action], int(self.action), int(A.ESCALATE)))

    def wait_s(self, facts: FactMatrix) -> NDArray[np.float32]:
        """Zeros: it never waits."""
        return np.zeros(facts.shape[1], np.float32)


def _capped(facts: FactMatrix) -> NDArray[np.bool_]:
    """Where the common caps on attempts or time are reached, shape (N,)."""
    return np.asarray(np.min(facts[list(_CAPS)], axis=0) <= _NONE_LEFT)


def _one_hot(actions: NDArray[np.intp]) -> NDArray[np.float32]:
    result = np.zeros((len(actions), N_ACTIONS), np.float32)
    result[np.arange(len(actions)), actions] = 1.0
    return result


TENACITY = RivalSelector("tenacity", A.RETRY)
"""tenacity 9.2, bare ``@retry``: every exception, at once, without end; our caps stop it."""

STAMINA = RivalSelector(
    "stamina",
    A.BACKOFF,
    retries=9,
    limit_s=45.0,
    first_wait_s=0.1,
    max_wait_s=5.0,
    mean_jitter_s=0.5,
)
"""stamina 26.1, ``retry(on=Exception)``: 10 attempts within 45 s, waits of 0.1 s doubled to 5 s."""

LANGGRAPH = RivalSelector(
    "langgraph",
    A.BACKOFF,
    exhausted=A.ESCALATE,
    retries=2,
    first_wait_s=0.5,
    max_wait_s=128.0,
    mean_jitter_s=0.5,
    refuses=LANGGRAPH_REFUSES,
    refuses_4xx=True,
)
"""LangGraph 1.2, ``RetryPolicy()``: 3 attempts; what it does not retry ends the graph's run."""

LANGCHAIN = RivalSelector(
    "langchain",
    A.BACKOFF,
    retries=2,
    first_wait_s=1.0,
    max_wait_s=60.0,
)
"""LangChain 1.5, ``ToolRetryMiddleware()``: 2 retries, then the error's text goes to the model."""

AGENT_ALONE = ConstantSelector("agent-alone", A.CONTINUE)
"""Hands every error back to the agent."""

GIVE_UP = ConstantSelector("give-up", A.ESCALATE)
"""Stops at the first error."""

Rival = RivalSelector | ConstantSelector
RIVALS: Mapping[str, Rival] = {
    rival.name: rival for rival in (TENACITY, STAMINA, LANGGRAPH, LANGCHAIN, AGENT_ALONE, GIVE_UP)
}
"""By name."""
