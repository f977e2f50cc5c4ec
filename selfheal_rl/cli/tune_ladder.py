"""``selfheal tune-ladder``: tune a table of rules, the yardstick a policy must beat."""

import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from selfheal_rl.cli.app import EXIT_INTERRUPTED
from selfheal_rl.cli.output import emit

MIXTURE_NAME = "ladder-tuned"


def tune_ladder(
    world: Annotated[
        list[str] | None, typer.Option("--world", "-w", help="World to tune on; may be repeated.")
    ] = None,
    mixture: Annotated[
        bool, typer.Option("--mixture", help="Only one table, for the mean of all the worlds.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder of the artifact, for one table.")
    ] = None,
    decisions: Annotated[
        int, typer.Option(min=1, help="Simulated decisions to spend per table at least.")
    ] = 30_000_000,
    tasks: Annotated[int, typer.Option(min=1, help="Tuning tasks per deployment.")] = 256,
    jobs: Annotated[int, typer.Option(min=1, help="Tables tuned at a time.")] = 2,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Tune a table of rules, the yardstick a policy must beat.

    Without options: one table for the mixture of the default recipe's worlds and one per world,
    into policies/ladder-tuned and policies/ladder-WORLD. Interrupted, it keeps the ascents that are
    finished: run the same command again to go on.
    """
    from selfheal_rl.trainer.train.ladder import Effort
    from selfheal_rl.trainer.train.ladder_export import tune_target
    from selfheal_rl.trainer.train.parallel import (
        Job,
        raise_failures,
        run_jobs,
        stop_on_signal,
    )

    effort = Effort(tasks=tasks, screen_tasks=max(tasks // 4, 1), decisions=decisions)
    targets = _targets(world, mixture, out, decisions, tasks)
    work = [Job(target.out, tune_target, (target, effort)) for target in targets]
    show = _Lines()
    with stop_on_signal() as stop:
        failures = run_jobs(work, at_a_time=jobs, report=show, stop=stop, patient=False)
        stopped = stop()
    raise_failures(failures, "artifacts written before are kept")
    emit(show.rows, as_json=as_json, title="Tuned rules")
    if stopped:
        typer.echo(
            "stopped; finished tables are written; run the same command again to go on", err=True
        )
        raise typer.Exit(EXIT_INTERRUPTED)


def _targets(
    world: list[str] | None, mixture: bool, out: Path | None, decisions: int, tasks: int
) -> list[Any]:
    from selfheal_rl.trainer.train.ladder_export import Target
    from selfheal_rl.trainer.train.recipe import load_recipe

    worlds = tuple(world or load_recipe("default").worlds)
    groups: list[tuple[str, tuple[str, ...]]] = []
    if mixture or not world:
        groups.append((MIXTURE_NAME, worlds))
    if not mixture:
        groups += [(f"ladder-{Path(w).stem}", (w,)) for w in worlds]
    if out is not None and len(groups) > 1:
        raise typer.BadParameter("--out names one folder; give one --world, or --mixture")
    targets = []
    for name, members in groups:
        folder = str(out or Path("policies") / name)
        options = [f"--world {w}" for w in members] if world or not mixture else []
        options += ["--mixture"] if name == MIXTURE_NAME else []
        budget = [f"--decisions {decisions}", f"--tasks {tasks}", f"--out {folder}"]
        command = " ".join(["selfheal tune-ladder", *options, *budget])
        targets.append(Target(members, folder, command))
    return targets


class _Lines:
    """One line per sweep, and the rows of what is finished."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self._console = Console(stderr=True)
        self._began = time.monotonic()

    def __call__(self, p: Any) -> None:
        if p.finished:
            self.rows.append(
                {
                    "policy": p.out,
                    "utility": p.validation,
                    "started_from": p.start,
                    "decisions": p.decisions,
                    "seconds": round(time.monotonic() - self._began, 1),
                }
            )
        self._console.print(
            f"{time.monotonic() - self._began:6.0f} s  {Path(p.out).name}: {p.stage}, "
            f"utility {p.utility:.4f}, {p.decisions:,} decisions",
            highlight=False,
            soft_wrap=True,
        )
