"""The report's pictures, each from rows alone; SVG for the page, PNG for a look."""

import io
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from selfheal_rl.trainer.evaluate.judge import Report

Row = dict[str, Any]
COLOURS = {
    "policy": "#1b7837",
    "rule": "#2166ac",
    "planner": "#8073ac",
    "library": "#999999",
    "baseline": "#666666",
    "bound": "#d6a100",
}
GROUP_NAMES = {
    "policy": "learned policies",
    "rule": "rules",
    "planner": "planners",
    "library": "libraries' defaults",
    "baseline": "nothing done",
    "bound": "clairvoyant (from below)",
}
_STYLE: dict[Any, Any] = {
    "svg.hashsalt": "selfheal",
    "svg.fonttype": "none",
    "font.size": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
_MIN_SEEN = 30
"""Incidents or tries below which a share is not drawn."""
_FEW = 4
"""Policies compared side by side in the recovery pictures."""
_GIVE_UP = frozenset({"escalate", "degrade"})


def draw_all(report: Report, run: Path | None = None, kind: str = "svg") -> dict[str, bytes]:
    """Every picture that the data allows, by title.

    Args:
        report: of :func:`~selfheal_rl.trainer.evaluate.judge.evaluate`.
        run: training run whose learning curve is drawn.
        kind: ``svg`` or ``png``.
    """
    pictures: dict[str, bytes] = {}
    for world in dict.fromkeys(row["world"] for row in report.rows):
        rows = [row for row in report.rows if row["world"] == world]
        compared = leading(rows)
        recovery = [r for r in report.recovery if r["world"] == world]
        pictures[f"{world}: utility"] = _picture(partial(_utility, rows=rows), (9, 4.6), kind)
        if any(row["r"] for row in rows):
            pictures[f"{world}: rescued and broken tasks"] = _picture(
                partial(_twins, rows=rows), (9, 4.2), kind
            )
        for by in ("kind", "action"):
            part = [r for r in recovery if r["by"] == by and r["policy"] in compared]
            if part:
                pictures[f"{world}: recovery by {by}"] = _picture(
                    partial(_recovery, rows=part, compared=compared), (9, 5.2), kind
                )
    if run is not None and (curves := read_curves(run)):
        pictures["Learning curve"] = _picture(partial(_curve, curves=curves), (9, 3.8), kind)
    return pictures


_SIDE_BY_SIDE = ("#7fbf7b", "#1b7837", COLOURS["rule"], COLOURS["library"])
"""Learned policies, the best rule, the agent alone: in the order of :func:`leading`."""


def leading(rows: Sequence[Row]) -> list[str]:
    """The policies worth comparing in detail: learned ones, the best rule, alone, clairvoyant."""
    learned = [r["policy"] for r in rows if r["group"] == "policy"][: _FEW - 2]
    planner = [r["policy"] for r in rows if r["group"] == "planner"][: 0 if learned else 1]
    rule = [r["policy"] for r in rows if r["best_rule"]]
    alone = [r["policy"] for r in rows if r["policy"] == "agent-alone"]
    return [*learned, *planner, *rule, *alone]


def read_curves(run: Path) -> dict[str, list[Row]]:
    """Validations of each seed of a training run, oldest first."""
    import json

    curves = {}
    for path in sorted(run.glob("seed-*/curve.jsonl")):
        lines = [json.loads(line) for line in path.read_text("utf-8").splitlines() if line]
        if lines:
            curves[path.parent.name] = lines
    return curves


def _picture(paint: Callable[[Any], None], size: tuple[float, float], kind: str) -> bytes:
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)
        paint(figure)
        buffer = io.BytesIO()
        figure.savefig(
            buffer, format=kind, dpi=110, metadata={"Date": None} if kind == "svg" else None
        )
    return buffer.getvalue()


def _errors(figures: Sequence[dict[str, float]]) -> list[list[float]]:
    low = [max(f["mean"] - f["low"], 0.0) for f in figures]
    high = [max(f["high"] - f["mean"], 0.0) for f in figures]
    return [low, high]


def _utility(figure: Any, rows: Sequence[Row]) -> None:
    axes = figure.subplots()
    ordered = sorted(rows, key=lambda r: float(r["utility"]["mean"]))
    for group, colour in COLOURS.items():
        at = [i for i, row in enumerate(ordered) if row["group"] == group]
        if not at:
            continue
        means = [ordered[i]["utility"]["mean"] for i in at]
        axes.errorbar(
            means,
            at,
            xerr=_errors([ordered[i]["utility"] for i in at]),
            fmt="o",
            color=colour,
            capsize=3,
            label=GROUP_NAMES[group],
        )
        worst = [ordered[i]["worst_decile"]["mean"] for i in at]
        axes.plot(worst, at, "|", color=colour, markersize=12, markeredgewidth=2, alpha=0.6)
    best = next((row for row in rows if row["best_rule"]), None)
    if best is not None:
        axes.axvline(best["utility"]["mean"], color=COLOURS["rule"], lw=0.8, ls="--", zorder=0)
    axes.set_yticks(range(len(ordered)), [_label(row) for row in ordered])
    axes.set_xlabel(
        "mean utility of a task, 95 % interval;  | mean of the worst tenth of deployments"
    )
    axes.grid(axis="x", alpha=0.3)
    axes.legend(loc="upper left", frameon=False)


def _label(row: Row) -> str:
    name = str(row["policy"]) + (" *" if row["best_rule"] else "")
    return f"{name} ({row['seeds']} seeds)" if row["seeds"] > 1 else name


def _twins(figure: Any, rows: Sequence[Row]) -> None:
    left, middle, right = figure.subplots(1, 3, sharey=True)
    shown = sorted((r for r in rows if r["r"]), key=lambda r: float(r["utility"]["mean"]))
    at = range(len(shown))
    colours = [COLOURS[row["group"]] for row in shown]
    panels = (
        (left, "r", "r: completed, of those\nthe agent alone fails"),
        (middle, "d", "d: failed, of those\nthe agent alone completes"),
        (right, "attempts", "repair attempts\na task"),
    )
    for axes, key, title in panels:
        figures = [row[key] for row in shown]
        means = [f["mean"] for f in figures]
        axes.barh(at, means, color=colours, xerr=_errors(figures), height=0.65, capsize=2)
        axes.set_title(title, fontsize=9.5)
        axes.grid(axis="x", alpha=0.3)
        axes.set_xlim(left=0.0)
    left.set_yticks(at, [_label(row) for row in shown])


def _recovery(figure: Any, rows: Sequence[Row], compared: Sequence[str]) -> None:
    axes = figure.subplots()
    total: dict[str, int] = {}
    for row in rows:
        total[row["name"]] = max(total.get(row["name"], 0), row["n"])
    names = [n for n in total if total[n] >= _MIN_SEEN and n not in _GIVE_UP]
    names.sort(key=lambda n: -total[n])
    width = 0.8 / max(len(compared), 1)
    for k, policy in enumerate(compared):
        found = {r["name"]: r for r in rows if r["policy"] == policy and r["n"] >= _MIN_SEEN}
        at = [i + (k - (len(compared) - 1) / 2) * width for i, n in enumerate(names) if n in found]
        figures = [found[n]["recovered"] for n in names if n in found]
        means = [f["mean"] for f in figures]
        axes.bar(
            at,
            means,
            width * 0.92,
            yerr=_errors(figures),
            label=policy,
            color=_SIDE_BY_SIDE[k + len(_SIDE_BY_SIDE) - len(compared)],
            error_kw={"lw": 0.8},
        )
    axes.set_xticks(range(len(names)), names, rotation=40, ha="right")
    axes.set_ylim(0, 1.02)
    by = rows[0]["by"]
    what = "incidents healed in the end" if by == "kind" else "tries that healed"
    axes.set_ylabel(f"share of {what}, 95 %")
    axes.set_xlabel(f"{by}, most frequent first")
    axes.grid(axis="y", alpha=0.3)
    axes.legend(
        frameon=False, ncols=min(len(compared), 5), loc="upper center", bbox_to_anchor=(0.5, 1.12)
    )


def _curve(figure: Any, curves: dict[str, list[Row]]) -> None:
    axes = figure.subplots()
    for name, lines in curves.items():
        decisions = [line["decisions"] / 1e6 for line in lines]
        axes.plot(decisions, [line["utility"] for line in lines], marker=".", label=name)
    axes.set_xlabel("decisions simulated, millions")
    axes.set_ylabel("utility on validation draws")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, ncols=2)
