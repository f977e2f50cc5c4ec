"""How well the classifier does on labelled failures."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from math import log
from typing import Any

from selfheal_rl.core.values import (
    KIND_INDEX,
    KINDS,
    Diagnosis,
    ErrorSnapshot,
    FailedCall,
    FaultKind,
    Seam,
)
from selfheal_rl.runtime.diagnose.classifier import classify

TRACE_CLASSES: dict[str, frozenset[str]] = {
    "sandbox_denied": frozenset({"denied"}),
    "auth_permission": frozenset({"auth", "denied"}),
}
"""Class names of imported traces that are no kind, and the kinds they stand for."""


@dataclass(frozen=True, slots=True)
class Confusion:
    """How often one kind was answered for another that was not acceptable."""

    expected: str
    answered: str
    n: int


@dataclass(frozen=True, slots=True)
class GoldReport:
    """Accuracy on labelled incidents; shares in [0, 1]."""

    n: int
    skipped: int
    """Rows whose message is a description, not the software's own words."""
    accuracy: float
    """Share whose most probable kind is the label or one of the labels also accepted."""
    strict: float
    """Share whose most probable kind is the label itself."""
    top2: float
    """Share with an accepted kind among the two most probable."""
    log_loss: float
    """Mean of -log(probability of the accepted kinds), in nats."""
    calibration_error: float
    """Expected calibration error of the most probable kind, ten bins of confidence."""
    confusions: tuple[Confusion, ...]

    def to_json(self) -> dict[str, Any]:
        """The report as plain data."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class TraceReport:
    """Agreement with rule-made labels of imported traces."""

    n: int
    accuracy: float
    by_source: dict[str, tuple[int, float]]
    """Source, its number of rows and the share that agrees."""
    confusions: tuple[Confusion, ...]

    def to_json(self) -> dict[str, Any]:
        """The report as plain data."""
        return asdict(self)


def snapshot_of_row(row: Mapping[str, Any]) -> ErrorSnapshot:
    """The snapshot that a labelled incident shows.

    Args:
        row: ``exception_type``, ``http_status``, ``retry_after_s``, ``message``, ``tool_kind``.
    """
    tool = str(row.get("tool_kind") or "unknown")
    is_model = tool == "llm"
    return ErrorSnapshot(
        time=0.0,
        error_type=row.get("exception_type"),
        http_status=row.get("http_status"),
        retry_after_s=row.get("retry_after_s"),
        message=str(row.get("message") or ""),
        seam=Seam.MODEL if is_model else Seam.TOOL,
        call=FailedCall(tool=tool, is_model_call=is_model),
    )


def _ranked(diagnosis: Diagnosis) -> list[FaultKind]:
    order = sorted(range(len(KINDS)), key=lambda i: -diagnosis.posterior[i])
    return [KINDS[i] for i in order]


def _calibration_error(confidences: list[float], hits: list[bool]) -> float:
    bins: dict[int, list[int]] = defaultdict(list)
    for i, confidence in enumerate(confidences):
        bins[min(9, int(confidence * 10))].append(i)
    gaps = (abs(sum(confidences[i] - hits[i] for i in members)) for members in bins.values())
    return sum(gaps) / max(1, len(hits))


def _confusions(pairs: Counter[tuple[str, str]]) -> tuple[Confusion, ...]:
    ordered = sorted(pairs.items(), key=lambda item: (-item[1], item[0]))
    return tuple(Confusion(expected, answered, n) for (expected, answered), n in ordered)


def score(rows: Iterable[Mapping[str, Any]]) -> GoldReport:
    """Accuracy of the classifier on labelled incidents.

    Args:
        rows: incidents with ``kind``, ``kind_also`` and the fields of ``snapshot_of_row``; those
            whose ``message_origin`` is ``described`` are left out.
    """
    confidences: list[float] = []
    hits: list[bool] = []
    strict = top2 = skipped = 0
    loss = 0.0
    pairs: Counter[tuple[str, str]] = Counter()
    for row in rows:
        if row.get("message_origin") == "described":
            skipped += 1
            continue
        accepted = {row["kind"], *(row.get("kind_also") or ())}
        diagnosis = classify(snapshot_of_row(row))
        first, second = _ranked(diagnosis)[:2]
        hits.append(first.value in accepted)
        confidences.append(max(diagnosis.posterior))
        strict += first.value == row["kind"]
        top2 += hits[-1] or second.value in accepted
        loss -= log(sum(diagnosis.posterior[KIND_INDEX[FaultKind(k)]] for k in accepted))
        if not hits[-1]:
            pairs[row["kind"], first.value] += 1
    n = len(hits)
    share = 1.0 / max(1, n)
    return GoldReport(
        n=n,
        skipped=skipped,
        accuracy=sum(hits) * share,
        strict=strict * share,
        top2=top2 * share,
        log_loss=loss * share,
        calibration_error=_calibration_error(confidences, hits),
        confusions=_confusions(pairs),
    )


def score_traces(rows: Iterable[Mapping[str, Any]]) -> TraceReport:
    """Agreement of the classifier with the class labels of imported traces.

    Args:
        rows: failing calls with ``source``, ``tool``, ``cls`` and ``err``; class ``other`` says
            nothing and is left out.
    """
    seen: dict[str, list[bool]] = defaultdict(list)
    pairs: Counter[tuple[str, str]] = Counter()
    for row in rows:
        label = row["cls"]
        if label == "other":
            continue
        snapshot = ErrorSnapshot(time=0.0, message=row["err"], call=FailedCall(tool=row["tool"]))
        kind = classify(snapshot).kind.value
        hit = kind in TRACE_CLASSES.get(label, frozenset({label}))
        seen[row["source"]].append(hit)
        if not hit:
            pairs[label, kind] += 1
    n = sum(map(len, seen.values()))
    return TraceReport(
        n=n,
        accuracy=sum(map(sum, seen.values())) / max(1, n),
        by_source={s: (len(hits), sum(hits) / len(hits)) for s, hits in sorted(seen.items())},
        confusions=_confusions(pairs),
    )
