from collections.abc import Sequence
from pathlib import Path

import pytest
import typer.main
from rich.console import Console

from selfheal_rl.cli import app
from selfheal_rl.cli.quickstart import Stage, play, stages

TODO = (Stage("a", ("train", "quick")), Stage("b", ("evaluate", "x")), Stage("c", ("lab",)))


def test_stages_run_in_order_and_the_commands_are_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    seen: list[Sequence[str]] = []

    def run(argv: Sequence[str]) -> int:
        seen.append(argv)
        return 0

    assert play(TODO, run=run, console=Console(width=100)) == 0
    assert seen == [stage.argv for stage in TODO]
    assert "$ selfheal evaluate x" in capsys.readouterr().out


@pytest.mark.parametrize("code", [2, 130])
def test_a_failed_stage_stops_the_rest_and_gives_its_code(
    code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[str] = []

    def run(argv: Sequence[str]) -> int:
        seen.append(argv[0])
        return code if argv[0] == "evaluate" else 0

    assert play(TODO, run=run, console=Console(width=100)) == code
    assert seen == ["train", "evaluate"]
    assert "run the quickstart again" in capsys.readouterr().out


@pytest.mark.parametrize("stage", stages(Path("out")), ids=lambda stage: stage.argv[0])
def test_each_stage_is_a_command_line_its_command_accepts(stage: Stage) -> None:
    name, *arguments = stage.argv
    group = typer.main.get_command(app.build_app(name))
    command = group.commands[name]  # type: ignore[attr-defined]
    assert command.make_context(name, list(arguments)).params
