"""Rule tables: semantics, format, artifact."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selfheal_rl.core.catalog import find_policy, read_golden, verify_artifact
from selfheal_rl.core.situation import facts_of, legal_mask, repeat_unsafe, rows
from selfheal_rl.core.values import (
    KIND_INDEX,
    KINDS,
    N_ACTIONS,
    N_KINDS,
    ArtifactError,
    ConfigError,
    Effects,
    FaultKind,
    IllegalMaskError,
    RepairAction,
)
from selfheal_rl.runtime.decide.ladder_artifact import refresh_ladder, write_ladder
from selfheal_rl.runtime.decide.rules import N_RUNGS, Ladder, LadderSelector

A = RepairAction


def random_ladder(seed: int) -> Ladder:
    rng = np.random.default_rng(seed)
    return Ladder(rng.integers(0, N_ACTIONS, (N_KINDS, N_RUNGS, 2)).astype(np.uint8))


def by_hand(ladder: Ladder, facts: Any, mask: Any) -> list[int]:
    """The same rule, written out as a loop."""
    chosen = []
    for n in range(facts.shape[1]):
        kind = KINDS[int(facts[rows("kind"), n].argmax())]
        attempt = min(int(facts[rows("tries"), n].sum()), N_RUNGS - 1)
        unsafe = bool(repeat_unsafe(facts)[n])
        rungs = ladder.rungs(kind, unsafe=unsafe)[attempt:]
        chosen.append(int(next((a for a in rungs if mask[n, a]), A.ESCALATE)))
    return chosen


@pytest.mark.parametrize("seed", range(8))
def test_the_vectorised_rule_is_the_rule(kit: Any, seed: int) -> None:
    facts, observation, mask = kit.situations(128, seed)
    ladder = random_ladder(seed)
    selector = LadderSelector(ladder)
    assert selector.actions(facts, mask).tolist() == by_hand(ladder, facts, mask)
    probabilities = selector.probabilities(facts, observation, mask)
    assert (probabilities.sum(axis=1) == 1.0).all()
    assert (probabilities[~mask] == 0.0).all()


def test_one_row_is_decided_as_in_a_batch(kit: Any) -> None:
    facts, _, mask = kit.situations(40)
    selector = LadderSelector(random_ladder(1))
    single = [int(selector.actions(facts[:, [n]], mask[[n]])[0]) for n in range(40)]
    assert single == selector.actions(facts, mask).tolist()


@given(seed=st.integers(0, 1000))
@settings(max_examples=20)
def test_toml_round_trip(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("ladder") / "rules.toml"
    ladder = random_ladder(seed)
    ladder.save(path)
    again = Ladder.load(path)
    assert (again.table == ladder.table).all()
    assert again.hash == ladder.hash
    assert again.name == ladder.name


def test_short_lists_repeat_and_absent_kinds_take_the_default(tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(
        'name = "mine"\n[default]\nrepeatable = ["retry"]\nunsafe = ["inspect", "escalate"]\n'
        '[kinds.timeout]\nrepeatable = ["backoff", "continue"]\n'
    )
    ladder = Ladder.load(path)
    assert ladder.rungs(FaultKind.TIMEOUT, unsafe=False) == (A.BACKOFF, *[A.CONTINUE] * 5)
    assert ladder.rungs(FaultKind.TIMEOUT, unsafe=True) == (A.INSPECT, *[A.ESCALATE] * 5)
    assert ladder.rungs(FaultKind.AUTH, unsafe=False) == (A.RETRY,) * 6


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[kinds.timeouts]\nrepeatable = ["retry"]', "did you mean 'timeout'"),
        ('[kinds.timeout]\nrepeatable = ["retri"]', "unknown action 'retri'"),
        ('[kinds.timeout]\nrepeat = ["retry"]', "did you mean 'repeatable'"),
        ("[kinds.timeout]\nrepeatable = []", "repeatable"),
        (f"[kinds.timeout]\nrepeatable = {['retry'] * 7}", "repeatable"),
    ],
)
def test_wrong_tables_are_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=words):
        Ladder.load(path)


def test_a_table_of_the_wrong_shape_is_refused() -> None:
    with pytest.raises(ConfigError, match="expected uint8"):
        Ladder(np.zeros((3, 6, 2), np.uint8))
    with pytest.raises(ConfigError, match="largest entry 99"):
        Ladder(np.full((N_KINDS, N_RUNGS, 2), 99, np.uint8))


def test_a_mask_of_all_false_is_refused(kit: Any) -> None:
    facts, observation, mask = kit.situations(2)
    with pytest.raises(IllegalMaskError):
        LadderSelector(random_ladder(0)).probabilities(facts, observation, np.zeros_like(mask))


def test_the_hand_ladder_is_level_one_friendly_and_never_repeats_in_doubt(kit: Any) -> None:
    selector = LadderSelector.load("hand-ladder")
    assert selector.name == "hand-ladder"
    for kind in FaultKind:
        facts = facts_of(kit.incident(kind))
        (action,) = selector.actions(facts, legal_mask(facts))
        if kind is not FaultKind.UNSAFE_OUTPUT:
            assert action in (A.CONTINUE, A.RETRY, A.BACKOFF), kind
        facts = facts_of(kit.incident(kind, effects=Effects.WRITE))
        (action,) = selector.actions(facts, legal_mask(facts))
        assert action in (A.CONTINUE, A.ESCALATE), kind


def test_golden_decisions_of_the_hand_ladder_hold() -> None:
    folder = find_policy("hand-ladder")
    verify_artifact(folder)
    golden = read_golden(folder / "golden.jsonl")
    selector = LadderSelector.load("hand-ladder")
    assert (legal_mask(golden.facts) == golden.mask).all()
    assert (selector.actions(golden.facts, golden.mask) == golden.actions).all()


def test_an_artifact_round_trip_and_its_damage(tmp_path: Path) -> None:
    ladder = random_ladder(5)
    write_ladder(tmp_path / "mine", ladder, card="# mine\n", scores={"utility": 0.5})
    selector = LadderSelector.load(tmp_path / "mine")
    assert (selector.ladder.table == ladder.table).all()
    assert selector.hash == verify_artifact(tmp_path / "mine").manifest_hash
    with (tmp_path / "mine" / "rules.toml").open("a") as file:
        file.write("# edited\n")
    with pytest.raises(ArtifactError, match="damaged or changed"):
        LadderSelector.load(tmp_path / "mine")


def test_a_rung_that_is_closed_gives_the_next_one(kit: Any) -> None:
    table = np.full((N_KINDS, N_RUNGS, 2), A.ESCALATE, np.uint8)
    table[KIND_INDEX[FaultKind.TIMEOUT], :, 0] = [A.FALLBACK_TOOL, A.BACKOFF] + [A.CONTINUE] * 4
    selector = LadderSelector(Ladder(table))
    facts = facts_of(kit.incident())
    assert selector.actions(facts, legal_mask(facts)).tolist() == [A.BACKOFF]
    assert "fallback_tool is closed" in selector.reason(facts, A.BACKOFF)


def test_refreshing_keeps_rules_card_and_date(tmp_path: Path) -> None:
    before = write_ladder(
        tmp_path / "mine", random_ladder(5), card="# mine\n", created="2026-01-01"
    )
    assert refresh_ladder(tmp_path / "mine") == before
