import subprocess
import sys
import types
from pathlib import Path

import pytest

from selfheal_rl.cli import app
from selfheal_rl.core.values.errors import ConfigError

HEAVY = {
    "torch",
    "gymnasium",
    "stable_baselines3",
    "numpy",
    "onnxruntime",
    "openai",
    "sqlalchemy",
    "matplotlib",
    "langchain",
}


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom selfheal_rl.cli.app import run\ncode = run(['--help'])\n"
        f"print('LOADED', sorted({HEAVY!r} & set(sys.modules)))\nsys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "LOADED []" in done.stdout
    for info in app.COMMANDS:
        assert info.name in done.stdout


@pytest.mark.parametrize("info", app.COMMANDS, ids=lambda info: info.name)
def test_every_command_loads_and_explains_itself(
    info: app.CommandInfo, capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.run([info.name, "--help"]) == 0
    out = capsys.readouterr().out
    assert f"selfheal {info.name}" in out


def test_only_the_command_asked_for_is_imported() -> None:
    code = (
        "import sys\nfrom selfheal_rl.cli.app import run\nrun(['worlds', '--help'])\n"
        "print('LOADED', sorted(m for m in sys.modules if m.startswith('selfheal_rl.cli.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "'selfheal_rl.cli.worlds'" in done.stdout
    assert "'selfheal_rl.cli.policies'" not in done.stdout


def stub(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Make ``selfheal worlds`` raise ``error``."""

    def worlds() -> None:
        raise error

    module = types.ModuleType("selfheal_rl.cli.worlds")
    module.worlds = worlds  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "selfheal_rl.cli.worlds", module)


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (ConfigError("w.toml: unknown key 'x'"), 2, "error: w.toml: unknown key 'x'\n"),
        (KeyboardInterrupt(), 130, "selfheal: interrupted\n"),
        (OSError(28, "No space left on device", "/x"), 2, "/x: No space left on device; free"),
        (ModuleNotFoundError("no", name="torch"), 2, "pip install 'selfheal-rl[train]'"),
        (ModuleNotFoundError("no", name="stamina.x"), 2, "pip install 'selfheal-rl[lab]'"),
    ],
)
def test_errors_become_one_message_and_a_code(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    code: int,
    says: str,
) -> None:
    stub(monkeypatch, error)
    assert app.run(["worlds"]) == code
    captured = capsys.readouterr()
    assert says in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""


def test_a_defect_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    stub(monkeypatch, ZeroDivisionError("a bug"))
    with pytest.raises(ZeroDivisionError):
        app.run(["worlds"])


def test_a_misspelt_command_is_answered_with_the_right_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert app.run(["worls"]) == 2
    assert "Did you mean 'worlds'" in capsys.readouterr().err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("selfheal-rl 0.1")


def test_a_broken_pipe_is_quiet(tmp_path: Path) -> None:
    command = f"{sys.executable} -m selfheal_rl.cli --help | true"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
