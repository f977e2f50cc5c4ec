"""Tasks: budgets, continuation, journal, and the facts that a policy sees."""

import asyncio
import json
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from selfheal_rl import Budget, Healer, incident
from selfheal_rl.core.situation import FACTS, facts_of
from selfheal_rl.core.values import (
    ConfigError,
    JournalError,
    Outcome,
    RepairAction,
    Verdict,
    VirtualClock,
)
from selfheal_rl.runtime.journal import Journal, NullJournal

A = RepairAction


class Scripted:
    """Raises what the script says, then returns."""

    def __init__(self, *script: Exception | None) -> None:
        self.script = list(script)
        self.calls = 0

    def __call__(self) -> str:
        self.calls += 1
        error = self.script.pop(0) if self.script else None
        if error is not None:
            raise error
        return "ok"


def attempt_call(tool: Any) -> Exception | str:
    try:
        return str(tool())
    except Exception as error:
        return error


def test_a_handed_back_incident_goes_on_when_the_agent_repeats_the_call(
    kit: Any, clock: VirtualClock
) -> None:
    healer = Healer(kit.Chooser(A.CONTINUE), clock=clock)
    tool = healer.tool(
        Scripted(*(TimeoutError(str(i)) for i in range(3))), name="t", effects="read"
    )
    with healer.task("task"):
        records = []
        for _ in range(3):
            error = attempt_call(tool)
            assert isinstance(error, TimeoutError)
            records.append(incident(error))
        first, second, third = records
        assert first is not None
        assert second is not None
        assert third is not None
        assert first.id == second.id == third.id
        assert [len(r.attempts) for r in (first, second, third)] == [1, 2, 3]
        assert third.failures[-1].snapshot.budget.attempts == 6
        assert third.failures[-1].snapshot.health.consecutive_failures == 3
        assert facts_of(third)[FACTS["tries.continue"], 0] == 3
        assert attempt_call(tool) == "ok"


def test_success_closes_the_incident_and_the_journal_says_healed(
    kit: Any, clock: VirtualClock, tmp_path: Path
) -> None:
    path = tmp_path / "journal.db"
    healer = Healer(kit.Chooser(A.CONTINUE), clock=clock, journal=path)
    scripted = Scripted(TimeoutError("1"), None, TimeoutError("2"))
    tool = healer.tool(scripted, name="t", effects="read")
    with healer.task("task", goal="buy tea") as task:
        attempt_call(tool)
        assert attempt_call(tool) == "ok"
        attempt_call(tool)
        task.finish(success=True, quality=0.5)
    healer.close()
    with Journal.open(path, read_only=True) as journal:
        found = {i.id: i for i in journal.incidents()}
        assert sorted(i.verdict for i in found.values()) == ["handed_back", "healed"]
        healed = next(i for i in found.values() if i.verdict is Verdict.HEALED)
        attempt = journal.incident(healed.id).attempts[0]
        assert attempt.decision.action is A.CONTINUE
        assert attempt.outcome is Outcome.FAILED
    row = sqlite3.connect(path).execute("select success, quality, goal from tasks").fetchone()
    assert row == (1, 0.5, "buy tea")


def test_a_task_that_never_reports_is_unknown(clock: VirtualClock, tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    healer = Healer(clock=clock, journal=path)

    async def main() -> None:
        async with healer.task("a"):
            pass

    asyncio.run(main())
    with healer.task("b"):
        pass
    healer.close()
    rows = sqlite3.connect(path).execute("select task_id, success, ended from tasks").fetchall()
    assert [(name, success) for name, success, _ in sorted(rows)] == [("a", None), ("b", None)]
    assert all(ended is not None for *_, ended in rows)


def test_attempts_of_failed_incidents_count_until_the_tool_succeeds(
    kit: Any, clock: VirtualClock
) -> None:
    # Otherwise an agent that calls again and again buys itself eight attempts each time.
    healer = Healer(kit.Chooser(A.BACKOFF), clock=clock, budget=Budget(attempts=3))
    scripted = Scripted(*(TimeoutError() for _ in range(50)))
    tool = healer.tool(scripted, name="t", effects="read")
    with healer.task("task"):
        assert isinstance(attempt_call(tool), TimeoutError)
        assert scripted.calls == 4
        again = attempt_call(tool)
        assert scripted.calls == 5
        assert isinstance(again, TimeoutError)
        found = incident(again)
        assert found is not None
        assert found.verdict is Verdict.EXHAUSTED
        assert found.snapshot.task_failures == 1
        scripted.script.clear()
        assert attempt_call(tool) == "ok"
        scripted.script = [TimeoutError(), None]
        assert attempt_call(tool) == "ok"


def test_a_task_has_24_attempts(kit: Any, clock: VirtualClock) -> None:
    healer = Healer(kit.Chooser(A.BACKOFF), clock=clock)
    calls = 0

    def fail() -> None:
        nonlocal calls
        calls += 1
        raise TimeoutError

    with healer.task("task", deadline_s=1e6):
        for n in range(5):
            attempt_call(healer.tool(fail, name=f"tool-{n}", effects="read"))
    assert calls == 24 + 5


def test_outside_a_task_the_incident_is_an_orphan(kit: Any, clock: VirtualClock) -> None:
    healer = Healer(kit.Chooser(A.CONTINUE), clock=clock)
    tool = healer.tool(Scripted(TimeoutError("1"), TimeoutError("2")), name="t", effects="read")
    first, second = attempt_call(tool), attempt_call(tool)
    assert isinstance(first, TimeoutError)
    assert isinstance(second, TimeoutError)
    one, two = incident(first), incident(second)
    assert one is not None
    assert two is not None
    assert one.id != two.id
    assert facts_of(one)[FACTS["flag.orphan"], 0] == 1.0


def test_the_snapshot_carries_what_the_policy_reads(kit: Any, clock: VirtualClock) -> None:
    healer = Healer(kit.Chooser(A.ESCALATE), clock=clock, budget=Budget(tokens=1000, money=2.0))
    good = healer.tool(lambda: clock.advance(1.0), name="good", effects="read")
    bad = healer.tool(lambda: 1 / 0, name="bad", effects="write")
    worse = healer.tool(lambda: 1 / 0, name="worse", effects="write")
    with healer.task("task", goal="g", tenant="acme", deadline_s=100, n_steps=10) as task:
        task.step(4)
        task.spend(tokens=250, money=1.0)
        good()
        clock.advance(9.0)
        attempt_call(worse)
        found = incident(attempt_call(bad))  # type: ignore[arg-type]
    assert found is not None
    snapshot = found.snapshot
    assert (snapshot.tenant, snapshot.task_id, snapshot.step, snapshot.n_steps) == (
        "acme",
        "task",
        4,
        10,
    )
    assert snapshot.task_failures == 1
    assert snapshot.budget.deadline_s == pytest.approx(90.0)
    assert (snapshot.budget.tokens, snapshot.budget.money) == (0.75, 0.5)
    assert snapshot.health.failure_rate == pytest.approx(0.2)
    assert snapshot.health.since_ok_s == pytest.approx(10.0)
    assert snapshot.health.others_failing == pytest.approx(0.5)
    assert snapshot.time - (snapshot.task_started or 0.0) == pytest.approx(10.0)


def test_the_failure_rate_is_exponentially_weighted(kit: Any, clock: VirtualClock) -> None:
    healer = Healer(kit.Chooser(A.CONTINUE), clock=clock)
    script = [None, ValueError(), None, None, ValueError()]
    rate = 0.0
    tool = healer.tool(Scripted(*script), name="t", effects="write")
    with healer.task("task"):
        for outcome in script:
            result = attempt_call(tool)
            rate = 0.8 * rate + 0.2 * (outcome is not None)
            if isinstance(result, ValueError):
                found = incident(result)
                assert found is not None
                assert found.snapshot.health.failure_rate == pytest.approx(rate)
                assert found.snapshot.health.consecutive_failures == 1


def test_tasks_in_parallel_do_not_mix(kit: Any) -> None:
    healer = Healer(kit.Chooser(A.CONTINUE))
    seen: dict[str, str | None] = {}

    @healer.tool(effects="write")
    async def fail() -> None:
        await asyncio.sleep(0)
        raise ValueError

    async def one(name: str) -> None:
        async with healer.task(name):
            await asyncio.sleep(0)
            try:
                await fail()
            except ValueError as error:
                found = incident(error)
                seen[name] = found.snapshot.task_id if found else None

    async def main() -> None:
        await asyncio.gather(*(one(f"t{i}") for i in range(5)))

    asyncio.run(main())
    assert seen == {f"t{i}": f"t{i}" for i in range(5)}


def test_decisions_are_the_same_whatever_else_went_on(kit: Any) -> None:
    def play(noise: int) -> list[tuple[str, float]]:
        clock = VirtualClock()
        healer = Healer(clock=clock, seed=3, explore=0.5)
        other = healer.tool(
            Scripted(*(TimeoutError() for _ in range(noise))), name="o", effects="read"
        )
        for _ in range(noise):
            attempt_call(other)
        tool = healer.tool(Scripted(*(TimeoutError() for _ in range(30))), name="t", effects="read")
        with healer.task("task", deadline_s=1e6):
            error = attempt_call(tool)
        assert isinstance(error, TimeoutError)
        found = incident(error)
        assert found is not None
        return [(a.decision.action.slug, round(a.seconds, 3)) for a in found.attempts]

    assert play(0) == play(3)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_broken_journal_does_not_stop_healing(
    kit: Any, clock: VirtualClock, is_async: bool
) -> None:
    class FullDisk:
        def __getattr__(self, name: str) -> Any:
            def fail(*args: Any, **kwargs: Any) -> None:
                raise JournalError("the disk is full")

            return fail

    healer = Healer(kit.Chooser(A.RETRY), clock=clock, journal=FullDisk())  # type: ignore[arg-type]
    scripted = Scripted(TimeoutError())

    async def atool() -> str:
        return scripted()

    tool = healer.tool(atool if is_async else (lambda: scripted()), name="t", effects="read")

    async def main() -> None:
        async with healer.task("task"):
            assert await tool() == "ok"

    if is_async:
        asyncio.run(main())
    else:
        with healer.task("task"):
            assert tool() == "ok"
    assert healer.health()["status"] == "degraded"
    assert "disk is full" in healer.health()["reasons"][0]


def test_an_executor_with_a_bug_is_a_failed_attempt(
    kit: Any, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    from selfheal_rl.runtime.heal.actions import EXECUTORS

    def broken(call: Any) -> Any:
        raise KeyError("a bug")

    monkeypatch.setattr(EXECUTORS[A.RETRY], "run", broken)
    healer = Healer(kit.Chooser(A.RETRY, A.BACKOFF), clock=clock)
    assert healer.tool(Scripted(TimeoutError()), name="t", effects="read")() == "ok"
    assert any("executor retry" in reason for reason in healer.health()["reasons"])


def test_a_fault_in_the_loop_gives_the_agent_its_own_error(
    kit: Any, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    from selfheal_rl.runtime.heal import loop

    def broken(snapshot: Any) -> Any:
        raise RuntimeError("classifier is broken")

    monkeypatch.setattr(loop, "classify", broken)
    error = TimeoutError("mine")
    healer = Healer(kit.Chooser(A.RETRY), clock=clock)
    with pytest.raises(TimeoutError) as caught:
        healer.tool(Scripted(error), name="t", effects="read")()
    assert caught.value is error
    assert "classifier is broken" in str(healer.health()["reasons"])


def test_async_journal_writes_stay_off_the_event_loop(
    kit: Any, clock: VirtualClock, tmp_path: Path
) -> None:
    threads: set[int] = set()

    class Watching(NullJournal):
        def record_failure(self, *args: Any, **kwargs: Any) -> None:
            threads.add(threading.get_ident())

        def record_task_start(self, *args: Any, **kwargs: Any) -> None:
            threads.add(threading.get_ident())

    class Watcher:
        """Not a NullJournal, so that it is written to."""

        def __init__(self) -> None:
            self._inner = Watching()

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

    healer = Healer(kit.Chooser(A.RETRY), clock=clock, journal=Watcher())  # type: ignore[arg-type]
    scripted = Scripted(TimeoutError())

    @healer.tool(effects="read")
    async def tool() -> str:
        return scripted()

    async def main() -> int:
        async with healer.task("task"):
            await tool()
        return threading.get_ident()

    loop_thread = asyncio.run(main())
    assert threads
    assert loop_thread not in threads


@pytest.mark.parametrize("is_async", [False, True])
def test_an_interrupted_repair_is_recorded_as_abandoned(
    kit: Any, tmp_path: Path, is_async: bool
) -> None:
    path = tmp_path / "journal.db"

    class Interrupting(VirtualClock):
        def sleep(self, seconds: float) -> None:
            raise KeyboardInterrupt

        async def asleep(self, seconds: float) -> None:
            raise asyncio.CancelledError

    clock = Interrupting()
    journal = Journal.open(path)
    healer = Healer(kit.Chooser(A.BACKOFF), clock=clock, journal=journal)

    async def afail() -> None:
        raise TimeoutError

    def fail() -> None:
        raise TimeoutError

    tool = healer.tool(afail if is_async else fail, name="t", effects="read")
    with pytest.raises((KeyboardInterrupt, asyncio.CancelledError)):
        kit.call(tool)
    for thread in threading.enumerate():
        if thread.name == "selfheal-journal":
            thread.join()
    (found,) = journal.incidents()
    journal.close()
    assert found.verdict is Verdict.ABANDONED
    assert found.censored


def test_the_journal_holds_what_off_policy_evaluation_needs(
    kit: Any, clock: VirtualClock, tmp_path: Path
) -> None:
    path = tmp_path / "journal.db"
    healer = Healer(clock=clock, journal=path, explore=0.3, seed=1)
    with healer.task("task"):
        attempt_call(healer.tool(Scripted(TimeoutError()), name="t", effects="read"))
    healer.close()
    with Journal.open(path, read_only=True) as journal:
        logged = next(iter(journal.attempts()))
    decision = logged.attempt.decision
    assert sum(decision.probabilities) == pytest.approx(1.0, abs=1e-5)
    assert decision.propensity == pytest.approx(decision.probabilities[decision.action], abs=1e-6)
    assert decision.propensity < 1.0
    assert decision.randomisation_unit == "decision"
    assert decision.selector == "hand-ladder"
    assert decision.policy_hash
    assert decision.spec_hash
    assert decision.reasons
    assert len(decision.mask) == 17


@pytest.mark.parametrize(
    ("options", "words"),
    [({"deadline_s": 0}, "deadline_s"), ({"n_steps": 0}, "n_steps")],
)
def test_wrong_task_options_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Healer().task("t", **options)
    with pytest.raises(ConfigError, match="empty"):
        Healer().task("")
    with Healer().task("t") as task, pytest.raises(ConfigError, match="quality"):
        task.finish(success=True, quality=2.0)


def test_a_misspelt_policy_is_refused_and_a_damaged_one_gives_way_to_rules(
    clock: VirtualClock, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="hand-ladder"):
        Healer("hand-lader")
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "manifest.json").write_text(json.dumps({"name": "mine"}))
    healer = Healer(folder, clock=clock)
    assert healer.health()["status"] == "degraded"
    assert healer.tool(Scripted(TimeoutError()), name="t", effects="read")() == "ok"
