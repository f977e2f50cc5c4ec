"""Rewrites the table of results in ``README.md`` from ``training/results/evaluate.json``.

    python bench/readme_table.py            rewrite it
    python bench/readme_table.py --check    exit 1 when it is not up to date

A figure stands in the README only when a results file holds it.
"""

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
RESULTS = ROOT / "training" / "results"
BEGIN, END = "<!-- results:begin -->", "<!-- results:end -->"
JUDGED = "default"
COLUMNS: dict[str, str] = {
    "agent-alone": "agent alone",
    "tenacity": "tenacity",
    "ladder-tuned": "tuned rules",
    JUDGED: "**learned**",
    "clairvoyant": "clairvoyant",
}
Row = dict[str, Any]


def load(folder: Path = RESULTS) -> list[Row]:
    """The rows of the evaluation proper; those of changed or left-out worlds stand elsewhere."""
    rows: dict[tuple[str, str], Row] = {}
    for path in sorted(folder.glob("evaluate.json")):
        data = json.loads(path.read_text("utf-8"))
        found = data.get("rows", []) if isinstance(data, dict) else data
        for row in found if isinstance(found, list) else []:
            if isinstance(row, dict) and {"world", "policy", "utility", "gap_closed"} <= set(row):
                rows[row["world"], row["policy"]] = row
    return list(rows.values())


def table(rows: Iterable[Row]) -> str:
    """The Markdown between the marks."""
    by_world: dict[str, dict[str, Row]] = {}
    for row in rows:
        by_world.setdefault(row["world"], {})[row["policy"]] = row
    judged = {world: cells for world, cells in sorted(by_world.items()) if JUDGED in cells}
    if not judged:
        return "No results yet: `make benchmark` makes them."
    shown = [p for p in COLUMNS if any(p in cells for cells in judged.values())]
    head = ["world", *(COLUMNS[p] for p in shown), "gap closed", "completion (rules → learned)"]
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    for world, cells in judged.items():
        figures = [_interval(cells[p]["utility"]) if p in cells else "" for p in shown]
        gap = _interval(cells[JUDGED]["gap_closed"], percent=True)
        figures += [f"≤ {gap}" if gap else "", _completion(cells)]
        lines.append("| " + " | ".join([f"`{world}`", *figures]) + " |")
    tasks = sum(_count(cells[JUDGED].get("tasks")) for cells in judged.values())
    lines += ["", f"Mean utility of a task with its 95 % interval, {tasks:,} tasks in all."]
    return "\n".join(lines)


def rewrite(text: str, content: str) -> str:
    """The README with the region between the marks replaced.

    Raises:
        ValueError: the marks are not there, once each and in order.
    """
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end or BEGIN in tail or END in tail:
        raise ValueError(f"README.md: expected one {BEGIN} and one {END} after it")
    return f"{head}{BEGIN}\n{content}\n{END}{tail}"


def _completion(cells: dict[str, Row]) -> str:
    def percent(policy: str) -> str:
        figure = cells.get(policy, {}).get("completion")
        return f"{figure['mean']:.1%}" if figure else "?"

    return f"{percent('ladder-tuned')} → {percent(JUDGED)}"


def _interval(figure: dict[str, float] | None, *, percent: bool = False) -> str:
    if not figure or figure.get("mean") is None:
        return ""
    if percent:
        low, high = figure["low"], figure["high"]
        return f"{figure['mean']:.0%} [{low:.0%}, {high:.0%}]"
    half = (figure["high"] - figure["low"]) / 2
    return f"{figure['mean']:.3f} ± {half:.3f}"


def _count(value: Any) -> int:
    return int(value) if isinstance(value, int | float) else 0


def main(argv: Sequence[str]) -> int:
    """Exit code 1 when ``--check`` finds the README out of date."""
    text = README.read_text("utf-8")
    new = rewrite(text, table(load()))
    if "--check" in argv:
        return int(new != text)
    README.write_text(new, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
