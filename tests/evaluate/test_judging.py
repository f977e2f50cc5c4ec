"""The same tasks for every policy, resumption, changed worlds, rows."""

from pathlib import Path

import numpy as np
import pytest

from selfheal_rl.core.values import ConfigError, FaultKind, RepairAction
from selfheal_rl.core.values.errors import UnknownIdError
from selfheal_rl.trainer.evaluate.cells import Cell, HeldOutSet, play
from selfheal_rl.trainer.evaluate.contenders import Contender, Member, base_id, fingerprint, resolve
from selfheal_rl.trainer.evaluate.judge import evaluate
from selfheal_rl.trainer.evaluate.transfer import leave_kinds_out, leave_worlds_out
from selfheal_rl.trainer.evaluate.variants import all_false_alarms, halve_assumed, prepare
from selfheal_rl.trainer.sim import load_world
from selfheal_rl.trainer.train.recipe import Recipe

A = RepairAction


def contender(policy, name: str | None = None, group: str = "policy") -> Contender:
    name = name or policy.name
    return Contender(name, group, (Member(f"test:{name}", lambda _: policy),))


def row_of(report, policy: str) -> dict:
    return next(row for row in report.rows if row["policy"] == policy)


def test_tasks_without_an_alarm_are_identical_under_every_policy() -> None:
    held = HeldOutSet.of(load_world("web-api"), 4, 256)
    names = ("agent-alone", "give-up", "tenacity", "lookahead-1")
    cells = [play(held, resolve(name).members[0].make(held.world)) for name in names]
    calm = cells[0].incidents == 0
    assert 0.2 < calm.mean() < 0.9
    for cell in cells[1:]:
        assert (cell.incidents[calm] == 0).all()
        for field in ("completed", "utility", "seconds", "tokens"):
            assert (getattr(cell, field)[calm] == getattr(cells[0], field)[calm]).all()


def test_rescue_and_harm_in_a_world_where_they_are_known(toy, cause, always) -> None:
    # Alone the agent loses every failing task; one repair saves each; another saves none.
    world = toy({"one": cause(reprompt=1.0, **{"continue": 0.0})}, agent={"gives_up": 1.0})
    report = evaluate(
        [world],
        [contender(always(A.REPROMPT)), contender(always(A.RETRY))],
        draws=8,
        tasks_per_draw=512,
        yardsticks=False,
    )
    failing = 1.0 - 0.5**4
    good, bad = row_of(report, "always-reprompt"), row_of(report, "always-retry")
    assert good["p"]["mean"] == pytest.approx(failing, abs=0.015)
    assert (good["r"]["mean"], good["d"]["mean"]) == (1.0, 0.0)
    assert (bad["r"]["mean"], bad["d"]["mean"]) == (0.0, 0.0)
    assert good["completion"]["mean"] == 1.0
    assert good["attempts"]["mean"] == pytest.approx(failing, abs=0.015)


def test_recovery_by_kind_and_action_counts_what_healed(toy, cause, always) -> None:
    world = toy({"one": cause(reprompt=0.75)})
    report = evaluate(
        [world], [contender(always(A.REPROMPT))], draws=4, tasks_per_draw=1024, yardsticks=False
    )
    mine = [r for r in report.recovery if r["policy"] == "always-reprompt"]
    by_action = {r["name"]: r for r in mine if r["by"] == "action"}
    by_kind = {r["name"]: r for r in mine if r["by"] == "kind"}
    # First try 0.75, second 0.375 (wear one half), then the category is closed and it escalates.
    healed = 0.75 + 0.25 * 0.375
    assert by_kind["timeout"]["recovered"]["mean"] == pytest.approx(healed, abs=0.02)
    assert by_action["reprompt"]["recovered"]["mean"] == pytest.approx(healed / 1.25, abs=0.02)
    assert by_action["escalate"]["recovered"]["mean"] == 0.0


class Interrupted:
    """Stops the evaluation, as Ctrl-C does."""

    name = "interrupted"

    def choose(self, view):
        raise KeyboardInterrupt


def test_an_interrupted_evaluation_keeps_and_finds_again_what_is_finished(
    tmp_path: Path, always
) -> None:
    first, second = always(A.RETRY), always(A.REPROMPT)
    sizes = {"draws": 2, "tasks_per_draw": 64, "yardsticks": False, "cache": tmp_path}
    with pytest.raises(KeyboardInterrupt):
        evaluate(["toy-exact"], [contender(first), contender(Interrupted())], **sizes)
    asked = first.asked
    report = evaluate(["toy-exact"], [contender(first), contender(second)], **sizes)
    assert asked > 0
    assert first.asked == asked
    assert second.asked > 0
    fresh = evaluate(
        ["toy-exact"],
        [contender(always(A.RETRY)), contender(always(A.REPROMPT))],
        **(sizes | {"cache": None}),
    )
    strip = [{k: v for k, v in row.items() if k != "decide_us"} for row in report.rows]
    assert strip == [{k: v for k, v in row.items() if k != "decide_us"} for row in fresh.rows]


def test_a_damaged_cell_is_played_again(tmp_path: Path, always) -> None:
    held = HeldOutSet.of(load_world("toy-exact"), 2, 32)
    cell = play(held, always(A.RETRY))
    path = tmp_path / "cell.npz"
    cell.save(path)
    again = Cell.load(path)
    assert again is not None
    assert (again.utility == cell.utility).all()
    path.write_bytes(path.read_bytes()[:200])
    assert Cell.load(path) is None
    assert Cell.load(tmp_path / "absent.npz") is None


def test_a_cell_is_not_reused_for_other_figures_or_another_policy(toy, cause) -> None:
    one, other = toy({"one": cause(retry=0.5)}), toy({"one": cause(retry=0.6)})
    names = {
        fingerprint(one, "a", draws=1),
        fingerprint(other, "a", draws=1),
        fingerprint(one, "b", draws=1),
        fingerprint(one, "a", draws=2),
    }
    assert len(names) == 4


def test_several_training_seeds_make_one_row(always) -> None:
    members = tuple(Member(f"test:{a}", lambda _, a=a: always(a)) for a in (A.RETRY, A.REPROMPT))
    both = Contender("both", "policy", members)
    report = evaluate(["toy-exact"], [both], draws=4, tasks_per_draw=128, yardsticks=False)
    one = evaluate(
        ["toy-exact"], [both], draws=4, tasks_per_draw=128, yardsticks=False, max_seeds=1
    )
    assert row_of(report, "both")["seeds"] == 2
    assert row_of(one, "both")["seeds"] == 1
    apart = row_of(report, "both")["utility"]
    assert apart["low"] < apart["mean"] < apart["high"]


def test_two_policies_of_one_name_are_told_apart_or_refused(always) -> None:
    single = contender(always(A.RETRY), "mine")
    run = Contender("mine", "policy", single.members * 2)
    sizes = {"draws": 2, "tasks_per_draw": 32, "yardsticks": False}
    report = evaluate(["toy-exact"], [single, run], **sizes)
    assert {row["policy"] for row in report.rows} == {"agent-alone", "mine", "mine-seeds"}
    with pytest.raises(ConfigError, match="'mine' stands for two policies"):
        evaluate(["toy-exact"], [single, single], **sizes)


def test_unknown_policies_are_refused_with_what_is_known() -> None:
    with pytest.raises(UnknownIdError, match="lookahead-2"):
        resolve("lookahed-2")
    with pytest.raises(UnknownIdError, match=r"neither manifest\.json nor run\.json"):
        resolve("./tests")


def test_halving_touches_assumed_figures_only() -> None:
    world = load_world("mcp-office").world
    halved = halve_assumed(world)
    assert base_id(halved.id) == world.id
    seen = set()
    for name, cause in world.causes.items():
        for action, figure in cause.repair.items():
            new = halved.causes[name].repair[action]
            assumed = figure.source.lower().startswith("assumed")
            seen.add(assumed)
            assert new.ok == pytest.approx(figure.ok / 2 if assumed else figure.ok)
            assert new.n == figure.n
        for action, harm in cause.harm.items():
            factor = 0.5 if harm.source.lower().startswith("assumed") else 1.0
            assert halved.causes[name].harm[action].p == pytest.approx(harm.p * factor)
    assert seen == {True, False}


def test_with_false_alarms_only_an_agent_left_alone_does_nearly_everything() -> None:
    world = all_false_alarms(load_world("mcp-office").world)
    assert world is not None
    (compiled,) = prepare(["mcp-office"], all_false=True)
    report = evaluate(
        [compiled], ["give-up", "hand-ladder"], draws=8, tasks_per_draw=256, yardsticks=False
    )
    alone = row_of(report, "agent-alone")["completion"]["mean"]
    assert alone > 0.95
    # Giving up breaks every task with an alarm that the agent would have completed.
    assert row_of(report, "give-up")["d"]["mean"] > 0.3
    assert row_of(report, "hand-ladder")["d"]["mean"] < row_of(report, "give-up")["d"]["mean"]


def test_recipes_that_leave_a_world_or_a_kind_out() -> None:
    recipe = Recipe(worlds=("mcp-office", "web-api"), decisions=1000)
    worlds = leave_worlds_out(recipe)
    assert [(w.what, w.recipe.worlds) for w in worlds] == [
        ("mcp-office", ("web-api",)),
        ("web-api", ("mcp-office",)),
    ]
    (left,) = leave_kinds_out(recipe, [FaultKind.RATE_LIMIT])
    assert left.recipe.drop_kinds == (FaultKind.RATE_LIMIT,)
    kinds = {v.diagnosis.kind for w in left.worlds for v in w.variants if v.symptom.share > 0.5}
    assert FaultKind.RATE_LIMIT in kinds
    with pytest.raises(ConfigError, match="at least two"):
        leave_worlds_out(Recipe(worlds=("web-api",), decisions=1000))
    with pytest.raises(ConfigError, match="shows mainly as 'unsafe_output'"):
        leave_kinds_out(recipe, [FaultKind.UNSAFE_OUTPUT])


def test_deployments_are_those_of_the_report_and_of_no_other_seed_family() -> None:
    from selfheal_rl.trainer import seeds

    world = load_world("web-api")
    families = (seeds.TRAIN_SEED, seeds.TUNE_SEED, seeds.VALIDATE_SEED, seeds.REPORT_SEED)
    report = HeldOutSet.of(world, 4, 1)
    assert report.seed == seeds.REPORT_SEED
    rates = {float(HeldOutSet.of(world, 4, 1, s).deployments.rate[0]) for s in families}
    assert len(rates) == 4
    assert float(report.deployments.rate[0]) in rates
    assert np.unique(report.deployments.rate).size == 4
