"""What must hold whatever a selector does and however a tool fails."""

import asyncio
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selfheal_rl import Budget, Fallback, Healer, incident
from selfheal_rl.core.situation import MAX_DECISIONS_INCIDENT
from selfheal_rl.core.values import N_ACTIONS, TERMINAL, RepairAction, VirtualClock

# What a failing call raises, and whether its effect was in place by then.
LOST_REPLY = ("timeout", "reset", "http500", "http503", "odd")
NEVER_RAN = ("refused", "http429", "http401")


class Wild:
    """Answers with anything: legal or not, distributions or not, exceptions."""

    name = "wild"

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def probabilities(self, facts: Any, observation: Any, mask: Any) -> Any:
        kind = self.rng.integers(8)
        if kind == 0:
            raise ValueError("the selector is broken")
        if kind == 1:
            return np.full((1, N_ACTIONS), np.nan)
        if kind == 2:
            return np.full((1, N_ACTIONS), 1.0 / N_ACTIONS)  # weight on illegal actions too
        if kind == 3:
            return np.zeros((2, 3))
        weights = self.rng.random((1, N_ACTIONS)) ** 4 * mask
        if kind > 5:
            weights[0, sorted(TERMINAL)] *= 1e-9  # goes on as long as it may
        return weights / weights.sum()


class CountingTool:
    """Fails as scripted, then succeeds; counts how often its effect really took place."""

    def __init__(self, kit: Any, script: list[str]) -> None:
        self.kit, self.script = kit, list(script)
        self.applied = self.calls = 0
        self.first: BaseException | None = None

    def run(self) -> str:
        self.calls += 1
        name = self.script.pop(0) if self.script else "ok"
        if name not in NEVER_RAN:
            self.applied += 1
        if name == "ok":
            return "done"
        error = self._error(name)
        self.first = self.first or error
        raise error

    def _error(self, name: str) -> Exception:
        if name.startswith("http"):
            return self.kit.HttpError(int(name[4:]))
        return {
            "timeout": TimeoutError("timed out waiting for the reply"),
            "reset": ConnectionResetError("connection reset by peer"),
            "refused": ConnectionRefusedError("connection refused"),
            "odd": RuntimeError("something odd"),
        }[name]


scripts = st.lists(st.sampled_from(LOST_REPLY + NEVER_RAN), min_size=1, max_size=12)


def heal_once(
    healer: Healer, tool: CountingTool, is_async: bool, **options: Any
) -> BaseException | str:
    if is_async:

        @healer.tool(name="tool", **options)
        async def atool() -> str:
            await asyncio.sleep(0)
            return tool.run()

        runner: Any = lambda: asyncio.run(atool())  # noqa: E731
    else:
        runner = healer.tool(lambda: tool.run(), name="tool", **options)
    try:
        return str(runner())
    except Exception as error:
        return error


@settings(max_examples=150)
@given(
    script=scripts,
    seed=st.integers(0, 10_000),
    is_async=st.booleans(),
    effects=st.sampled_from(["write", "unknown"]),
    permission=st.integers(1, 3),
)
def test_a_write_that_may_have_happened_is_not_repeated(
    script: list[str], seed: int, is_async: bool, effects: str, permission: int
) -> None:
    from types import SimpleNamespace

    tool = CountingTool(SimpleNamespace(HttpError=_http_error()), script)
    healer = Healer(Wild(seed), permission=permission, clock=VirtualClock(), seed=seed)
    heal_once(
        healer,
        tool,
        is_async,
        effects=effects,
        fallbacks=[Fallback(_sync_or_async(tool, is_async))],
        reset=lambda: None,
    )
    assert tool.applied <= 1


def _http_error() -> Any:
    from types import SimpleNamespace

    class HttpError(Exception):
        def __init__(self, status: int) -> None:
            super().__init__(f"Server answered HTTP {status}")
            self.response = SimpleNamespace(status_code=status, headers={}, text="")

    return HttpError


def _sync_or_async(tool: CountingTool, is_async: bool) -> Any:
    async def second() -> str:
        return tool.run()

    return second if is_async else (lambda: tool.run())


@settings(max_examples=150)
@given(
    script=st.lists(st.sampled_from(LOST_REPLY + NEVER_RAN), min_size=1, max_size=40),
    seed=st.integers(0, 10_000),
    is_async=st.booleans(),
    effects=st.sampled_from(["read", "idempotent_write", "write"]),
    explore=st.sampled_from([0.0, 0.5]),
)
def test_every_incident_ends_inside_the_mask_with_the_agents_own_error(
    script: list[str], seed: int, is_async: bool, effects: str, explore: float
) -> None:
    from types import SimpleNamespace

    tool = CountingTool(SimpleNamespace(HttpError=_http_error()), script)
    healer = Healer(
        Wild(seed), permission=3, clock=VirtualClock(), seed=seed, explore=explore, sample=True
    )
    result = heal_once(
        healer,
        tool,
        is_async,
        effects=effects,
        idempotency_key=lambda: "k-1",
        fallbacks=[Fallback(_sync_or_async(tool, is_async), same_store=True)],
        reset=lambda: None,
    )
    record = healer.last_incident() if not is_async else None
    if isinstance(result, BaseException):
        assert result is tool.first
        record = incident(result)
        assert record is not None
        assert any("selfheal" in note for note in result.__notes__)
    if record is not None:
        assert len(record.attempts) <= MAX_DECISIONS_INCIDENT
        for attempt in record.attempts:
            decision = attempt.decision
            assert decision.mask[decision.action]
            assert decision.probabilities[decision.action] == pytest.approx(decision.propensity)
            assert sum(decision.probabilities) == pytest.approx(1.0)
    assert tool.calls <= MAX_DECISIONS_INCIDENT + 1


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_other_base_exceptions_are_never_intercepted(stop: Any, is_async: bool) -> None:
    healer = Healer(clock=VirtualClock())
    calls = []

    def fail() -> None:
        calls.append(1)
        raise stop

    async def afail() -> None:
        fail()

    wrapped: Any = healer.tool(afail if is_async else fail, effects="read")
    # The coroutine is driven by hand: asyncio itself treats these exceptions specially.
    run = (lambda: wrapped().send(None)) if is_async else wrapped
    with pytest.raises(stop):
        run()
    assert len(calls) == 1
    assert healer.health()["incidents"] == 0


def test_a_repeated_write_needs_the_key_of_the_same_call(kit: Any, clock: VirtualClock) -> None:
    sent = []
    healer = Healer(kit.Chooser(RepairAction.RETRY), clock=clock)

    @healer.tool(effects="write", idempotency_key=lambda order: f"order-{order}")
    def place(order: int) -> str:
        sent.append(order)
        if len(sent) == 1:
            raise TimeoutError("no reply")
        return "placed"

    assert place(7) == "placed"
    assert sent == [7, 7]

    bare = Healer(kit.Chooser(RepairAction.RETRY), clock=clock)
    sent.clear()
    with pytest.raises(TimeoutError) as caught:
        bare.tool(place.__wrapped__, effects="write")(8)
    assert sent == [8]
    assert "may have taken effect" in caught.value.__notes__[0]


def test_a_key_that_changes_with_the_arguments_does_not_open_fix_arguments(
    kit: Any, clock: VirtualClock
) -> None:
    sent = []
    healer = Healer(kit.Chooser(RepairAction.FIX_ARGUMENTS), permission=2, clock=clock)

    @healer.tool(effects="write", idempotency_key=lambda quantity: f"q-{quantity!r}")
    def reserve(quantity: int) -> None:
        sent.append(quantity)
        raise TimeoutError("no reply")

    with pytest.raises(TimeoutError):
        reserve("3")
    assert "3" in sent
    assert 3 not in sent


def test_a_fallback_of_another_store_is_closed_once_a_write_may_have_happened(
    kit: Any, clock: VirtualClock
) -> None:
    other = []
    healer = Healer(kit.Chooser(RepairAction.FALLBACK_TOOL), permission=2, clock=clock)

    def second(text: str) -> str:
        other.append(text)
        return "sent"

    def first(text: str) -> str:
        raise TimeoutError("no reply")

    keyed = {"effects": "write", "idempotency_key": lambda text: text}
    with pytest.raises(TimeoutError):
        healer.tool(first, **keyed, fallbacks=[Fallback(second)])("hi")
    assert other == []
    same = Healer(kit.Chooser(RepairAction.FALLBACK_TOOL), permission=2, clock=clock)
    shared = [Fallback(second, same_store=True)]
    assert same.tool(first, **keyed, fallbacks=shared)("hi") == "sent"


def test_concurrent_calls_do_not_share_an_incident(kit: Any, clock: VirtualClock) -> None:
    # One call's harmless failure must not open repeats of another whose effect is in doubt.
    applied: list[str] = []
    healer = Healer(kit.Chooser(RepairAction.RETRY), clock=clock)

    @healer.tool(effects="write")
    async def write(name: str) -> str:
        await asyncio.sleep(0)
        if name == "doubt":
            applied.append(name)
            raise TimeoutError("no reply")
        raise ConnectionRefusedError("refused")

    async def main() -> None:
        async with healer.task("t"):
            await asyncio.gather(
                *(write(n) for n in ("doubt", "refused", "refused")), return_exceptions=True
            )

    asyncio.run(main())
    assert applied == ["doubt"]


def test_the_budget_bounds_attempts(kit: Any, clock: VirtualClock) -> None:
    healer = Healer(kit.Chooser(RepairAction.BACKOFF), clock=clock, budget=Budget(attempts=3))
    calls = []

    @healer.tool(effects="read")
    def fail() -> None:
        calls.append(1)
        raise TimeoutError

    with pytest.raises(TimeoutError) as caught:
        fail()
    assert len(calls) == 4
    found = incident(caught.value)
    assert found is not None
    assert found.verdict == "exhausted"


def test_no_wait_passes_the_deadline(kit: Any, clock: VirtualClock) -> None:
    healer = Healer(kit.Chooser(RepairAction.BACKOFF), clock=clock)

    @healer.tool(effects="read")
    def limited() -> None:
        raise kit.HttpError(429, {"retry-after": "120"})

    before = clock.monotonic()
    with healer.task("t", deadline_s=60), pytest.raises(kit.HttpError):
        limited()
    assert clock.monotonic() == before
    with healer.task("u", deadline_s=600), pytest.raises(kit.HttpError):
        limited()
    assert clock.monotonic() - before >= 120
