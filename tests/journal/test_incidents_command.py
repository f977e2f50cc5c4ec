"""``selfheal incidents`` shows each decision with its reasons, mask, propensity and cost."""

import json

import pytest
from typer.testing import CliRunner

from selfheal_rl.cli.app import build_app, run
from selfheal_rl.core.values import Verdict


@pytest.fixture
def command(journal, path, new_incident, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    journal.append_incidents(
        [new_incident(f"0193a7c2e4f1aaaa{n}", task=f"trip-{n}", time=1e9 + n) for n in range(3)]
    )
    journal.record_verdict("0193a7c2e4f1aaaa0", Verdict.ESCALATED, censored=True)

    def call(*arguments: str) -> str:
        result = CliRunner().invoke(
            build_app("incidents"), ["incidents", "--journal", str(path), *arguments]
        )
        assert result.exit_code == 0, result.output
        return result.output

    return call


def test_the_list_names_each_incident_by_an_id_that_finds_it(command) -> None:
    output = command()
    assert max(map(len, output.splitlines())) <= 100
    for n in range(3):
        assert f"0193a7c2e4f1aaaa{n}" in output
    assert "escalated" in output
    assert "2001-09-09" in output


def test_list_options(command) -> None:
    assert [row["task_id"] for row in json.loads(command("--json"))] == [
        "trip-2",
        "trip-1",
        "trip-0",
    ]
    assert [row["task_id"] for row in json.loads(command("--json", "--limit", "1"))] == ["trip-2"]
    assert [row["task_id"] for row in json.loads(command("--json", "--task", "trip-1"))] == [
        "trip-1"
    ]
    assert json.loads(command("--json", "--task", "none")) == []
    assert "No incidents" in command("--task", "none")


def test_one_incident_is_explained(command) -> None:
    output = command("0193a7c2e4f1aaaa1")
    for part in (
        "rate_limit (p 0.75)",
        "backoff.jittered",
        "propensity 0.7",
        "healed, verified",
        "1.5 s, 7 tokens",
        "kind is rate_limit; retry_after is 3 s",
        "continue, fix_arguments, inspect, refresh_context, rollback, escalate",
        "retry 0.30",
        "retry, override: canary",
        "Verdict: healed after 2 attempts, 3.0 s, 14 tokens",
    ):
        assert part in output


def test_json_of_one_incident_has_the_same(command) -> None:
    data = json.loads(command("0193a7c2e4f1aaaa1", "--json"))
    decision = data["attempts"][0]["decision"]
    assert (decision["action"], decision["intended"]) == ("backoff", "retry")
    assert decision["closed"][0] == "continue"
    assert decision["propensity"] == 0.7
    assert data["verdict"] == "healed"


def test_text_in_square_brackets_is_not_markup(journal, path, new_failure, capsys) -> None:
    failure = new_failure()
    snapshot = failure.snapshot.model_copy(update={"message": "[bold]x[/red]", "goal": "[/a]"})
    journal.record_failure("odd", 0, failure.model_copy(update={"snapshot": snapshot}))
    assert run(["incidents", "odd", "--journal", str(path)]) == 0
    assert "[bold]x[/red]" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(["nobody"], "no incident"), (["0193"], "several"), (["--journal", "no.db"], "no journal at")],
)
def test_mistakes_are_one_line(command, path, capsys, arguments, says: str) -> None:
    where = [] if "--journal" in arguments else ["--journal", str(path)]
    assert run(["incidents", *where, *arguments]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert len(error.splitlines()) == 1
