"""Learns the contextual bandit that policies are compared with.

python bench/bandit.py [--out policies/bandit]
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from selfheal_rl.trainer.evaluate.contenders import MIXTURE
from selfheal_rl.trainer.evaluate.yardsticks.bandit import BanditOptions, train_bandit
from selfheal_rl.trainer.evaluate.yardsticks.bandit_artifact import write_bandit
from selfheal_rl.trainer.sim.belief_tables import belief_tables
from selfheal_rl.trainer.sim.compile import load_world


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Learn the contextual bandit.")
    parser.add_argument("--out", type=Path, default=Path("policies/bandit"))
    parser.add_argument("--rounds", type=int, default=BanditOptions.rounds)
    parser.add_argument("--tasks", type=int, default=BanditOptions.tasks)
    given = parser.parse_args(argv)
    worlds = [load_world(name) for name in MIXTURE]
    options = BanditOptions(rounds=given.rounds, tasks=given.tasks)
    begin = time.monotonic()
    bandit = train_bandit(
        worlds,
        belief_tables(worlds),
        options,
        np.random.default_rng(0),
        progress=lambda n: print(f"{n:,} decisions, {time.monotonic() - begin:.0f} s", flush=True),
    )
    command = f"python bench/bandit.py --rounds {given.rounds} --tasks {given.tasks}"
    seconds = time.monotonic() - begin
    write_bandit(given.out, bandit, MIXTURE, command=command, seconds=seconds)
    print(given.out)


if __name__ == "__main__":
    main()
