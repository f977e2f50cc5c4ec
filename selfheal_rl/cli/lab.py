"""``selfheal lab``: run a scripted agent on real components that really fail, arm by arm."""

import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from selfheal_rl.cli.output import print_json

DEFAULT_ARMS = "bare,tenacity,stamina,ladder-tuned,policy"


def lab(
    tasks: Annotated[int, typer.Option(min=1, help="Tasks per seed.")] = 40,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds, numbered from 0.")] = 3,
    arms: Annotated[
        str, typer.Option(help="Arms, with commas between; also: langgraph, langchain.")
    ] = DEFAULT_ARMS,
    policy: Annotated[
        str, typer.Option(help="Policy of the arm 'policy': a bundled id, or an artifact's folder.")
    ] = "default",
    journal: Annotated[
        str | None, typer.Option(help="Where healer arms log each decision: a file or a URL.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Run the same failing tasks under each arm and compare how many end in the right state."""
    names = tuple(name.strip() for name in arms.split(",") if name.strip())
    rows = run(names, tasks=tasks, seeds=seeds, policy=policy, journal=journal)
    if as_json:
        print_json(rows)
    else:
        show(rows)
        _how_to_look(rows, journal)


def run(
    arms: Sequence[str], *, tasks: int, seeds: int, policy: str = "default", journal: str | None
) -> list[dict[str, Any]]:
    """Run the lab with a progress bar on standard error; one row per arm.

    Args:
        arms: names, in the order of the table.
        tasks: per seed.
        seeds: numbered from 0.
        policy: of the arm ``policy``.
        journal: path or URL, or None.
    """
    from selfheal_rl.lab import LabConfig, run_lab

    config = LabConfig(tasks=tasks, seeds=seeds, arms=tuple(arms), policy=policy, journal=journal)
    total = tasks * seeds * len({"bare", *config.arms})
    with _quiet(), _progress(total) as told:
        return run_lab(config, told)


def show(rows: Sequence[dict[str, Any]], console: Console | None = None) -> None:
    """Print the rows side by side, with 95 % intervals; fits 80 columns.

    Args:
        rows: of :func:`run`.
        console: where they go; standard output when None.
    """
    first = rows[0]
    title = f"Lab: {first['tasks']} tasks ({first['seeds']} seeds), the same faults for every arm"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, **_TIGHT)
    table.add_column("arm", no_wrap=True)
    for heading in _HEADINGS:
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        figures = [_figure(row, name, form) for name, form in _FIGURES.items()]
        table.add_row(row["arm"], *figures, *(str(row[name]) for name in _COUNTS))
    (console or Console()).print(table)


_TIGHT: dict[str, Any] = {"padding": 0, "pad_edge": False, "show_edge": False}
_FIGURES = {
    "completion": "{:.2f}",
    "utility": "{:.2f}",
    "cost_per_completed": "{:.2f}",
    "seconds": "{:.0f}",
}
_COUNTS = ("injected", "disrupted", "escalated", "harm")
_HEADINGS = (
    "comple-\ntion",
    "utility\n",
    "cost per\ncompleted",
    "time,\nseconds",
    "in-\njected",
    "dis-\nrupted",
    "esca-\nlated",
    "harm\n",
)


def _figure(row: dict[str, Any], name: str, form: str) -> str:
    value, interval = row[name], row["intervals"][name]
    if value is None:
        return "-"
    low, high = interval or (None, None)
    bounds = "" if interval is None else f"\n{form.format(low)}-{form.format(high)}"
    return f"{form.format(value)}{bounds}"


def _how_to_look(rows: Sequence[dict[str, Any]], journal: str | None) -> None:
    console = Console()
    console.print(
        "Done means: databases and files hold exactly what they should. Utility is 1 a completed "
        "task less time, people and harm; seconds are virtual.",
        style="dim",
    )
    for row in rows:
        if row["arm"] == "ladder-tuned" and row["selector"] != "ladder-tuned":
            console.print(f"ladder-tuned played {row['selector']}: no tuned ladder is bundled.")
        for trouble in row["troubles"]:
            console.print(f"{row['arm']}: the healer itself had a fault: {trouble}", markup=False)
    if journal is not None:
        console.print(f"Every decision with its reasons: selfheal incidents --journal {journal}")
    elif any(row["selector"] for row in rows):
        console.print("To keep every decision with its reasons, add --journal lab.db")


@contextmanager
def _quiet() -> Iterator[None]:
    """Each retry and repair logs a warning; hundreds of them would drown the table."""
    loggers = [logging.getLogger(name) for name in ("selfheal_rl", "stamina", "langgraph")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@contextmanager
def _progress(total: int) -> Iterator[Callable[[str, int], None]]:
    columns = (
        TextColumn("{task.description:<13}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    console = Console(file=sys.stderr)
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("lab", total=total)

        def told(arm: str, done: int) -> None:
            bar.update(task, advance=done, description=arm)

        yield told


__all__ = ["lab", "run", "show"]
