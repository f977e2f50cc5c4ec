"""Incidents for the journal's tests."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from selfheal_rl.core.values import (
    N_ACTIONS,
    N_KINDS,
    Attempt,
    Capabilities,
    Decision,
    Diagnosis,
    EffectState,
    ErrorSnapshot,
    FailedCall,
    Failure,
    Incident,
    Outcome,
    RepairAction,
    Seam,
    Verdict,
    VirtualClock,
)
from selfheal_rl.runtime.journal import Journal


def make_failure(time: float = 100.0, task: str | None = "t1", tenant: str = "acme") -> Failure:
    posterior = [0.0] * N_KINDS
    posterior[0], posterior[2] = 0.25, 0.75
    return Failure(
        snapshot=ErrorSnapshot(
            time=time,
            tenant=tenant,
            task_id=task,
            goal="book a table",
            message="429 from https://bob:hunter2@api.example/v1",
            headers={"Retry-After": "3", "Authorization": "Bearer abcdef123456"},
            thoughts=("try again",),
            agent_state={"api_key": "sesame", "step": 2},
            call=FailedCall(tool="search", arguments={"query": "Bern", "password": "pw"}),
        ),
        diagnosis=Diagnosis(
            posterior=tuple(posterior), effect_state=EffectState.NOT_STARTED, signature="429"
        ),
    )


def make_attempt(started: float = 101.0, outcome: Outcome = Outcome.FAILED) -> Attempt:
    probabilities = [0.0] * N_ACTIONS
    probabilities[1], probabilities[2] = 0.3, 0.7
    return Attempt(
        decision=Decision(
            action=RepairAction.BACKOFF,
            intended=RepairAction.RETRY,
            variant="backoff.jittered",
            probabilities=tuple(probabilities),
            propensity=0.7,
            mask=tuple(i % 3 != 0 for i in range(N_ACTIONS)),
            selector="rules",
            policy_hash="p" * 64,
            spec_hash="s" * 64,
            reasons=("kind is rate_limit", "retry_after is 3 s"),
            override="canary",
            randomisation_unit="task:t1",
            observation=(0.5, -1.0, 0.25),
        ),
        outcome=outcome,
        started=started,
        seconds=1.5,
        tokens=7,
        verified=True,
        note="waited",
    )


def make_incident(
    id: str = "i1", task: str | None = "t1", tenant: str = "acme", time: float = 100.0
) -> Incident:
    return Incident(
        id=id,
        failures=(make_failure(time, task, tenant), make_failure(time + 2, task, tenant)),
        attempts=(
            make_attempt(time + 1),
            make_attempt(time + 3, Outcome.HEALED),
        ),
        capabilities=Capabilities(seams=frozenset({Seam.TOOL, Seam.STEP}), fallback_tool=True),
        verdict=Verdict.HEALED,
        next_wait_s=4.0,
    )


@pytest.fixture
def new_failure() -> Callable[..., Failure]:
    return make_failure


@pytest.fixture
def new_attempt() -> Callable[..., Attempt]:
    return make_attempt


@pytest.fixture
def new_incident() -> Callable[..., Incident]:
    return make_incident


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(1_000.0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


@pytest.fixture
def journal(path: Path, clock: VirtualClock) -> Iterator[Journal]:
    with Journal.open(path, clock=clock, hash_key=b"h" * 32) as opened:
        yield opened
