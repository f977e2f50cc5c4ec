"""Finished ascents of a tuning on disk: what an interrupted one goes on from."""

import contextlib
import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from selfheal_rl.trainer.sim.compile import CompiledWorld
from selfheal_rl.trainer.train.ladder import Effort
from selfheal_rl.trainer.train.ladder_play import Table
from selfheal_rl.trainer.train.storage import Arrays, RunError, load_arrays, save_arrays

FOLDER = Path("runs") / "tune"


class StoredAscents:
    """A file of finished ascents; one made for other worlds or another effort is not read.

    Luck is keyed and everything between ascents is cheap and deterministic, so a tuning that finds
    its ascents here ends in the same table as one that was never interrupted.

    Args:
        path: of the file.
        worlds: tuned on.
        effort: of the tuning.
    """

    def __init__(self, path: Path, worlds: Sequence[CompiledWorld], effort: Effort) -> None:
        self._path = path
        body = [world.world.model_dump(mode="json") for world in worlds], asdict(effort)
        self._identity = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
        self._tables: Arrays = {}
        self._decisions: dict[str, int] = {}
        with contextlib.suppress(RunError):
            tables, meta = load_arrays(path)
            if meta.get("identity") == self._identity:
                self._tables, self._decisions = tables, meta["decisions"]

    def get(self, stage: str) -> tuple[Table, int] | None:
        """The table and the decisions of a finished ascent."""
        if stage not in self._decisions:
            return None
        return self._tables[stage].astype(np.uint8), self._decisions[stage]

    def put(self, stage: str, table: Table, decisions: int) -> None:
        """Keep a finished ascent.

        Raises:
            RunError: the disk refused; what was kept before stays.
        """
        self._tables[stage], self._decisions[stage] = table.copy(), decisions
        self._path.parent.mkdir(parents=True, exist_ok=True)
        meta = {"identity": self._identity, "decisions": self._decisions}
        save_arrays(self._path, self._tables, meta)

    def clear(self) -> None:
        """Forget them: the tuning is done."""
        self._path.unlink(missing_ok=True)
