"""``selfheal incidents``: what the healer did, and why."""

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from selfheal_rl.cli.output import print_json
from selfheal_rl.core.values import ACTIONS, Attempt, Failure, Incident
from selfheal_rl.runtime.journal import IncidentSummary, Journal

_MESSAGE = 240
_SHORT_ID = 12
_VERDICT_STYLE = {"healed": "green", "open": "yellow", "degraded": "yellow", "failed": "red"}


def incidents(
    incident: Annotated[
        str | None, typer.Argument(help="An incident's id, or the start of it: show its decisions.")
    ] = None,
    journal: Annotated[
        str,
        typer.Option(
            "--journal", "-j", envvar="SELFHEAL_JOURNAL", help="The journal's file, or its URL."
        ),
    ] = "journal.db",
    task: Annotated[str | None, typer.Option("--task", help="Only incidents of this task.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the journal's incidents, newest first, or explain one decision by decision."""
    with Journal.open(journal, read_only=True) as opened:
        if incident is None:
            _print_list(opened.incidents(task=task, limit=limit), as_json=as_json)
            return
        found = opened.incident(opened.find(incident))
    if as_json:
        print_json(incident_data(found))
    else:
        print_incident(found, Console())


def _print_list(rows: list[IncidentSummary], *, as_json: bool) -> None:
    if as_json:
        print_json([asdict(row) for row in rows])
    elif not rows:
        Console().print("No incidents.")
    else:
        Console().print(_table(rows))
        notes = "Times are UTC. `selfheal incidents ID` explains one."
        if any(row.censored for row in rows):
            notes += " * The end was not observed."
        Console().print(Text(notes, style="dim"))


def _table(rows: list[IncidentSummary]) -> Table:
    table = Table(
        title="Incidents",
        title_justify="left",
        header_style="bold",
        box=SIMPLE_HEAD,
        padding=0,
    )
    for name in ("id", "opened"):
        table.add_column(name, no_wrap=True)
    for name in ("task", "tool"):
        table.add_column(name, overflow="fold")
    for name in ("kind", "verdict"):
        table.add_column(name, no_wrap=True)
    for name in ("tries", "seconds", "tokens"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("task done", no_wrap=True)
    length = _id_length([row.id for row in rows])
    for row in rows:
        verdict = row.verdict.value
        table.add_row(
            Text(row.id[:length]),
            _when(row.opened),
            Text(row.task_id or "(orphan)"),
            Text(row.tool),
            row.kind,
            Text(verdict + ("*" if row.censored else ""), _VERDICT_STYLE.get(verdict, "")),
            str(row.attempts),
            f"{row.seconds:,.1f}",
            f"{row.tokens:,}",
            {None: "unknown", True: "yes", False: "no"}[row.task_success],
        )
    return table


def _id_length(ids: list[str]) -> int:
    """Characters of an id that tell the listed incidents apart, at least twelve."""
    longest = max(map(len, ids))
    return next(
        (n for n in range(_SHORT_ID, longest) if len({i[:n] for i in ids}) == len(ids)), longest
    )


def incident_data(incident: Incident) -> dict[str, Any]:
    """An incident as JSON: all that was recorded, actions by name, and what each mask closed."""
    data = incident.model_dump(mode="json", exclude={"attempts"})
    data["attempts"] = [_attempt_data(attempt) for attempt in incident.attempts]
    return data


def _attempt_data(attempt: Attempt) -> dict[str, Any]:
    decision = attempt.decision
    data = attempt.model_dump(mode="json", exclude={"decision"})
    data["decision"] = decision.model_dump(mode="json") | {
        "action": decision.action.slug,
        "intended": None if decision.intended is None else decision.intended.slug,
        "closed": _closed(attempt),
    }
    return data


def print_incident(incident: Incident, console: Console) -> None:
    """Print one incident: its failures and decisions in the order of time."""
    snapshot = incident.failures[0].snapshot
    task = snapshot.task_id or "(orphan)"
    head = Text.assemble(
        (f"Incident {incident.id}", "bold"),
        f"  {snapshot.call.tool} ({snapshot.call.effects.value}), tenant {snapshot.tenant}, "
        f"task {task}, {_when(snapshot.time)} UTC",
    )
    console.print(head)
    if snapshot.goal:
        console.print(Text(f"Goal: {snapshot.goal}"))
    console.print()
    console.print(_timeline(incident))
    seconds = sum(a.seconds for a in incident.attempts)
    tokens = sum(a.tokens for a in incident.attempts)
    verdict = incident.verdict.value
    end = Text.assemble(
        "Verdict: ",
        (verdict.replace("_", " "), _VERDICT_STYLE.get(verdict, "bold")),
        " (end not observed)" if incident.censored else "",
        f" after {len(incident.attempts)} attempts, {_cost(seconds, tokens)}",
    )
    console.print()
    console.print(end)


def _timeline(incident: Incident) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(ratio=1, overflow="fold")
    start = incident.failures[0].snapshot.time
    events: list[tuple[float, int, Failure | Attempt]] = [
        *((f.snapshot.time, 0, f) for f in incident.failures),
        *((a.started, 1, a) for a in incident.attempts),
    ]
    number = 0
    for time, _, event in sorted(events, key=lambda e: e[:2]):
        when = Text(f"+{max(0.0, time - start):.1f} s", style="dim")
        if isinstance(event, Failure):
            _add_failure(table, when, event)
        else:
            number += 1
            _add_attempt(table, when, event, number)
    return table


def _add_failure(table: Table, when: Text, failure: Failure) -> None:
    snapshot, diagnosis = failure.snapshot, failure.diagnosis
    status = "" if snapshot.http_status is None else f"HTTP {snapshot.http_status}, "
    head = Text.assemble(
        (diagnosis.kind.value, "bold"),
        f" (p {max(diagnosis.posterior):.2f}), {status}effect {diagnosis.effect_state.value}",
    )
    name = "alarm" if snapshot.is_soft else "failure"
    table.add_row(when, Text(name, style="red"), head)
    message = " ".join(f"{snapshot.error_type or ''} {snapshot.message}".split())
    if message:
        cut = message if len(message) <= _MESSAGE else message[: _MESSAGE - 3] + "..."
        table.add_row("", "", Text(cut, style="dim"))


def _add_attempt(table: Table, when: Text, attempt: Attempt, number: int) -> None:
    decision = attempt.decision
    verified = ", verified" if attempt.verified else ""
    outcome = attempt.outcome.value
    head = Text.assemble(
        (decision.variant or decision.action.slug, "bold cyan"),
        f"  propensity {decision.propensity:.3g}  ",
        (outcome + verified, _VERDICT_STYLE.get(outcome, "")),
        f"  {_cost(attempt.seconds, attempt.tokens)}",
    )
    table.add_row(when, Text(f"decision {number}", style="cyan"), head)
    for name, text in _details(attempt).items():
        if text:
            table.add_row("", Text(name, style="dim"), Text(text))


def _details(attempt: Attempt) -> dict[str, str]:
    decision = attempt.decision
    instead = "" if decision.intended is None else decision.intended.slug
    chosen_by = decision.selector + (
        f" (policy {decision.policy_hash[:12]})" if decision.policy_hash else ""
    )
    return {
        "  why": "; ".join(decision.reasons),
        "  closed": ", ".join(_closed(attempt)) or "nothing",
        "  also likely": _also_likely(attempt),
        "  instead of": f"{instead}, override: {decision.override}" if instead else "",
        "  selector": chosen_by,
        "  note": attempt.note,
    }


def _closed(attempt: Attempt) -> list[str]:
    mask = attempt.decision.mask
    return [action.slug for action, allowed in zip(ACTIONS, mask, strict=False) if not allowed]


def _also_likely(attempt: Attempt) -> str:
    """The three most probable other actions, from one percent up."""
    decision = attempt.decision
    others = [
        (p, action.slug)
        for action, p in zip(ACTIONS, decision.probabilities, strict=False)
        if p >= 0.01 and action is not decision.action
    ]
    return ", ".join(f"{name} {p:.2f}" for p, name in sorted(others, reverse=True)[:3])


def _when(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")
    except (OverflowError, OSError, ValueError):
        return f"{seconds:.0f} s"


def _cost(seconds: float, tokens: int) -> str:
    return f"{seconds:.1f} s" + (f", {tokens:,} tokens" if tokens else "")
