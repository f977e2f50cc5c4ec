"""Accuracy on labelled failures: the arithmetic, and the figures where the data is at hand."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from selfheal_rl.runtime.diagnose import score, score_traces

SHARED = Path(__file__).resolve().parents[2].parent / "shared"


def row(message: str, kind: str, also: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    base = {"exception_type": None, "http_status": None, "retry_after_s": None}
    base |= {"tool_kind": "mcp", "message_origin": "software"}
    return base | {"message": message, "kind": kind, "kind_also": list(also)} | more


def test_report_counts() -> None:
    report = score(
        [
            row("connection refused", "network"),
            row("connection refused", "server_error", ("network",)),
            row("connection refused", "auth"),
            row("whatever", "loop", message_origin="described"),
        ]
    )
    assert (report.n, report.skipped) == (3, 1)
    assert report.accuracy == pytest.approx(2 / 3)
    assert report.strict == pytest.approx(1 / 3)
    assert report.top2 >= report.accuracy
    assert [(c.expected, c.answered, c.n) for c in report.confusions] == [("auth", "network", 1)]
    assert json.loads(json.dumps(report.to_json()))["n"] == 3


def test_no_rows_is_no_division_by_zero() -> None:
    assert score([]).accuracy == 0.0
    assert score_traces([]).accuracy == 0.0


def test_trace_classes_are_mapped() -> None:
    report = score_traces(
        [
            {"source": "a", "tool": "x", "cls": "sandbox_denied", "err": "permission denied"},
            {"source": "a", "tool": "x", "cls": "auth_permission", "err": "invalid api key"},
            {"source": "b", "tool": "x", "cls": "other", "err": "?"},
            {"source": "b", "tool": "x", "cls": "timeout", "err": "permission denied"},
        ]
    )
    assert report.n == 3
    assert report.by_source == {"a": (2, 1.0), "b": (1, 0.0)}
    assert json.loads(json.dumps(report.to_json()))["accuracy"] == pytest.approx(2 / 3)


def read(name: str) -> list[dict[str, Any]]:
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"{name} is not beside the project")
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def test_gold_incidents() -> None:
    report = score(read("gold/dev.jsonl"))
    assert report.accuracy >= 0.80, report.confusions
    assert report.calibration_error < 0.2


def test_imported_traces() -> None:
    report = score_traces(read("traces/transitions_dev.jsonl.gz"))
    assert report.accuracy >= 0.80, report.confusions
