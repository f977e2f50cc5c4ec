"""Where healing takes hold, and where it only looks on."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import selfheal_rl
from selfheal_rl import Healer, ToolSpec, incident, set_active, set_testing
from selfheal_rl.core.values import ConfigError, RepairAction, VirtualClock
from selfheal_rl.runtime.heal import while_testing
from selfheal_rl.runtime.integrations import heal_functions
from selfheal_rl.runtime.journal import Journal

A = RepairAction


@pytest.fixture(autouse=True)
def _switches_back() -> Iterator[None]:
    yield
    set_active(True)
    set_testing(False)


def test_an_outer_tool_does_not_repeat_what_an_inner_one_has_tried(clock: VirtualClock) -> None:
    healer = Healer(clock=clock)
    inner_calls, outer_calls = [], []

    @healer.tool(effects="read")
    def inner() -> None:
        inner_calls.append(1)
        raise TimeoutError("down")

    @healer.tool(effects="read")
    def outer() -> None:
        outer_calls.append(1)
        inner()

    with pytest.raises(TimeoutError) as caught:
        outer()
    assert len(outer_calls) == 1
    assert len(inner_calls) > 1
    found = incident(caught.value)
    assert found is not None
    assert found.snapshot.call.tool == "inner"
    assert healer.health()["incidents"] == 1


def test_an_exception_object_that_is_raised_anew_is_healed_anew(kit: Any) -> None:
    clock = VirtualClock()
    healer = Healer(kit.Chooser(A.ESCALATE), clock=clock)
    error = TimeoutError("always the same object")

    def fail() -> None:
        raise error

    first = healer.tool(fail, name="first", effects="read")
    for _ in range(2):
        with pytest.raises(TimeoutError):
            first()
    assert healer.health()["incidents"] == 2
    clock.advance(5.0)
    with pytest.raises(TimeoutError):
        healer.tool(fail, name="second", effects="read")()
    assert healer.health()["incidents"] == 3
    assert len([note for note in error.__notes__ if "selfheal" in note]) == 1


def test_control_flow_passes_through(clock: VirtualClock) -> None:
    class InterruptError(Exception):
        """As frameworks use to suspend."""

    healer = Healer(clock=clock, pass_through=(InterruptError,))
    calls = []

    @healer.tool(effects="read")
    def ask() -> None:
        calls.append(1)
        raise InterruptError

    with pytest.raises(InterruptError) as caught:
        ask()
    assert len(calls) == 1
    assert incident(caught.value) is None


def test_healing_can_be_switched_off(clock: VirtualClock) -> None:
    healer = Healer(clock=clock)
    calls = []

    @healer.tool(effects="read")
    def fail() -> None:
        calls.append(1)
        raise TimeoutError

    set_active(False)
    with pytest.raises(TimeoutError) as caught:
        fail()
    assert len(calls) == 1
    assert incident(caught.value) is None
    set_active(True)
    with pytest.raises(TimeoutError):
        fail()
    assert len(calls) > 2


def test_the_mode_for_tests_neither_waits_nor_goes_on(kit: Any) -> None:
    clock = VirtualClock()
    healer = Healer(kit.Chooser(A.BACKOFF), clock=clock)
    calls = []

    @healer.tool(effects="read")
    def fail() -> None:
        calls.append(1)
        raise TimeoutError

    with while_testing(attempts=2), pytest.raises(TimeoutError):
        fail()
    assert len(calls) == 3
    assert clock.monotonic() == 0.0
    set_testing(True, attempts=0)
    with pytest.raises(TimeoutError):
        fail()
    assert len(calls) == 4
    with pytest.raises(ConfigError, match="attempts"):
        set_testing(True, attempts=-1)


def test_methods_and_odd_arguments_are_healed_and_journalled(
    kit: Any, clock: VirtualClock, tmp_path: Path
) -> None:
    healer = Healer(clock=clock, journal=tmp_path / "j.db")

    class Shop:
        def __init__(self) -> None:
            self.calls = 0

        @healer.tool(effects="read")
        def price(self, item: object, *, size: Any = None) -> str:
            self.calls += 1
            if self.calls == 1:
                raise TimeoutError
            return f"{self.calls}"

    assert Shop().price({1, 2}, size=lambda: 3) == "2"
    assert healer.health() == healer.health() | {"status": "ok", "reasons": []}
    healer.close()
    with Journal.open(tmp_path / "j.db", read_only=True) as journal:
        assert journal.counts()["attempts"] == 1


def test_secrets_do_not_reach_the_journal(clock: VirtualClock, tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    healer = Healer(clock=clock, journal=path)

    @healer.tool(effects="write")
    def login(user: str, password: str) -> None:
        raise ValueError(f"login failed for {user} with password={password}")

    with pytest.raises(ValueError, match="hunter2"):
        login("bob", password="hunter2-is-long")
    healer.close()
    content = b"".join(p.read_bytes() for p in tmp_path.iterdir())
    assert b"hunter2" not in content


def test_generators_are_refused() -> None:
    healer = Healer()

    def stream() -> Iterator[int]:
        yield 1

    with pytest.raises(ConfigError, match="generator"):
        healer.tool(stream, effects="read")
    with pytest.raises(ConfigError, match="expected a function"):
        healer.tool(5, effects="read")  # type: ignore[type-var]

    async def fallback() -> int:
        return 1

    with pytest.raises(ConfigError, match="nothing could await it"):
        healer.tool(lambda: 1, name="t", effects="read", fallbacks=[fallback])


def test_a_table_of_functions_is_wrapped(kit: Any, clock: VirtualClock) -> None:
    healer = Healer(kit.Chooser(A.RETRY), clock=clock)
    calls = []

    def search(query: str) -> str:
        calls.append(query)
        if len(calls) == 1:
            raise TimeoutError
        return "found"

    spec = ToolSpec(effects="read")
    table = heal_functions(healer, {"find": search}, {"find": spec})
    assert table["find"]("tea") == "found"
    found = healer.last_incident()
    assert found is not None
    assert found.snapshot.call.tool == "find"
    with pytest.raises(ConfigError, match="without a spec"):
        heal_functions(healer, {"find": search}, {})


def test_the_public_names_are_there_and_costly_ones_come_late() -> None:
    import subprocess
    import sys

    assert all(hasattr(selfheal_rl, name) for name in selfheal_rl.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        selfheal_rl.nope  # noqa: B018
    code = (
        "import sys, selfheal_rl; assert 'numpy' not in sys.modules\n"
        "from selfheal_rl import Healer; Healer()\n"
        "assert 'onnxruntime' not in sys.modules and 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
