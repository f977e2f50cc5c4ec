"""Each repair, on sync and async tools."""

import asyncio
import itertools
import logging
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from selfheal_rl import Fallback, Healer, HealingFailed, ToolSpec, incident
from selfheal_rl.core.values import ConfigError, Outcome, RepairAction, Verdict

A = RepairAction


class Order(BaseModel):
    sku: str
    quantity: int
    note: str = "none"


class Flaky:
    """Fails with each of the given errors in turn, then returns its arguments."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.calls: list[tuple[Any, ...]] = []

    def __call__(self, *args: Any) -> Any:
        self.calls.append(args)
        if len(self.calls) <= len(self.errors):
            raise self.errors[len(self.calls) - 1]
        return args


def tool_of(healer: Healer, flaky: Flaky, is_async: bool, **options: Any) -> Any:
    async def atool(*args: Any) -> Any:
        await asyncio.sleep(0)
        return flaky(*args)

    def stool(*args: Any) -> Any:
        return flaky(*args)

    return healer.tool(atool if is_async else stool, name="tool", **options)


both = pytest.mark.parametrize("is_async", [False, True])


@both
def test_retry_sends_the_same_call_at_once(kit: Any, clock: Any, is_async: bool) -> None:
    flaky = Flaky(ConnectionRefusedError())
    tool = tool_of(Healer(kit.Chooser(A.RETRY), clock=clock), flaky, is_async, effects="read")
    assert kit.call(tool, 1, "x") == (1, "x")
    assert flaky.calls == [(1, "x"), (1, "x")]
    assert clock.monotonic() == 0


@both
def test_backoff_grows_and_honours_retry_after(kit: Any, clock: Any, is_async: bool) -> None:
    flaky = Flaky(*(kit.HttpError(503) for _ in range(3)), kit.HttpError(429, {"retry-after": "9"}))
    tool = tool_of(Healer(kit.Chooser(A.BACKOFF), clock=clock), flaky, is_async, effects="read")
    times: list[float] = []
    flaky_call = flaky.__call__

    def note(*args: Any) -> Any:
        times.append(clock.monotonic())
        return flaky_call(*args)

    flaky_class = type("Noting", (Flaky,), {"__call__": lambda self, *a: note(*a)})
    flaky.__class__ = flaky_class
    kit.call(tool)
    waits = [b - a for a, b in itertools.pairwise(times)]
    for n, wait in enumerate(waits[:3]):
        assert 0.75 * 2**n - 1e-4 <= wait <= 2**n + 1e-4
    assert waits[3] >= 9.0


@both
def test_continue_hands_back_the_agents_own_error(kit: Any, clock: Any, is_async: bool) -> None:
    error = ValueError("bad")
    flaky = Flaky(error)
    healer = Healer(kit.Chooser(A.CONTINUE), clock=clock)
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        kit.call(tool_of(healer, flaky, is_async, effects="write"))
    assert caught.value is error
    found = incident(error)
    assert found is not None
    assert found.verdict is Verdict.HANDED_BACK
    assert len(flaky.calls) == 1


@both
def test_fallback_marks_staleness_and_is_preferred_for_its_cooldown(
    kit: Any, clock: Any, is_async: bool
) -> None:
    flaky = Flaky(TimeoutError(), TimeoutError())
    cached = Fallback(lambda *a: "cached", equivalence="stale", max_age_s=60.0, cooldown_s=10.0)
    healer = Healer(kit.Chooser(A.FALLBACK_TOOL), permission=2, clock=clock)
    tool = tool_of(healer, flaky, is_async, effects="read", fallbacks=[cached])

    async def run() -> list[Any]:
        infos = []
        for _ in range(2):
            result = tool() if not is_async else await tool()
            infos.append((result, healer.result_info(result)))
        return infos

    (first, info), (second, later) = asyncio.run(run())
    assert first == second == "cached"
    assert info is not None
    assert (info.equivalence, info.max_age_s, info.action) == ("stale", 60.0, "fallback_tool")
    assert later is not None
    assert later.equivalence == "stale"
    assert len(flaky.calls) == 1  # the second call went straight to the fallback
    clock.advance(11.0)
    assert kit.call(tool) == "cached"  # half open: the tool itself was tried, and failed again
    assert len(flaky.calls) == 2
    clock.advance(11.0)
    assert kit.call(tool) == ()  # it is back
    assert kit.call(tool) == ()
    assert len(flaky.calls) == 4


def test_a_failing_preferred_fallback_gives_way_to_the_tool(kit: Any, clock: Any) -> None:
    answers = ["cached", TimeoutError()]

    def cached() -> str:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    flaky = Flaky(TimeoutError())
    healer = Healer(kit.Chooser(A.FALLBACK_TOOL), permission=2, clock=clock)
    tool = tool_of(healer, flaky, False, effects="read", fallbacks=[Fallback(cached)])
    assert tool() == "cached"
    assert tool() == ()


@both
def test_reset_calls_the_hook_then_the_tool(kit: Any, clock: Any, is_async: bool) -> None:
    order: list[str] = []
    flaky = Flaky(kit.HttpError(401))
    healer = Healer(kit.Chooser(A.RESET_COMPONENT), permission=2, clock=clock)
    hook = lambda: order.append(f"reset after {len(flaky.calls)}")  # noqa: E731
    assert kit.call(tool_of(healer, flaky, is_async, effects="read", reset=hook)) == ()
    assert order == ["reset after 1"]


def test_a_failing_reset_hook_does_not_send_the_call(kit: Any, clock: Any) -> None:
    def hook() -> None:
        raise OSError("no way")

    error = kit.HttpError(401)
    flaky = Flaky(error)
    healer = Healer(kit.Chooser(A.RESET_COMPONENT, A.ESCALATE), permission=2, clock=clock)
    with pytest.raises(kit.HttpError) as caught:
        tool_of(healer, flaky, False, effects="read", reset=hook)()
    assert caught.value is error
    assert len(flaky.calls) == 1
    found = incident(error)
    assert found is not None
    assert "no way" in found.attempts[0].note


@both
def test_degrade_returns_the_builders_result(kit: Any, clock: Any, is_async: bool) -> None:
    healer = Healer(kit.Chooser(A.DEGRADE), clock=clock)
    flaky = Flaky(TimeoutError())
    tool = tool_of(healer, flaky, is_async, effects="read", degrade=lambda x: ("partial", x))
    assert kit.call(tool, 5) == ("partial", 5)


def test_degrade_whose_builder_fails_surfaces_the_error(kit: Any, clock: Any) -> None:
    healer = Healer(kit.Chooser(A.DEGRADE), clock=clock)
    error = TimeoutError()
    tool = tool_of(healer, Flaky(error), False, effects="read", degrade=lambda: 1 / 0)
    with pytest.raises(TimeoutError) as caught:
        tool()
    assert caught.value is error


@both
def test_escalate_raises_the_same_object(kit: Any, clock: Any, is_async: bool) -> None:
    error = TimeoutError("late")
    healer = Healer(kit.Chooser(A.ESCALATE), clock=clock)
    with pytest.raises(TimeoutError) as caught:
        kit.call(tool_of(healer, Flaky(error), is_async, effects="read"))
    assert caught.value is error
    assert error.__cause__ is None
    assert error.__context__ is None


def test_the_first_error_is_raised_when_a_repair_fails_otherwise(kit: Any, clock: Any) -> None:
    first, second = TimeoutError("late"), kit.HttpError(500)
    healer = Healer(kit.Chooser(A.RETRY, A.ESCALATE), clock=clock)
    with pytest.raises(TimeoutError) as caught:
        tool_of(healer, Flaky(first, second), False, effects="read")()
    assert caught.value is first
    assert "HTTP 500" in first.__notes__[0]


def test_healing_failed_on_request(kit: Any, clock: Any) -> None:
    error = TimeoutError("late")
    healer = Healer(kit.Chooser(A.ESCALATE), clock=clock, raise_healing_failed=True)
    with pytest.raises(HealingFailed) as caught:
        tool_of(healer, Flaky(error), False, effects="read")()
    assert caught.value.__cause__ is error
    assert incident(caught.value) is not None


@both
def test_fix_arguments_coerces_and_reports(kit: Any, clock: Any, is_async: bool) -> None:
    healer = Healer(permission=2, clock=clock)
    got: list[Any] = []

    def body(quantity: int, unit: str) -> int:
        got.append((quantity, unit))
        if not isinstance(quantity, int):
            raise TypeError("invalid argument: quantity must be an integer")
        if unit not in ("kilogram", "litre"):
            raise ValueError(f"invalid argument: unit must be one of kilogram, litre, got {unit}")
        return quantity

    def stool(quantity: int, unit: Literal["kilogram", "litre"]) -> int:
        return body(quantity, unit)

    async def atool(quantity: int, unit: Literal["kilogram", "litre"]) -> int:
        return body(quantity, unit)

    tool = healer.tool(atool if is_async else stool, effects="read")

    async def run() -> tuple[Any, Any]:
        result = tool("250", unit="kilograms")
        result = await result if is_async else result
        return result, healer.result_info(result)

    result, info = asyncio.run(run())
    assert result == 250
    assert got[-1] == (250, "kilogram")
    assert info is not None
    assert len(info.changes) == 2
    assert "250" in info.changes[0]


def test_level_one_does_not_fix_arguments(clock: Any) -> None:
    healer = Healer(clock=clock)

    @healer.tool(effects="read")
    def count(quantity: int) -> int:
        if not isinstance(quantity, int):
            raise TypeError("invalid argument: quantity must be an integer")
        return quantity

    with pytest.raises(TypeError):
        count("3")


@both
def test_repair_output_keeps_the_type_and_lists_fields(
    kit: Any, clock: Any, is_async: bool
) -> None:
    healer = Healer(kit.Chooser(A.REPAIR_OUTPUT), permission=2, clock=clock)
    text = 'Here you are:\n```json\n{"sku": "a-1", "quantity": 2}\n```\nAnything else?'

    async def atool() -> str:
        return text

    tool = healer.tool(
        atool if is_async else (lambda: text), name="tool", effects="read", returns=Order
    )

    async def run() -> tuple[Any, Any]:
        result = await tool() if is_async else tool()
        return result, healer.result_info(result)

    result, info = asyncio.run(run())
    assert isinstance(result, str)
    assert Order.model_validate_json(result).quantity == 2
    assert info is not None
    assert info.verified
    assert info.repaired_fields[0] == "$"


def test_a_result_that_fits_is_returned_untouched(clock: Any) -> None:
    healer = Healer(permission=2, clock=clock)
    value = {"sku": "a", "quantity": 1}
    tool = healer.tool(lambda: value, name="tool", effects="read", returns=Order)
    assert tool() is value
    assert healer.last_incident() is None or healer.health()["incidents"] == 0


def test_continue_on_a_refused_result_accepts_it(kit: Any, clock: Any) -> None:
    value = {"sku": "a"}
    healer = Healer(kit.Chooser(A.CONTINUE), clock=clock)
    tool = healer.tool(lambda: value, name="tool", effects="read", returns=Order)
    assert tool() is value
    found = healer.last_incident()
    assert found is not None
    assert found.verdict is Verdict.HANDED_BACK
    assert found.snapshot.is_soft


def test_error_results_are_opt_in_and_come_back_as_they_are(kit: Any, clock: Any) -> None:
    answers = [{"error": "rate limit exceeded"}, {"error": "rate limit exceeded"}, {"rows": 1}]

    def query() -> dict[str, Any]:
        return answers[min(len(seen), 2)] if not seen.append(1) else {}  # type: ignore[func-returns-value]

    seen: list[int] = []
    healer = Healer(kit.Chooser(A.ESCALATE), clock=clock)
    assert healer.tool(query, effects="read")() == answers[1]
    assert healer.health()["incidents"] == 0
    seen.clear()
    strict = healer.tool(query, effects="read", error_in_result=True)
    assert strict() is answers[1]
    found = healer.last_incident()
    assert found is not None
    assert found.verdict is Verdict.ESCALATED
    seen.clear()
    retrying = Healer(kit.Chooser(A.RETRY), clock=clock)
    assert retrying.tool(query, effects="read", error_in_result=True)() == {"rows": 1}


def test_detectors_are_opt_in(kit: Any, clock: Any) -> None:
    answers = ["", "", "text"]
    healer = Healer(kit.Chooser(A.RETRY), clock=clock)
    plain = healer.tool(lambda: answers[0], name="plain", effects="read")
    assert plain() == ""
    asked: list[int] = []

    def ask() -> str:
        asked.append(1)
        return answers[len(asked) - 1]

    assert healer.tool(ask, effects="read", detectors=True)() == "text"


def test_a_broken_detector_costs_nothing(clock: Any) -> None:
    healer = Healer(clock=clock)
    tool = healer.tool(lambda: 5, name="tool", effects="read", detectors=lambda v: v.nope)
    assert tool() == 5
    assert healer.health()["status"] == "degraded"


def test_an_absent_capability_is_masked_not_stubbed(kit: Any, clock: Any) -> None:
    healer = Healer(kit.Chooser(A.ESCALATE), permission=3, clock=clock)
    error = TimeoutError()
    with pytest.raises(TimeoutError):
        tool_of(healer, Flaky(error), False, effects="read")()
    found = incident(error)
    assert found is not None
    mask = found.attempts[0].decision.mask
    open_ = {action for action in A if mask[action]}
    assert open_ == {A.CONTINUE, A.RETRY, A.BACKOFF, A.ESCALATE}


def test_a_healed_call_warns_in_the_log(
    kit: Any, clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    healer = Healer(kit.Chooser(A.RETRY), clock=clock)
    with caplog.at_level(logging.WARNING, logger="selfheal_rl"):
        tool_of(healer, Flaky(TimeoutError()), False, effects="read")()
    assert "healed by retry" in caplog.text
    found = healer.last_incident()
    assert found is not None
    assert found.attempts[0].outcome is Outcome.HEALED


def test_effects_have_no_default() -> None:
    healer = Healer()
    with pytest.raises(ConfigError, match="effects are not declared"):
        healer.tool(lambda: 1, name="tool")
    with pytest.raises(ConfigError, match="idempotent_write"):
        healer.tool(lambda: 1, name="tool", effects="reads")
    with pytest.raises(ConfigError, match="did you mean 'fallbacks'"):
        healer.tool(lambda: 1, name="tool", effects="read", fallback=[])
    with pytest.raises(ConfigError, match="cannot be stopped"):
        healer.tool(lambda: 1, name="tool", effects="read", timeout_s=1.0)


def test_timeout_cancels_an_async_call(kit: Any) -> None:
    healer = Healer(kit.Chooser(A.ESCALATE))

    @healer.tool(effects="read", timeout_s=0.01)
    async def slow() -> None:
        await asyncio.sleep(30)

    with pytest.raises(TimeoutError) as caught:
        asyncio.run(slow())
    found = incident(caught.value)
    assert found is not None
    assert found.snapshot.status == "timed_out"


@both
def test_call_heals_a_function_that_is_not_decorated(kit: Any, clock: Any, is_async: bool) -> None:
    healer = Healer(kit.Chooser(A.RETRY), clock=clock)
    flaky = Flaky(TimeoutError())

    async def atool(x: int) -> Any:
        return flaky(x)

    def stool(x: int) -> Any:
        return flaky(x)

    spec = ToolSpec(effects="read")
    result = healer.call(atool if is_async else stool, 3, tool=spec)
    assert (asyncio.run(result) if is_async else result) == (3,)


@both
def test_a_block_is_run_again(kit: Any, clock: Any, is_async: bool) -> None:
    healer = Healer(kit.Chooser(A.BACKOFF), clock=clock)
    runs: list[int] = []

    def body(attempt: Any) -> None:
        with attempt:
            runs.append(attempt.number)
            if len(runs) < 3:
                raise TimeoutError

    async def arun() -> None:
        async for attempt in healer.attempts(effects="read"):
            body(attempt)

    if is_async:
        asyncio.run(arun())
    else:
        for attempt in healer.attempts(effects="read"):
            body(attempt)
    assert runs == [1, 2, 3]
    assert clock.monotonic() > 0


def test_a_block_that_stays_broken_raises_its_own_error(kit: Any, clock: Any) -> None:
    healer = Healer(kit.Chooser(A.RETRY, A.RETRY, A.ESCALATE), clock=clock)
    errors: list[Exception] = []
    with pytest.raises(TimeoutError) as caught:  # noqa: PT012
        for attempt in healer.attempts(effects="read"):
            with attempt:
                errors.append(TimeoutError())
                raise errors[-1]
    assert caught.value is errors[0]
    assert len(errors) == 3
    with pytest.raises(ConfigError, match="fallbacks"):
        healer.attempts(effects="read", fallbacks=[])


def test_a_misspelt_keyword_never_reached_the_tool_and_is_renamed(clock: Any) -> None:
    healer = Healer(permission=2, clock=clock)
    seen: list[int] = []

    @healer.tool(effects="write")
    def reserve(quantity: int) -> int:
        seen.append(quantity)
        return quantity

    assert reserve(quantiti="4") == 4
    assert seen == [4]
    found = healer.last_incident()
    assert found is not None
    assert found.diagnosis.effect_state == "not_started"
