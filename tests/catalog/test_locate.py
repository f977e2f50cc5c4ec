from pathlib import Path

import pytest

from selfheal_rl.core.catalog import (
    find_policy,
    find_recipe,
    find_world,
    list_worlds,
    locate,
)
from selfheal_rl.core.values.errors import ConfigError, UnknownIdError


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package folder whose wheel bundle holds two worlds, one recipe and one policy."""
    package = tmp_path / "site" / "selfheal_rl"
    root = package / "_bundle"
    for name in ("envs", "training", "policies/default"):
        (root / name).mkdir(parents=True)
    for name in ("envs/web-api.toml", "envs/code-shell.toml", "training/quick.toml"):
        (root / name).write_text("")
    (root / "envs/README.md").write_text("not a world")
    (root / "policies/default/manifest.json").write_text("{}")
    (root / "policies/half").mkdir()
    monkeypatch.setattr(locate, "_PACKAGE", package)
    return root


def test_bare_ids_name_bundled_items(bundle: Path) -> None:
    assert list(list_worlds()) == ["code-shell", "web-api"]
    assert find_world("web-api") == bundle / "envs/web-api.toml"
    assert find_recipe("quick") == bundle / "training/quick.toml"
    assert find_policy("default") == bundle / "policies/default"


def test_bundle_comes_before_the_checkout(bundle: Path) -> None:
    checkout = bundle.parents[1]
    (checkout / "envs").mkdir()
    (checkout / "policies").mkdir()
    assert locate.bundle_root() == bundle
    (bundle / "envs").rename(bundle / "gone")
    assert locate.bundle_root() == checkout


def test_the_working_directory_is_never_searched(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    (here / "envs").mkdir(parents=True)
    (here / "envs/mine.toml").write_text("")
    (here / "mine").write_text("")
    monkeypatch.chdir(here)
    with pytest.raises(UnknownIdError, match=r"write './mine'"):
        find_world("mine")


@pytest.mark.parametrize("form", ["./mine.toml", "mine.toml"])
def test_a_separator_or_suffix_names_a_file(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    (tmp_path / "mine.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    assert find_world(form) == tmp_path / "mine.toml"
    assert find_world(Path("mine.toml")) == tmp_path / "mine.toml"


def test_a_miss_names_the_nearest_the_known_and_the_places(bundle: Path) -> None:
    with pytest.raises(UnknownIdError) as caught:
        find_world("web-app")
    message = str(caught.value)
    assert "did you mean 'web-api'?" in message
    assert "code-shell, web-api" in message
    assert str(bundle / "envs") in message


def test_a_missing_file_lists_the_bundled_ids(bundle: Path, tmp_path: Path) -> None:
    with pytest.raises(UnknownIdError, match="code-shell, web-api"):
        find_world(str(tmp_path / "absent.toml"))


def test_a_folder_without_manifest_is_no_policy(bundle: Path) -> None:
    with pytest.raises(UnknownIdError, match="known: default"):
        find_policy("half")
    with pytest.raises(UnknownIdError, match=r"holds no manifest\.json"):
        find_policy(str(bundle / "policies/half"))


def test_an_installation_without_folders_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locate, "_PACKAGE", tmp_path / "selfheal_rl")
    with pytest.raises(ConfigError, match="reinstall"):
        list_worlds()
