"""The belief against Bayes by hand, and the encoder's contract."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from selfheal_rl.core.situation import (
    BELIEF_FEATURE_NAMES,
    FACTS,
    N_FACTS,
    N_SLOTS,
    SLOT_INDEX,
    SLOTS,
    TIME_EDGES,
    BeliefTables,
    check_observation,
    encode,
    jittered_wait_s,
    planned_wait_s,
    root_cause_belief,
    time_cell,
    uninformed_tables,
)
from selfheal_rl.core.values import N_ACTIONS, ConfigError, ObservationError, RepairAction

A = RepairAction


def two_causes() -> BeliefTables:
    """One cause that ends by itself after exactly 10 s, one that reprompt repairs."""
    weights = np.zeros((2, len(BELIEF_FEATURE_NAMES)), np.float32)
    seen = BELIEF_FEATURE_NAMES.index("seen.timeout")
    weights[:, seen] = np.log([0.8, 0.2])
    weights[1, BELIEF_FEATURE_NAMES.index("tries.reprompt")] = np.log(0.25)
    starts = np.concatenate([[0.0], TIME_EDGES])
    success = np.zeros((N_ACTIONS, 2), np.float32)
    success[A.REPROMPT, 1] = 0.75
    gain = np.zeros((N_ACTIONS, 1), np.float32)
    gain[A.BACKOFF, 0] = 1.0
    return BeliefTables(
        causes=("short", "fixable"),
        log_prior=np.log(np.array([0.5, 0.5], np.float32)),
        weights=weights,
        log_survival=np.where(starts < 10.0, 0.0, -9.0)[None].astype(np.float32),
        success=success,
        short_gain=np.zeros((N_ACTIONS, 1), np.float32),
        wait_gain=gain,
    )


def column(**values: float) -> np.ndarray:
    facts = np.zeros((N_FACTS, 1), np.float32)
    for name, value in values.items():
        facts[FACTS[name.replace("__", ".")]] = value
    return facts


def test_posterior_is_bayes_rule_on_a_seen_kind():
    posterior, success = root_cause_belief(column(seen__timeout=1.0), two_causes())
    np.testing.assert_allclose(posterior[:, 0], [0.8, 0.2], atol=1e-6)
    assert success[A.REPROMPT, 0] == pytest.approx(0.2 * 0.75, abs=1e-6)


def test_a_failed_repair_speaks_against_the_cause_it_repairs():
    facts = column(seen__timeout=1.0, tries__reprompt=1.0)
    posterior, _ = root_cause_belief(facts, two_causes())
    expected = np.array([0.8, 0.2 * 0.25])
    np.testing.assert_allclose(posterior[:, 0], expected / expected.sum(), atol=1e-6)


def test_a_cause_that_should_have_ended_loses_belief_and_a_long_wait_gains():
    early = column(seen__timeout=1.0, seconds__incident=1.0, seconds__next_wait=60.0)
    late = column(seen__timeout=1.0, seconds__incident=30.0, seconds__next_wait=60.0)
    (before, gains), (after, _) = (root_cause_belief(f, two_causes()) for f in (early, late))
    assert after[0, 0] < 0.01 < before[0, 0]
    assert gains[A.BACKOFF, 0] == pytest.approx(0.8, abs=0.01)


@given(st.lists(st.floats(0, 2e5, width=32), min_size=2, max_size=20))
def test_time_cells_do_not_decrease_with_time(seconds):
    cells = time_cell(np.sort(np.array(seconds, np.float32)))
    assert (np.diff(cells) >= 0).all()
    assert cells.min() >= 0
    assert cells.max() <= len(TIME_EDGES)


def test_tables_survive_json_and_their_hash_notices_a_change():
    tables = two_causes()
    again = BeliefTables.from_dict(tables.to_dict())
    assert again.hash == tables.hash
    assert again.causes == tables.causes
    changed = tables.to_dict()
    changed["log_prior"]["values"][0] += 0.01
    assert BeliefTables.from_dict(changed).hash != tables.hash


def test_tables_of_a_wrong_shape_are_refused():
    data = two_causes().to_dict()
    data["weights"]["shape"] = [1, 1]
    with pytest.raises(ConfigError, match="cannot be read"):
        BeliefTables.from_dict(data)


@given(arrays(np.float32, (N_FACTS, 3), elements=st.floats(0, 1e5, width=32)))
@settings(max_examples=100, deadline=None)
def test_observations_stay_in_range_and_finite(facts):
    for tables in (two_causes(), uninformed_tables()):
        observation = encode(facts, tables)
        assert observation.shape == (3, N_SLOTS)
        assert observation.dtype == np.float32
        assert np.isfinite(observation).all()
        assert observation.min() >= -1.0
        assert observation.max() <= 1.0


def test_slots_are_named_once_and_fit_the_width():
    assert N_SLOTS == len(SLOTS) == len(SLOT_INDEX) <= 192


def test_an_observation_of_the_wrong_width_is_refused():
    with pytest.raises(ObservationError, match="expected"):
        check_observation(np.zeros((1, N_SLOTS - 1), np.float32))
    with pytest.raises(ObservationError, match="finite"):
        check_observation(np.full((1, N_SLOTS), np.nan, np.float32))


@given(st.integers(0, 12), st.floats(0, 500, width=32), st.floats(0, 1, exclude_max=True))
def test_waits_honour_retry_after_and_stay_below_the_plan(n, after, u):
    plan, wait = float(planned_wait_s(n, after)), float(jittered_wait_s(n, after, u))
    assert after - 1e-3 <= wait <= plan + 1e-3
    assert plan == pytest.approx(max(after, min(60.0, 2.0**n)), rel=1e-6)
