import json
from pathlib import Path

import pytest

from selfheal_rl.cli import init as init_command
from selfheal_rl.cli.app import run
from selfheal_rl.cli.output import emit
from selfheal_rl.core.catalog import list_policies, list_worlds
from selfheal_rl.core.values.errors import ConfigError


def test_worlds_lists_every_bundled_world(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["worlds", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["world"] for row in rows] == list(list_worlds())


def test_an_unknown_world_is_one_line_with_the_known_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["worlds", "web-app"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "unknown world 'web-app'" in error


def test_policies_lists_and_verifies(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["policies", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["policy"]: row["state"] for row in rows} == dict.fromkeys(
        list_policies(), "verified"
    )


def test_init_makes_a_workspace_of_the_same_shape(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["init", str(tmp_path / "ws")]) == 0
    assert "selfheal train" in capsys.readouterr().out
    assert {p.name for p in (tmp_path / "ws").iterdir()} == {"envs", "training", "policies"}
    for name, path in list_worlds().items():
        assert (tmp_path / f"ws/envs/{name}.toml").read_bytes() == path.read_bytes()
    assert not (tmp_path / "ws/training/results").exists()


def test_init_touches_nothing_that_exists(tmp_path: Path) -> None:
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies/mine").write_text("mine")
    with pytest.raises(ConfigError, match="already holds policies"):
        init_command.make_workspace(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["policies"]


def test_a_failed_copy_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(init_command, "_copy", full)
    assert run(["init", str(tmp_path / "ws")]) == 2
    assert list((tmp_path / "ws").iterdir()) == []


def test_data_is_never_read_as_markup(capsys: pytest.CaptureFixture[str]) -> None:
    emit([{"name": "[bold]x[/bold]", "n": 1}], as_json=False)
    assert "[bold]x[/bold]" in capsys.readouterr().out
