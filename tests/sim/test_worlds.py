"""The bundled worlds: sources, kinds through the real classifier, and how faults persist."""

from collections import defaultdict
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from selfheal_rl.core.catalog import find_world, load_toml, read_toml
from selfheal_rl.core.situation import MAX_CAUSES
from selfheal_rl.core.values import EFFECTS, SEAMS_OF, TERMINAL, Effects, RepairAction
from selfheal_rl.trainer.sim.compile import CompiledWorld, compile_world
from selfheal_rl.trainer.sim.deployments import draw_deployments
from selfheal_rl.trainer.sim.dynamics import RepairCore
from selfheal_rl.trainer.sim.episodes import TaskResults, View, run_tasks
from selfheal_rl.trainer.sim.schema import World

CALIBRATED = ("mcp-office", "code-shell", "web-api", "llm-output")
WORLDS = (*CALIBRATED, "toy-exact")
CAUSES = {
    *("blip", "outage", "overload", "rate_window", "quota", "oversize", "lost_reply", "slow_job"),
    *("wrong_argument", "wrong_name", "wrong_value", "precondition", "business_rule", "forbidden"),
    *("stale_session", "malformed_output", "schema_drift", "model_limit", "context_full"),
    *("code_bug", "missing_package", "false_alarm", "loop", "impossible"),
}
TOLERANCE = 0.03
N_TASKS = 12_000
A = RepairAction


@lru_cache
def world(name: str) -> CompiledWorld:
    return compile_world(load_toml(find_world(name), World))


def cause_shares(compiled: CompiledWorld) -> dict[str, float]:
    """Share of failures per cause; a read that cannot meet a cause meets its ``otherwise``."""
    reads = compiled.world.task.tool_effects.get(Effects.READ.value, 0.0)
    shares: dict[str, float] = defaultdict(float)
    for name, cause in compiled.world.causes.items():
        kept = 1.0 - reads if cause.writes_only else 1.0
        shares[name] += cause.share * kept
        if cause.otherwise is not None:
            shares[cause.otherwise] += cause.share * (1.0 - kept)
    total = sum(shares.values())
    return {name: share / total for name, share in shares.items()}


def kinds_by_cause(compiled: CompiledWorld) -> dict[str, dict[str, float]]:
    """Kind as the classifier sees it -> cause -> share of all failures."""
    shares = cause_shares(compiled)
    found: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    weights: dict[str, float] = defaultdict(float)
    read = [v for v in compiled.variants if v.snapshot.call.effects is Effects.READ]
    for variant in read:
        weights[compiled.cause_names[variant.cause]] += variant.symptom.share
    for variant in read:
        name = compiled.cause_names[variant.cause]
        share = shares[name] * variant.symptom.share / weights[name]
        found[variant.diagnosis.kind.value][name] += share
    return found


def deviations(shares: dict[str, float], cited: dict[str, float]) -> dict[str, tuple[float, float]]:
    kinds = shares.keys() | cited.keys()
    pairs = {kind: (shares.get(kind, 0.0), cited.get(kind, 0.0)) for kind in kinds}
    return {kind: pair for kind, pair in pairs.items() if abs(pair[0] - pair[1]) > TOLERANCE}


def figures(node: object, path: str) -> list[tuple[str, dict[str, object]]]:
    """Every table that must name its source, found in the raw file."""
    found = []
    if isinstance(node, dict):
        if {"ok", "p", "median_s", "capabilities", "gives_up", "failure_rate"} & node.keys():
            found.append((path, node))
        for key, value in node.items():
            found += figures(value, f"{path}.{key}")
    elif isinstance(node, list):
        for i, value in enumerate(node):
            found += figures(value, f"{path}[{i}]")
    return found


@pytest.mark.parametrize("name", WORLDS)
def test_every_figure_names_its_source_in_the_file(name: str) -> None:
    data = read_toml(find_world(name))
    tables = figures(data, name)
    tables += [(f"causes.{c}", table) for c, table in data["causes"].items()]
    tables += [(f"costs.{c}", table) for c, table in data["costs"].items()]
    assert len(tables) > 20
    silent = [path for path, table in tables if len(str(table.get("source", ""))) < 3]
    assert silent == []


@pytest.mark.parametrize("name", WORLDS)
def test_id_is_the_file_name_and_causes_are_the_common_ones(name: str) -> None:
    compiled = world(name)
    assert compiled.world.id == name
    assert set(compiled.cause_names) <= CAUSES


def test_all_worlds_together_fit_the_belief() -> None:
    assert len({c for name in WORLDS for c in world(name).cause_names}) <= MAX_CAUSES


@pytest.mark.parametrize("name", WORLDS)
def test_kind_mix_is_the_cited_one_through_the_real_classifier(name: str) -> None:
    compiled = world(name)
    assert sum(compiled.world.kind_mix.values()) == pytest.approx(1.0, abs=0.005)
    shares = {kind: sum(by.values()) for kind, by in kinds_by_cause(compiled).items()}
    assert deviations(shares, compiled.world.kind_mix) == {}


@pytest.mark.parametrize("name", WORLDS)
def test_common_kinds_come_from_several_causes(name: str) -> None:
    for kind, by_cause in kinds_by_cause(world(name)).items():
        total = sum(by_cause.values())
        if total >= 0.05:
            assert len(by_cause) >= 2, kind
            assert max(by_cause.values()) < 0.9 * total, f"{kind} gives its cause away"


@pytest.mark.parametrize("name", WORLDS)
def test_repeating_a_wrong_call_never_heals(name: str) -> None:
    causes = world(name).world.causes
    for cause in ("wrong_name", "wrong_argument", "wrong_value"):
        if cause in causes:
            assert not {"retry", "backoff"} & causes[cause].repair.keys(), cause
            assert causes[cause].duration is None


@pytest.mark.parametrize("name", CALIBRATED)
def test_every_cause_but_the_hopeless_has_a_repair_that_usually_works(name: str) -> None:
    compiled = world(name)
    best = dict(zip(compiled.cause_names, compiled.mean_success.max(axis=1), strict=True))
    best.pop("impossible")
    assert min(best.values()) > 0.5, best


@pytest.mark.parametrize("name", CALIBRATED)
def test_no_single_action_is_best_for_most_causes(name: str) -> None:
    compiled = world(name)
    success = compiled.mean_success.copy()
    success[compiled.temporal, A.BACKOFF] = 0.9
    shares = cause_shares(compiled)
    won: dict[str, float] = defaultdict(float)
    for cause, row in zip(compiled.cause_names, success, strict=True):
        won[A(int(row.argmax())).slug] += shares[cause]
    assert max(won.values()) < 0.5, dict(won)


@pytest.mark.parametrize("name", CALIBRATED)
def test_hosts_differ_and_every_action_is_open_somewhere(name: str) -> None:
    compiled = world(name)
    hosts = compiled.world.hosts
    assert len({h.capabilities for h in hosts}) == len(hosts) >= 5
    assert {h.capabilities.permission for h in hosts} == {1, 2, 3}
    assert compiled.available.any(axis=1).all()
    assert set(compiled.world.costs) == {a.slug for a in A}


@pytest.mark.parametrize("name", WORLDS)
def test_harm_is_stated_only_for_actions_that_can_end_the_incident(name: str) -> None:
    for cause_name, cause in world(name).world.causes.items():
        heals = set(cause.repair) | {a.slug for a in A if cause.duration and a not in TERMINAL}
        assert set(cause.harm) <= heals, cause_name
        assert set(cause.after_inspect) <= heals, cause_name
        assert all(SEAMS_OF[A.parse(action)] for action in cause.repair)


class AgentAlone:
    """Hands every alarm to the agent, and counts how often its own next call fails again."""

    name = "agent-alone"

    def __init__(self, compiled: CompiledWorld) -> None:
        self.compiled = compiled
        self.at_attempt = np.zeros(9)
        self.kinds = np.zeros(len(compiled.posterior))
        self.first = np.zeros(len(compiled.posterior))

    def choose(self, view: View) -> NDArray[np.int64]:
        return np.full(view.core.n, A.CONTINUE, np.int64)

    def observe(self, core: RepairCore, _: NDArray[np.int64], __: NDArray[np.int64]) -> None:
        self.at_attempt += np.bincount(core.attempts, minlength=9)[:9]
        kinds = self.compiled.kind[core.variant]
        self.kinds += np.bincount(kinds, minlength=len(self.kinds))
        first = kinds[core.attempts == 0]
        self.first += np.bincount(first, minlength=len(self.first))

    def fails_again(self) -> NDArray[np.float64]:
        """P(next call fails | k failures), k = 1..5; agents that gave up made no next call."""
        stays = 1.0 - self.compiled.world.agent.gives_up
        rates: NDArray[np.float64] = self.at_attempt[1:6] / self.at_attempt[:5] / stays
        return rates


@lru_cache
def played(name: str) -> tuple[AgentAlone, TaskResults]:
    compiled = world(name)
    deployments = draw_deployments(compiled, 32, seed=11)
    agent, tasks = AgentAlone(compiled), np.arange(N_TASKS)
    results = run_tasks(
        compiled, deployments, agent, tasks, tasks % 32, seed=3, observer=agent.observe
    )
    return agent, results


@pytest.mark.parametrize("name", CALIBRATED)
def test_failing_again_grows_likelier_with_each_failure(name: str) -> None:
    rates = played(name)[0].fails_again()
    assert (np.diff(rates[:3]) > 0.02).all(), rates


@pytest.mark.parametrize(
    ("name", "cited", "within"),
    [
        # A4 modern agents: 292, 78 and 27 cases, so the last is known to about 0.19 only.
        ("mcp-office", (0.34, 0.47, 0.59), (0.06, 0.11, 0.19)),
        # Between A4 modern and InterCode bash (0.74, 0.88, 0.94).
        ("code-shell", (0.54, 0.67, 0.76), (0.1, 0.12, 0.14)),
        # Between A4 modern and ToolBench (0.93, 0.86, 1.00).
        ("web-api", (0.64, 0.76, 0.85), (0.1, 0.12, 0.14)),
    ],
)
def test_persistence_is_near_the_traces(
    name: str, cited: tuple[float, ...], within: tuple[float, ...]
) -> None:
    rates = played(name)[0].fails_again()[:3]
    assert (np.abs(rates - cited) < within).all(), rates


@pytest.mark.parametrize("name", CALIBRATED)
def test_simulated_first_failures_keep_the_cited_mix(name: str) -> None:
    agent, _ = played(name)
    kinds = [k.value for k in type(world(name).variants[0].diagnosis.kind)]
    shares = dict(zip(kinds, agent.first / agent.first.sum(), strict=True))
    far = deviations(shares, world(name).world.kind_mix)
    # Two points more for deployments, which are drawn, and outages, which are met again.
    assert {k: v for k, v in far.items() if abs(v[0] - v[1]) > TOLERANCE + 0.02} == {}


def test_office_agent_alone_resembles_toolathlon() -> None:
    _, results = played("mcp-office")
    calm = results.incidents == 0
    assert calm.mean() == pytest.approx(0.39, abs=0.05)  # A1: 39 % of tasks without an error
    assert results.completed[calm].all()
    # A1: P(success | errors) / P(success | none) = 0.25 / 0.39
    assert results.completed[~calm].mean() == pytest.approx(0.64, abs=0.08)


def test_toy_world_is_small_and_fixed() -> None:
    toy = world("toy-exact")
    assert toy.world.exact
    assert toy.world.stay == 1.0
    assert toy.world.task.max_failures == 1
    assert not toy.temporal.any()
    assert len(toy.world.hosts) == 1
    assert toy.world.task.tool_effects == {"read": 1.0}
    assert len(set(toy.kind)) == 2
    assert len(toy.variants) == 8 * len(EFFECTS)
    first, second = draw_deployments(toy, 2, seed=1), draw_deployments(toy, 2, seed=2)
    np.testing.assert_array_equal(first.success, second.success)


@pytest.mark.parametrize("name", WORLDS)
def test_the_page_counts_the_world_right(name: str) -> None:
    causes = world(name).world.causes.values()
    repairs = [e.source for c in causes for e in c.repair.values()]
    traced = sum(any(f"A{i}" in source for i in range(1, 8)) for source in repairs)
    counts = (len(causes), sum(len(c.symptoms) for c in causes), len(repairs), traced)
    page = (Path(__file__).parents[2] / "docs" / "worlds.md").read_text("utf-8")
    line = next(x for x in page.splitlines() if x.startswith(f"| `{name}` |"))
    assert line.endswith("| " + " | ".join(str(c) for c in counts) + " |"), counts
