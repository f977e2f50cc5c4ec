"""A rule table as an artifact of the same shape as every policy."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from selfheal_rl.core.catalog import Golden, Manifest, Training, verify_artifact, write_artifact
from selfheal_rl.core.situation import (
    FACTS,
    N_FACTS,
    SPEC_HASH,
    encode,
    legal_mask,
    rows,
    uninformed_tables,
)
from selfheal_rl.core.values import N_KINDS, RepairAction
from selfheal_rl.runtime.decide.rules import N_RUNGS, RULES_FILE, Ladder, LadderSelector

_SPREAD = 7
"""Actions closed per golden state; they rotate, so that next rungs are taken too."""


def golden_states() -> tuple[np.ndarray, np.ndarray]:
    """``(facts, mask)`` that touch every kind, every attempt and both columns of a table.

    Returns:
        float32 of shape (N_FACTS, 62) and bool of shape (62, 17).
    """
    n = 2 * N_KINDS
    facts = np.zeros((N_FACTS, n), np.float32)
    column = np.arange(n)
    kind, unsafe = column // 2, column % 2
    facts[rows("kind").start + kind, column] = 1.0
    facts[rows("seen").start + kind, column] = 1.0
    facts[FACTS["effects.read"]] = 1 - unsafe
    facts[FACTS["effects.write"]] = unsafe
    facts[FACTS["effect_state.maybe"]] = 1.0
    facts[FACTS["tries.retry"]] = column % N_RUNGS
    facts[rows("available")] = 1.0
    closed = (column[None, :] + np.arange(len(RepairAction))[:, None]) % _SPREAD == 0
    facts[rows("available")][closed] = 0.0
    facts[FACTS["available.escalate"]] = 1.0
    for name in ("attempts_left", "task_attempts_left", "tokens_left", "money_left"):
        facts[FACTS[f"share.{name}"]] = 0.5
    facts[FACTS["seconds.deadline_left"]] = 600.0
    facts[FACTS["seconds.next_wait"]] = 1.0
    return facts, legal_mask(facts)


def write_ladder(
    directory: str | os.PathLike[str],
    ladder: Ladder,
    *,
    card: str,
    source: str | None = None,
    training: Training | None = None,
    scores: dict[str, Any] | None = None,
    created: str | None = None,
) -> Manifest:
    """Write ``rules.toml`` with manifest, card and golden decisions.

    Args:
        directory: the artifact's folder; its name is the policy's.
        ladder: the table.
        card: Markdown for people.
        source: the TOML text to keep, comments and all; the canonical form when None.
        training: where the table comes from.
        scores: what it reached.
        created: ISO 8601, UTC; now when None.

    Raises:
        ArtifactError: the folder cannot be written.
    """
    facts, mask = golden_states()
    tables = uninformed_tables()
    observation = np.ascontiguousarray(encode(facts, tables))
    selector = LadderSelector(ladder)
    golden = Golden(facts, observation, mask, selector.probabilities(facts, observation, mask))
    manifest = Manifest(
        name=os.path.basename(os.path.abspath(directory)),
        kind="rules",
        spec_hash=SPEC_HASH,
        training=training or Training(),
        scores=scores or {},
        created=created or datetime.now(UTC).isoformat(timespec="seconds"),
    )
    files = {
        RULES_FILE: (source or ladder.to_toml()).encode(),
        "golden.jsonl": golden.to_jsonl(),
        "card.md": card.encode(),
    }
    return write_artifact(directory, manifest, files)


def refresh_ladder(directory: str | os.PathLike[str]) -> Manifest:
    """Write a ladder's artifact again for this release's facts; rules, card and date stay.

    Args:
        directory: of an artifact of kind ``rules``.

    Raises:
        ArtifactError: the artifact is damaged, or cannot be written.
    """
    folder = Path(directory)
    manifest = verify_artifact(folder)
    return write_ladder(
        folder,
        Ladder.load(folder / RULES_FILE),
        card=(folder / "card.md").read_text("utf-8"),
        source=(folder / RULES_FILE).read_text("utf-8"),
        training=manifest.training,
        scores=manifest.scores,
        created=manifest.created,
    )
