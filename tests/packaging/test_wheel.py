"""The wheel as a stranger gets it: one top-level name, no learning library, a healer that heals."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.packaging, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(out), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    return next(out.glob("*.whl"))


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment that holds the wheel and its base dependencies only."""
    home = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
    interpreter = home / "bin/python"
    pip = [str(interpreter), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, "-c", str(ROOT / "constraints.txt"), str(wheel)], check=True)
    return interpreter


def run(python: Path, code: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [str(python), "-I", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)
    assert done.returncode == 0, done.stderr
    return done


def names(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def test_the_only_top_level_name_is_the_package(wheel: Path) -> None:
    tops = {name.partition("/")[0] for name in names(wheel)}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"selfheal_rl"}


def test_the_bundle_is_the_checkout_byte_for_byte(wheel: Path) -> None:
    tracked = subprocess.run(
        ["git", "ls-files", "envs", "policies", "training"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert "envs/README.md" in tracked
    with zipfile.ZipFile(wheel) as archive:
        for name in tracked:
            bundled = archive.read(f"selfheal_rl/_bundle/{name}")
            assert bundled == (ROOT / name).read_bytes(), name


def test_the_package_is_typed(wheel: Path) -> None:
    assert "selfheal_rl/py.typed" in names(wheel)


def test_no_learning_library_comes_with_it(python: Path, tmp_path: Path) -> None:
    code = (
        "import importlib.util as u\n"
        "bad = [m for m in ('torch', 'gymnasium', 'stable_baselines3', 'matplotlib')"
        " if u.find_spec(m)]\nassert not bad, bad"
    )
    run(python, code, tmp_path)


HEAL = """
from selfheal_rl import Healer
import sys
from selfheal_rl.core.catalog import find_policy, list_worlds
assert "_bundle" in str(find_policy("default")), find_policy("default")
assert list_worlds()

calls = []
healer = Healer(policy="default", permission=2)

@healer.tool(effects="read")
def flaky():
    calls.append(1)
    if len(calls) < 2:
        raise ConnectionResetError("connection reset by peer")
    return 42

assert flaky() == 42, calls
assert len(calls) == 2, calls
assert not {"torch", "gymnasium"} & set(sys.modules)
"""


def test_the_healer_loads_the_default_policy_and_heals(python: Path, tmp_path: Path) -> None:
    run(python, HEAL, tmp_path)


def test_the_command_works_and_names_the_missing_extra(python: Path, tmp_path: Path) -> None:
    command = python.with_name("selfheal")
    done = subprocess.run([command, "worlds", "--json"], capture_output=True, text=True, check=True)
    assert "_bundle" in done.stdout
    done = subprocess.run(
        [command, "train", "quick"], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 2, done.stderr
    assert "selfheal-rl[train]" in done.stderr
    assert not list(tmp_path.iterdir())
