"""The run directory: recipe, command, versions, seeds, curves, checkpoints and results.

::

    run.json             command, versions, seeds, hashes of worlds, spec and belief tables
    recipe.json          the recipe as resolved, options of the command line included
    belief.json          belief tables of the training mixture
    seed-0/state.npz     the latest checkpoint and the best network so far
    seed-0/curve.jsonl   one JSON object per validation
    seed-0/events.*      the same for TensorBoard
    result.json          what came out, when every seed is done
"""

import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from platform import python_version
from typing import Any

from selfheal_rl.core.catalog import validate
from selfheal_rl.core.situation import SPEC_HASH, BeliefTables
from selfheal_rl.trainer.sim.belief_tables import belief_tables
from selfheal_rl.trainer.train.network import Network, NetworkPolicy
from selfheal_rl.trainer.train.recipe import Recipe, training_worlds, world_files
from selfheal_rl.trainer.train.storage import (
    RunError,
    load_arrays,
    read_json,
    write_json,
)
from selfheal_rl.trainer.train.support import Seen
from selfheal_rl.trainer.train.vecenv import Privileged

FORMAT = 1
_LIBRARIES = ("numpy", "torch", "stable-baselines3", "sb3-contrib", "gymnasium", "selfheal-rl")
BEST = "best."


@dataclass(frozen=True)
class Trained:
    """The best network of one seed.

    Attributes:
        seed: training seed.
        network: its weights.
        seen: what the seed met in training.
        utility: on validation draws.
        decisions: spent by the seed so far.
        seconds: of training so far.
        finished: the seed's budget is used up.
    """

    seed: int
    network: Network
    seen: Seen
    utility: float
    decisions: int
    seconds: float
    finished: bool


class RunDirectory:
    """A run on disk. Use :meth:`create` or :meth:`open`."""

    def __init__(self, path: Path, recipe: Recipe, about: dict[str, Any]) -> None:
        self.path, self.recipe, self.about = path, recipe, about

    @classmethod
    def create(cls, path: Path, recipe: Recipe, *, name: str, command: str) -> "RunDirectory":
        """Start a run in an empty or absent folder.

        Args:
            path: the folder.
            recipe: as resolved.
            name: the recipe's id or path, for people.
            command: the exact command line.

        Raises:
            RunError: the folder holds something else.
        """
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise RunError(f"{path} exists and is no run of this recipe; name another --out")
        tables = belief_tables(training_worlds(recipe))
        about = {
            "format": FORMAT,
            "recipe": name,
            "command": command,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "seeds": list(recipe.seeds),
            "spec_hash": SPEC_HASH,
            "belief_hash": tables.hash,
            "worlds": _world_hashes(recipe),
            "versions": versions(),
        }
        write_json(path / "recipe.json", recipe.model_dump(mode="json"))
        write_json(path / "belief.json", tables.to_dict())
        write_json(path / "run.json", about)
        return cls(path, recipe, about)

    @classmethod
    def open(cls, path: Path) -> "RunDirectory":
        """Read an existing run.

        Raises:
            RunError: the folder holds none.
        """
        if not (path / "run.json").is_file():
            raise RunError(
                f"{path}: holds no run.json; expected the folder of a training run; "
                "make one with 'selfheal train RECIPE --out FOLDER'"
            )
        about = read_json(path / "run.json")
        if about.get("format") != FORMAT:
            raise RunError(
                f"{path / 'run.json'}: run format {about.get('format')!r}; this release reads "
                f"{FORMAT}; train again"
            )
        source = str(path / "recipe.json")
        recipe = validate(read_json(path / "recipe.json"), Recipe, source=source)
        return cls(path, recipe, about)

    def check_worlds(self) -> None:
        """Refuse to go on when a world or the observation changed since the run began.

        Raises:
            RunError: says which.
        """
        now = _world_hashes(self.recipe)
        changed = [world for world, digest in self.about["worlds"].items() if now[world] != digest]
        if changed:
            raise RunError(
                f"{self.path}: the worlds {', '.join(changed)} changed since this run began; "
                "put them back, or start a new run with another --out"
            )
        self.check_spec()

    def check_spec(self) -> None:
        """Refuse a run made for another observation.

        Raises:
            RunError: the spec hash differs.
        """
        if self.about["spec_hash"] != SPEC_HASH:
            raise RunError(
                f"{self.path}: trained for observation spec {self.about['spec_hash']}; this "
                f"release encodes {SPEC_HASH}; train again with another --out"
            )

    @property
    def tables(self) -> BeliefTables:
        """Belief tables of the training mixture."""
        return BeliefTables.from_dict(read_json(self.path / "belief.json"))

    def seed_folder(self, seed: int) -> Path:
        """Where one seed's files are."""
        return self.path / f"seed-{seed}"

    def curve(self, seed: int) -> list[dict[str, Any]]:
        """The learning curve of one seed, oldest validation first."""
        path = self.seed_folder(seed) / "curve.jsonl"
        if not path.is_file():
            return []
        return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line]

    def trained(self, seed: int) -> Trained | None:
        """The best network of a seed so far; None before its first validation.

        Raises:
            RunError: its checkpoint is damaged.
        """
        path = self.seed_folder(seed) / "state.npz"
        if not path.is_file():
            return None
        arrays, meta = load_arrays(path)
        if meta["best"] is None:
            return None
        best = {k.removeprefix(BEST): v for k, v in arrays.items() if k.startswith(BEST)}
        return Trained(
            seed=seed,
            network=Network.from_arrays(best),
            seen=Seen.from_arrays(arrays),
            utility=float(meta["best"]["utility"]),
            decisions=int(meta["decisions"]),
            seconds=float(meta["seconds"]),
            finished=bool(meta["finished"]),
        )

    def all_trained(self) -> list[Trained]:
        """The best network of every seed that has one.

        Raises:
            RunError: no seed has one.
        """
        found = [t for seed in self.recipe.seeds if (t := self.trained(seed)) is not None]
        if not found:
            raise RunError(
                f"{self.path}: no seed has been validated yet; continue it with "
                f"'selfheal train --resume {self.path}'"
            )
        return found

    def policies(self) -> list[NetworkPolicy]:
        """Every seed's best network as a policy of the simulator.

        Raises:
            RunError: no seed has one, or the run is for another observation.
        """
        self.check_spec()
        tables = self.tables
        extra = privileged_inputs() if self.recipe.privileged else None
        return [
            NetworkPolicy(t.seen.close(t.network), tables, f"{self.path.name}/seed-{t.seed}", extra)
            for t in self.all_trained()
        ]


def privileged_inputs() -> Privileged:
    """What the clairvoyant sees beside the observation, as a function of the simulator."""
    from selfheal_rl.trainer.evaluate.yardsticks.clairvoyant import clairvoyant_inputs

    return clairvoyant_inputs


def versions() -> dict[str, str]:
    """Python and the libraries that decide a result."""
    found = {"python": python_version()}
    for library in _LIBRARIES:
        try:
            found[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            continue
    return found


def _world_hashes(recipe: Recipe) -> dict[str, str]:
    return {
        world: hashlib.sha256(path.read_bytes()).hexdigest()
        for world, path in zip(recipe.worlds, world_files(recipe), strict=True)
    }
