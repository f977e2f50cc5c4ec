from pathlib import Path

import pytest
from pydantic import Field

from selfheal_rl.core.catalog import load_toml, read_toml, validate
from selfheal_rl.core.values.errors import ConfigError
from selfheal_rl.core.values.snapshot import Frozen


class Evidence(Frozen):
    ok: int = Field(ge=0)
    n: int = Field(ge=0)


class Cause(Frozen):
    share: float = Field(ge=0, le=1)
    repairs: dict[str, Evidence] = Field(default_factory=dict)
    symptom: Evidence | None = None


class World(Frozen):
    name: str
    causes: tuple[Cause, ...] = ()


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "world.toml"
    path.write_text(text)
    return path


def test_a_good_file_becomes_values(tmp_path: Path) -> None:
    path = write(tmp_path, 'name = "w"\n[[causes]]\nshare = 0.5\nrepairs.retry = {ok = 1, n = 2}\n')
    world = load_toml(path, World)
    assert world.causes[0].repairs["retry"] == Evidence(ok=1, n=2)


@pytest.mark.parametrize(
    ("text", "place", "meant"),
    [
        ('naem = "w"', "", "name"),
        ('name = "w"\n[[causes]]\nshar = 1.0', "causes[0]: ", "share"),
        ('name = "w"\n[[causes]]\nshare = 1.0\nsymptom = {okk = 1, n = 1}', ".symptom: ", "ok"),
        ('name = "w"\n[[causes]]\nshare = 1.0\nrepairs.retry = {oks = 1}', ".retry: ", "ok"),
    ],
)
def test_unknown_keys_name_the_nearest_known_one(
    tmp_path: Path, text: str, place: str, meant: str
) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_toml(path, World)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert f"{place}unknown key" in message
    assert f"did you mean {meant!r}?" in message


def test_a_value_out_of_range_says_what_was_found(tmp_path: Path) -> None:
    path = write(tmp_path, 'name = "w"\n[[causes]]\nshare = 1.5\n')
    with pytest.raises(ConfigError, match=r"causes\[0\]\.share: found 1\.5; .*less than or equal"):
        load_toml(path, World)


def test_several_problems_come_in_one_message() -> None:
    with pytest.raises(ConfigError) as caught:
        validate({"causes": [{"share": -1}, {"share": 2}]}, World, source="w.toml")
    message = str(caught.value)
    assert message.startswith("w.toml: 3 problems")
    assert "name: this key is required and missing" in message
    assert "pydantic" not in message


def test_a_long_value_is_cut() -> None:
    with pytest.raises(ConfigError) as caught:
        validate({"name": ["x" * 10_000]}, World, source="w.toml")
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("content", [b"name = ", b"\xff\xfe", b"a" * 10 + b"=[" * 5000])
def test_what_is_no_toml_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "world.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="not valid TOML"):
        read_toml(path)


def test_an_absent_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_toml(tmp_path / "absent.toml")
