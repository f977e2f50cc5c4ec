"""The bandit as an artifact of the same shape as every policy."""

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from selfheal_rl.core.catalog import Manifest, Training, write_artifact
from selfheal_rl.core.situation import SPEC_HASH
from selfheal_rl.trainer.evaluate.yardsticks.bandit import Bandit
from selfheal_rl.trainer.train.export import PARITY_STATES, check_parity, golden_of
from selfheal_rl.trainer.train.network import Network
from selfheal_rl.trainer.train.onnx_file import to_onnx
from selfheal_rl.trainer.train.recipe import Recipe
from selfheal_rl.trainer.train.rundir import versions
from selfheal_rl.trainer.train.states import visit

_CARD = """# {name}

A contextual bandit: one linear score per action over the observation, learned by ridge regression
of the utility still to come. A yardstick for learned policies. Worlds: {worlds}.

```
{command}
```

Learned from {decisions:,} simulated decisions on training draws.
"""


def network_of(bandit: Bandit) -> Network:
    """The linear scores as a network without hidden layers."""
    value = (bandit.value_weight[None, :], np.array([bandit.value_bias], np.float32))
    return Network(((bandit.weight, bandit.bias),), (value,))


def write_bandit(
    folder: str | os.PathLike[str],
    bandit: Bandit,
    worlds: Sequence[str],
    *,
    command: str,
    seconds: float,
) -> Manifest:
    """Write ONNX, golden decisions, card and manifest.

    Args:
        folder: of the artifact.
        bandit: learned.
        worlds: ids of the mixture.
        command: that makes it.
        seconds: it took to learn.

    Raises:
        ArtifactError: the file decides otherwise than the bandit, or the disk refused.
    """
    network, name = network_of(bandit), Path(folder).absolute().name
    recipe = Recipe(worlds=tuple(worlds), decisions=1)
    rng = np.random.default_rng(0)
    states = visit(recipe, bandit.tables, network, PARITY_STATES, rng)
    content = to_onnx([network])
    check_parity([network], content, states)
    card = _CARD.format(
        name=name, worlds=", ".join(worlds), command=command, decisions=bandit.decisions
    )
    manifest = Manifest(
        name=name,
        kind="onnx",
        spec_hash=SPEC_HASH,
        belief=bandit.tables.to_dict(),
        versions=versions(),
        training=Training(
            recipe="bandit",
            command=command,
            seeds=(0,),
            decisions=bandit.decisions,
            seconds=round(seconds, 1),
        ),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    files = {
        "policy.onnx": content,
        "golden.jsonl": golden_of([network], states).to_jsonl(),
        "card.md": card.encode(),
    }
    return write_artifact(folder, manifest, files)
