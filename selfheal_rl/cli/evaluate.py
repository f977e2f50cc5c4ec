"""``selfheal evaluate``: judge policies against rules, libraries, planners and a clairvoyant."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

from selfheal_rl.cli.app import EXIT_INTERRUPTED
from selfheal_rl.cli.output import emit, print_json
from selfheal_rl.core.values.errors import ConfigError

if TYPE_CHECKING:
    from selfheal_rl.trainer.evaluate.judge import Report

TABLE_WIDTH = 120
DEFAULT_TASKS = 4096
CACHE = Path("runs/evaluate")


def evaluate(
    policies: Annotated[
        list[str] | None,
        typer.Argument(
            help="Bundled ids, artifact folders, training runs (every seed is judged), "
            "rules.toml files or yardsticks such as lookahead-2.",
        ),
    ] = None,
    world: Annotated[
        list[str] | None, typer.Option(help="World id or path; repeat for several. [all four]")
    ] = None,
    draws: Annotated[int, typer.Option(min=1, help="Held-out deployments per world.")] = 32,
    tasks: Annotated[int, typer.Option(min=1, help="Tasks per deployment.")] = DEFAULT_TASKS,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Training seeds per policy at most. [all]")
    ] = None,
    only: Annotated[
        bool, typer.Option("--only", help="Judge the named policies and agent-alone only.")
    ] = False,
    clairvoyant: Annotated[
        str | None,
        typer.Option(help="Training run or artifact of a network that sees the truth."),
    ] = None,
    false_alarms: Annotated[
        bool, typer.Option("--false-alarms", help="Every alarm is false: what does healing break?")
    ] = False,
    halve_assumed: Annotated[
        bool, typer.Option("--halve-assumed", help="Halve every assumed figure of the worlds.")
    ] = False,
    only_kind: Annotated[
        str | None, typer.Option(help="Keep only root causes that show mainly as this kind.")
    ] = None,
    gold: Annotated[
        Path | None, typer.Option(help="Labelled incidents (JSONL): judge first decisions.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    html: Annotated[Path | None, typer.Option(help="Write a report with plots here.")] = None,
    run: Annotated[
        Path | None, typer.Option(help="Training run whose learning curve the report shows.")
    ] = None,
    resume: Annotated[
        Path, typer.Option(help="Folder of finished cells; an interrupted run goes on there.")
    ] = CACHE,
) -> None:
    """Judge policies on held-out deployments, with the same luck for all.

    Interrupted, it keeps what is finished: run the same command again to go on.
    """
    if gold is not None:
        _judge_gold(policies or [], gold, as_json=as_json)
        return
    from selfheal_rl.trainer.evaluate.contenders import clairvoyant_network, resolve
    from selfheal_rl.trainer.evaluate.judge import evaluate as judge
    from selfheal_rl.trainer.evaluate.variants import prepare
    from selfheal_rl.trainer.evaluate.worth import check_own

    check_own(world or ())
    given = [resolve(reference) for reference in policies or []]
    if clairvoyant is not None:
        given.append(clairvoyant_network(clairvoyant))
    worlds = prepare(
        world or None,
        all_false=false_alarms,
        halve=halve_assumed,
        only_kind=only_kind,
    )
    quiet = as_json
    try:
        with _watch(quiet) as watcher:
            report = judge(
                worlds,
                given,
                draws=draws,
                tasks_per_draw=tasks,
                yardsticks=not only,
                max_seeds=seeds,
                cache=resume,
                watcher=watcher,
            )
    except KeyboardInterrupt:
        kept = f"finished cells are kept in {resume}; run the same command again to go on"
        typer.echo(kept, err=True)
        raise typer.Exit(EXIT_INTERRUPTED) from None
    if html is not None:
        _write_html(report, html, run or _first_run(policies or []))
    if as_json:
        print_json(report.rows)
        return
    console = _console()
    _tables(report, console)
    if html is not None:
        console.print(f"Report with plots: {html}", highlight=False)


def _console() -> Console:
    console = Console()
    return console if console.is_terminal else Console(width=TABLE_WIDTH)


class _Watcher:
    """One progress bar over all tasks of all cells."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task: TaskID = progress.add_task("", total=None)

    def plan(self, tasks: int) -> None:
        """Know the whole."""
        self._progress.update(self._task, total=tasks)

    def begin(self, world: str, policy: str, tasks: int) -> None:
        """Name the cell being played."""
        self._progress.update(self._task, description=f"{world}: {policy}")

    def advance(self, tasks: int) -> None:
        """Move the bar."""
        self._progress.advance(self._task, tasks)


class _Watching(AbstractContextManager["_Watcher"]):
    def __init__(self) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
        self._progress = Progress(*columns, console=Console(stderr=True), transient=True)

    def __enter__(self) -> _Watcher:
        self._progress.start()
        return _Watcher(self._progress)

    def __exit__(self, *_: object) -> None:
        self._progress.stop()


def _watch(quiet: bool) -> AbstractContextManager[_Watcher | None]:
    return nullcontext(None) if quiet else _Watching()


_SHARE = "{:.0%}"
_FAR_BELOW = -1.0
"""A share of the gap below this says only that the policy is far behind the rules."""
_COLUMNS: tuple[tuple[str, str, str], ...] = (
    ("completion", "compl.", "{:.3f}"),
    ("utility", "utility", "{:.3f}"),
    ("gap_closed", "gap closed ≤", _SHARE),
    ("worst_decile", "worst 10%", "{:.3f}"),
    ("attempts", "tries", "{:.2f}"),
    ("seconds", "seconds", "{:.0f}"),
    ("escalated", "esc.", "{:.3f}"),
    ("r", "r", "{:.3f}"),
    ("d", "d", "{:.3f}"),
)
_NARROW = ("completion", "utility", "gap_closed", "r", "d")
"""What is shown on a terminal too narrow for all, without intervals."""
_WITH_INTERVAL = ("utility", "gap_closed")


def _tables(report: "Report", console: Console) -> None:
    wide = console.width >= TABLE_WIDTH - 10
    columns = [c for c in _COLUMNS if wide or c[0] in _NARROW]
    for name in dict.fromkeys(row["world"] for row in report.rows):
        rows = [row for row in report.rows if row["world"] == name]
        table = Table(
            title=f"{name}: {rows[0]['tasks']:,} tasks each, best first",
            title_justify="left",
            header_style="bold",
            padding=(0, 1, 0, 0),
            box=SIMPLE_HEAD,
        )
        table.add_column("policy", no_wrap=True)
        for _, title, _ in columns:
            table.add_column(title, justify="right", no_wrap=True)
        for row in rows:
            style = {"policy": "bold green", "bound": "dim", "planner": "cyan"}.get(row["group"])
            label = row["policy"] + (" *" if row["best_rule"] else "")
            if row["seeds"] > 1:
                label += f" ×{row['seeds']}"
            table.add_row(
                label,
                *(_cell(row[k], fmt, wide and k in _WITH_INTERVAL) for k, _, fmt in columns),
                style=style,
            )
        console.print(table)
    console.print(
        "* best rule. Gap closed: share of the way from it to the clairvoyant; ≤, as that "
        "is itself an estimate from below.\n"
        "r: completed of the tasks the agent alone fails; d: failed of those it completes. "
        "×5: training seeds. In brackets: 95 % over deployments and training seeds.",
        style="dim",
        highlight=False,
    )


def _cell(figure: dict[str, float] | None, fmt: str, interval: bool) -> str:
    if figure is None:
        return "-"
    if fmt == _SHARE and figure["mean"] < _FAR_BELOW:
        return f"below {_FAR_BELOW:.0%}"
    text = fmt.format(figure["mean"])
    if interval:
        text += f" [{fmt.format(figure['low'])}, {fmt.format(figure['high'])}]"
    return text


def _first_run(references: Sequence[str]) -> Path | None:
    return next((Path(r) for r in references if (Path(r) / "run.json").is_file()), None)


def _write_html(report: "Report", path: Path, run: Path | None) -> None:
    from selfheal_rl.trainer.evaluate.html import write_html

    write_html(report, path, run)


def _judge_gold(references: Sequence[str], path: Path, *, as_json: bool) -> None:
    from selfheal_rl.trainer.evaluate.gold import judge_gold

    if not path.is_file():
        raise ConfigError(f"no file at {path}; expected labelled incidents, one JSON object a line")
    found: dict[str, Any] = judge_gold(path, references)
    if as_json:
        print_json(found)
        return
    n, dropped = found["rows"], found["dropped"]
    title = f"First decisions on {n} labelled incidents ({dropped} without a good legal action)"
    rows = [{"policy": s["policy"], **_good_and_bad(s)} for s in found["selectors"]]
    console = _console()
    emit(rows, as_json=False, title=title, console=console)
    console.print("Shares good / bad; by whether an identical call can heal.", style="dim")
    emit([found["classifier"]], as_json=False, title="Classifier", console=console)


def _good_and_bad(shares: dict[str, Any]) -> dict[str, str]:
    cells = {}
    for stratum in ("all", "persistent", "transient", "open"):
        tail = "" if stratum == "all" else f"_{stratum}"
        good, bad = shares[f"good{tail}"], shares[f"bad{tail}"]
        cells[stratum] = "-" if good is None else f"{good:.2f} / {bad:.2f}"
    return cells
