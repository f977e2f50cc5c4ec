"""Planners, the bandit and the clairvoyant: right where the answer is known."""

import numpy as np
import pytest

from selfheal_rl.core.values import RepairAction
from selfheal_rl.core.values.errors import IllegalMaskError
from selfheal_rl.runtime.decide.rivals import RIVALS, TENACITY
from selfheal_rl.trainer.evaluate.contenders import mixture_tables
from selfheal_rl.trainer.evaluate.yardsticks.bandit import BanditOptions, train_bandit
from selfheal_rl.trainer.evaluate.yardsticks.clairvoyant import (
    N_PRIVILEGED,
    Clairvoyant,
    clairvoyant_inputs,
)
from selfheal_rl.trainer.evaluate.yardsticks.lookahead import Lookahead
from selfheal_rl.trainer.evaluate.yardsticks.outlook import Incidents, ahead_of
from selfheal_rl.trainer.evaluate.yardsticks.selector import SelectorPolicy
from selfheal_rl.trainer.sim import (
    CompiledWorld,
    RepairCore,
    SimPolicy,
    View,
    belief_tables,
    draw_deployments,
    load_world,
    run_tasks,
)

A = RepairAction
N = 2048


def mean_utility(world: CompiledWorld, policy: SimPolicy, n: int = N, **options) -> float:
    draws = draw_deployments(world, 16, 1)
    ids = np.arange(n)
    result = run_tasks(world, draws, policy, ids, ids % 16, seed=9, only_failing=True, **options)
    return float(result.utility.mean())


def first_choices(world: CompiledWorld, policy: SimPolicy, n: int = 64) -> set[RepairAction]:
    core = RepairCore(world, draw_deployments(world, 1, 0), n, seed=0)
    core.begin(np.arange(n), np.arange(n), np.zeros(n, np.int64))
    return {A(a) for a in policy.choose(View(core)).tolist()}


def test_a_sure_repair_is_chosen_over_a_cheaper_unsure_one(toy, cause) -> None:
    world = toy({"one": cause(retry=0.1, reprompt=1.0)})
    for policy in (Lookahead(world, belief_tables([world]), 1), Clairvoyant(world)):
        assert first_choices(world, policy) == {A.REPROMPT}


def test_one_step_values_are_the_closed_form(toy, cause) -> None:
    world = toy({"one": cause(retry=0.6)}, agent={"gives_up": 0.4})
    planner = Lookahead(world, belief_tables([world]), 1, Incidents())
    core = RepairCore(world, draw_deployments(world, 1, 0), 8, seed=0)
    core.begin(np.arange(8), np.arange(8), np.zeros(8, np.int64))
    view = View(core)
    q = planner.q_values(view.facts, ahead_of(view, world, Incidents()))
    prices = world.world.prices
    escalate = -world.world.costs["escalate"].human_minutes * prices.human_minute
    cost = world.world.costs["retry"]
    retry = cost.seconds * prices.second + cost.tokens / 1000 * prices.kilotoken
    # Steps that are left cost at most 4e-5 in this world.
    assert q[A.ESCALATE] == pytest.approx(escalate)
    expected = 0.6 * 1.0 + 0.4 * (escalate - prices.second) - retry
    assert q[A.RETRY] == pytest.approx(expected, abs=1e-4)


def test_two_steps_see_that_an_inspection_pays_later(toy, cause) -> None:
    # One step sees only that inspecting heals nothing.
    blind = cause(inspect=0.0, reprompt=0.1) | {"after_inspect": {"reprompt": 1.0}}
    blind["repair"]["inspect"]["ok"] = 0.1
    world = toy({"one": blind})
    tables = belief_tables([world])
    assert A.INSPECT not in first_choices(world, Lookahead(world, tables, 1))
    assert first_choices(world, Lookahead(world, tables, 2)) == {A.INSPECT}


def test_planning_further_and_knowing_more_is_worth_more() -> None:
    world = load_world("web-api")
    tables = mixture_tables(world)
    alone = mean_utility(world, SelectorPolicy(RIVALS["agent-alone"]))
    one, two = (mean_utility(world, Lookahead(world, tables, depth)) for depth in (1, 2))
    short, full = (
        mean_utility(world, Clairvoyant(world, widths=())),
        mean_utility(world, Clairvoyant(world)),
    )
    assert alone < one < two < full
    assert short < full


def test_the_clairvoyant_waits_exactly_for_what_ends_in_time(toy, cause) -> None:
    outage = cause(fallback_tool=0.9) | {
        "duration": {"median_s": 10.0, "sigma": 0.0, "source": "assumed"}
    }
    forever = cause(fallback_tool=0.9) | {
        "duration": {"median_s": 90_000.0, "sigma": 0.0, "source": "assumed"}
    }
    costs = load_world("toy-exact").world.model_dump(mode="json")["costs"]
    costs |= {"retry": costs["retry"] | {"seconds": 1.0}}
    costs |= {"backoff": costs["backoff"] | {"seconds": 0.5}}
    short = toy({"outage": outage}, exact=False, costs=costs)
    assert first_choices(short, Clairvoyant(short)) <= {A.BACKOFF, A.RETRY}
    long = toy({"outage": forever}, exact=False, costs=costs)
    assert first_choices(long, Clairvoyant(long)) == {A.FALLBACK_TOOL}


@pytest.mark.parametrize("world_id", ["mcp-office", "llm-output"])
def test_planners_choose_legal_actions_only(world_id: str) -> None:
    world = load_world(world_id)
    broken: list[int] = []

    def watch(core: RepairCore, index: np.ndarray, actions: np.ndarray) -> None:
        legal = View(core).mask[np.arange(len(actions)), actions]
        broken.append(int((~legal).sum()))

    for policy in (Lookahead(world, mixture_tables(world), 2), Clairvoyant(world)):
        mean_utility(world, policy, 512, observer=watch)
    assert sum(broken) == 0


def test_what_a_clairvoyant_network_sees_is_bounded_and_true() -> None:
    world = load_world("mcp-office")
    core = RepairCore(world, draw_deployments(world, 4, 0), 256, seed=0)
    core.begin(np.arange(256), np.arange(256), np.arange(256) % 4)
    inputs = clairvoyant_inputs(View(core))
    assert inputs.shape == (256, N_PRIVILEGED)
    assert inputs.dtype == np.float32
    assert inputs.min() >= 0.0
    assert inputs.max() <= 1.0
    success = core.deployments.success[core.draw, core.cause]
    assert (inputs[:, :17] == success).all()


class Rebel:
    """A selector that puts everything on ``retry``, closed or not."""

    name = "rebel"

    def probabilities(self, facts, observation, mask):
        chosen = np.zeros_like(mask, np.float32)
        chosen[:, A.RETRY] = 1.0
        return chosen


def test_a_selector_that_ignores_the_mask_is_refused_unless_it_says_so() -> None:
    world = load_world("mcp-office")
    with pytest.raises(IllegalMaskError, match=r"'rebel' chose 'retry', which is closed"):
        mean_utility(world, SelectorPolicy(Rebel()), 256)
    mean_utility(world, SelectorPolicy(TENACITY), 256)


def test_the_bandit_learns_which_repair_helps(toy, cause) -> None:
    world = toy({"one": cause(retry=0.1, reprompt=0.9, **{"continue": 0.2})})
    options = BanditOptions(rounds=3, tasks=512)
    bandit = train_bandit([world], belief_tables([world]), options, np.random.default_rng(0))
    assert first_choices(world, bandit) == {A.REPROMPT}
    assert bandit.decisions > 1536
