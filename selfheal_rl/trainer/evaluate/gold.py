"""First decisions on labelled incidents: a test of judgement outside the simulator.

Each row is one JSON object with ``exception_type``, ``http_status``, ``retry_after_s``,
``message``, ``tool_kind``, ``idempotent``, ``read_only``, ``history`` (actions that failed before),
``persistent``, ``good_first_actions`` and ``bad_actions``. An action is good, bad or neither; only
legal ones count, and a row without a good legal action is dropped. Nothing is trained on them.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfheal_rl.core.catalog import list_policies
from selfheal_rl.core.situation import (
    MAX_ATTEMPTS_INCIDENT,
    FactMatrix,
    facts_of,
    legal_mask,
    planned_wait_s,
)
from selfheal_rl.core.values import (
    KIND_INDEX,
    N_ACTIONS,
    SEAMS,
    Attempt,
    BudgetLeft,
    Capabilities,
    ConfigError,
    Decision,
    Effects,
    Failure,
    FaultKind,
    Incident,
    Outcome,
    RepairAction,
    ToolHealth,
)
from selfheal_rl.runtime.decide.rivals import RIVALS
from selfheal_rl.runtime.decide.rules import HAND_LADDER
from selfheal_rl.runtime.diagnose import classify
from selfheal_rl.runtime.diagnose.accuracy import score, snapshot_of_row
from selfheal_rl.trainer.evaluate.contenders import resolve
from selfheal_rl.trainer.sim.compile import load_world
from selfheal_rl.trainer.sim.episodes import SimPolicy, View
from selfheal_rl.trainer.sim.present import EWMA

A = RepairAction
Row = Mapping[str, Any]
STRATA = ("all", "persistent", "transient", "open")
_STRATUM = {True: "persistent", False: "transient", None: "open"}
_ATTEMPT_S = 2.0
"""Seconds an earlier attempt is taken to have lasted; the rows do not say."""
_EVERYTHING = Capabilities(
    seams=frozenset(SEAMS),
    permission=3,
    fallback_tool=True,
    fallback_model=True,
    probe=True,
    checkpointer=True,
    reset_hook=True,
    user=True,
    degrade_builder=True,
    argument_schema=True,
    output_validator=True,
    context_editor=True,
    knowledge=True,
    dependency_graph=True,
)
_USUAL_KINDS = ("timeout", "network", "rate_limit", "server_error")


class FactsView(View):
    """Decisions outside the simulator: facts and mask, no core to look at."""

    def __init__(self, facts: FactMatrix) -> None:
        self.facts = facts
        self.mask = legal_mask(facts)


class UsualRule:
    """Back off on timeouts, networks, 408, 429 and 5xx; else let the model redo the step."""

    name = "usual-rule"

    def choose(self, view: View) -> NDArray[np.int64]:
        """One action per row; escalate where it is closed."""
        kind = view.facts[: len(KIND_INDEX)].argmax(axis=0)
        waits = np.isin(kind, [KIND_INDEX[FaultKind(k)] for k in _USUAL_KINDS])
        chosen = np.where(waits, int(A.BACKOFF), int(A.REPROMPT))
        legal = view.mask[np.arange(len(chosen)), chosen]
        return np.where(legal, chosen, int(A.ESCALATE)).astype(np.int64)


@dataclass(frozen=True)
class Labelled:
    """Labelled incidents as arrays over N rows.

    Attributes:
        view: facts and mask.
        good: bool (N, 17), legal actions labelled good.
        bad: bool (N, 17).
        stratum: of each row.
    """

    view: FactsView
    good: NDArray[np.bool_]
    bad: NDArray[np.bool_]
    stratum: NDArray[np.str_]


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Labelled incidents from a JSONL file.

    Raises:
        ConfigError: a line is no JSON object.
    """
    rows = []
    for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise ConfigError(
                f"{path}:{number}: {error}; expected one JSON object a line"
            ) from None
        if not isinstance(row, dict):
            raise ConfigError(f"{path}:{number}: got {row!r:.40}; expected a JSON object")
        rows.append(row)
    return rows


def incident_of(row: Row) -> Incident:
    """The open incident a row describes, on a host that offers everything."""
    history = [A.parse(name) for name in row.get("history") or ()]
    base = snapshot_of_row(row)
    call = base.call.model_copy(update={"effects": _effects(row)})
    failures = []
    for k in range(len(history) + 1):
        snapshot = base.model_copy(
            update={
                "time": k * _ATTEMPT_S,
                "task_id": "gold",
                "task_started": 0.0,
                "call": call,
                "budget": BudgetLeft(attempts=max(MAX_ATTEMPTS_INCIDENT - k, 0)),
                "health": ToolHealth(
                    failure_rate=1.0 - (1.0 - EWMA) ** (k + 1), consecutive_failures=k + 1
                ),
            }
        )
        failures.append(Failure(snapshot=snapshot, diagnosis=classify(snapshot)))
    attempts = tuple(
        Attempt(decision=Decision(action=a), outcome=Outcome.FAILED, started=i * _ATTEMPT_S)
        for i, a in enumerate(history)
    )
    wait = planned_wait_s(history.count(A.BACKOFF), row.get("retry_after_s") or 0.0)
    return Incident(
        id=str(row.get("id", "gold")),
        failures=tuple(failures),
        attempts=attempts,
        capabilities=_EVERYTHING,
        next_wait_s=float(wait),
    )


def _effects(row: Row) -> Effects:
    if row.get("read_only"):
        return Effects.READ
    if row.get("idempotent"):
        return Effects.IDEMPOTENT_WRITE
    return Effects.WRITE if row.get("idempotent") is False else Effects.UNKNOWN


def label(rows: Iterable[Row]) -> Labelled:
    """Rows as arrays; those without a good legal action are dropped.

    Raises:
        ConfigError: nothing is left.
    """
    kept = list(rows)
    facts = [facts_of(incident_of(row)) for row in kept]
    if not facts:
        raise ConfigError("got no labelled incident; expected at least one line")
    view = FactsView(np.concatenate(facts, axis=1))
    good = _marks(kept, "good_first_actions") & view.mask
    at = np.flatnonzero(good.any(axis=1))
    if not len(at):
        raise ConfigError("no labelled incident has a good action that is legal; check the labels")
    bad = _marks(kept, "bad_actions")
    stratum = np.array([_STRATUM[row.get("persistent")] for row in kept])
    return Labelled(
        FactsView(np.ascontiguousarray(view.facts[:, at])), good[at], bad[at], stratum[at]
    )


def _marks(rows: Sequence[Row], key: str) -> NDArray[np.bool_]:
    marks = np.zeros((len(rows), N_ACTIONS), np.bool_)
    for i, row in enumerate(rows):
        for name in row.get(key) or ():
            marks[i, A.parse(name)] = True
    return marks


def score_policy(policy: SimPolicy, labelled: Labelled) -> dict[str, Any]:
    """Shares of good and bad first decisions, over all rows and by stratum."""
    actions = policy.choose(labelled.view)
    row = np.arange(len(actions))
    return _shares(policy.name, labelled, labelled.good[row, actions], labelled.bad[row, actions])


def _random(labelled: Labelled) -> dict[str, Any]:
    weights = labelled.view.mask / labelled.view.mask.sum(axis=1, keepdims=True)
    good, bad = (labelled.good * weights).sum(axis=1), (labelled.bad * weights).sum(axis=1)
    return _shares("random", labelled, good, bad)


def _shares(name: str, labelled: Labelled, good: NDArray[Any], bad: NDArray[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"policy": name, "n": len(good)}
    for stratum in STRATA:
        at = np.ones(len(good), np.bool_) if stratum == "all" else labelled.stratum == stratum
        for what, hits in (("good", good), ("bad", bad)):
            key = what if stratum == "all" else f"{what}_{stratum}"
            found[key] = float(hits[at].mean()) if at.any() else None
    return found


def judge_gold(path: Path, references: Sequence[str] = ()) -> dict[str, Any]:
    """Score policies, ladders, libraries, the usual rule and the classifier on one file.

    Args:
        path: labelled incidents, JSONL.
        references: policies, as :func:`~selfheal_rl.trainer.evaluate.contenders.resolve` takes
            them.

    Returns:
        ``{"selectors": [...], "classifier": {...}, "rows": n, "dropped": n}``.

    Raises:
        ConfigError: the file is not as described.
    """
    rows = read_rows(path)
    labelled = label(rows)
    bundled = list_policies()
    names = [*references, *(n for n in bundled if n.startswith("ladder-") or n == HAND_LADDER)]
    anywhere = load_world("toy-exact")
    selectors = []
    for name in dict.fromkeys([*names, *RIVALS]):
        contender = resolve(name)
        for i, member in enumerate(contender.members):
            found = score_policy(member.make(anywhere), labelled)
            found["policy"] = name if len(contender.members) == 1 else f"{name} seed {i}"
            selectors.append(found)
    selectors += [score_policy(UsualRule(), labelled), _random(labelled)]
    report = score(rows).to_json()
    report.pop("confusions")
    return {
        "selectors": sorted(selectors, key=lambda s: s["bad"] - s["good"]),
        "classifier": report,
        "rows": len(rows),
        "dropped": len(rows) - len(labelled.stratum),
    }
