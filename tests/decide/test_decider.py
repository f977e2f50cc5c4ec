"""Decisions: draws, exploration with exact propensities, faults, reasons."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from selfheal_rl.core.values import (
    LEVEL,
    N_ACTIONS,
    TERMINAL,
    ConfigError,
    Effects,
    EffectState,
    FaultKind,
    RepairAction,
)
from selfheal_rl.runtime.decide import Decider, Exploration, LadderSelector, load_selector
from selfheal_rl.runtime.decide.draws import keyed_uniform
from selfheal_rl.runtime.decide.explore import mix, pick

A = RepairAction


def rules() -> LadderSelector:
    return LadderSelector.load("hand-ladder")


class Fixed:
    """Answers with the given rows."""

    name = "fixed"

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def probabilities(self, facts: Any, observation: Any, mask: Any) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def certain(action: RepairAction) -> Any:
    answer = np.zeros((1, N_ACTIONS))
    answer[0, action] = 1.0
    return answer


def test_draws_are_keyed_and_uniform() -> None:
    draws = [keyed_uniform(1, "task", n) for n in range(4000)]
    assert draws == [keyed_uniform(1, "task", n) for n in range(4000)]
    assert all(0.0 <= x < 1.0 for x in draws)
    assert np.mean(draws) == pytest.approx(0.5, abs=0.02)
    assert np.var(draws) == pytest.approx(1 / 12, abs=0.01)
    assert keyed_uniform(1, "a", "b") != keyed_uniform(1, "ab")
    assert keyed_uniform(1, "a") != keyed_uniform(2, "a")


def test_without_exploration_the_decision_is_certain(kit: Any) -> None:
    decision = Decider(rules(), rules()).decide(kit.incident(), ("t",), False)
    assert decision.action is A.RETRY
    assert decision.propensity == 1.0
    assert decision.probabilities[A.RETRY] == 1.0
    assert decision.randomisation_unit == ""
    assert decision.policy_hash == rules().hash
    assert decision.reasons == ()


def test_exploration_has_exact_propensities(kit: Any) -> None:
    decider = Decider(rules(), rules(), exploration=Exploration(0.3), seed=5)
    incident = kit.incident()
    decisions = [decider.decide(incident, ("t", n), False) for n in range(3000)]
    first = decisions[0]
    assert first.probabilities[A.RETRY] == pytest.approx(0.7 + 0.3 / 3)
    assert first.probabilities[A.BACKOFF] == pytest.approx(0.1)
    assert first.probabilities[A.CONTINUE] == pytest.approx(0.1)
    counts = Counter(d.action for d in decisions)
    assert set(counts) == {A.RETRY, A.BACKOFF, A.CONTINUE}
    for action, n in counts.items():
        p = first.probabilities[action]
        assert n / 3000 == pytest.approx(p, abs=4 * np.sqrt(p * (1 - p) / 3000))
    for decision in decisions:
        assert decision.propensity == decision.probabilities[decision.action]
        assert decision.randomisation_unit == "decision"


def test_after_the_explored_decision_the_incident_is_greedy(kit: Any) -> None:
    decider = Decider(rules(), rules(), exploration=Exploration(0.5), seed=5)
    for n in range(50):
        decision = decider.decide(kit.incident(), ("t", n), True)
        assert decision.action is A.RETRY
        assert decision.propensity == 1.0


@pytest.mark.parametrize("effects", list(Effects))
@pytest.mark.parametrize("state", list(EffectState))
@pytest.mark.parametrize("permission", [1, 2, 3])
def test_exploration_stays_legal_reversible_and_low(
    kit: Any, effects: Effects, state: EffectState, permission: int
) -> None:
    decider = Decider(rules(), rules(), exploration=Exploration(0.5))
    incident = kit.incident(effects=effects, state=state, permission=permission)
    base = Decider(rules(), rules()).decide(incident, ("t",), False)
    decision = decider.decide(incident, ("t",), False)
    for action in A:
        if decision.probabilities[action] > 0 and action is not base.action:
            assert decision.mask[action]
            assert action not in TERMINAL
            assert LEVEL[action] <= 2
            if effects in (Effects.WRITE, Effects.UNKNOWN):
                assert action in (A.CONTINUE, A.RETRY, A.BACKOFF, A.INSPECT)


@given(st.lists(st.floats(0, 1), min_size=N_ACTIONS, max_size=N_ACTIONS), st.floats(0, 0.999999))
def test_pick_never_takes_what_has_no_weight(weights: list[float], uniform: float) -> None:
    row = np.array(weights)
    if row.sum() < 1e-9:
        return
    row /= row.sum()
    assert row[pick(row, uniform)] > 0.0


def test_mix_sums_to_one_and_keeps_the_base_without_candidates() -> None:
    base = np.zeros(N_ACTIONS, np.float32)
    base[A.RETRY] = 1.0
    none = np.zeros(N_ACTIONS, np.bool_)
    assert (mix(base, none, 0.4) == base).all()
    some = none.copy()
    some[[A.BACKOFF, A.CONTINUE]] = True
    assert mix(base, some, 0.4).sum() == pytest.approx(1.0)


@pytest.mark.parametrize("epsilon", [-0.1, 0.6, float("nan")])
def test_wrong_exploration_is_refused(epsilon: float) -> None:
    with pytest.raises(ConfigError, match="explore"):
        Exploration(epsilon)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (ValueError("broken"), "broken"),
        (np.full((1, N_ACTIONS), np.nan), "no distribution"),
        (np.zeros((1, N_ACTIONS)), "no distribution"),
        (np.zeros((1, 3)), "shape"),
        (certain(A.ROLLBACK), "rollback, which is not legal"),
        ("text", ""),
    ],
)
def test_a_faulty_selector_gives_way_to_the_rules(kit: Any, answer: Any, words: str) -> None:
    told: list[str] = []
    decider = Decider(
        Fixed(answer), rules(), explain=True, on_fault=lambda c, e: told.append(f"{c}: {e}")
    )
    decision = decider.decide(kit.incident(), ("t",), False)
    assert decision.action is A.RETRY
    assert decision.selector == "hand-ladder"
    assert words in decision.override
    assert told
    assert "fixed" in decision.reasons[0]
    if "rollback" in words:
        assert decision.intended is A.ROLLBACK


def test_when_the_rules_fail_too_it_escalates(kit: Any) -> None:
    decider = Decider(Fixed(ValueError("a")), Fixed(ValueError("b")))
    decision = decider.decide(kit.incident(), ("t",), False)
    assert decision.action is A.ESCALATE


def test_reasons_name_facts_whose_change_flips_the_decision(kit: Any) -> None:
    decider = Decider(rules(), rules(), explain=True)
    decision = decider.decide(kit.incident(FaultKind.RATE_LIMIT, retry_after_s=5.0), ("t",), False)
    assert decision.action is A.BACKOFF
    assert decision.reasons[0] == "rule for rate_limit at attempt 1"
    flips = [r for r in decision.reasons[1:] if "it would be" in r]
    assert flips
    assert any("were it timeout, it would be retry" in r for r in flips)
    # Each claim is true: the same incident of the other kind is decided so.
    other = decider.decide(kit.incident(FaultKind.TIMEOUT, retry_after_s=5.0), ("t",), False)
    assert other.action is A.RETRY


def test_reasons_are_the_same_every_time(kit: Any) -> None:
    decider = Decider(rules(), rules(), explain=True)
    incident = kit.incident(FaultKind.NETWORK, (A.RETRY,))
    first = decider.decide(incident, ("t",), False).reasons
    assert all(decider.decide(incident, ("t",), False).reasons == first for _ in range(3))


def test_when_nothing_else_is_legal_the_reason_says_so(kit: Any) -> None:
    decider = Decider(rules(), rules(), explain=True)
    from selfheal_rl.core.values import BudgetLeft

    decision = decider.decide(kit.incident(budget=BudgetLeft(attempts=0)), ("t",), False)
    assert decision.action is A.ESCALATE
    assert decision.reasons[-1] == "no other action is legal here"


def test_a_policy_decision_carries_observation_and_hashes(kit: Any, policy_folder: Path) -> None:
    selector = load_selector(policy_folder, rules())
    decision = Decider(selector, rules(), explain=True).decide(kit.incident(), ("t",), False)
    assert len(decision.observation) > 100
    assert decision.selector == "tiny"
    assert decision.policy_hash == selector.hash  # type: ignore[attr-defined]
    assert decision.mask[decision.action]
    assert all(isinstance(r, str) for r in decision.reasons)
