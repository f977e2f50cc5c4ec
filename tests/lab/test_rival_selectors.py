"""The rivals' rules against the libraries' own decision code, with real exception objects."""

import json
import subprocess
from random import Random

import numpy as np
import pytest

from selfheal_rl.core.situation import FACTS, N_FACTS, N_SLOTS, legal_mask, rows
from selfheal_rl.core.values import (
    KIND_INDEX,
    KINDS,
    N_ACTIONS,
    FaultKind,
    RepairAction,
    VirtualClock,
)
from selfheal_rl.lab.rivals import RIVALS as LIBRARIES
from selfheal_rl.lab.rivals import rival
from selfheal_rl.lab.rivals.borrowed_time import borrowed_time
from selfheal_rl.runtime.decide.rivals import (
    AGENT_ALONE,
    GIVE_UP,
    LANGCHAIN,
    LANGGRAPH,
    RIVALS,
    STAMINA,
    TENACITY,
)

A, K = RepairAction, FaultKind
httpx = pytest.importorskip("httpx")
requests = pytest.importorskip("requests")
for library in ("tenacity", "stamina", "langgraph", "langchain"):
    pytest.importorskip(library)


def facts(kind=K.SERVER_ERROR, *, status=None, deadline=3600.0, left=8, **values):
    """One column with everything open; ``values`` are facts by name with ``_`` for the dot."""
    column = np.zeros((N_FACTS, 1), np.float32)
    column[FACTS[f"kind.{kind.value}"]] = 1.0
    column[rows("available")] = 1.0
    column[FACTS["effects.read"]] = 1.0
    column[FACTS["share.attempts_left"]] = left / 8
    column[FACTS["share.task_attempts_left"]] = 1.0
    column[FACTS["share.tokens_left"]] = column[FACTS["share.money_left"]] = 1.0
    column[FACTS["seconds.deadline_left"]] = deadline
    if status is not None:
        column[FACTS[f"sign.status_{status // 100}xx"]] = 1.0
    for name, value in values.items():
        column[FACTS[name.replace("_", ".", 1)]] = value
    return column


def choice(selector, column):
    observation = np.zeros((column.shape[1], N_SLOTS), np.float32)
    p = selector.probabilities(column, observation, legal_mask(column))
    assert p.shape == (column.shape[1], N_ACTIONS)
    assert p.dtype == np.float32
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    return A(int(p[0].argmax()))


def http_error(status):
    request = httpx.Request("GET", "http://shop/price")
    return httpx.HTTPStatusError("bad", request=request, response=httpx.Response(status))


EXCEPTIONS = {
    K.TIMEOUT: httpx.ReadTimeout("timed out"),
    K.NETWORK: ConnectionResetError("reset"),
    K.DENIED: PermissionError("no"),
    K.NOT_FOUND: FileNotFoundError("no such file"),
    K.BAD_ARGUMENTS: TypeError("unexpected keyword argument"),
    K.PRECONDITION: RuntimeError("not ready"),
    K.MALFORMED_CALL: ValueError("no call"),
    K.UNKNOWN_TOOL: KeyError("lookup"),
    K.SCHEMA_MISMATCH: ValueError("validation error"),
    K.PARSE_ERROR: json.JSONDecodeError("bad", "{", 1),
    K.EMPTY_OUTPUT: ValueError("empty"),
    K.OUTPUT_TOO_LARGE: ValueError("too long"),
    K.RESOURCE_EXHAUSTED: OSError(28, "No space left on device"),
    K.MISSING_DEPENDENCY: ModuleNotFoundError("no module"),
    K.SYNTAX_ERROR: SyntaxError("bad"),
    K.CODE_EXCEPTION: ZeroDivisionError("division"),
    K.NONZERO_EXIT: subprocess.CalledProcessError(1, "make"),
    K.UNKNOWN: Exception("?"),
    K.SERVER_ERROR: Exception("tool failed"),
}


@pytest.mark.parametrize("kind", EXCEPTIONS, ids=lambda k: k.value)
def test_langgraph_table_is_what_default_retry_on_says(kind):
    from langgraph.types import default_retry_on

    retried = choice(LANGGRAPH, facts(kind)) is A.BACKOFF
    assert retried == default_retry_on(EXCEPTIONS[kind])


@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500, 502, 503])
def test_langgraph_reads_the_http_status_as_its_own_code_does(status):
    from langgraph.types import default_retry_on

    kind = {429: K.RATE_LIMIT, 401: K.AUTH, 403: K.DENIED, 404: K.NOT_FOUND}.get(
        status, K.SERVER_ERROR if status >= 500 else K.BAD_ARGUMENTS
    )
    retried = choice(LANGGRAPH, facts(kind, status=status)) is A.BACKOFF
    assert retried == default_retry_on(http_error(status))


def test_what_the_peers_table_says_of_langgraph():
    from langgraph.types import default_retry_on

    refused = [TimeoutError(), OSError(), ValueError(), KeyError(), RuntimeError()]
    refused += [http_error(429), requests.Timeout()]
    assert not any(default_retry_on(error) for error in refused)
    response = requests.Response()
    response.status_code = 401
    retried = [http_error(503), httpx.ReadTimeout(""), ConnectionError()]
    retried += [requests.HTTPError(response=response)]
    assert all(default_retry_on(error) for error in retried)


def library_run(name, error, *, calls_at_most=8):
    """Calls and virtual seconds until the library lets the error out, or the cap."""
    clock, made = VirtualClock(), 0

    class CapReached(BaseException):
        pass

    def call():
        nonlocal made
        if made > calls_at_most:
            raise CapReached
        made += 1
        raise error

    library = rival(name)
    with borrowed_time(library.modules(), clock, Random(1)):
        try:
            library.attempt(call)
        except CapReached:
            return made, clock.monotonic(), "capped"
        except Exception as out:
            return made, clock.monotonic(), type(out).__name__
    raise AssertionError("a call that always fails returned")


def selector_run(selector, kind, status=None):
    """Calls until the selector stops repeating, where only its own repeats change the facts."""
    tries = dict.fromkeys(A, 0)
    seconds = 0.0
    for calls in range(1, 10):
        column = facts(kind, status=status, left=9 - calls, seconds_incident=seconds)
        for action, n in tries.items():
            column[FACTS[f"tries.{action.slug}"]] = n
        action = choice(selector, column)
        if action not in (A.RETRY, A.BACKOFF):
            return calls, action
        seconds += float(selector.wait_s(column)[0]) if action is A.BACKOFF else 0.0
        tries[action] += 1
    raise AssertionError("no end within the cap")


@pytest.mark.parametrize(
    ("selector", "end"),
    [
        (TENACITY, A.ESCALATE),
        (STAMINA, A.ESCALATE),
        (LANGGRAPH, A.ESCALATE),
        (LANGCHAIN, A.CONTINUE),
    ],
    ids=lambda x: getattr(x, "name", ""),
)
def test_a_selector_makes_as_many_calls_as_its_library(selector, end):
    # Nine calls are the common cap: stamina's ten and tenacity's endless ones run into it.
    made, _, _ = library_run(selector.name, http_error(503))
    assert selector_run(selector, K.SERVER_ERROR, 503) == (made, end)


def test_stamina_stops_at_its_own_ten_attempts_without_a_cap():
    made, seconds, out = library_run("stamina", ValueError("x"), calls_at_most=99)
    assert made == STAMINA.retries + 1 == 10
    assert out == "ValueError"
    assert seconds <= STAMINA.limit_s


def test_stamina_stops_after_45_seconds_as_its_stop_condition_does():
    import stamina._core

    clock = VirtualClock()
    made = 0

    def slow():
        nonlocal made
        made += 1
        clock.advance(20.0)
        raise ValueError("slow")

    library = rival("stamina")
    with (
        borrowed_time(library.modules(), clock, Random(1)),
        pytest.raises(ValueError, match="slow"),
    ):
        library.attempt(slow)
    assert made == 3  # at 40 s it goes on, beyond 45 s it stops
    assert stamina._core.random is __import__("random")
    late = facts(seconds_incident=46.0, tries_backoff=2)
    early = facts(seconds_incident=21.0, tries_backoff=1)
    assert choice(STAMINA, early) is A.BACKOFF
    assert choice(STAMINA, late) is A.CONTINUE


def test_tenacity_never_stops_and_never_waits():
    made, seconds, out = library_run("tenacity", ValueError("x"), calls_at_most=300)
    assert (made, seconds, out) == (301, 0.0, "capped")
    assert choice(TENACITY, facts(left=1, tries_retry=7, run_repeat=1.0)) is A.RETRY


@pytest.mark.parametrize("name", ["stamina", "langgraph", "langchain"])
def test_mean_waits_match_the_libraries_own_schedules(name):
    selector, totals = RIVALS[name], []
    for seed in range(40):
        clock = VirtualClock()
        library = rival(name)

        def fail():
            raise http_error(503)

        with (
            borrowed_time(library.modules(), clock, Random(seed)),
            pytest.raises(Exception),  # noqa: B017, PT011
        ):
            library.attempt(fail)
        totals.append(clock.monotonic())
    planned = sum(
        float(selector.wait_s(facts(tries_backoff=n))[0]) for n in range(selector.retries)
    )
    assert np.mean(totals) == pytest.approx(planned, rel=0.1)


def test_langchain_hands_the_text_to_the_model_after_three_calls():
    made, _, out = library_run("langchain", KeyError("x"))
    assert (made, out) == (3, "ToolErrorText")
    for kind in KINDS:
        assert choice(LANGCHAIN, facts(kind)) is A.BACKOFF
        assert choice(LANGCHAIN, facts(kind, tries_backoff=2)) is A.CONTINUE


def test_a_new_call_of_the_agent_has_a_new_retry_budget():
    assert choice(LANGCHAIN, facts(tries_backoff=2, tries_continue=1, left=5)) is A.BACKOFF
    assert choice(LANGCHAIN, facts(tries_backoff=4, tries_continue=1, left=3)) is A.CONTINUE


@pytest.mark.parametrize("selector", RIVALS.values(), ids=lambda s: s.name)
def test_common_caps_stop_every_selector(selector):
    assert choice(selector, facts(left=0)) is A.ESCALATE
    assert choice(selector, facts(deadline=0.0)) is A.ESCALATE


@pytest.mark.parametrize("name", LIBRARIES)
def test_libraries_repeat_a_write_that_may_have_happened_and_say_so(name):
    column = facts(K.NETWORK, effects_read=0.0, effects_write=1.0)
    column[FACTS["effect_state.maybe"]] = 1.0
    selector = RIVALS[name]
    chosen = choice(selector, column)
    assert chosen in (A.RETRY, A.BACKOFF)
    assert not legal_mask(column)[0, chosen]
    assert selector.ignores_mask


def test_a_soft_failure_is_none_to_a_library():
    for name in LIBRARIES:
        assert choice(RIVALS[name], facts(K.SCHEMA_MISMATCH, sign_soft=1.0)) is A.CONTINUE


def test_doing_nothing_stays_within_the_mask():
    assert choice(AGENT_ALONE, facts()) is A.CONTINUE
    assert choice(GIVE_UP, facts()) is A.ESCALATE
    assert not AGENT_ALONE.ignores_mask
    closed = facts(K.UNSAFE_OUTPUT)
    assert choice(AGENT_ALONE, closed) is A.ESCALATE


def test_many_rows_are_decided_as_one_by_one():
    columns = np.concatenate(
        [facts(kind, tries_backoff=n) for kind in KINDS for n in range(3)], axis=1
    )
    mask = legal_mask(columns)
    observation = np.zeros((columns.shape[1], N_SLOTS), np.float32)
    for selector in RIVALS.values():
        together = selector.probabilities(columns, observation, mask)
        singly = [
            selector.probabilities(columns[:, [i]], observation[[i]], mask[[i]])[0]
            for i in range(columns.shape[1])
        ]
        np.testing.assert_array_equal(together, singly)
    assert len(KIND_INDEX) == len(KINDS)
