"""The collector of benchmarks and the README's table, loaded from ``bench/``."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest
import typer.main

from selfheal_rl.cli import app

ROOT = Path(__file__).resolve().parents[2]


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"bench_{name}", ROOT / f"bench/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ROW = '{"name": "x", "value": 2.0, "unit": "s", "against": "y", "ratio": 3.0}'


def test_modules_with_run_are_found_and_run_apart(tmp_path: Path) -> None:
    run = load("run")
    (tmp_path / "fast.py").write_text(f"import os\n\ndef run():\n    return [{ROW}]\n")
    (tmp_path / "helper.py").write_text("x = 1\n")
    found = run.discover(tmp_path)
    assert list(found) == ["fast"]
    assert run.run_apart("fast", found["fast"])[0]["ratio"] == 3.0


def test_one_failure_does_not_stop_the_rest(tmp_path: Path) -> None:
    run = load("run")
    (tmp_path / "a.py").write_text("x = 1\n\ndef run():\n    return [{'name': 'x'}]\n")
    (tmp_path / "b.py").write_text(f"x = 1\n\ndef run():\n    return [{ROW}]\n")
    rows, failed = run.collect(run.discover(tmp_path))
    assert failed == ["a"]
    assert [row["name"] for row in rows] == ["x"]


def test_merge_replaces_by_name() -> None:
    run = load("run")
    old = [{"name": "a", "value": 1}, {"name": "b", "value": 1}]
    assert run.merge(old, [{"name": "b", "value": 2}])[1]["value"] == 2


def figure(mean: float) -> dict[str, float]:
    return {"mean": mean, "low": mean - 0.01, "high": mean + 0.03}


def row(policy: str, utility: float) -> dict[str, object]:
    return {
        "world": "web-api",
        "policy": policy,
        "tasks": 1000,
        "utility": figure(utility),
        "completion": figure(0.9),
        "gap_closed": figure(0.5),
    }


def test_the_table_shows_what_the_files_hold() -> None:
    readme = load("readme_table")
    text = readme.table([row("default", 0.8), row("ladder-tuned", 0.7)])
    assert "| `web-api` | 0.700 ± 0.020 | 0.800 ± 0.020 | ≤ 50% [49%, 53%] |" in text
    assert "clairvoyant" not in text
    assert readme.table([row("ladder-tuned", 0.7)]).startswith("No results yet")


def test_only_the_marked_region_changes() -> None:
    readme = load("readme_table")
    text = f"a\n{readme.BEGIN}\nold\n{readme.END}\nb\n"
    assert readme.rewrite(text, "new") == f"a\n{readme.BEGIN}\nnew\n{readme.END}\nb\n"
    with pytest.raises(ValueError, match="expected one"):
        readme.rewrite("no marks", "new")


def test_every_step_of_the_benchmark_is_a_command_line_its_command_accepts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    benchmark = load("benchmark")
    for step in benchmark.STEPS:
        if step.argv[0] == "selfheal":
            name, *arguments = step.argv[1:]
            group = typer.main.get_command(app.build_app(name))
            command = group.commands[name]  # type: ignore[attr-defined]
            command.make_context(name, list(arguments))
        else:
            assert (ROOT / step.argv[1]).is_file()


def test_the_benchmark_report_shows_command_and_interval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    benchmark = load("benchmark")
    monkeypatch.setattr(benchmark, "RESULTS", tmp_path)
    (tmp_path / "evaluate.json").write_text(json.dumps([row("default", 0.8)]))
    text = benchmark.render(benchmark.STEPS)
    assert "selfheal evaluate default runs/default --json --html" in text
    assert "| web-api | default | 1000 | 0.9 [0.89, 0.93] | 0.8 [0.79, 0.83] |" in text
    assert "Real components" not in text
