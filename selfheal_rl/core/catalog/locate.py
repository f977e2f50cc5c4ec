"""Finds worlds, recipes and policies: the bundle in the wheel, else the checkout.

The working directory is never searched, so that a stray folder cannot change what an id means.
"""

import os
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path

from selfheal_rl.core.values.errors import ConfigError, UnknownIdError

_PACKAGE = Path(__file__).resolve().parents[2]
MANIFEST = "manifest.json"


def bundle_root() -> Path:
    """The folder that holds ``envs``, ``policies`` and ``training``.

    Raises:
        ConfigError: neither the wheel's bundle nor a checkout is there.
    """
    places = (_PACKAGE / "_bundle", _PACKAGE.parent)
    for place in places:
        if (place / "envs").is_dir() and (place / "policies").is_dir():
            return place
    searched = ", ".join(str(p) for p in places)
    raise ConfigError(
        f"the bundled worlds and policies are missing; searched {searched}; expected the folders "
        f"'envs' and 'policies' in one of them; reinstall selfheal-rl"
    )


def list_worlds() -> dict[str, Path]:
    """Every bundled world: id -> TOML file."""
    return _toml_files("envs")


def list_recipes() -> dict[str, Path]:
    """Every bundled training recipe: id -> TOML file."""
    return _toml_files("training")


def list_policies() -> dict[str, Path]:
    """Every bundled policy: id -> artifact folder."""
    folder = bundle_root() / "policies"
    return {p.parent.name: p.parent for p in sorted(folder.glob(f"*/{MANIFEST}"))}


def find_world(ref: str | os.PathLike[str]) -> Path:
    """The TOML file of a world.

    Args:
        ref: a bare id names a bundled world; anything with a path separator or ``.toml`` names a
            file. ``find_world("mcp-office")``, ``find_world("./envs/mine.toml")``.

    Raises:
        UnknownIdError: no such id or file.
    """
    return _find("world", ref, list_worlds, "envs", Path.is_file)


def find_recipe(ref: str | os.PathLike[str]) -> Path:
    """The TOML file of a training recipe; ``ref`` as in :func:`find_world`.

    Raises:
        UnknownIdError: no such id or file.
    """
    return _find("recipe", ref, list_recipes, "training", Path.is_file)


def find_policy(ref: str | os.PathLike[str]) -> Path:
    """The folder of a policy artifact (not verified yet: see ``verify_artifact``).

    Args:
        ref: a bare id names a bundled policy; anything with a path separator names a folder.

    Raises:
        UnknownIdError: no such id, or the folder holds no manifest.
    """
    return _find("policy", ref, list_policies, "policies", _is_artifact)


def names_file(ref: str | os.PathLike[str]) -> bool:
    """True when ``ref`` names a file or folder rather than a bundled id."""
    text = os.fspath(ref)
    separators = {os.sep, os.altsep or os.sep, "/"}
    return not isinstance(ref, str) or text.endswith(".toml") or any(s in text for s in separators)


def _toml_files(folder: str) -> dict[str, Path]:
    return {p.stem: p for p in sorted((bundle_root() / folder).glob("*.toml"))}


def _is_artifact(path: Path) -> bool:
    return (path / MANIFEST).is_file()


def _find(
    noun: str,
    ref: str | os.PathLike[str],
    listing: Callable[[], dict[str, Path]],
    folder: str,
    good: Callable[[Path], bool],
) -> Path:
    if names_file(ref):
        return _find_file(noun, Path(ref), listing, good)
    known = listing()
    if str(ref) in known:
        return known[str(ref)]
    raise UnknownIdError(_miss(noun, str(ref), known, bundle_root() / folder, good))


def _find_file(
    noun: str,
    path: Path,
    listing: Callable[[], dict[str, Path]],
    good: Callable[[Path], bool],
) -> Path:
    path = path.expanduser()
    if good(path):
        return path.resolve()
    if path.is_dir() and good is _is_artifact:
        found = f"the folder {path} holds no {MANIFEST}"
    else:
        found = f"no {noun} at {path}" + (" (a folder)" if path.is_dir() else "")
    raise UnknownIdError(
        f"{found}; searched {path.absolute()}; expected an existing {noun}, or one of the bundled "
        f"ids, without a path: {', '.join(listing()) or 'none'}"
    )


def _miss(
    noun: str, ref: str, known: dict[str, Path], searched: Path, good: Callable[[Path], bool]
) -> str:
    parts = [f"unknown {noun} {ref!r}"]
    if near := get_close_matches(ref, known, n=1, cutoff=0.5):
        parts.append(f"did you mean {near[0]!r}?")
    parts.append(f"known: {', '.join(known) or 'none'}")
    parts.append(f"searched {searched}")
    if ref and good(Path(ref)):
        parts.append(f"to name the one in the working directory write './{ref}'")
    else:
        parts.append(f"to name your own {noun} give its path, e.g. './{ref or noun}'")
    return "; ".join(parts)
