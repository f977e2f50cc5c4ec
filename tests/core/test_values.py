"""Values survive JSON, and their JSON is the same in every process."""

import os
import subprocess
import sys

from selfheal_rl.core.values import Capabilities, Seam

DUMP = (
    "from selfheal_rl.core.values import Capabilities, Seam;"
    "print(Capabilities(seams=frozenset(Seam)).model_dump_json())"
)


def test_capabilities_dump_alike_whatever_the_hash_seed() -> None:
    texts = {
        subprocess.run(
            [sys.executable, "-c", DUMP],
            env=os.environ | {"PYTHONHASHSEED": str(seed)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in range(4)
    }
    assert len(texts) == 1


def test_capabilities_survive_json() -> None:
    value = Capabilities(seams=frozenset({Seam.STEP, Seam.TOOL}), permission=2, probe=True)
    assert Capabilities.model_validate_json(value.model_dump_json()) == value
