"""The command, its table, its JSON and its page."""

import io
import json
import re
from pathlib import Path
from xml.dom import minidom

import pytest
from rich.console import Console

from selfheal_rl.cli import app
from selfheal_rl.cli.evaluate import _tables
from selfheal_rl.trainer.evaluate.html import page
from selfheal_rl.trainer.evaluate.judge import Report, evaluate
from selfheal_rl.trainer.evaluate.plots import draw_all, read_curves


@pytest.fixture(scope="module")
def report() -> Report:
    return evaluate(["web-api"], [], draws=4, tasks_per_draw=64)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run" / "seed-0"
    folder.mkdir(parents=True)
    points = [{"decisions": 1000 * k, "utility": 0.1 * k} for k in (1, 2, 3)]
    (folder / "curve.jsonl").write_text("\n".join(map(json.dumps, points)) + "\n")
    return tmp_path / "run"


def test_rows_hold_every_measure_with_its_interval(report: Report) -> None:
    names = {"clairvoyant", "lookahead-1", "lookahead-2", "hand-ladder", "agent-alone", "tenacity"}
    assert names <= {row["policy"] for row in report.rows}
    utilities = [row["utility"]["mean"] for row in report.rows]
    assert utilities == sorted(utilities, reverse=True)
    for row in report.rows:
        for name in ("completion", "utility", "gap_closed", "worst_decile", "attempts"):
            assert row[name]["low"] <= row[name]["mean"] + 1e-9
            assert row[name]["mean"] <= row[name]["high"] + 1e-9
    # The ceiling is the better of planner and network; which one it is depends on the sample.
    bounds = [r["gap_closed"]["mean"] for r in report.rows if r["policy"].startswith("clairvoyant")]
    assert max(bounds) == pytest.approx(1.0)
    best = next(row for row in report.rows if row["best_rule"])
    assert best["gap_closed"]["mean"] == 0.0
    json.dumps(report.to_json(), allow_nan=False)


@pytest.mark.parametrize("width", [120, 80])
def test_the_table_fits_the_terminal_without_cutting_figures(report: Report, width: int) -> None:
    console = Console(width=width, record=True, file=io.StringIO())
    seeds = {**report.rows[0], "policy": "default-seeds", "seeds": 5}
    _tables(Report([*report.rows, seeds], [], report.settings), console)
    text = console.export_text()
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text, text
    best = next(row["policy"] for row in report.rows if row["best_rule"])
    assert f"{best} *" in text
    assert "default-seeds ×5" in text


def test_the_page_needs_nothing_else_and_its_pictures_are_whole(report: Report, run: Path) -> None:
    text = page(report, run)
    pictures = re.findall(r"<svg.*?</svg>", text, re.S)
    assert len(pictures) == 5
    for picture in pictures:
        minidom.parseString(picture.encode())
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert not re.search(r'(src|href)="http', re.sub(r"xmlns[^>]*", "", text))
    assert "agent-alone" in text


def test_pictures_come_as_png_too(report: Report, run: Path) -> None:
    pictures = draw_all(report, run, "png")
    assert all(picture.startswith(b"\x89PNG") for picture in pictures.values())
    assert "Learning curve" in pictures
    assert len(read_curves(run)["seed-0"]) == 3


def test_the_command_prints_rows_as_json(tmp_path: Path, capsys) -> None:
    arguments = ["evaluate", "hand-ladder", "--world", "toy-exact", "--only", "--json"]
    small = ["--draws", "2", "--tasks", "64", "--resume", str(tmp_path)]
    assert app.run([*arguments, *small]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["policy"] for row in rows} == {"hand-ladder", "agent-alone"}
    assert len(list(tmp_path.glob("*.npz"))) == 2


def test_the_command_says_what_is_wrong(capsys) -> None:
    assert app.run(["evaluate", "no-such-policy", "--world", "toy-exact"]) == 2
    assert "unknown policy 'no-such-policy'" in capsys.readouterr().err
    assert app.run(["evaluate", "--gold", "/no/such/file.jsonl"]) == 2
    assert "no file at /no/such/file.jsonl" in capsys.readouterr().err


def test_an_interrupted_command_says_how_to_go_on(tmp_path: Path, capsys, monkeypatch) -> None:
    from selfheal_rl.trainer.evaluate import judge

    def stop(*_args, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr(judge, "play", stop)
    arguments = ["evaluate", "hand-ladder", "--world", "toy-exact", "--only"]
    assert app.run([*arguments, "--resume", str(tmp_path)]) == 130
    assert f"kept in {tmp_path}; run the same command again" in capsys.readouterr().err
