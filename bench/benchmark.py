"""Regenerates every published number, and ``training/BENCHMARK.md`` with the command beside each.

    python bench/benchmark.py            all steps; one that was finished is not run again
    python bench/benchmark.py --fresh    all steps, from nothing
    python bench/benchmark.py --render   only BENCHMARK.md and README.md, from the results there

Hours on two cores. An interrupted run goes on at the step it was in.
"""

import argparse
import json
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import readme_table
import run as speed

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "training" / "results"
REPORT = ROOT / "training" / "BENCHMARK.md"
DONE = ROOT / "runs" / "benchmark" / "done.json"
RUN = "runs/default"


@dataclass(frozen=True, slots=True)
class Step:
    """One command.

    Attributes:
        name: of the step, and of its file in ``training/results`` when it has one.
        argv: what is run, from the root of the checkout.
        title: heading in BENCHMARK.md; empty for a step that only prepares.
    """

    name: str
    argv: tuple[str, ...]
    title: str = ""

    @property
    def result(self) -> Path | None:
        """Where the command's JSON goes."""
        return RESULTS / f"{self.name}.json" if self.title else None

    @property
    def command(self) -> str:
        """The command as typed."""
        return shlex.join(self.argv)


WORLDS = ("mcp-office", "code-shell", "web-api", "llm-output")
CLAIRVOYANT = "runs/clairvoyant"
HTML = "runs/benchmark/report.html"


def _tuning(world: str) -> Step:
    out = f"policies/ladder-{world}"
    argv = ("selfheal", "tune-ladder", "--world", world, "--decisions", "12000000", "--out", out)
    return Step(f"tune-{world}", argv)


def _left_out(world: str) -> tuple[Step, Step]:
    """Train on the other worlds, judge on this one."""
    run = f"runs/benchmark/without-{world}"
    others = ",".join(w for w in WORLDS if w != world)
    return (
        Step(
            f"train-without-{world}",
            ("selfheal", "train", "default", "--worlds", others, "--seeds", "0", "--out", run),
        ),
        Step(
            f"without-{world}",
            (
                *("selfheal", "evaluate", run, "ladder-tuned", "default", "--world", world),
                *("--only", "--tasks", "1024", "--json"),
            ),
            f"Left out of training: {world}",
        ),
    )


STEPS: tuple[Step, ...] = (
    Step(
        "tune-mixture",
        ("selfheal", "tune-ladder", "--mixture", "--tasks", "32", "--out", "policies/ladder-tuned"),
    ),
    *(_tuning(world) for world in WORLDS),
    Step("bandit", ("python", "bench/bandit.py", "--out", "policies/bandit")),
    Step("train", ("selfheal", "train", "default", "--out", RUN)),
    Step("export", ("selfheal", "export", RUN, "--out", "policies/default", "--distill")),
    Step("train-clairvoyant", ("selfheal", "train", "clairvoyant", "--out", CLAIRVOYANT)),
    Step(
        "export-clairvoyant", ("selfheal", "export", CLAIRVOYANT, "--out", "policies/clairvoyant")
    ),
    Step(
        "evaluate",
        ("selfheal", "evaluate", "default", RUN, "--json", "--html", HTML),
        "Learned against rules",
    ),
    Step(
        "false-alarms",
        ("selfheal", "evaluate", "default", "ladder-tuned", "--only", "--false-alarms", "--json"),
        "Every alarm is false",
    ),
    Step(
        "halved",
        ("selfheal", "evaluate", "default", "--halve-assumed", "--tasks", "1024", "--json"),
        "Every assumed figure halved",
    ),
    *(step for world in WORLDS for step in _left_out(world)),
    Step("kinds-left-out", ("python", "bench/kind_left_out.py"), "Left out of training: kinds"),
    Step("lab", ("selfheal", "lab", "--policy", "default", "--json"), "Real components"),
    Step("speed", ("python", "bench/run.py")),
)


def run_step(step: Step) -> int:
    """Run one step; its JSON replaces the old one only when it is whole and valid."""
    argv = list(step.argv)
    binary = Path(sys.executable).parent / argv[0]
    argv[0] = sys.executable if argv[0] == "python" else str(binary)
    print(f"$ {step.command}", flush=True)
    output = subprocess.PIPE if step.result else None
    done = subprocess.run(argv, cwd=ROOT, stdout=output, check=False)
    if done.returncode == 0 and step.result:
        speed.write_json(step.result, json.loads(done.stdout))
    return done.returncode


def render(steps: Sequence[Step]) -> str:
    """BENCHMARK.md from the results that are there."""
    parts = ["# Benchmarks", "Every number here comes from the command above it; `make benchmark`."]
    for step in steps:
        if step.result and step.result.is_file():
            rows = json.loads(step.result.read_text("utf-8"))
            parts += [f"## {step.title}", f"```\n{step.command}\n```", markdown(rows)]
    if speed.RESULTS.is_file():
        parts += ["## Speed", "```\nmake bench\n```", _machine()]
        parts.append(markdown(json.loads(speed.RESULTS.read_text("utf-8"))))
    return "\n\n".join(parts) + "\n"


_JUDGED = (
    *("world", "policy", "seeds", "tasks", "completion", "utility", "gap_closed", "vs_rule"),
    *("worst_decile", "attempts", "escalated", "harmed", "r", "d", "break_even", "decide_us"),
)
"""Columns of an evaluation that the report shows; its JSON has more."""


def markdown(rows: Sequence[dict[str, Any]]) -> str:
    """Rows as a Markdown table; a figure shows its mean and 95 % interval."""
    if not rows:
        return "No rows."
    head = list(rows[0])
    if {"world", "policy", "utility"} <= set(head):
        head = [key for key in _JUDGED if any(row.get(key) is not None for row in rows)]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(_cell(row.get(key)) for key in head) + " |" for row in rows]
    return "\n".join(lines)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, dict) and {"mean", "low", "high"} <= set(value):
        if value["mean"] is None:
            return ""
        return f"{_cell(value['mean'])} [{_cell(value['low'])}, {_cell(value['high'])}]"
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value).replace("|", "\\|")


def _machine() -> str:
    if not speed.MACHINE.is_file():
        return ""
    machine = json.loads(speed.MACHINE.read_text("utf-8"))
    return f"Measured on {machine['cores']} cores of {machine['cpu']}, Python {machine['python']}."


def _finished() -> list[str]:
    return list(json.loads(DONE.read_text())) if DONE.is_file() else []


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code of the first step that fails, else 0."""
    parser = argparse.ArgumentParser(description="Regenerate every published number.")
    parser.add_argument("--fresh", action="store_true", help="forget which steps were finished")
    parser.add_argument("--render", action="store_true", help="only rewrite the two documents")
    options = parser.parse_args(argv)
    DONE.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.mkdir(parents=True, exist_ok=True)
    finished = [] if options.fresh else _finished()
    for step in () if options.render else STEPS:
        if step.name in finished:
            print(f"{step.name}: already finished")
            continue
        if code := run_step(step):
            return code
        finished.append(step.name)
        speed.write_json(DONE, finished)
    REPORT.write_text(render(STEPS), "utf-8")
    return readme_table.main([])


if __name__ == "__main__":
    sys.exit(main())
