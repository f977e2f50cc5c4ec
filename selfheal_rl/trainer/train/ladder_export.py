"""Tuned tables as artifacts: one per target, written as soon as it is tuned."""

import time
from dataclasses import dataclass
from pathlib import Path

from selfheal_rl.core.catalog import Manifest, Training
from selfheal_rl.runtime.decide.ladder_artifact import write_ladder
from selfheal_rl.runtime.decide.rules import Ladder
from selfheal_rl.trainer.seeds import TUNE_SEED
from selfheal_rl.trainer.sim.compile import load_world
from selfheal_rl.trainer.train.ladder import Effort, LadderTuner, Tuned
from selfheal_rl.trainer.train.ladder_memory import FOLDER, StoredAscents
from selfheal_rl.trainer.train.parallel import Report, Stop


@dataclass(frozen=True)
class Target:
    """One table to tune.

    Attributes:
        worlds: ids or paths; the table is tuned on the mean of their utilities.
        out: folder of the artifact.
        command: that tunes it, for manifest and card.
    """

    worlds: tuple[str, ...]
    out: str
    command: str


@dataclass(frozen=True)
class LadderProgress:
    """Where one tuning stands.

    Attributes:
        out: the target's folder.
        stage: what is being done.
        utility: on the tuning tasks there.
        decisions: simulated so far.
        finished: the artifact is written.
        start: table the result began from, once finished.
        validation: utility on validation draws, once finished.
    """

    out: str
    stage: str
    utility: float
    decisions: int
    finished: bool = False
    start: str = ""
    validation: float | None = None


def tune_target(target: Target, effort: Effort, report: Report, stop: Stop) -> None:
    """Tune one table and write its artifact."""
    del stop  # terminated, not asked: finished ascents are kept, an earlier artifact stays whole
    began = time.perf_counter()
    worlds = [load_world(world) for world in target.worlds]
    memory = StoredAscents(FOLDER / f"{Path(target.out).absolute().name}.npz", worlds, effort)
    tuner = LadderTuner(
        worlds,
        effort,
        lambda stage, utility, n: report(LadderProgress(target.out, stage, utility, n)),
        memory,
    )
    tuned = tuner.tune()
    write(target, effort, tuned, time.perf_counter() - began)
    memory.clear()
    report(
        LadderProgress(
            target.out,
            "done",
            tuned.score.utility,
            tuned.decisions,
            True,
            tuned.start,
            tuned.score.utility,
        )
    )


def write(target: Target, effort: Effort, tuned: Tuned, seconds: float) -> Manifest:
    """The artifact of a tuned table.

    Raises:
        ArtifactError: the folder cannot be written.
    """
    name = Path(target.out).absolute().name
    return write_ladder(
        target.out,
        Ladder(tuned.table, name),
        card=_card(name, target, effort, tuned),
        training=Training(
            command=target.command,
            seeds=(TUNE_SEED,),
            decisions=tuned.decisions,
            seconds=round(seconds, 1),
        ),
        scores={
            "measure": "mean utility of a failing task, validation draws, worlds averaged",
            "utility": round(tuned.score.utility, 5),
            "worlds": {world: round(u, 5) for world, u in tuned.score.worlds.items()},
            "started_from": tuned.start,
        },
    )


def _card(name: str, target: Target, effort: Effort, tuned: Tuned) -> str:
    rows = [
        f"| {start} | {u['start']:.4f} | {u['tuned']:.4f} |" for start, u in tuned.starts.items()
    ]
    worlds = [f"| {world} | {utility:.4f} |" for world, utility in tuned.score.worlds.items()]
    return "\n".join(
        [
            f"# {name}",
            "",
            "A table of rules (fault kind x attempt x may the call be repeated?) tuned by "
            f"coordinate ascent on {', '.join(target.worlds)}: the yardstick a policy must beat.",
            "",
            "```",
            target.command,
            "```",
            "",
            f"{tuned.decisions:,} simulated decisions, seed {TUNE_SEED}; "
            f"{effort.draws} deployments per world, {effort.tasks} failing tasks each, fresh ones "
            "each round; sweeps until one gains less than 0.1 %. "
            f"The table that ships began from `{tuned.start}`.",
            "",
            "| started from | utility before | after a short ascent |",
            "|---|---:|---:|",
            *rows,
            "",
            "| world | utility on validation draws |",
            "|---|---:|",
            *worlds,
            "",
        ]
    )
