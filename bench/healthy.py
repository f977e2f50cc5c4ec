"""What healing costs a call that does not fail, beside tenacity and stamina in the same run."""

import asyncio
import logging
import statistics
import time
from collections.abc import Callable
from typing import Any

import stamina
import tenacity

from selfheal_rl import Healer

N_CALLS = 20_000
REPEATS = 15


def _call(x: int) -> int:
    return x


async def _acall(x: int) -> int:
    return x


def _per_call_us(function: Callable[[int], Any]) -> float:
    started = time.perf_counter_ns()
    for _ in range(N_CALLS):
        function(1)
    return (time.perf_counter_ns() - started) / N_CALLS / 1e3


async def _aper_call_us(function: Callable[[int], Any]) -> float:
    started = time.perf_counter_ns()
    for _ in range(N_CALLS):
        await function(1)
    return (time.perf_counter_ns() - started) / N_CALLS / 1e3


def _overheads(functions: dict[str, Callable[[int], Any]], *, is_async: bool) -> dict[str, float]:
    """Median over rounds of the time above the bare call; the rounds interleave the arms."""
    found: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(REPEATS):
        times = {
            name: asyncio.run(_aper_call_us(f)) if is_async else _per_call_us(f)
            for name, f in functions.items()
        }
        for name, value in times.items():
            found[name].append(value - times["bare"])
    return {name: statistics.median(values) for name, values in found.items() if name != "bare"}


def _rows(kind: str, overheads: dict[str, float]) -> list[dict[str, Any]]:
    rows = []
    for name in ("healer", "healer in a task"):
        for rival in ("tenacity", "stamina"):
            rows.append(
                {
                    "name": f"healthy {kind} call, {name}",
                    "value": round(overheads[name], 3),
                    "unit": "us over the bare call",
                    "against": f"{rival}: {overheads[rival]:.2f} us",
                    "ratio": round(overheads[name] / overheads[rival], 4),
                }
            )
    return rows


def run() -> list[dict[str, Any]]:
    """Overhead of a healthy call, sync and async."""
    logging.getLogger("stamina").setLevel(logging.ERROR)
    rows = []
    for kind, target in (("sync", _call), ("async", _acall)):
        healer = Healer()
        tool = healer.tool(target, effects="read")
        stopped = tenacity.retry(stop=tenacity.stop_after_attempt(3))(target)
        arms: dict[str, Callable[[int], Any]] = {
            "bare": target,
            "healer": tool,
            "tenacity": stopped,
            "stamina": stamina.retry(on=Exception)(target),
        }
        overheads = _overheads(arms, is_async=kind == "async")
        with healer.task("bench"):
            inside = _overheads({"bare": target, "healer": tool}, is_async=kind == "async")
        overheads["healer in a task"] = inside["healer"]
        rows += _rows(kind, overheads)
    return rows


if __name__ == "__main__":
    for row in run():
        print(row)
