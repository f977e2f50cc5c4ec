"""What looking at a failure costs: classification, capture with redaction, output detectors."""

import json
import statistics
import time
from collections.abc import Callable

from selfheal_rl.core.values import ErrorSnapshot, FailedCall
from selfheal_rl.runtime.diagnose import classify, detect, snapshot_of

CALL = FailedCall(tool="search", arguments={"query": "invoices", "api_key": "sk-" + "a1B2" * 10})
PROSE = "The report covers the third quarter and lists every invoice by region. " * 60
RECORDS = json.dumps([{"id": i, "name": f"item {i}", "price": i * 1.5} for i in range(100)])


def _error() -> Exception:
    try:
        json.loads("{'a': 1")
    except ValueError as error:
        caught = RuntimeError("tool 'search' failed: Authorization: Bearer abcdef0123456789abcdef")
        caught.__cause__ = error
        return caught
    raise AssertionError("json.loads accepted a broken text")


def _times(function: Callable[[int], object], repeats: int) -> list[float]:
    times = []
    for i in range(repeats):
        start = time.perf_counter()
        function(i)
        times.append((time.perf_counter() - start) * 1e6)
    return sorted(times)


def _row(
    name: str, value: float, against: str = "", other: float | None = None
) -> dict[str, object]:
    ratio = None if other is None else value / other
    return {"name": name, "value": value, "unit": "us", "against": against, "ratio": ratio}


def run() -> list[dict[str, object]]:
    """Rows ``{name, value, unit, against, ratio}``."""
    snapshots = [
        ErrorSnapshot(time=0.0, message=f"Request {i} failed: item {i * 7} was not found in basket")
        for i in range(600)
    ]
    classify(snapshots[0])
    fresh = _times(lambda i: classify(snapshots[i]), 600)
    seen = _times(lambda i: classify(snapshots[-1]), 600)
    error = _error()
    capture = _times(lambda i: snapshot_of(error, call=CALL, now=float(i)), 1000)
    prose, records = PROSE[:4096], RECORDS[:4096]
    plain = _times(lambda i: detect(prose, is_model_output=True), 1000)
    structured = _times(lambda i: detect(records, is_model_output=True), 1000)
    parse = _times(lambda i: json.loads(RECORDS), 1000)
    middle = statistics.median
    p99 = capture[int(len(capture) * 0.99)]
    return [
        _row("classify a new message, p50", middle(fresh), "a message seen before", middle(seen)),
        _row("capture with redaction, p50", middle(capture)),
        _row("capture with redaction, p99", p99, "5,000 us allowed", 5000.0),
        _row("output detectors, 4 kB of prose, p50", middle(plain), "150 us allowed", 150.0),
        _row(
            "output detectors, 4 kB of JSON, p50", middle(structured), "json.loads", middle(parse)
        ),
    ]


if __name__ == "__main__":
    for row in run():
        print(row)
