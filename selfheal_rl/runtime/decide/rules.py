"""Rule tables: fault kind x attempt x repeatable? -> action.

A ladder is stored as TOML. Each kind has two lists of rungs, first to sixth attempt; a shorter
list repeats its last rung; a kind that is left out takes the lists of ``default``::

    name = "my-ladder"

    [default]
    repeatable = ["retry", "continue", "escalate"]
    unsafe = ["inspect", "escalate"]      # repeating could apply a side effect twice

    [kinds.rate_limit]
    repeatable = ["backoff", "backoff", "fallback_tool", "continue"]

When a rung is masked the next one is tried, and ``escalate`` stands behind the last.
"""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from selfheal_rl.core.catalog import find_policy, load_toml, unknown_key, verify_artifact
from selfheal_rl.core.situation import check_mask, repeat_unsafe, rows
from selfheal_rl.core.values import (
    KIND_INDEX,
    KINDS,
    N_ACTIONS,
    N_KINDS,
    ArtifactError,
    ConfigError,
    FaultKind,
    Frozen,
    RepairAction,
)
from selfheal_rl.runtime.decide.selector import BoolMatrix, FloatMatrix, one_hot

N_RUNGS = 6
_KIND, _TRIES = rows("kind"), rows("tries")
_RUNG = np.arange(N_RUNGS)
RULES_FILE = "rules.toml"
HAND_LADDER = "hand-ladder"

Rungs = Annotated[tuple[str, ...], Field(min_length=1, max_length=N_RUNGS)]


class _Lists(Frozen):
    repeatable: Rungs | None = None
    unsafe: Rungs | None = None

    @field_validator("repeatable", "unsafe")
    @classmethod
    def _known(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        for slug in value or ():
            RepairAction.parse(slug)
        return value


class _Document(Frozen):
    name: str = Field("ladder", min_length=1)
    default: _Lists = _Lists(repeatable=("continue", "escalate"), unsafe=("escalate",))
    kinds: dict[str, _Lists] = Field(default_factory=dict)

    @field_validator("kinds")
    @classmethod
    def _known(cls, value: dict[str, _Lists]) -> dict[str, _Lists]:
        for kind in value:
            if kind not in KIND_INDEX:
                raise ValueError(unknown_key(kind, [k.value for k in KINDS]))
        return value


@dataclass(frozen=True, eq=False)
class Ladder:
    """A rule table.

    Attributes:
        table: uint8 action numbers, shape (31 kinds, 6 attempts, 2); the last axis is 0 where the
            call may be repeated and 1 where that could apply a side effect twice.
        name: as shown in tables and journals.
    """

    table: NDArray[np.uint8]
    name: str = "ladder"

    def __post_init__(self) -> None:
        shape, kind = self.table.shape, self.table.dtype
        if shape != (N_KINDS, N_RUNGS, 2) or kind != np.uint8 or self.table.max() >= N_ACTIONS:
            raise ConfigError(
                f"ladder {self.name!r} has a table of shape {shape}, type {kind}, largest entry "
                f"{self.table.max()}; expected uint8 action numbers below {N_ACTIONS} of shape "
                f"({N_KINDS}, {N_RUNGS}, 2)"
            )

    @property
    def hash(self) -> str:
        """SHA-256 over the table; names the rules in journals."""
        return hashlib.sha256(np.ascontiguousarray(self.table).tobytes()).hexdigest()

    def rungs(self, kind: FaultKind, *, unsafe: bool) -> tuple[RepairAction, ...]:
        """The six rungs of one kind, first attempt first."""
        return tuple(RepairAction(a) for a in self.table[KIND_INDEX[kind], :, int(unsafe)].tolist())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Ladder":
        """Read ``rules.toml``.

        Raises:
            ConfigError: not readable, an unknown kind or action, or too many rungs.
        """
        document = load_toml(path, _Document)
        table = np.empty((N_KINDS, N_RUNGS, 2), np.uint8)
        for kind, index in KIND_INDEX.items():
            own = document.kinds.get(kind.value, _Lists())
            for column, field in enumerate(("repeatable", "unsafe")):
                given = getattr(own, field) or getattr(document.default, field) or ("escalate",)
                actions = [RepairAction.parse(slug) for slug in given]
                table[index, :, column] = actions + actions[-1:] * (N_RUNGS - len(actions))
        return cls(table, document.name)

    def to_toml(self) -> str:
        """The whole table as TOML; :meth:`load` reads it back to the same table."""
        lines = [f'name = "{self.name}"', ""]
        for kind in KINDS:
            lines.append(f"[kinds.{kind.value}]")
            for field, unsafe in (("repeatable", False), ("unsafe", True)):
                slugs = ", ".join(f'"{a.slug}"' for a in self.rungs(kind, unsafe=unsafe))
                lines.append(f"{field} = [{slugs}]")
            lines.append("")
        return "\n".join(lines)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write ``rules.toml``."""
        Path(path).write_text(self.to_toml(), "utf-8")


class LadderSelector:
    """Chooses by a rule table. Reads the facts only."""

    def __init__(self, ladder: Ladder, name: str | None = None) -> None:
        self.ladder = ladder
        self.name = name or ladder.name
        self.hash = ladder.hash
        self._table = np.ascontiguousarray(ladder.table.transpose(0, 2, 1))

    @classmethod
    def load(cls, reference: str | os.PathLike[str]) -> "LadderSelector":
        """A ladder by bundled id, folder of an artifact, or path of a ``rules.toml``.

        Raises:
            ArtifactError: the artifact is damaged or holds no rules.
            ConfigError: no such id or file, or the table is wrong.
        """
        if os.fspath(reference).endswith(".toml"):
            return cls(Ladder.load(reference))
        folder = find_policy(reference)
        manifest = verify_artifact(folder)
        if manifest.kind != "rules":
            raise ArtifactError(
                f"{folder}: holds a policy of kind {manifest.kind!r}; expected 'rules'; pass it as "
                "policy=, or name a ladder such as 'hand-ladder'"
            )
        selector = cls(Ladder.load(folder / RULES_FILE), manifest.name)
        selector.hash = manifest.manifest_hash
        return selector

    def actions(self, facts: FloatMatrix, mask: BoolMatrix) -> NDArray[np.int64]:
        """The chosen action of each incident.

        Args:
            facts: float32, shape (N_FACTS, N).
            mask: bool, shape (N, 17).

        Returns:
            int64, shape (N,).
        """
        kind = facts[_KIND].argmax(axis=0)
        attempt = np.minimum(facts[_TRIES].sum(axis=0), N_RUNGS - 1)
        unsafe = repeat_unsafe(facts).astype(np.intp)
        rungs = self._table[kind, unsafe]
        row = np.arange(len(kind))
        open_ = mask[row[:, None], rungs] & (attempt[:, None] - 0.5 <= _RUNG)
        first = open_.argmax(axis=1)
        chosen = np.where(open_[row, first], rungs[row, first], RepairAction.ESCALATE)
        return np.asarray(chosen, np.int64)

    def probabilities(
        self, facts: FloatMatrix, observation: FloatMatrix, mask: BoolMatrix
    ) -> FloatMatrix:
        """One-hot rows; see :class:`~selfheal_rl.runtime.decide.selector.Selector`."""
        check_mask(mask)
        return one_hot(self.actions(facts, mask), N_ACTIONS)

    def reason(self, facts: FloatMatrix, action: RepairAction) -> str:
        """In words, why this action at the single row ``facts`` (N_FACTS, 1)."""
        kind = KINDS[int(facts[_KIND, 0].argmax())]
        attempt = int(facts[_TRIES, 0].sum())
        unsafe = bool(repeat_unsafe(facts)[0])
        planned = self.ladder.rungs(kind, unsafe=unsafe)[min(attempt, N_RUNGS - 1)]
        text = f"rule for {kind.value} at attempt {attempt + 1}"
        if unsafe:
            text += ", the call must not be repeated"
        return text if planned == action else f"{text}: {planned.slug} is closed, next rung"
