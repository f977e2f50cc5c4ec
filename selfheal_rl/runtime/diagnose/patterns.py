"""The evidence tables, loaded once from the package's TOML data."""

import tomllib
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

from selfheal_rl.core.values import KIND_INDEX, N_KINDS, ConfigError, FaultKind

Scores = tuple[tuple[int, float], ...]
"""Pairs of kind index and log-odds."""


@dataclass(frozen=True, slots=True)
class Tables:
    """Evidence as data; every weight is a log-odds."""

    prior: tuple[float, ...]
    phrases: tuple[tuple[str, int, float], ...]
    """Lower-case phrase, kind index, weight."""
    statuses: dict[int, Scores]
    types: dict[str, Scores]
    """By lower-case last component of the type's name."""
    type_words: tuple[tuple[str, Scores], ...]
    alarm_weight: float


def _kind(name: str, where: str) -> int:
    try:
        return KIND_INDEX[FaultKind(name)]
    except ValueError:
        known = ", ".join(k.value for k in FaultKind)
        raise ConfigError(f"{where}: unknown fault kind {name!r}; expected one of {known}") from None


def _scores(table: dict[str, Any], where: str) -> Scores:
    return tuple((_kind(name, where), float(weight)) for name, weight in table.items())


def _load(name: str) -> dict[str, Any]:
    path = resources.files("selfheal_rl.runtime.diagnose") / "data" / name
    return tomllib.loads(path.read_text(encoding="utf-8"))


def _weighted_lists(table: dict[str, Any], where: str) -> list[tuple[str, int, float]]:
    return [
        (entry, _kind(kind, where), float(weight))
        for kind, by_weight in table.items()
        for weight, entries in by_weight.items()
        for entry in entries
    ]


def _types(table: dict[str, Any]) -> dict[str, Scores]:
    merged: dict[str, dict[int, float]] = {}
    for name, kind, weight in _weighted_lists(table, "types"):
        merged.setdefault(name, {})[kind] = weight
    return {name: tuple(scores.items()) for name, scores in merged.items()}


@lru_cache(maxsize=1)
def tables() -> Tables:
    """The bundled tables.

    Raises:
        ConfigError: the data names a fault kind that does not exist.
    """
    structure = _load("structure.toml")
    prior = [0.0] * N_KINDS
    for kind, weight in _scores(structure["prior"], "prior"):
        prior[kind] = weight
    return Tables(
        prior=tuple(prior),
        phrases=tuple(_weighted_lists(_load("phrases.toml"), "phrases")),
        statuses={int(s): _scores(t, f"status.{s}") for s, t in structure["status"].items()},
        types=_types(structure["types"]),
        type_words=tuple(
            (w, _scores(t, f"type_words.{w}")) for w, t in structure["type_words"].items()
        ),
        alarm_weight=float(structure["alarm"]["weight"]),
    )
