"""The evidence tables, loaded once from the package's TOML data and indexed by word."""

import re
import tomllib
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

from selfheal_rl.core.values import KIND_INDEX, N_KINDS, ConfigError, FaultKind

Scores = tuple[tuple[int, float], ...]
"""Pairs of kind index and log-odds."""

STEM = 4
"""Characters of a word that the index is keyed by."""

_WORD = re.compile(r"[a-z0-9]+")
_STEM = re.compile(rf"\b[a-z0-9]{{1,{STEM}}}")


@dataclass(frozen=True, slots=True)
class Phrase:
    """Lower-case wording that begins at a word's start; ``whole``: it ends at a word's end."""

    text: str
    whole: bool
    scores: Scores

    def found_in(self, lowered: str) -> bool:
        """True when the phrase occurs in ``lowered`` within its word boundaries."""
        text, at = self.text, lowered.find(self.text)
        while at >= 0:
            end = at + len(text)
            starts = at == 0 or not (text[0].isalnum() and lowered[at - 1].isalnum())
            if starts and not (self.whole and lowered[end : end + 1].isalnum()):
                return True
            at = lowered.find(text, at + 1)
        return False


@dataclass(frozen=True, slots=True)
class Rule:
    """A regular expression with its evidence, tried only near one of its phrases."""

    near: tuple[str, ...]
    pattern: re.Pattern[str]
    scores: Scores


@dataclass(frozen=True, slots=True)
class Tables:
    """Evidence as data; every weight is a log-odds."""

    prior: tuple[float, ...]
    phrases: dict[str, tuple[Phrase, ...]]
    """By stem of the phrase's most telling word."""
    rules: dict[str, tuple[int, ...]]
    """Stem to numbers in ``all_rules``."""
    all_rules: tuple[Rule, ...]
    statuses: dict[int, Scores]
    types: dict[str, Scores]
    """By lower-case last component of the type's name."""
    type_words: tuple[tuple[str, Scores], ...]
    tools: tuple[tuple[str, Scores], ...]
    """Word in the tool's name, and the evidence it carries."""
    model_call: Scores
    retry_after: Scores
    limit_spent: Scores
    timed_out: Scores
    alarm_weight: float


def stems(lowered: str) -> frozenset[str]:
    """First characters of every word of lower-case ``lowered``; ``_`` parts words."""
    return frozenset(_STEM.findall(lowered.replace("_", " ")))


def _key(phrase: str) -> str:
    """Stem of the longest word that a text holding the phrase must hold from its start."""
    words = [m for m in _WORD.finditer(phrase) if m.start() or phrase[0].isalnum()]
    whole = [m for m in words if m.end() < len(phrase) or len(m.group()) >= STEM] or words
    if not whole:
        raise ConfigError(f"phrase {phrase!r} holds no word; give it one, it is found by that")
    return max((m.group() for m in whole), key=len)[:STEM]


def _kind(name: str, where: str) -> int:
    try:
        return KIND_INDEX[FaultKind(name)]
    except ValueError:
        known = ", ".join(k.value for k in FaultKind)
        raise ConfigError(
            f"{where}: unknown fault kind {name!r}; expected one of {known}"
        ) from None


def _scores(table: dict[str, Any], where: str) -> Scores:
    return tuple((_kind(name, where), float(weight)) for name, weight in table.items())


def _load(name: str) -> dict[str, Any]:
    path = resources.files("selfheal_rl.runtime.diagnose") / "data" / name
    return tomllib.loads(path.read_text(encoding="utf-8"))


def _weighted_lists(table: dict[str, Any], where: str) -> dict[str, Scores]:
    """``{kind: {weight: [entries]}}`` turned round: evidence by entry."""
    merged: dict[str, dict[int, float]] = {}
    for kind, by_weight in table.items():
        for weight, entries in by_weight.items():
            for entry in entries:
                merged.setdefault(entry, {})[_kind(kind, where)] = float(weight)
    return {entry: tuple(scores.items()) for entry, scores in merged.items()}


def _phrases(table: dict[str, Any]) -> dict[str, tuple[Phrase, ...]]:
    index: dict[str, list[Phrase]] = {}
    for entry, scores in _weighted_lists(table, "phrases").items():
        phrase = Phrase(entry.removesuffix("$"), entry.endswith("$"), scores)
        index.setdefault(_key(phrase.text), []).append(phrase)
    return {stem: tuple(phrases) for stem, phrases in index.items()}


def _rules(table: list[dict[str, Any]]) -> tuple[tuple[Rule, ...], dict[str, tuple[int, ...]]]:
    rules: list[Rule] = []
    index: dict[str, list[int]] = {}
    for number, entry in enumerate(table):
        pattern = re.compile(entry["re"], re.MULTILINE)
        rules.append(
            Rule(tuple(entry["near"]), pattern, _scores(entry["scores"], f"rule {number}"))
        )
        for stem in dict.fromkeys(_key(phrase) for phrase in entry["near"]):
            index.setdefault(stem, []).append(number)
    return tuple(rules), {stem: tuple(numbers) for stem, numbers in index.items()}


def _named(table: dict[str, Any], where: str) -> tuple[tuple[str, Scores], ...]:
    return tuple((name, _scores(scores, f"{where}.{name}")) for name, scores in table.items())


@lru_cache(maxsize=1)
def tables() -> Tables:
    """The bundled tables.

    Raises:
        ConfigError: the data names a fault kind that does not exist.
    """
    structure = _load("structure.toml")
    rules, rule_index = _rules(_load("rules.toml")["rule"])
    prior = [0.0] * N_KINDS
    for kind, weight in _scores(structure["prior"], "prior"):
        prior[kind] = weight
    return Tables(
        prior=tuple(prior),
        phrases=_phrases(_load("phrases.toml")),
        rules=rule_index,
        all_rules=rules,
        statuses={int(s): _scores(t, f"status.{s}") for s, t in structure["status"].items()},
        types=_weighted_lists(structure["types"], "types"),
        type_words=_named(structure["type_words"], "type_words"),
        tools=_named(structure["tools"], "tools"),
        model_call=_scores(structure["model_call"], "model_call"),
        retry_after=_scores(structure["retry_after"], "retry_after"),
        limit_spent=_scores(structure["limit_spent"], "limit_spent"),
        timed_out=_scores(structure["timed_out"], "timed_out"),
        alarm_weight=float(structure["alarm"]["weight"]),
    )
