import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from selfheal_rl.core.catalog import (
    Golden,
    Manifest,
    artifact,
    read_golden,
    verify_artifact,
    write_artifact,
)
from selfheal_rl.core.values import N_ACTIONS
from selfheal_rl.core.values.errors import ArtifactError

FILES = {"policy.onnx": b"weights" * 100, "golden.jsonl": b"{}\n", "card.md": b"# card\n"}


def manifest(**fields: object) -> Manifest:
    return Manifest.model_validate(
        {"name": "p", "kind": "onnx", "spec_hash": "s1", "belief": {"causes": ["a"]}, **fields}
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_artifact(tmp_path / "p", manifest(), FILES)
    return tmp_path / "p"


def names(directory: Path) -> set[str]:
    return {p.name for p in directory.iterdir()}


def test_what_is_written_verifies(folder: Path) -> None:
    read = verify_artifact(folder, specs={"s1"})
    assert read == manifest(files=read.files).sealed()
    assert set(read.files) == set(FILES)
    assert names(folder.parent) == {"p"}


@given(position=st.integers(0, 699), bit=st.integers(0, 7))
def test_any_changed_bit_of_the_weights_is_refused(
    tmp_path_factory: pytest.TempPathFactory, position: int, bit: int
) -> None:
    folder = tmp_path_factory.mktemp("a") / "p"
    write_artifact(folder, manifest(), FILES)
    raw = bytearray((folder / "policy.onnx").read_bytes())
    raw[position] ^= 1 << bit
    (folder / "policy.onnx").write_bytes(raw)
    with pytest.raises(ArtifactError, match="damaged or changed"):
        verify_artifact(folder)


def test_a_truncated_file_is_refused(folder: Path) -> None:
    (folder / "policy.onnx").write_bytes(FILES["policy.onnx"][:-1])
    with pytest.raises(ArtifactError, match=r"policy\.onnx.*found SHA-256.*expected.*restore"):
        verify_artifact(folder)


def test_a_missing_file_is_refused(folder: Path) -> None:
    (folder / "golden.jsonl").unlink()
    with pytest.raises(ArtifactError, match=r"golden\.jsonl: cannot be read"):
        verify_artifact(folder)


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("spec_hash", "s1x", "the manifest changed"),
        ("scores", {"utility": 1.0}, "the manifest changed"),
        ("files", {}, "the manifest changed"),
        ("belief", {"causes": ["b"]}, "changed after export"),
        ("format", 2, "found artifact format 2"),
        ("surprise", 1, "surprise"),
        ("kind", "pickle", "kind"),
    ],
)
def test_an_edited_manifest_is_refused(folder: Path, key: str, value: object, says: str) -> None:
    path = folder / "manifest.json"
    data = json.loads(path.read_text())
    data[key] = value
    path.write_text(json.dumps(data))
    with pytest.raises(ArtifactError, match=says):
        verify_artifact(folder)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b"null"])
def test_a_manifest_that_is_none_is_refused(folder: Path, content: bytes) -> None:
    (folder / "manifest.json").write_bytes(content)
    with pytest.raises(ArtifactError, match="export the policy again"):
        verify_artifact(folder)


def test_another_spec_is_refused_for_a_network_only(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"spec 's1'.*\['s2'\].*train and export"):
        verify_artifact(folder, specs={"s2"})
    rules = {"rules.toml": b"", "golden.jsonl": b"", "card.md": b""}
    write_artifact(tmp_path / "r", manifest(kind="rules"), rules)
    assert verify_artifact(tmp_path / "r", specs={"s2"}).kind == "rules"


def test_other_actions_are_refused(folder: Path) -> None:
    other = manifest(actions=("retry", "escalate"), files=verify_artifact(folder).files)
    (folder / "manifest.json").write_text(other.sealed().model_dump_json())
    with pytest.raises(ArtifactError, match=r"made for actions \['retry', 'escalate'\]"):
        verify_artifact(folder)


def test_a_file_outside_the_folder_is_refused(folder: Path) -> None:
    (folder.parent / "x").write_bytes(b"")
    path = folder / "manifest.json"
    bad = manifest(files={"policy.onnx": "0", "../x": "0"}).sealed()
    path.write_text(bad.model_dump_json())
    (folder / "policy.onnx").write_bytes(b"")
    with pytest.raises(ArtifactError):
        verify_artifact(folder)


@pytest.mark.parametrize("nth", [1, 2, 3, 4])
def test_a_full_disk_keeps_the_good_artifact(
    folder: Path, monkeypatch: pytest.MonkeyPatch, nth: int
) -> None:
    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    calls = 0
    write = artifact._write_durably

    def full(path: Path, content: bytes) -> None:
        nonlocal calls
        calls += 1
        if calls == nth:
            path.write_bytes(content[: len(content) // 2])
            raise OSError(28, "No space left on device")
        write(path, content)

    monkeypatch.setattr(artifact, "_write_durably", full)
    with pytest.raises(ArtifactError, match=r"No space left.*the artifact there is unchanged"):
        write_artifact(folder, manifest(name="q"), FILES)
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before
    assert names(folder.parent) == {"p"}


def test_a_failed_move_puts_the_good_artifact_back(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.rename

    def fail_once(self: Path, target: Path) -> Path:
        if Path(target) == folder and not self.name.endswith(".previous"):
            raise KeyboardInterrupt
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail_once)
    with pytest.raises(KeyboardInterrupt):
        write_artifact(folder, manifest(name="q"), FILES)
    assert verify_artifact(folder).name == "p"
    assert names(folder.parent) == {"p"}


def test_replacing_leaves_only_the_new_one(folder: Path) -> None:
    write_artifact(folder, manifest(name="q"), {**FILES, "extra.json": b"{}"})
    assert verify_artifact(folder).name == "q"
    assert names(folder.parent) == {"p"}


def test_a_killed_replacement_names_the_previous_state(folder: Path) -> None:
    folder.rename(folder.with_name(".p.previous"))
    with pytest.raises(ArtifactError, match=r"previous state is in .*\.p\.previous"):
        verify_artifact(folder)


def test_a_folder_of_other_things_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p/thesis.tex").write_text("years of work")
    with pytest.raises(ArtifactError, match="is no policy artifact"):
        write_artifact(tmp_path / "p", manifest(), FILES)
    assert names(tmp_path / "p") == {"thesis.tex"}


def test_incomplete_content_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"lacks \['card\.md', 'golden\.jsonl'\]"):
        write_artifact(tmp_path / "p", manifest(), {"policy.onnx": b""})
    assert not list(tmp_path.iterdir())


def test_golden_decisions_survive_the_round_trip_exactly(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet(np.ones(N_ACTIONS), 50).astype(np.float32)
    golden = Golden(
        facts=rng.normal(size=(40, 50)).astype(np.float32),
        observation=rng.uniform(-1, 1, (50, 12)).astype(np.float32),
        mask=rng.random((50, N_ACTIONS)) < 0.5,
        probabilities=probabilities,
    )
    (tmp_path / "g").write_bytes(golden.to_jsonl())
    read = read_golden(tmp_path / "g")
    for name in ("facts", "observation", "mask", "probabilities"):
        np.testing.assert_array_equal(getattr(read, name), getattr(golden, name))
        assert getattr(read, name).dtype == getattr(golden, name).dtype
    np.testing.assert_array_equal(read.actions, probabilities.argmax(axis=1))


@pytest.mark.parametrize("text", ["", "{}", "nonsense", '{"facts":[1],"mask":[1]}', "[1]"])
def test_damaged_golden_decisions_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "g").write_text(text)
    with pytest.raises(ArtifactError, match="no readable golden decisions"):
        read_golden(tmp_path / "g")
