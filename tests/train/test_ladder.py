"""Tuning changes only what a cell decides, never loses, and finds the toy world's best table."""

from pathlib import Path

import numpy as np
import pytest

from selfheal_rl.core.values import N_KINDS, RepairAction
from selfheal_rl.runtime.decide.rules import Ladder, LadderSelector
from selfheal_rl.trainer.evaluate.exact import ExactWorld
from selfheal_rl.trainer.evaluate.yardsticks.selector import SelectorPolicy
from selfheal_rl.trainer.seeds import TUNE_SEED
from selfheal_rl.trainer.sim.compile import load_world
from selfheal_rl.trainer.train.ladder import Effort, LadderTuner, _Ascent
from selfheal_rl.trainer.train.ladder_memory import StoredAscents
from selfheal_rl.trainer.train.ladder_play import (
    CELLS,
    play_table,
    starting_tables,
    try_rungs,
)
from selfheal_rl.trainer.train.validate import HeldOut

A = RepairAction


@pytest.fixture(scope="module")
def office() -> HeldOut:
    return HeldOut.draw(load_world("mcp-office"), TUNE_SEED, 4, 100)


def random_table(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 17, CELLS).astype(np.uint8)


@pytest.mark.parametrize("seed", range(3))
def test_a_table_plays_as_the_healer_plays_it(office: HeldOut, seed: int) -> None:
    table = random_table(seed)
    ours = play_table(office, table, None)
    healer = office.play(SelectorPolicy(LadderSelector(Ladder(table))))
    np.testing.assert_array_equal(ours.utility, healer.utility)


def test_candidates_played_together_do_as_each_alone(office: HeldOut) -> None:
    table = starting_tables()["hand-ladder"].copy()
    place = (0, 0)  # timeout, repeatable
    rungs = np.stack([table[0, :, 0], np.full(6, A.BACKOFF), np.full(6, A.FALLBACK_TOOL)])
    at = np.arange(0, 400, 3)
    together, decisions = try_rungs(office, table, place, rungs.astype(np.uint8), at)
    assert decisions > len(at)
    for row, candidate in zip(together, rungs, strict=True):
        changed = table.copy()
        changed[0, :, 0] = candidate
        np.testing.assert_array_equal(row, play_table(office, changed, None).utility[at])


def test_only_tasks_that_read_a_cell_can_change(office: HeldOut) -> None:
    table = starting_tables()["hand-ladder"].copy()
    looked = np.zeros((400, *CELLS), np.bool_)
    before = play_table(office, table, looked).utility
    kind, rung, unsafe = np.unravel_index(looked.sum(axis=0).argmax(), CELLS)
    changed = table.copy()
    changed[kind, rung, unsafe] = A.DEGRADE if table[kind, rung, unsafe] != A.DEGRADE else A.RETRY
    after = play_table(office, changed, None).utility
    reads = looked[:, kind, rung, unsafe]
    np.testing.assert_array_equal(after[~reads], before[~reads])
    assert (after[reads] != before[reads]).any()


def test_an_ascent_books_what_its_table_is_worth_and_never_loses(office: HeldOut) -> None:
    ascent = _Ascent([office], starting_tables()["stamina"].copy())
    utilities = [ascent.utility]
    for cell in ascent.cells()[:8]:
        ascent.improve(cell)
        utilities.append(ascent.utility)
    assert utilities == sorted(utilities)
    assert utilities[-1] > utilities[0] + 0.02
    looked = np.zeros((400, *CELLS), np.bool_)
    played = play_table(office, ascent.table, looked).utility
    np.testing.assert_array_equal(played, ascent.worth[0])
    np.testing.assert_array_equal(looked, ascent.looked[0])


def test_starting_tables_are_the_libraries_defaults() -> None:
    tables = starting_tables()
    assert set(tables) >= {"hand-ladder", "tenacity", "stamina", "langgraph", "langchain"}
    assert (tables["agent-alone"] == A.CONTINUE).all()
    assert (tables["give-up"] == A.ESCALATE).all()
    assert tables["tenacity"][0, 0, 0] == A.RETRY
    np.testing.assert_array_equal(
        tables["langchain"][0, :, 0], [A.BACKOFF, A.BACKOFF, *[A.CONTINUE] * 4]
    )
    assert all(t.shape == (N_KINDS, 6, 2) for t in tables.values())


@pytest.mark.slow
def test_tuning_reaches_the_optimum_of_the_toy_world() -> None:
    """Give-up scores 0 by definition, the hand ladder about 0.7; the optimum is a table here."""
    world = load_world("toy-exact")
    effort = Effort(draws=1, tasks=3000, screen_tasks=200, refine=1, decisions=1)
    tuned = LadderTuner([world], effort).tune()
    exact = ExactWorld(world)
    score = exact.score(SelectorPolicy(LadderSelector(Ladder(tuned.table))))
    assert score > 0.97
    assert tuned.decisions > 100_000
    assert max(u["start"] for u in tuned.starts.values()) < tuned.score.utility


def test_an_interrupted_tuning_ends_in_the_same_table(tmp_path: Path) -> None:
    worlds = [load_world("toy-exact")]
    effort = Effort(draws=1, tasks=256, screen_tasks=64, decisions=20_000, sweeps=2)
    whole = LadderTuner(worlds, effort).tune()
    path = tmp_path / "tune" / "toy.npz"

    def stop_in_the_middle(stage: str, utility: float, decisions: int) -> None:
        if stage.startswith("from langgraph"):
            raise KeyboardInterrupt

    stopped = LadderTuner(worlds, effort, stop_in_the_middle, StoredAscents(path, worlds, effort))
    with pytest.raises(KeyboardInterrupt):
        stopped.tune()
    stages: list[str] = []
    memory = StoredAscents(path, worlds, effort)
    again = LadderTuner(worlds, effort, lambda stage, u, n: stages.append(stage), memory).tune()
    np.testing.assert_array_equal(again.table, whole.table)
    assert again.decisions == whole.decisions
    assert not any(stage.startswith("from hand-ladder") for stage in stages)
    assert StoredAscents(path, worlds, Effort(tasks=7)).get("1: from hand-ladder") is None
