"""``selfheal train``: train a repair policy on simulated failures."""

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from selfheal_rl.cli.app import EXIT_INTERRUPTED
from selfheal_rl.cli.output import emit


def train(
    recipe: Annotated[
        str | None, typer.Argument(help="A bundled recipe (quick, default) or a TOML file.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Run directory; default runs/RECIPE.")
    ] = None,
    resume: Annotated[Path | None, typer.Option(help="Continue this run where it stopped.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Seeds trained at a time.")] = 2,
    decisions: Annotated[int | None, typer.Option(min=1, help="Decisions per seed.")] = None,
    seeds: Annotated[str | None, typer.Option(help="Training seeds, e.g. 0,1,2.")] = None,
    worlds: Annotated[str | None, typer.Option(help="Worlds to train in, e.g. web-api.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Train a repair policy on simulated failures.

    A run that exists already is continued; Ctrl-C writes a checkpoint first.
    """
    from selfheal_rl.trainer.train.parallel import stop_on_signal
    from selfheal_rl.trainer.train.train import train as run_training

    run = _run(recipe, out, resume, decisions, seeds, worlds)
    with _Bars(run.recipe.decisions) as bars, stop_on_signal() as stop:
        rows = run_training(run, jobs=jobs, report=bars.show, stop=stop)
    if rows is None:
        typer.echo(f"stopped; continue with: selfheal train --resume {run.path}", err=True)
        raise typer.Exit(EXIT_INTERRUPTED)
    columns = ("seed", "utility", "decisions", "seconds", "decisions_per_second")
    emit(rows, as_json=as_json, title=f"Validation utility, {run.path}", columns=columns)
    if not as_json:
        typer.echo(f"next: selfheal export {run.path} --out policies/{run.path.name}")


def _run(
    recipe: str | None,
    out: Path | None,
    resume: Path | None,
    decisions: int | None,
    seeds: str | None,
    worlds: str | None,
) -> Any:
    from selfheal_rl.trainer.evaluate.worth import check_own
    from selfheal_rl.trainer.train.recipe import load_recipe
    from selfheal_rl.trainer.train.rundir import RunDirectory
    from selfheal_rl.trainer.train.train import open_or_create, with_options

    if resume is not None:
        if any(option is not None for option in (recipe, out, decisions, seeds, worlds)):
            raise typer.BadParameter("--resume takes everything from the run; give only --jobs")
        return RunDirectory.open(resume)
    if recipe is None:
        raise typer.BadParameter("name a recipe (try 'quick') or give --resume RUN")
    resolved = with_options(
        load_recipe(recipe),
        decisions=decisions,
        seeds=None if seeds is None else _numbers(seeds),
        worlds=None if worlds is None else tuple(w.strip() for w in worlds.split(",")),
    )
    check_own(resolved.worlds)
    path = out or Path("runs") / Path(recipe).stem
    command = shlex.join(["selfheal", *sys.argv[1:]])
    return open_or_create(path, resolved, name=recipe, command=command)


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise typer.BadParameter(f"--seeds got {text!r}; expected numbers like 0,1,2") from None


class _Bars:
    """One progress bar per seed, with the time left; plain lines where there is no terminal."""

    def __init__(self, total: int) -> None:
        self._console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeRemainingColumn(),
            TextColumn("left"),
            console=self._console,
        )
        self._tasks: dict[int, TaskID] = {}
        self._last: dict[int, float | None] = {}
        self._total = total

    def __enter__(self) -> "_Bars":
        self._progress.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._progress.__exit__(*error)

    def show(self, p: Any) -> None:
        """Draw a progress record."""
        if p.seed not in self._tasks:
            # The bar begins where a continued run begins, or its speed would be wrong.
            self._tasks[p.seed] = self._progress.add_task(
                f"seed {p.seed}", total=p.total, completed=0 if p.decisions < p.total else p.total
            )
        best = "" if p.best is None else f", validation {p.best:.4f}"
        now = "" if p.utility is None else f" utility {p.utility:.3f}"
        text = f"seed {p.seed}{now}{best}"
        self._progress.update(
            self._tasks[p.seed], description=text, completed=p.decisions, total=p.total
        )
        if not self._console.is_terminal and p.validated != self._last.get(p.seed):
            self._last[p.seed] = p.validated
            self._console.print(f"{text} at {p.decisions:,} of {p.total:,}", highlight=False)
