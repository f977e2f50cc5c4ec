"""Makes ``policies/bandit``: the contextual bandit that a learned policy is judged beside.

python bench/bandit.py [--out policies/bandit]
"""

import argparse
import shlex
import sys
from pathlib import Path

from selfheal_rl.trainer.evaluate.yardsticks.bandit import BanditOptions
from selfheal_rl.trainer.train.bandit_export import make_bandit
from selfheal_rl.trainer.train.recipe import load_recipe


def main() -> None:
    """Learn, write, say how good it is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("policies/bandit"))
    parser.add_argument("--recipe", default="default")
    parser.add_argument("--rounds", type=int, default=BanditOptions().rounds)
    options = parser.parse_args()
    manifest = make_bandit(
        load_recipe(options.recipe),
        BanditOptions(rounds=options.rounds),
        options.out,
        recipe_name=options.recipe,
        command=shlex.join(["python", *sys.argv]),
    )
    print(manifest.scores)


if __name__ == "__main__":
    main()
