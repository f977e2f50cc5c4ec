"""The report as one HTML file that needs nothing else."""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from selfheal_rl.trainer.evaluate.judge import Report
from selfheal_rl.trainer.evaluate.plots import GROUP_NAMES, draw_all

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 68rem; padding: 0 1rem; }
table { border-collapse: collapse; font-size: 13px; margin: 1rem 0; display: block;
  overflow-x: auto; }
th, td { padding: .25rem .6rem; text-align: right; border-bottom: 1px solid #ddd;
  white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
tr.policy td { font-weight: 600; } tr.bound td { color: #8a6d00; } tr.planner td { color: #5e4fa2; }
small { color: #666; } svg { max-width: 100%; height: auto; } figure { margin: 1.5rem 0; }
"""
_COLUMNS = (
    ("completion", "completed", 3),
    ("utility", "utility", 3),
    ("gap_closed", "gap closed ≤", 2),
    ("vs_rule", "over best rule", 3),
    ("worst_decile", "worst tenth", 3),
    ("attempts", "attempts", 2),
    ("seconds", "seconds", 0),
    ("tokens", "tokens", 0),
    ("escalated", "escalated", 3),
    ("harmed", "harmed", 3),
    ("r", "r", 3),
    ("d", "d", 4),
    ("break_even", "p*", 4),
)


def write_html(report: Report, path: Path, run: Path | None = None) -> None:
    """Write the report.

    Args:
        report: what an evaluation found.
        path: of the file; its folder is made.
        run: training run whose learning curve is shown.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.part")
    temporary.write_text(page(report, run), "utf-8")
    temporary.replace(path)


def page(report: Report, run: Path | None = None) -> str:
    """The report as HTML."""
    pictures = draw_all(report, run)
    settings = report.settings
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<title>Evaluation</title><style>{_STYLE}</style>",
        "<h1>Repair policies on held-out deployments</h1>",
        f"<p>{settings['draws']} deployments per world, {settings['tasks_per_draw']:,} tasks each, "
        "the same tasks and the same luck for every policy. Intervals hold 95 % and cover "
        "deployments and training seeds. * is the best rule of its world. Gap closed is the share "
        "of the way from it to the clairvoyant, marked ≤ because the clairvoyant is an estimate "
        "from below. r: completed of the tasks the agent alone fails; d: failed of those it "
        "completes; p* = d / (r + d), the share of failing tasks above which healing pays.</p>",
    ]
    for world in dict.fromkeys(row["world"] for row in report.rows):
        rows = [row for row in report.rows if row["world"] == world]
        parts.append(f"<h2>{escape(world)}</h2>")
        parts.append(_table(rows))
        parts += [_figure(t, p) for t, p in pictures.items() if t.startswith(f"{world}: ")]
    if "Learning curve" in pictures:
        parts += ["<h2>Learning</h2>", _figure("Learning curve", pictures["Learning curve"])]
    return "\n".join(parts) + "\n"


def _table(rows: Sequence[dict[str, Any]]) -> str:
    head = "".join(f"<th>{escape(title)}</th>" for _, title, _ in _COLUMNS)
    lines = [f"<table><tr><th>policy</th>{head}</tr>"]
    for row in rows:
        name = escape(row["policy"]) + (" *" if row["best_rule"] else "")
        if row["seeds"] > 1:
            name += f" <small>({row['seeds']} seeds)</small>"
        cells = "".join(_cell(row[key], digits) for key, _, digits in _COLUMNS)
        title = GROUP_NAMES.get(row["group"], row["group"])
        lines.append(f"<tr class='{row['group']}' title='{title}'><td>{name}</td>{cells}</tr>")
    return "\n".join([*lines, "</table>"])


def _cell(figure: dict[str, float] | None, digits: int) -> str:
    if figure is None:
        return "<td>-</td>"
    low, high = figure["low"], figure["high"]
    return (
        f"<td>{figure['mean']:.{digits}f} <small>[{low:.{digits}f}, {high:.{digits}f}]</small></td>"
    )


def _figure(title: str, svg: bytes) -> str:
    text = svg.decode()
    # Several pictures share one page: the XML prologue goes, ids are kept apart by the title.
    body = text[text.index("<svg") :]
    mark = "".join(c if c.isalnum() else "-" for c in title)
    for prefix in ("url(#", 'xlink:href="#', 'id="'):
        body = body.replace(prefix, f"{prefix}{mark}-")
    return f"<figure>{body}<figcaption><small>{escape(title)}</small></figcaption></figure>"
