"""The documentation is run, not only read."""

import re
from pathlib import Path

import pytest

from selfheal_rl.cli.app import COMMANDS
from selfheal_rl.core.values import ACTIONS, FAMILY, KINDS, LEVEL

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md")), *sorted(ROOT.glob("*/README.md"))]
PAGES = sorted({page for page in PAGES if ".venv" not in page.parts})
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?://)([^)#]+)\)")


def blocks() -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        for number, match in enumerate(BLOCK.finditer(page.read_text("utf-8"))):
            found.append((f"{page.relative_to(ROOT)}:{number}", match.group(1)))
    return found


@pytest.mark.parametrize(("place", "code"), blocks(), ids=[place for place, _ in blocks()])
def test_every_python_example_runs(
    place: str, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(code, place, "exec"), {"__name__": "__main__"})


def test_the_readme_has_an_example() -> None:
    assert any(place.startswith("README.md") for place, _ in blocks())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    # The benchmark report is written by `make benchmark`.
    for target in LINK.findall(page.read_text("utf-8")):
        assert (page.parent / target).exists() or target.endswith("BENCHMARK.md"), target


def test_the_readme_names_every_command() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    for info in COMMANDS:
        assert f"`selfheal {info.name}" in text, info.name


def test_the_vocabulary_page_is_the_code_s() -> None:
    text = (ROOT / "docs/vocabulary.md").read_text("utf-8")
    for action in ACTIONS:
        assert f"| {action.value} | {action.slug} | {LEVEL[action]} |" in text
    for kind in KINDS:
        line = next(x for x in text.splitlines() if x.startswith(f"| {FAMILY[kind].value} |"))
        assert kind.value in line.partition("|")[2]
