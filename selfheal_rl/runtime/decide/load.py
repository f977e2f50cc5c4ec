"""From a name or folder to a selector."""

import os

from selfheal_rl.core.catalog import find_policy, read_manifest
from selfheal_rl.runtime.decide.rules import LadderSelector
from selfheal_rl.runtime.decide.selector import Selector


def load_selector(reference: str | os.PathLike[str], rules: Selector) -> Selector:
    """The policy named ``reference``; a network abstains to ``rules``.

    Args:
        reference: a bundled id, an artifact's folder, or the path of a ``rules.toml``.
        rules: what answers where the network abstains.

    Raises:
        ArtifactError: the artifact is damaged, tampered with, or made for another spec.
        ConfigError: no such id or file.
    """
    if os.fspath(reference).endswith(".toml"):
        return LadderSelector.load(reference)
    folder = find_policy(reference)
    if read_manifest(folder).kind == "rules":
        return LadderSelector.load(folder)
    from selfheal_rl.runtime.decide.abstain import AbstainingSelector
    from selfheal_rl.runtime.decide.onnx_policy import OnnxPolicy

    return AbstainingSelector(OnnxPolicy.load(folder), rules)
