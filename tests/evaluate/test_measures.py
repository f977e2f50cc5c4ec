"""Measures against closed forms."""

import numpy as np
import pytest

from selfheal_rl.trainer.evaluate.measures import Bootstrap, n_worst, share, twins


def boot(draws: int, seed: int = 0, replicates: int = 2000) -> Bootstrap:
    return Bootstrap(draws, np.random.default_rng(seed), replicates)


def test_the_interval_covers_the_true_mean_about_95_times_in_100() -> None:
    rng = np.random.default_rng(7)
    hits = 0
    for k in range(400):
        figure = boot(32, k, 400).mean(rng.normal(0.3, 1.0, (1, 32)))
        hits += figure.low <= 0.3 <= figure.high
    # 0.95 less what a percentile bootstrap of 32 clusters loses; four standard errors below.
    assert 0.89 <= hits / 400 <= 0.98


def test_training_seeds_that_differ_widen_the_interval() -> None:
    per_draw = np.random.default_rng(0).normal(0.0, 1.0, 32)
    alike = np.tile(per_draw, (5, 1))
    apart = alike + np.array([-2.0, -1.0, 0.0, 1.0, 2.0])[:, None]
    narrow, wide = boot(32).mean(alike), boot(32).mean(apart)
    assert narrow.mean == pytest.approx(wide.mean)
    assert wide.high - wide.low > 1.5 * (narrow.high - narrow.low)
    single = boot(32).mean(per_draw[None])
    assert narrow.high - narrow.low == pytest.approx(single.high - single.low, rel=0.1)


@pytest.mark.parametrize(
    ("policy", "expected"), [(0.5, 0.0), (0.9, 1.0), (0.7, 0.5), (0.4, -0.25), (1.0, 1.25)]
)
def test_gap_closed_is_the_share_of_the_way_from_rule_to_ceiling(
    policy: float, expected: float
) -> None:
    flat = np.ones((1, 8))
    figure = boot(8).gap_closed(policy * flat, 0.5 * flat, 0.9 * flat)
    assert figure is not None
    assert figure.mean == pytest.approx(expected)
    assert figure.low == pytest.approx(expected)
    assert figure.high == pytest.approx(expected)


def test_there_is_no_gap_to_close_where_the_rule_is_as_good_as_the_ceiling() -> None:
    flat = np.ones((1, 8))
    assert boot(8).gap_closed(flat, flat, flat) is None


def test_paired_differences_cancel_what_draws_have_in_common() -> None:
    base = np.random.default_rng(0).normal(0.0, 5.0, (1, 32))
    figure = boot(32).difference(base + 0.1, base)
    assert (figure.low, figure.mean, figure.high) == pytest.approx((0.1, 0.1, 0.1))


def test_the_worst_decile_is_the_mean_of_the_worst_draws() -> None:
    values = np.arange(32.0)[None]
    assert n_worst(32) == 3
    figure = boot(32).worst_decile(values)
    assert figure.mean == 1.0
    assert figure.low <= 1.0 <= figure.high
    assert boot(1).worst_decile(np.array([[0.4]])).mean == 0.4


def test_twins_count_rescued_and_broken_tasks() -> None:
    alone = np.tile([True, True, True, False, False], (6, 1))
    policy = np.tile([True, True, False, True, False], (6, 1))
    found = twins([policy], alone, boot(6))
    assert found.p.mean == pytest.approx(2 / 5)
    assert found.r.mean == pytest.approx(1 / 2)
    assert found.d.mean == pytest.approx(1 / 3)
    assert found.break_even.mean == pytest.approx((1 / 3) / (1 / 2 + 1 / 3))
    assert found.r.low == pytest.approx(1 / 2)


def test_a_policy_that_changes_nothing_rescues_and_breaks_nothing() -> None:
    alone = np.random.default_rng(0).random((8, 100)) < 0.6
    found = twins([alone, alone], alone, boot(8))
    assert (found.r.high, found.d.high, found.tasks) == (0.0, 0.0, 1600)


def test_wilsons_interval() -> None:
    figure = share(8, 10)
    assert figure is not None
    # Newcombe (1998), table I: 8 of 10.
    assert (figure.low, figure.high) == pytest.approx((0.4902, 0.9433), abs=1e-4)
    assert share(0, 0) is None
