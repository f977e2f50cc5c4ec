"""First decisions on labelled incidents."""

import json
from pathlib import Path

import pytest

from selfheal_rl.core.values import ConfigError, Effects, RepairAction
from selfheal_rl.trainer.evaluate.gold import (
    UsualRule,
    incident_of,
    judge_gold,
    label,
    read_rows,
    score_policy,
)

A = RepairAction
GOLD = Path(__file__).resolve().parents[2].parent / "shared" / "gold" / "dev.jsonl"


def row(**changes):
    base = {
        "id": "x",
        "exception_type": "TimeoutError",
        "http_status": None,
        "retry_after_s": None,
        "message": "Request timed out after 30 seconds",
        "message_origin": "software",
        "tool_kind": "http_api",
        "idempotent": True,
        "read_only": True,
        "history": [],
        "kind": "timeout",
        "kind_also": [],
        "persistent": False,
        "good_first_actions": ["backoff"],
        "bad_actions": ["continue"],
    }
    return base | changes


def test_shares_of_good_and_bad_decisions_by_stratum() -> None:
    rows = [
        row(),
        row(good_first_actions=["reprompt"], bad_actions=["backoff"], persistent=True),
        row(good_first_actions=["escalate"], bad_actions=[], persistent=None),
    ]
    found = score_policy(UsualRule(), label(rows))
    assert (found["n"], found["good"], found["bad"]) == (
        3,
        pytest.approx(1 / 3),
        pytest.approx(1 / 3),
    )
    assert (found["good_transient"], found["bad_persistent"]) == (1.0, 1.0)
    assert (found["good_open"], found["bad_open"]) == (0.0, 0.0)


def test_only_legal_actions_count_and_rows_without_one_are_dropped() -> None:
    tried = row(history=["retry", "retry"], good_first_actions=["retry"])
    labelled = label([row(), tried])
    assert len(labelled.stratum) == 1
    with pytest.raises(ConfigError, match="no labelled incident has a good action that is legal"):
        label([tried])


def test_a_row_becomes_the_incident_it_describes() -> None:
    incident = incident_of(row(history=["backoff", "inspect"], idempotent=False, read_only=False))
    assert [a.decision.action for a in incident.attempts] == [A.BACKOFF, A.INSPECT]
    assert len(incident.failures) == 3
    assert incident.snapshot.call.effects is Effects.WRITE
    assert incident.snapshot.budget.attempts == 6
    assert incident.next_wait_s == 2.0


def test_a_file_that_is_not_as_described_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row()) + "\n[1]\n")
    with pytest.raises(ConfigError, match=r"rows\.jsonl:2: got \[1\]"):
        read_rows(path)
    path.write_text("{oops\n")
    with pytest.raises(ConfigError, match=r"rows\.jsonl:1: "):
        read_rows(path)


@pytest.mark.skipif(not GOLD.is_file(), reason="the labelled incidents are not beside the project")
def test_the_yardsticks_published_with_the_labels_come_out_again() -> None:
    found = judge_gold(GOLD)
    by_name = {s["policy"]: s for s in found["selectors"]}
    # Published without a legality mask: hence the tolerance.
    assert by_name["usual-rule"]["good"] == pytest.approx(0.35, abs=0.04)
    assert by_name["usual-rule"]["bad"] == pytest.approx(0.29, abs=0.04)
    assert by_name["tenacity"]["bad"] == pytest.approx(0.79, abs=0.04)
    assert by_name["random"]["good"] == pytest.approx(0.17, abs=0.02)
    assert found["rows"] - found["dropped"] >= 100
