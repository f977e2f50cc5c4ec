"""Runs the speed benchmarks and writes ``bench/results.json``.

    python bench/run.py              every bench/*.py that has run()
    python bench/run.py decision     only bench/decision.py; the other rows are kept

Each module's ``run()`` returns rows ``{name, value, unit, against, ratio}`` and is called in a
process of its own, so that what one loads cannot slow or warm another. What is worth comparing
between machines is the ratio: both sides are measured in the same process.
"""

import argparse
import importlib.util
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results.json"
MACHINE = HERE / "machine.json"
KEYS = ("name", "value", "unit", "against", "ratio")
LIBRARIES = ("numpy", "onnxruntime", "sqlalchemy", "torch", "stable-baselines3", "sb3-contrib")
Row = dict[str, Any]


def discover(folder: Path = HERE) -> dict[str, Path]:
    """Benchmark name -> module with a top-level ``run`` (found without importing it)."""
    own = Path(__file__).name
    return {
        path.stem: path
        for path in sorted(folder.glob("*.py"))
        if path.name not in (own, "benchmark.py") and "\ndef run(" in path.read_text("utf-8")
    }


def check_rows(module: str, rows: Any) -> list[Row]:
    """The rows, in the promised shape.

    Raises:
        ValueError: a row lacks a key or has another.
    """
    if not isinstance(rows, list):
        raise ValueError(f"{module}.run() returned {type(rows).__name__}; expected a list of rows")
    for row in rows:
        if not isinstance(row, dict) or set(row) != set(KEYS):
            raise ValueError(f"{module}.run() returned {row!r}; expected the keys {KEYS}")
    return [{key: row[key] for key in KEYS} for row in rows]


def run_apart(name: str, path: Path) -> list[Row]:
    """Run one module in a process of its own.

    Raises:
        subprocess.CalledProcessError: it failed; its traceback is on standard error.
    """
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "rows.json"
        command = [sys.executable, str(Path(__file__).resolve()), "--child", str(path), str(out)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        subprocess.run(command, check=True, env=environment, cwd=HERE.parent)
        return check_rows(name, json.loads(out.read_text()))


def child(path: Path, out: Path) -> None:
    """In the process of its own: import the module, run it, write its rows."""
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(f"bench_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path}: cannot be imported as a module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    out.write_text(json.dumps(module.run()))


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        models = [x for x in info.read_text().splitlines() if x.startswith("model name")]
        cpu = models[0].partition(":")[2].strip() if models else cpu
    versions = {}
    for library in LIBRARIES:
        try:
            versions[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            continue
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
        "versions": versions,
    }


def merge(old: Sequence[Row], new: Sequence[Row]) -> list[Row]:
    """New rows replace old ones of the same name; the others stay."""
    rows = {row["name"]: row for row in old}
    rows.update({row["name"]: row for row in new})
    return [rows[name] for name in sorted(rows)]


def write_json(path: Path, value: Any) -> None:
    """Write beside, then move into place: an interrupted run leaves the old file."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(json.dumps(value, indent=1, allow_nan=False) + "\n")
    temporary.replace(path)


def show(rows: Sequence[Row]) -> None:
    """Print the rows as a table."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title="Benchmarks", title_justify="left")
    for column in KEYS:
        table.add_column(column, justify="right" if column in ("value", "ratio") else "left")
    for row in rows:
        ratio = "-" if row["ratio"] is None else f"{row['ratio']:.3g}"
        against = "-" if row["against"] is None else str(row["against"])
        table.add_row(row["name"], f"{row['value']:,.4g}", row["unit"], against, ratio)
    Console().print(table)


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0 when every benchmark ran."""
    parser = argparse.ArgumentParser(description="Run the speed benchmarks.")
    parser.add_argument("names", nargs="*", help="benchmarks to run; all when none is given")
    parser.add_argument("--child", nargs=2, metavar=("MODULE", "OUT"), help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.child:
        child(Path(options.child[0]), Path(options.child[1]))
        return 0
    known = discover()
    if unknown := set(options.names) - set(known):
        parser.error(f"unknown benchmark {sorted(unknown)}; known: {', '.join(known)}")
    chosen = {n: p for n, p in known.items() if not options.names or n in options.names}
    rows, failed = collect(chosen)
    # A full run starts afresh, so that no row outlives the benchmark that made it.
    kept = json.loads(RESULTS.read_text()) if options.names and RESULTS.is_file() else []
    if rows:
        write_json(RESULTS, merge(kept, rows))
        write_json(MACHINE, machine())
    show(rows)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def collect(chosen: dict[str, Path]) -> tuple[list[Row], list[str]]:
    """Run the modules one after the other; one that fails does not stop the rest."""
    rows: list[Row] = []
    failed: list[str] = []
    for name, path in chosen.items():
        print(f"{name} ...", flush=True)
        try:
            rows += run_apart(name, path)
        except (subprocess.CalledProcessError, ValueError) as error:
            print(f"{name}: {error}", file=sys.stderr)
            failed.append(name)
    return rows, failed


if __name__ == "__main__":
    sys.exit(main())
