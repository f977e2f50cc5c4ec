"""A run compares arms on the same faults, repeats exactly, and leaves nothing behind."""

import json
import tempfile
import threading
import time

import pytest

from selfheal_rl.cli.app import run as selfheal
from selfheal_rl.core.values import ConfigError, Prices, UnknownIdError, VirtualClock
from selfheal_rl.lab import ARMS, LabConfig, TaskResult, run_arms, run_lab, summarise
from selfheal_rl.lab.rivals.borrowed_time import borrowed_time
from selfheal_rl.lab.rivals.caps import Caps
from selfheal_rl.runtime.journal import Journal

pytest.importorskip("tenacity")
pytest.importorskip("stamina")
ROW = {
    "arm",
    "injector",
    "injected",
    "tasks",
    "completion",
    "utility",
    "seconds",
    "cost_per_completed",
    "disrupted",
    "escalated",
}
PLAYED = ("bare", "tenacity", "stamina", "ladder-tuned")


@pytest.fixture(scope="module")
def journal(tmp_path_factory):
    return str(tmp_path_factory.mktemp("lab") / "lab.db")


@pytest.fixture(scope="module")
def runs(journal):
    return run_arms(LabConfig(tasks=6, seeds=2, arms=PLAYED, journal=journal))


def test_every_arm_meets_faults_and_finishes_what_has_none(runs):
    for run in runs.values():
        assert sum(r.injected for r in run.results) > 0
        assert not run.troubles
        quiet = [r for r in run.results if not r.faults]
        assert quiet
        assert all(r.completed and not r.harm for r in quiet)


def test_arms_meet_the_same_tasks_and_faults(runs):
    keys = {name: [(r.seed, r.index, r.faults) for r in run.results] for name, run in runs.items()}
    assert all(key == keys["bare"] for key in keys.values())


def test_the_same_run_twice_gives_the_same_rows(runs, tmp_path):
    config = LabConfig(tasks=6, seeds=2, arms=PLAYED, journal=str(tmp_path / "again.db"))
    again = run_lab(config)
    alone = runs["bare"].results
    first = [summarise(runs[name].results, alone, config.prices) for name in PLAYED]
    for before, after in zip(first, again, strict=True):
        assert after.keys() >= ROW
        assert {key: after[key] for key in before} == before


def test_decisions_of_healer_arms_are_journaled_with_their_outcome(runs, journal):
    with Journal.open(journal, read_only=True) as opened:
        assert opened.counts()["tasks"] == len(runs["ladder-tuned"].results)
        attempts = list(opened.attempts())
    assert attempts
    assert all(a.attempt.decision.reasons for a in attempts)


def test_nothing_is_left_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = threading.active_count()
    run_arms(LabConfig(tasks=2, seeds=1, arms=("bare",)))
    assert threading.active_count() == before
    assert list(tmp_path.iterdir()) == []


def result(completed, *, harm=0, escalated=False, seconds=100.0, injected=1):
    return TaskResult(
        arm="x",
        seed=0,
        index=0,
        completed=completed,
        harm=harm,
        seconds=seconds,
        escalated=escalated,
        injected=injected,
        calls=1,
        faults=(),
        missing=(),
        end="",
    )


def test_a_row_is_what_its_tasks_add_up_to():
    alone = [result(True), result(True), result(False), result(False)]
    arm = [result(True), result(False, harm=1), result(True), result(False, escalated=True)]
    row = summarise(arm, alone, Prices())
    cost = 4 * 100 * 0.0003 + 0.5 + 5 * 0.03
    assert row["completion"] == 0.5
    assert row["utility"] == pytest.approx((2 - cost) / 4)
    assert row["cost_per_completed"] == pytest.approx(cost / 2)
    assert (row["disrupted"], row["escalated"], row["injected"]) == (1, 1, 4)
    low, high = row["intervals"]["completion"]
    assert low <= 0.5 <= high
    assert summarise([result(False)], [result(False)], Prices())["cost_per_completed"] is None


def test_a_run_without_a_fault_is_refused(monkeypatch):
    monkeypatch.setattr("selfheal_rl.lab.world.plan_faults", lambda seed, task: {})
    with pytest.raises(ConfigError, match="met no fault"):
        run_lab(LabConfig(tasks=1, seeds=1, arms=("bare",)))


def test_unknown_arms_are_refused_naming_the_nearest():
    with pytest.raises(UnknownIdError, match="did you mean 'stamina'"):
        LabConfig(arms=("stamin",))


def test_an_arm_whose_policy_is_missing_says_so():
    with pytest.raises(ConfigError, match="no-such-policy"):
        run_lab(LabConfig(tasks=1, seeds=1, arms=("policy",), policy="no-such-policy"))


def test_caps_stop_an_endless_retry_and_give_back_the_calls_own_error(room):
    caps, made = Caps(room.enter()), []

    def fail():
        made.append(1)
        raise KeyError(len(made))

    def forever(call):
        while True:
            try:
                return call()
            except Exception:
                continue

    with pytest.raises(KeyError) as raised:
        caps.run("price", fail, forever)
    assert raised.value.args == (9,)  # one call and eight repeats
    with pytest.raises(KeyError):
        caps.run("price", fail, forever)
    assert len(made) == 10  # the agent may call again, but nothing is left to repeat
    with pytest.raises(KeyError):
        caps.run("stock", fail, forever)
    assert len(made) == 19


def test_the_deadline_stops_an_endless_retry(room):
    world = room.enter()
    made = []

    def fail():
        made.append(1)
        world.clock.sleep(500)
        raise KeyError

    import tenacity

    with pytest.raises(KeyError):
        Caps(world).run("price", fail, lambda call: tenacity.retry(call)())
    assert len(made) == 2


def test_borrowed_time_is_given_back():
    import random

    import tenacity.nap

    clock = VirtualClock()
    with borrowed_time((tenacity, tenacity.nap), clock, random.Random(0)):
        tenacity.nap.sleep(1000)
        assert tenacity.nap.time is not time
    assert clock.monotonic() == 1000
    assert tenacity.nap.time is time
    assert tenacity.time is time


def test_the_command_prints_rows_or_a_table(capsys):
    options = ["lab", "--tasks", "3", "--seeds", "1", "--arms", "bare,tenacity"]
    assert selfheal([*options, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["arm"] for row in rows] == ["bare", "tenacity"]
    assert all(row.keys() >= ROW for row in rows)
    assert all(row["injected"] > 0 for row in rows)
    assert selfheal(options) == 0
    assert "tenacity" in capsys.readouterr().out
    assert selfheal(["lab", "--arms", "nobody"]) == 2
    assert "expected one of" in capsys.readouterr().err


def test_every_arm_of_the_catalogue_is_described():
    assert set(ARMS) >= {*PLAYED, "policy", "langgraph", "langchain"}
    assert all(arm.summary for arm in ARMS.values())
