"""Trains without one kind of fault, judges on that kind alone, and prints the rows as JSON.

python bench/kind_left_out.py [--kinds denied,timeout] [--decisions 2000000]
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from selfheal_rl.core.catalog import list_policies
from selfheal_rl.core.values import FaultKind
from selfheal_rl.trainer.evaluate.judge import evaluate
from selfheal_rl.trainer.evaluate.transfer import leave_kinds_out
from selfheal_rl.trainer.train.recipe import load_recipe
from selfheal_rl.trainer.train.train import open_or_create, train, with_options

KINDS = ("not_found", "denied", "timeout", "rate_limit", "parse_error")
BESIDE = ("default", "ladder-tuned", "hand-ladder")


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Judge policies on a kind left out of training.")
    parser.add_argument("--recipe", default="default")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--decisions", type=int, default=2_000_000)
    parser.add_argument("--tasks", type=int, default=512)
    parser.add_argument("--out", type=Path, default=Path("runs/benchmark"))
    given = parser.parse_args(argv)
    recipe = with_options(load_recipe(given.recipe), decisions=given.decisions, seeds=(0,))
    kinds = [FaultKind(name) for name in given.kinds.split(",")]
    rows = []
    for left in leave_kinds_out(recipe, kinds):
        path = given.out / f"without-{left.what}"
        command = f"python bench/kind_left_out.py --kinds {left.what}"
        train(open_or_create(path, left.recipe, name=given.recipe, command=command))
        print(f"trained without {left.what}", file=sys.stderr, flush=True)
        beside = [name for name in BESIDE if name in list_policies()]
        report = evaluate(
            left.worlds, [str(path), *beside], tasks_per_draw=given.tasks, yardsticks=False
        )
        rows += report.rows
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
