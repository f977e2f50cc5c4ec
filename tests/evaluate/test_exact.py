"""The enumerated optimum and the enumerated value of policies."""

import itertools

import numpy as np
import pytest

from selfheal_rl.core.values import CATEGORY, ConfigError, RepairAction
from selfheal_rl.trainer.evaluate import exact as module
from selfheal_rl.trainer.evaluate.contenders import resolve
from selfheal_rl.trainer.evaluate.exact import ExactWorld
from selfheal_rl.trainer.sim import load_world, run_tasks

A = RepairAction
TASKS = 40_000


@pytest.fixture(scope="module")
def solved() -> ExactWorld:
    return ExactWorld(load_world("toy-exact"))


@pytest.mark.parametrize("name", ["give-up", "agent-alone", "hand-ladder", "lookahead-2"])
def test_enumeration_agrees_with_simulation(solved: ExactWorld, name: str) -> None:
    policy = resolve(name).members[0].make(solved.world)
    ids = np.arange(TASKS)
    result = run_tasks(
        solved.world, solved.deployments, policy, ids, np.zeros(TASKS, np.int64), seed=5
    )
    error = result.utility.std() / np.sqrt(TASKS)
    assert abs(solved.value(policy, 512) - result.utility.mean()) < 4 * error
    assert solved.value(policy, 512) <= solved.optimum + 1e-9


def test_the_score_is_0_for_giving_up_and_grows_with_planning(solved: ExactWorld) -> None:
    scores = [
        solved.score(resolve(name).members[0].make(solved.world))
        for name in ("give-up", "agent-alone", "lookahead-1", "lookahead-2")
    ]
    assert scores[0] == pytest.approx(0.0, abs=1e-6)
    assert scores == sorted(scores)
    assert 0.95 < scores[-1] < 1.0


def test_the_optimum_is_the_best_of_all_lines_of_attempts(
    toy, cause, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Every failure looks alike, so an incident is one line: the best line is the optimum.
    monkeypatch.setattr(module, "MAX_ATTEMPTS_INCIDENT", 4)
    lost = cause(0.4, inspect=0.3, **{"continue": 0.2}) | {"after_inspect": {"continue": 0.7}}
    world = toy({"blip": cause(0.6, retry=0.6, **{"continue": 0.3}), "lost": lost})
    x = ExactWorld(world)
    assert set(x.repairs) == {A.CONTINUE, A.RETRY, A.INSPECT}
    best = np.full(x.start.weight.shape[1:], -np.inf)
    for n in range(5):
        for line in itertools.product(x.repairs, repeat=n):
            if _three_in_a_row(line):
                continue
            for g, s in np.ndindex(best.shape):
                best[g, s] = max(best[g, s], x._line(g, s, [*map(int, line), int(A.ESCALATE)]))
    assert x.optimum == pytest.approx(x.base + best.sum(), abs=1e-9)


def _three_in_a_row(line: tuple[RepairAction, ...]) -> bool:
    triples = zip(line, line[1:], line[2:], strict=False)
    return any(
        CATEGORY[a] is not None and CATEGORY[a] is CATEGORY[b] is CATEGORY[c] for a, b, c in triples
    )


def test_worlds_that_cannot_be_enumerated_are_refused_with_the_reasons() -> None:
    with pytest.raises(ConfigError, match=r"exact = true, one host, max_failures = 1"):
        ExactWorld(load_world("mcp-office"))
