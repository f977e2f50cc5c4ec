"""``selfheal export``: write a trained policy as a small, verified artifact."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from selfheal_rl.cli.output import emit


def export(
    run: Annotated[Path, typer.Argument(help="A run directory of 'selfheal train'.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the artifact.")],
    ensemble: Annotated[
        bool, typer.Option(help="Ship the mean of all seeds, with their disagreement.")
    ] = False,
    distill: Annotated[
        bool, typer.Option(help="Ship one network that decides as all seeds together do.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Write a trained policy as a small, verified artifact.

    An earlier artifact in the same folder stays whole unless the new one is complete and verified.
    """
    from selfheal_rl.trainer.train.export import Members, export_run
    from selfheal_rl.trainer.train.rundir import RunDirectory

    if ensemble and distill:
        raise typer.BadParameter("--ensemble and --distill exclude each other; give one")
    members: Members = "all" if ensemble else "distilled" if distill else "best"
    command = shlex.join(["selfheal", *sys.argv[1:]])
    manifest = export_run(RunDirectory.open(run), out, command=command, members=members)
    size = sum(file.stat().st_size for file in out.iterdir()) / 1000
    row = {
        "policy": str(out),
        "utility": manifest.scores["utility"],
        "seeds": manifest.scores["shipped_seeds"],
        "onnx_kilobytes": round((out / "policy.onnx").stat().st_size / 1000, 1),
        "kilobytes": round(size, 1),
        "hash": manifest.manifest_hash[:16],
    }
    emit([row], as_json=as_json, title="Exported and verified")
