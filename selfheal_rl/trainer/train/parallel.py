"""Long jobs side by side, each in a process of its own on one thread, with progress and a stop."""

import os
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Event
from types import FrameType
from typing import Any

from selfheal_rl.core.values import SelfHealError
from selfheal_rl.trainer.train.storage import RunError

Report = Callable[[Any], None]
Stop = Callable[[], bool]
_POLL_S = 0.2


@dataclass(frozen=True)
class Job:
    """Work for one process.

    Attributes:
        name: for messages.
        function: a module-level function, called with the arguments, a report and a stop.
        arguments: picklable.
    """

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]


@dataclass
class _Running:
    job: Job
    process: BaseProcess
    pipe: Connection
    failed: str | None = None
    ended: bool = False


def run_jobs(
    jobs: Sequence[Job],
    *,
    at_a_time: int,
    report: Report = lambda value: None,
    stop: Stop = lambda: False,
    patient: bool = True,
) -> list[str]:
    """Run jobs in child processes.

    Args:
        jobs: in the order they are started.
        at_a_time: processes running together.
        report: gets whatever jobs report.
        stop: asked often; once True no job is started.
        patient: a stop waits until each running job has seen it and ended by itself; else running
            jobs are terminated.

    Returns:
        What failed, one message each; the other jobs went on to their end.
    """
    context = get_context("spawn")
    stopping = context.Event()
    waiting, running = list(jobs), list[_Running]()
    failures: list[str] = []
    try:
        while running or (waiting and not stopping.is_set()):
            while waiting and len(running) < at_a_time and not stopping.is_set():
                running.append(_start(context, waiting.pop(0), stopping))
            _listen(running, report)
            failures += [f"{r.job.name}: {r.failed}" for r in running if r.failed]
            running = [r for r in running if not (r.ended or r.failed)]
            if stop():
                stopping.set()
                if not patient:
                    break
    finally:
        stopping.set()
        for r in running:
            if not patient:
                r.process.terminate()
            r.process.join()
    return failures


@contextmanager
def stop_on_signal() -> Iterator[Stop]:
    """Within, Ctrl-C and SIGTERM ask to stop instead of interrupting; a second Ctrl-C interrupts.

    Yields:
        A function that says whether stopping was asked for.
    """
    asked = False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        asked = True

    before = {s: signal.signal(s, ask) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _start(context: Any, job: Job, stopping: Event) -> _Running:
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(job, theirs, stopping), name=job.name)
    # One thread each: it must be set before the child imports numpy.
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
    return _Running(job, process, ours)


def _listen(running: list[_Running], report: Report) -> None:
    by_pipe = {r.pipe: r for r in running}
    for ready in wait(list(by_pipe), timeout=_POLL_S):
        r = by_pipe[ready]  # type: ignore[index]
        try:
            kind, value = r.pipe.recv()
        except (EOFError, OSError):
            r.process.join()
            r.ended = True
            if r.process.exitcode != 0:
                r.failed = f"its process ended with code {r.process.exitcode}"
            continue
        if kind == "progress":
            report(value)
        else:
            r.failed = value
            r.process.join()


def _work(job: Job, pipe: Connection, stopping: Event) -> None:
    """In the child: one job."""
    # The parent decides when to stop; a Ctrl-C reaches the whole group.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()

    def stop() -> bool:
        return stopping.is_set() or parent is None or not parent.is_alive()

    def report(value: Any) -> None:
        try:
            pipe.send(("progress", value))
        except OSError:
            return  # the parent is gone; stop() says so to jobs that can stop

    try:
        job.function(*job.arguments, report, stop)
    except SelfHealError as error:
        pipe.send(("failed", str(error)))
    except Exception:
        pipe.send(("failed", traceback.format_exc()))
    finally:
        pipe.close()


def raise_failures(failures: Sequence[str], advice: str) -> None:
    """Turn the messages of :func:`run_jobs` into one error.

    Raises:
        RunError: there are any.
    """
    if failures:
        raise RunError(f"{'; '.join(failures)}; {advice}")
