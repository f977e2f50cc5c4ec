"""One seed of a run: train, validate, checkpoint; stop and go on at any point."""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from stable_baselines3.common.logger import Logger, configure

from selfheal_rl.trainer.seeds import TRAIN_SEED
from selfheal_rl.trainer.sim.batch import RepairBatch
from selfheal_rl.trainer.train.checkpoint import (
    batch_state,
    learner_state,
    restore_batch,
    restore_learner,
)
from selfheal_rl.trainer.train.network import Network, NetworkPolicy
from selfheal_rl.trainer.train.ppo import RepairPPO, Schedule
from selfheal_rl.trainer.train.recipe import Recipe, training_worlds
from selfheal_rl.trainer.train.rundir import BEST, RunDirectory, privileged_inputs
from selfheal_rl.trainer.train.storage import load_arrays, save_arrays, write_whole
from selfheal_rl.trainer.train.validate import Score, Validator
from selfheal_rl.trainer.train.vecenv import RepairVecEnv

EXTENSION = 0.2
"""Share by which ``until_gain`` prolongs a run each time."""
_LOG_EVERY_S = 1.0
Clock = Callable[[], float]


@dataclass(frozen=True)
class Progress:
    """Where a seed stands.

    Attributes:
        seed: which.
        decisions: done so far.
        total: to be done; grows under ``until_gain``.
        seconds: of training and validation so far.
        utility: mean of the training tasks that ended lately, None before any did.
        validated: latest validation utility, None before the first.
        best: best validation utility, None before the first.
        finished: the budget is used up.
    """

    seed: int
    decisions: int
    total: int
    seconds: float
    utility: float | None
    validated: float | None
    best: float | None
    finished: bool = False


def make_learner(recipe: Recipe, seed: int, batch: RepairBatch) -> RepairPPO:
    """The recipe's learner on ``batch``."""
    ppo = recipe.ppo
    env = RepairVecEnv(batch, privileged_inputs() if recipe.privileged else None)
    return RepairPPO(
        env,
        entropy=Schedule(*ppo.entropy),
        seed=seed,
        hidden=ppo.hidden,
        learning_rate=Schedule(*ppo.learning_rate),
        n_steps=ppo.steps,
        batch_size=ppo.batch,
        n_epochs=ppo.epochs,
        gamma=ppo.gamma,
        gae_lambda=ppo.gae_lambda,
        clip_range=ppo.clip,
        vf_coef=ppo.value_weight,
        max_grad_norm=ppo.max_gradient,
    )


class SeedRun:
    """Trains one seed of a run directory; continues where its last checkpoint stands.

    Args:
        run: the run directory.
        seed: one of its recipe's seeds.
        clock: monotonic seconds, for curves and progress only.
    """

    def __init__(self, run: RunDirectory, seed: int, clock: Clock = time.perf_counter) -> None:
        torch.set_num_threads(1)
        torch.set_flush_denormal(True)
        recipe = run.recipe
        self.recipe, self.seed, self._clock = recipe, seed, clock
        self.folder = run.seed_folder(seed)
        self.tables = run.tables
        worlds = training_worlds(recipe)
        self.batch = RepairBatch(
            worlds, recipe.ppo.envs, self.tables, seed=TRAIN_SEED + seed, pool=recipe.pool
        )
        self.learner = make_learner(recipe, seed, self.batch)
        checks = recipe.validation
        self.validator = Validator(worlds, checks.draws, checks.tasks)
        self.total = recipe.decisions
        self.validated: Score | None = None
        self.best: dict[str, Any] | None = None
        self.best_network: Network | None = None
        self.gain_from: float | None = None
        self.finished = False
        self._seconds = 0.0
        self._train_utility: float | None = None
        self._begin()

    @property
    def decisions(self) -> int:
        """Done so far."""
        return int(self.learner.num_timesteps)

    def run(
        self,
        report: Callable[[Progress], None] = lambda progress: None,
        stop: Callable[[], bool] = lambda: False,
    ) -> Progress:
        """Train until the budget is used up or ``stop`` says so; always ends on a checkpoint."""
        logger = configure(str(self.folder), ["tensorboard"])
        self.learner.set_logger(logger)
        logged = self._clock()
        while not self.finished and not stop():
            self._advance()
            if self._due():
                self._validate(logger)
            if self._clock() - logged > _LOG_EVERY_S:
                logged = self._clock()
                report(self.progress())
        self.save()
        logger.close()
        report(self.progress())
        return self.progress()

    def progress(self) -> Progress:
        """Where the seed stands."""
        return Progress(
            seed=self.seed,
            decisions=self.decisions,
            total=self.total,
            seconds=self._seconds,
            utility=self._train_utility,
            validated=self.validated.utility if self.validated else None,
            best=self.best["utility"] if self.best else None,
            finished=self.finished,
        )

    def _begin(self) -> None:
        path = self.folder / "state.npz"
        if path.is_file():
            self._restore(path)
        else:
            self.learner.begin()
            self.folder.mkdir(parents=True, exist_ok=True)
            self._trim_curve(0)

    def _advance(self) -> None:
        started = self._clock()
        self.learner.advance(self.decisions / self.recipe.decisions)
        totals = self.learner.rows.take_totals()
        if totals.tasks:
            self._train_utility = totals.mean_utility
        self._seconds += self._clock() - started

    def _due(self) -> bool:
        """One validation per ``every`` decisions and one at the end, wherever a run began."""
        every = self.recipe.validation.every
        before = self.decisions - self.learner.rollout_size
        return self.decisions // every > before // every or self.decisions >= self.total

    def _validate(self, logger: Logger) -> None:
        started = self._clock()
        network = Network.of(self.learner.policy)
        extra = self.learner.rows.privileged
        score = self.validator.score(NetworkPolicy(network, self.tables, "ppo", extra))
        self.validated = score
        if self.best is None or score.utility > self.best["utility"]:
            self.best = {"utility": score.utility, "decisions": self.decisions}
            self.best_network = network
        self._seconds += self._clock() - started
        self._settle()
        self._note(logger, score)
        self.save()

    def _settle(self) -> None:
        """At the end of the budget: finish, or prolong it while that still pays."""
        if self.decisions < self.total or self.best is None:
            return
        wanted, gained_from = self.recipe.until_gain, self.gain_from
        limit = self.recipe.max_decisions or 4 * self.recipe.decisions
        best = self.best["utility"]
        enough = gained_from is not None and best - gained_from < (wanted or 0.0) * abs(best)
        if wanted is None or enough or self.total >= limit:
            self.finished = True
            return
        self.gain_from = best
        self.total = min(self.total + round(EXTENSION * self.total), limit)

    def _note(self, logger: Logger, score: Score) -> None:
        row = {
            "decisions": self.decisions,
            "seconds": round(self._seconds, 3),
            **{k: v for k, v in asdict(score).items() if k != "decisions"},
            "train_utility": self._train_utility,
            "best": self.best["utility"] if self.best else None,
        }
        with (self.folder / "curve.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, allow_nan=False) + "\n")
        logger.record("validation/utility", score.utility)
        logger.record("validation/completion", score.completion)
        for world, utility in score.worlds.items():
            logger.record(f"validation/utility_{world}", utility)
        logger.record("rollout/utility", self._train_utility)
        logger.record("time/decisions_per_second", self.decisions / max(self._seconds, 1e-9))
        logger.dump(self.decisions)

    def save(self) -> None:
        """Write the checkpoint; the previous one stays when that fails."""
        best = self.best_network.arrays() if self.best_network else {}
        arrays = {
            **learner_state(self.learner),
            **batch_state(self.batch),
            **{BEST + name: value for name, value in best.items()},
        }
        meta = {
            "seed": self.seed,
            "decisions": self.decisions,
            "updates": int(self.learner._n_updates),
            "total": self.total,
            "seconds": self._seconds,
            "best": self.best,
            "gain_from": self.gain_from,
            "validated": asdict(self.validated) if self.validated else None,
            "train_utility": self._train_utility,
            "finished": self.finished,
        }
        save_arrays(self.folder / "state.npz", arrays, meta)

    def _restore(self, path: Path) -> None:
        arrays, meta = load_arrays(path)
        restore_batch(self.batch, arrays)
        restore_learner(self.learner, arrays)
        self.learner.resume(int(meta["decisions"]), int(meta["updates"]))
        best = {k.removeprefix(BEST): v for k, v in arrays.items() if k.startswith(BEST)}
        self.best_network = Network.from_arrays(best) if best else None
        self.best, self.total = meta["best"], int(meta["total"])
        self.gain_from, self.finished = meta["gain_from"], bool(meta["finished"])
        self.validated = Score(**meta["validated"]) if meta["validated"] else None
        self._seconds, self._train_utility = float(meta["seconds"]), meta["train_utility"]
        self._trim_curve(self.decisions)

    def _trim_curve(self, decisions: int) -> None:
        """Drop rows written after the checkpoint by a run that was killed."""
        path = self.folder / "curve.jsonl"
        lines = path.read_text("utf-8").splitlines() if path.is_file() else []
        kept = [x for x in lines if x.endswith("}") and json.loads(x)["decisions"] <= decisions]
        if len(kept) != len(lines):
            write_whole(path, "".join(line + "\n" for line in kept).encode())
