"""Safety of the legality table, over any facts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from selfheal_rl.core.situation import (
    FACTS,
    MAX_ATTEMPTS_INCIDENT,
    MAX_DECISIONS_INCIDENT,
    N_FACTS,
    check_mask,
    closed_because,
    facts_of,
    legal_mask,
    repeat_unsafe,
    rows,
)
from selfheal_rl.core.values import (
    ACTIONS,
    KINDS,
    N_ACTIONS,
    REPEATS,
    TERMINAL,
    Diagnosis,
    Effects,
    EffectState,
    ErrorSnapshot,
    FailedCall,
    Failure,
    IllegalMaskError,
    Incident,
    RepairAction,
    repeat_is_unsafe,
)

A = RepairAction
facts_matrices = st.integers(1, 6).flatmap(
    lambda n: arrays(np.float32, (N_FACTS, n), elements=st.floats(0, 1, width=32))
)


def open_facts(n: int = 1) -> np.ndarray:
    """Facts under which every action is open."""
    facts = np.zeros((N_FACTS, n), np.float32)
    facts[rows("available")] = 1.0
    facts[FACTS["effects.read"]] = 1.0
    facts[FACTS["effect_state.not_started"]] = 1.0
    for name in ("attempts_left", "task_attempts_left", "tokens_left", "money_left"):
        facts[FACTS[f"share.{name}"]] = 1.0
    facts[FACTS["seconds.deadline_left"]] = 600.0
    return facts


def test_everything_is_open_without_a_reason_to_close():
    assert legal_mask(open_facts()).all()


@given(facts_matrices)
@settings(max_examples=300, deadline=None)
def test_the_mask_is_never_all_false_and_escalate_is_always_open(facts):
    mask = legal_mask(facts)
    assert mask.shape == (facts.shape[1], N_ACTIONS)
    assert mask[:, A.ESCALATE].all()


@given(facts_matrices)
@settings(max_examples=200, deadline=None)
def test_n_rows_are_masked_as_each_row_alone(facts):
    together = legal_mask(facts)
    for i in range(facts.shape[1]):
        np.testing.assert_array_equal(legal_mask(facts[:, i : i + 1])[0], together[i])


@given(
    st.sampled_from(list(Effects)),
    st.sampled_from(list(EffectState)),
    st.booleans(),
    st.booleans(),
)
def test_a_possible_side_effect_closes_every_repeat(effects, state, key, probed):
    facts = open_facts()
    facts[rows("effects")] = 0.0
    facts[rows("effect_state")] = 0.0
    facts[FACTS[f"effects.{effects.value}"]] = 1.0
    facts[FACTS[f"effect_state.{state.value}"]] = 1.0
    facts[FACTS["flag.has_key"]] = key
    facts[FACTS["flag.probed_not_started"]] = probed
    unsafe = repeat_is_unsafe(effects, state, has_key=key, probed_not_started=probed)
    assert repeat_unsafe(facts)[0] == unsafe
    mask = legal_mask(facts)[0]
    for action in REPEATS:
        assert mask[action] == (not unsafe)
    assert mask[A.INSPECT]


def test_without_attempts_left_only_terminal_actions_are_open():
    for name in ("attempts_left", "task_attempts_left"):
        facts = open_facts()
        facts[FACTS[f"share.{name}"]] = 0.0
        assert {A(i) for i in np.flatnonzero(legal_mask(facts)[0])} == TERMINAL


def test_a_wait_beyond_the_deadline_is_closed_and_one_within_is_open():
    facts = open_facts(2)
    facts[FACTS["seconds.deadline_left"]] = [10.0, 60.0]
    facts[FACTS["seconds.next_wait"]] = 30.0
    np.testing.assert_array_equal(legal_mask(facts)[:, A.BACKOFF], [False, True])


def test_a_category_is_closed_after_two_in_a_row_but_waiting_is_exempt():
    facts = open_facts(2)
    facts[FACTS["run.model"]] = [0.5, 1.0]
    facts[FACTS["run.wait"]] = 1.0
    mask = legal_mask(facts)
    assert mask[0].all()
    closed = {A(i) for i in np.flatnonzero(~mask[1])}
    assert closed == {A.REPROMPT, A.FALLBACK_MODEL}


def test_unsafe_output_leaves_escalate_only():
    facts = open_facts()
    facts[FACTS["kind.unsafe_output"]] = 0.9
    assert [A(i) for i in np.flatnonzero(legal_mask(facts)[0])] == [A.ESCALATE]


def test_a_started_stream_allows_only_continue_and_terminal_actions():
    facts = open_facts()
    facts[FACTS["flag.stream_started"]] = 1.0
    open_ = {A(i) for i in np.flatnonzero(legal_mask(facts)[0])}
    assert open_ == TERMINAL | {A.CONTINUE}


@given(facts_matrices)
@settings(max_examples=100, deadline=None)
def test_every_closed_action_has_a_reason_and_no_open_one_has(facts):
    one = facts[:, :1]
    mask = legal_mask(one)[0]
    reasons = closed_because(one)
    assert set(reasons) == {a for a in ACTIONS if not mask[a]}
    assert all(reasons.values())


def test_the_bound_counts_every_attempt_and_one_terminal_decision():
    assert MAX_DECISIONS_INCIDENT == MAX_ATTEMPTS_INCIDENT + 1


@pytest.mark.parametrize(
    "mask",
    [
        np.zeros((2, N_ACTIONS), np.bool_),
        np.ones((2, N_ACTIONS - 1), np.bool_),
        np.ones((2, N_ACTIONS), np.float32),
    ],
)
def test_a_useless_mask_is_refused(mask):
    with pytest.raises(IllegalMaskError, match="expected"):
        check_mask(mask)


def test_a_later_refusal_does_not_make_an_earlier_possible_write_safe():
    def failure(state: EffectState) -> Failure:
        posterior = (1.0,) + (0.0,) * (len(KINDS) - 1)
        call = FailedCall(tool="order", effects=Effects.WRITE)
        return Failure(
            snapshot=ErrorSnapshot(time=0.0, call=call),
            diagnosis=Diagnosis(posterior=posterior, effect_state=state),
        )

    refused = failure(EffectState.NOT_STARTED)
    once = Incident(id="a", failures=(refused,))
    after = Incident(id="b", failures=(failure(EffectState.MAYBE), refused))
    assert legal_mask(facts_of(once))[0, A.RETRY]
    assert not legal_mask(facts_of(after))[0, A.RETRY]
