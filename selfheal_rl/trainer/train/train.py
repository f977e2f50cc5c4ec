"""Train a recipe from beginning to end, or from where it stopped to the end."""

from pathlib import Path
from typing import Any

from selfheal_rl.trainer.train.parallel import Job, Report, Stop, raise_failures, run_jobs
from selfheal_rl.trainer.train.recipe import Recipe
from selfheal_rl.trainer.train.rundir import RunDirectory
from selfheal_rl.trainer.train.storage import RunError, write_json


def open_or_create(path: Path, recipe: Recipe, *, name: str, command: str) -> RunDirectory:
    """The run of ``recipe`` in ``path``: the one begun there before, or a new one.

    Raises:
        RunError: the folder holds another run, or something else.
    """
    if not (path / "run.json").is_file():
        return RunDirectory.create(path, recipe, name=name, command=command)
    run = RunDirectory.open(path)
    if run.recipe != recipe:
        raise RunError(
            f"{path} holds a run of another recipe or other options ({run.about['command']}); "
            f"name another --out, or continue that one with 'selfheal train --resume {path}'"
        )
    return run


def train(
    run: RunDirectory,
    *,
    jobs: int = 1,
    report: Report = lambda progress: None,
    stop: Stop = lambda: False,
) -> list[dict[str, Any]] | None:
    """Train every seed that is not finished.

    Args:
        run: new or begun.
        jobs: processes at a time, one seed each.
        report: gets progress records of all seeds.
        stop: once True, checkpoints are written and training ends.

    Returns:
        One row per seed; None when stopped early.

    Raises:
        RunError: a seed failed, or the worlds changed since the run began.
    """
    run.check_worlds()
    todo = [seed for seed in run.recipe.seeds if not _finished(run, seed)]
    work = [Job(f"seed {seed}", train_seed, (str(run.path), seed)) for seed in todo]
    failures = run_jobs(work, at_a_time=jobs, report=report, stop=stop)
    raise_failures(
        failures,
        f"checkpoints are kept: correct the cause, then run 'selfheal train --resume {run.path}'",
    )
    if not all(_finished(run, seed) for seed in run.recipe.seeds):
        return None
    rows = results(run)
    write_json(run.path / "result.json", rows)
    return rows


def train_seed(folder: str, seed: int, report: Report, stop: Stop) -> None:
    """Train one seed of a run in this process."""
    from selfheal_rl.trainer.train.seed_run import SeedRun

    SeedRun(RunDirectory.open(Path(folder)), seed).run(report, stop)


def results(run: RunDirectory) -> list[dict[str, Any]]:
    """One row per seed with what came out."""
    return [
        {
            "seed": t.seed,
            "utility": t.utility,
            "decisions": t.decisions,
            "seconds": round(t.seconds, 1),
            "decisions_per_second": round(t.decisions / max(t.seconds, 1e-9)),
            "weights": t.network.hash,
        }
        for t in run.all_trained()
    ]


def _finished(run: RunDirectory, seed: int) -> bool:
    trained = run.trained(seed)
    return trained is not None and trained.finished


def with_options(recipe: Recipe, **options: Any) -> Recipe:
    """The recipe with options of the command line in place; None leaves a value as it is."""
    given = {name: value for name, value in options.items() if value is not None}
    merged = recipe.model_dump() | given
    every = merged["validation"]["every"]
    if merged["decisions"] < every:
        merged["validation"] = merged["validation"] | {"every": merged["decisions"]}
    return Recipe.model_validate(merged)
