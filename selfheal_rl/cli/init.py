"""``selfheal init``: a workspace of the same shape as the package's own folders."""

import shutil
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from selfheal_rl.core.catalog import bundle_root
from selfheal_rl.core.values.errors import ConfigError

FOLDERS: dict[str, tuple[str, ...]] = {
    "envs": ("README.md", "*.toml"),
    "training": ("README.md", "*.toml"),
    "policies": ("README.md", "default"),
}
"""What a workspace starts with: worlds and recipes to edit, one policy to compare with."""


def init(
    directory: Annotated[Path, typer.Argument(help="Where the workspace goes.")],
) -> None:
    """Make a workspace: copies of the worlds and recipes to edit, and the default policy."""
    made = make_workspace(directory)
    for path in made:
        typer.echo(f"made {path}")
    typer.echo(
        f"\nEdit {directory}/envs and {directory}/training, then for example:\n"
        f"  selfheal train {directory}/training/quick.toml"
    )


def make_workspace(directory: Path) -> list[Path]:
    """Copy the bundled folders; nothing that exists is touched.

    Raises:
        ConfigError: one of the folders is there already, or the place is a file.
    """
    if directory.exists() and not directory.is_dir():
        raise ConfigError(f"{directory} is a file; expected a folder or a new name")
    taken = [name for name in FOLDERS if (directory / name).exists()]
    if taken:
        raise ConfigError(
            f"{directory} already holds {', '.join(taken)}; nothing was written; "
            f"name another folder"
        )
    directory.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=".selfheal-init-", dir=directory))
    try:
        for name, patterns in FOLDERS.items():
            _copy(bundle_root() / name, staging / name, patterns)
        return [(staging / name).rename(directory / name) for name in FOLDERS]
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _copy(source: Path, target: Path, patterns: tuple[str, ...]) -> None:
    target.mkdir()
    for pattern in patterns:
        for path in sorted(source.glob(pattern)):
            if path.is_dir():
                shutil.copytree(path, target / path.name)
            else:
                shutil.copyfile(path, target / path.name)
