"""Seeds side by side, each in a process of its own on one thread; stops on request, never midway."""

import os
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

from selfheal_rl.core.values import SelfHealError
from selfheal_rl.trainer.train.storage import RunError

Report = Callable[[Any], None]
_POLL_S = 0.2


@dataclass
class _Job:
    seed: int
    process: BaseProcess
    pipe: Connection
    failed: str | None = None
    ended: bool = False


def train_seeds(
    folder: Path,
    seeds: Sequence[int],
    *,
    jobs: int,
    report: Report,
    stop: Callable[[], bool],
) -> None:
    """Train seeds of the run in ``folder``, ``jobs`` at a time.

    Args:
        folder: an existing run directory.
        seeds: those still to be trained.
        jobs: processes at a time.
        report: gets each :class:`~selfheal_rl.trainer.train.seed_run.Progress`.
        stop: asked often; once True, every seed writes its checkpoint and ends.

    Raises:
        RunError: a seed failed; the others were trained to their end all the same.
    """
    context = get_context("spawn")
    stopping = context.Event()
    waiting, running = list(seeds), list[_Job]()
    failures: list[str] = []
    try:
        while running or (waiting and not stopping.is_set()):
            while waiting and len(running) < jobs and not stopping.is_set():
                running.append(_start(context, folder, waiting.pop(0), stopping))
            _listen(running, report)
            failures += [f"seed {job.seed}: {job.failed}" for job in running if job.failed]
            running = [job for job in running if not (job.ended or job.failed)]
            if stop():
                stopping.set()
    finally:
        stopping.set()
        for job in running:
            job.process.join()
    if failures:
        raise RunError(
            f"{'; '.join(failures)}; checkpoints are kept: correct the cause, then run "
            f"'selfheal train --resume {folder}'"
        )


def _start(context: Any, folder: Path, seed: int, stopping: Event) -> _Job:
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(
        target=_work, args=(str(folder), seed, theirs, stopping), name=f"seed-{seed}"
    )
    # One thread per seed: it must be set before the child imports numpy.
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        process.start()
    finally:
        if before is None:
            del os.environ["OMP_NUM_THREADS"]
        else:
            os.environ["OMP_NUM_THREADS"] = before
    theirs.close()
    return _Job(seed, process, ours)


def _listen(running: list[_Job], report: Report) -> None:
    by_pipe = {job.pipe: job for job in running}
    for ready in wait(list(by_pipe), timeout=_POLL_S):
        job = by_pipe[ready]  # type: ignore[index]
        try:
            kind, value = job.pipe.recv()
        except EOFError:
            job.process.join()
            job.ended = True
            if job.process.exitcode != 0:
                job.failed = f"its process ended with code {job.process.exitcode}"
            continue
        if kind == "progress":
            report(value)
        else:
            job.failed = value
            job.process.join()


def _work(folder: str, seed: int, pipe: Connection, stopping: Event) -> None:
    """In the child: train one seed."""
    import signal

    # The parent decides when to stop; a Ctrl-C reaches the whole group.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    from selfheal_rl.trainer.train.rundir import RunDirectory
    from selfheal_rl.trainer.train.seed_run import SeedRun

    parent = parent_process()

    def stop() -> bool:
        return stopping.is_set() or parent is None or not parent.is_alive()

    def report(progress: Any) -> None:
        try:
            pipe.send(("progress", progress))
        except OSError:
            return  # the parent is gone; stop() sees that and ends on a checkpoint

    try:
        SeedRun(RunDirectory.open(Path(folder)), seed).run(report, stop)
    except SelfHealError as error:
        pipe.send(("failed", str(error)))
    except Exception:
        pipe.send(("failed", traceback.format_exc()))
    finally:
        pipe.close()
