"""The classifier: scored evidence from a raw error to a posterior over fault kinds.

Each source of evidence (type, status, wording, alarm) adds log-odds to kinds; the posterior is
the softmax of their sum at a temperature, mixed with a floor so that no kind is ever ruled out.
"""

import math
from functools import lru_cache

from selfheal_rl.core.values import (
    KIND_INDEX,
    KINDS,
    N_KINDS,
    Diagnosis,
    ErrorSnapshot,
    FaultKind,
    Seam,
)
from selfheal_rl.runtime.diagnose.effect_state import effect_state
from selfheal_rl.runtime.diagnose.patterns import Scores, Tables, stems, tables
from selfheal_rl.runtime.diagnose.text import (
    cut,
    exception_names,
    inner_statuses,
    signature,
    without_frames,
    without_queries,
)

TEMPERATURE = 1.0
FLOOR = 0.05
"""Share of the mass spread evenly over all kinds."""
SECOND_SHARE = 0.3
"""Share of further evidence of one source for the same kind, beside its strongest."""
MOST_SECOND = 2.0
"""Log-odds that further evidence can add at most."""
CHAIN_SHARE = 0.7
NAMED_SHARE = 0.8
INNER_STATUS_SHARE = 0.9
SOFT_TEXT_SHARE = 0.4
WRAPPED_SHARE = 0.5
"""Weight of a 5xx status whose text reports an inner 4xx: the wrapper says little."""
_REMAINING = ("x-ratelimit-remaining", "ratelimit-remaining")
STACK_CHARS = 800
RESPONSE_CHARS = 1000


class _Pool:
    """Log-odds per kind of one source of evidence: the strongest counts, the rest a share."""

    __slots__ = ("against", "best", "total")

    def __init__(self) -> None:
        self.best: dict[int, float] = {}
        self.total: dict[int, float] = {}
        self.against: dict[int, float] = {}

    def add(self, scores: Scores, share: float = 1.0) -> None:
        for kind, weight in scores:
            if weight < 0.0:
                self.against[kind] = min(self.against.get(kind, 0.0), weight * share)
                continue
            weight *= share
            self.total[kind] = self.total.get(kind, 0.0) + weight
            if weight > self.best.get(kind, 0.0):
                self.best[kind] = weight

    def into(self, logits: list[float]) -> None:
        for kind, best in self.best.items():
            logits[kind] += best + min(SECOND_SHARE * (self.total[kind] - best), MOST_SECOND)
        for kind, against in self.against.items():
            logits[kind] += against


def _type_scores(name: str, data: Tables) -> Scores:
    exact = data.types.get(name)
    if exact is not None:
        return exact
    for word, scores in data.type_words:
        if word in name:
            return scores
    return ()


def _wording(lowered: str, data: Tables) -> Scores:
    """Evidence of phrases and rules; only those that share a word's stem are tried."""
    pool = _Pool()
    present = stems(lowered)
    for stem in sorted(present & data.phrases.keys()):
        for phrase in data.phrases[stem]:
            if phrase.found_in(lowered):
                pool.add(phrase.scores)
    numbers = {number for stem in present & data.rules.keys() for number in data.rules[stem]}
    for number in sorted(numbers):
        rule = data.all_rules[number]
        if any(words in lowered for words in rule.near) and rule.pattern.search(lowered):
            pool.add(rule.scores)
    logits = [0.0] * N_KINDS
    pool.into(logits)
    return tuple((kind, weight) for kind, weight in enumerate(logits) if weight)


@lru_cache(maxsize=4096)
def _text_evidence(text: str) -> tuple[Scores, tuple[str, ...], tuple[int, ...], str, str]:
    """Of one error text: wording scores, exception names, statuses, lower case, signature."""
    kept = without_frames(text)
    lowered = without_queries(kept.lower())
    scores = _wording(lowered, tables())
    return scores, exception_names(kept), inner_statuses(lowered), lowered, signature(text)


def _text_of(snapshot: ErrorSnapshot) -> str:
    parts = [cut(snapshot.message)]
    if snapshot.response:
        parts.append(cut(snapshot.response, RESPONSE_CHARS, RESPONSE_CHARS))
    if snapshot.stack_trace:
        parts.append(snapshot.stack_trace[-STACK_CHARS:])
    return "\n".join(parts) if len(parts) > 1 else parts[0]


def _last_component(name: str | None) -> str:
    return (name or "")[-200:].rpartition(".")[2].lower()


def _add(logits: list[float], scores: Scores, share: float = 1.0) -> None:
    for kind, weight in scores:
        logits[kind] += share * weight


def _add_types(pool: _Pool, snapshot: ErrorSnapshot, named: tuple[str, ...], data: Tables) -> None:
    own = _last_component(snapshot.error_type)
    if own:
        pool.add(_type_scores(own, data))
    for cause in snapshot.error_chain[:8]:
        pool.add(_type_scores(_last_component(cause), data), CHAIN_SHARE)
    for name in named:
        if name != own:
            pool.add(_type_scores(name, data), NAMED_SHARE)


def _add_statuses(
    pool: _Pool, snapshot: ErrorSnapshot, inner: tuple[int, ...], data: Tables
) -> None:
    outer = snapshot.http_status
    wrapped = outer is not None and outer >= 500 and any(s < 500 for s in inner)
    if outer is not None:
        pool.add(data.statuses.get(outer, ()), WRAPPED_SHARE if wrapped else 1.0)
    for status in inner:
        if status != outer:
            pool.add(data.statuses.get(status, ()), INNER_STATUS_SHARE)


def _says_spent(header: str, value: str) -> bool:
    return value.strip() == "0" and header.lower().startswith(_REMAINING)


def _add_context(logits: list[float], snapshot: ErrorSnapshot, data: Tables) -> None:
    headers = {name.lower() for name in snapshot.headers}
    if snapshot.retry_after_s is not None or "retry-after" in headers:
        _add(logits, data.retry_after)
    if any(_says_spent(name, value) for name, value in snapshot.headers.items()):
        _add(logits, data.limit_spent)
    tool = snapshot.call.tool.lower()
    for word, scores in data.tools:
        if word in tool:
            _add(logits, scores)
            break
    if snapshot.call.is_model_call or snapshot.seam is Seam.MODEL:
        _add(logits, data.model_call)
    if snapshot.status == "timed_out":
        _add(logits, data.timed_out)
    if snapshot.alarm is not None:
        try:
            kind = KIND_INDEX[FaultKind(snapshot.alarm)]
        except ValueError:
            return
        logits[kind] += data.alarm_weight


def _softmax(logits: list[float]) -> tuple[float, ...]:
    top = max(logits)
    weights = [math.exp((x - top) / TEMPERATURE) for x in logits]
    scale = (1.0 - FLOOR) / sum(weights)
    floor = FLOOR / N_KINDS
    return tuple(floor + scale * w for w in weights)


def classify(snapshot: ErrorSnapshot) -> Diagnosis:
    """Posterior over the fault kinds, effect state and signature of one failure.

    Deterministic, and never raises on a valid snapshot, whatever its text holds.

    Args:
        snapshot: the failure; text beyond 2,000 characters from either end is not read.
    """
    data = tables()
    scores, named, inner, lowered, sign = _text_evidence(_text_of(snapshot))
    logits = list(data.prior)
    for kind, weight in scores:
        logits[kind] += weight
    # Clients name their exceptions after the status, so the two are one piece of evidence.
    protocol = _Pool()
    _add_types(protocol, snapshot, named, data)
    _add_statuses(protocol, snapshot, inner, data)
    protocol.into(logits)
    if snapshot.is_soft and snapshot.alarm is not None:
        # The call returned: a detector's word counts for more than the wording of its objection.
        logits = [SOFT_TEXT_SHARE * weight for weight in logits]
    _add_context(logits, snapshot, data)
    posterior = _softmax(logits)
    own = _last_component(snapshot.error_type)
    return Diagnosis(
        posterior=posterior,
        effect_state=effect_state(snapshot, posterior, lowered, own),
        signature=f"{own}|{snapshot.http_status or ''}|{sign}",
    )


def kind_probabilities(diagnosis: Diagnosis) -> dict[FaultKind, float]:
    """The posterior by kind, most probable first."""
    pairs = zip(KINDS, diagnosis.posterior, strict=True)
    return dict(sorted(pairs, key=lambda pair: -pair[1]))
