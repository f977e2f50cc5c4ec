"""``selfheal quickstart``: the whole way once, from training to healing, in about three minutes."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.rule import Rule

from selfheal_rl.cli import app

RECIPE = "quick"


@dataclass(frozen=True, slots=True)
class Stage:
    """One command of the quickstart.

    Attributes:
        title: what it does, for the reader.
        argv: the command line, as the reader could type it.
    """

    title: str
    argv: tuple[str, ...]

    @property
    def command(self) -> str:
        """The command as typed."""
        return " ".join(("selfheal", *self.argv))


def stages(out: Path) -> tuple[Stage, ...]:
    """The quickstart's commands; everything is written under ``out``."""
    run, policy, journal = str(out / "run"), str(out / "policy"), str(out / "journal.db")
    return (
        Stage("Train a repair policy on simulated failures", ("train", RECIPE, "--out", run)),
        Stage("Judge it against rules and libraries, same luck for all", _evaluate(out, run)),
        Stage("Export it as a small, verified artifact", ("export", run, "--out", policy)),
        Stage(
            "Watch it heal an agent on real components",
            ("lab", "--policy", policy, "--journal", journal),
        ),
    )


def _evaluate(out: Path, run: str) -> tuple[str, ...]:
    # Few draws and tasks: a first look. `selfheal evaluate` alone uses 32 draws of 4,096 tasks.
    size = ("--world", "mcp-office", "--world", "web-api", "--draws", "8", "--tasks", "512")
    report = ("--html", str(out / "report.html"), "--run", run)
    return ("evaluate", run, *size, *report, "--resume", str(out / "evaluation"))


def quickstart(
    out: Annotated[
        Path, typer.Option(help="Folder for the run, its report and the policy.")
    ] = Path("runs/quickstart"),
) -> None:
    """Train, judge, export, heal: the whole way, in about three minutes on two cores.

    Interrupted, it goes on where it was when it is started again.
    """
    if code := play(stages(out), run=app.run, console=Console()):
        raise typer.Exit(code)
    Console().print(_next_steps(out), highlight=False)


def play(
    todo: Sequence[Stage],
    *,
    run: Callable[[Sequence[str]], int],
    console: Console,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Run the stages in order and stop at the first that fails.

    Returns:
        The exit code of that stage, or 0.
    """
    begin = clock()
    for number, stage in enumerate(todo, start=1):
        console.print(Rule(f"{number}/{len(todo)}  {stage.title}", align="left"))
        console.print(f"$ {stage.command}", style="dim", highlight=False)
        started = clock()
        if code := run(stage.argv):
            console.print(
                f"Stopped at step {number} of {len(todo)}. What is done is kept: "
                f"run the quickstart again to go on."
            )
            return code
        console.print(f"done in {clock() - started:.0f} s", style="dim", highlight=False)
    console.print(f"\nAll {len(todo)} steps took {clock() - begin:.0f} s.", highlight=False)
    return 0


def _next_steps(out: Path) -> str:
    return (
        "\n[bold]Next[/]\n"
        f"  heal your own calls   Healer(policy={str(out / 'policy')!r}), see README.md\n"
        f"  read the report       {out / 'report.html'}\n"
        f"  see each decision     selfheal incidents --journal {out / 'journal.db'}\n"
        "  train on your world   selfheal init my-agent, then edit my-agent/envs\n"
        "  train for longer      selfheal train default"
    )
