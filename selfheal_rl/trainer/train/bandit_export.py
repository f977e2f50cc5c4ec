"""The contextual bandit as an artifact, beside the policy it is a yardstick for."""

from pathlib import Path

import numpy as np

from selfheal_rl.core.catalog import Manifest, Training, write_artifact
from selfheal_rl.core.situation import SPEC_HASH
from selfheal_rl.trainer.evaluate.yardsticks.bandit import BanditOptions, train_bandit
from selfheal_rl.trainer.seeds import VALIDATE_SEED
from selfheal_rl.trainer.sim.belief_tables import belief_tables
from selfheal_rl.trainer.train.export import PARITY_STATES, check_parity, golden_of
from selfheal_rl.trainer.train.network import Network, NetworkPolicy
from selfheal_rl.trainer.train.onnx_file import to_onnx
from selfheal_rl.trainer.train.recipe import Recipe, training_worlds
from selfheal_rl.trainer.train.rundir import versions
from selfheal_rl.trainer.train.states import visit
from selfheal_rl.trainer.train.validate import Validator

_DRAWS, _TASKS = 32, 128


def make_bandit(
    recipe: Recipe, options: BanditOptions, out: Path, *, recipe_name: str, command: str
) -> Manifest:
    """Learn the bandit on a recipe's worlds and write its artifact.

    Args:
        recipe: whose worlds and first seed are used.
        options: of the bandit.
        out: folder of the artifact; an earlier one stays whole until this one is complete.
        recipe_name: as given by the user.
        command: that made it, for the card.

    Raises:
        ArtifactError: the folder cannot be written, or ONNX and numpy disagree.
    """
    worlds = training_worlds(recipe)
    tables = belief_tables(worlds)
    seed = recipe.seeds[0]
    bandit = train_bandit(worlds, tables, options, np.random.default_rng(seed))
    value_bias = np.array([bandit.value_bias], np.float32)
    network = Network(
        actor=((bandit.weight, bandit.bias),),
        critic=((bandit.value_weight[None, :].astype(np.float32), value_bias),),
    )
    content = to_onnx([network])
    states = visit(recipe, tables, network, PARITY_STATES, np.random.default_rng(0))
    check_parity([network], content, states)
    validator = Validator(worlds, _DRAWS, _TASKS, VALIDATE_SEED + 1)
    score = validator.score(NetworkPolicy(network, tables, "bandit", None))
    manifest = Manifest(
        name=out.absolute().name,
        kind="onnx",
        spec_hash=SPEC_HASH,
        belief=tables.to_dict(),
        versions=versions(),
        training=Training(
            recipe=recipe_name, command=command, seeds=(seed,), decisions=bandit.decisions
        ),
        scores={
            "measure": "mean utility of a failing task, validation draws, worlds averaged",
            "utility": round(score.utility, 5),
            "worlds": {world: round(utility, 5) for world, utility in score.worlds.items()},
        },
    )
    files = {
        "policy.onnx": content,
        "golden.jsonl": golden_of([network], states).to_jsonl(),
        "card.md": _card(manifest).encode(),
    }
    return write_artifact(out, manifest, files)


def _card(manifest: Manifest) -> str:
    rows = [f"| {world} | {utility:.4f} |" for world, utility in manifest.scores["worlds"].items()]
    training = manifest.training
    return "\n".join(
        [
            f"# {manifest.name}",
            "",
            "A contextual bandit: one linear score per action, learned by ridge regression on the "
            "utility still to come. A yardstick: what looking only at the decision at hand gets.",
            "",
            "```",
            training.command if training else "",
            "```",
            "",
            f"{training.decisions if training else 0:,} simulated decisions.",
            "",
            "| world | utility on validation draws |",
            "|---|---:|",
            *rows,
            "",
        ]
    )
