"""``selfheal worlds``: list the bundled worlds, or show one."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from selfheal_rl.cli.output import emit, print_json
from selfheal_rl.core.catalog import find_world, list_worlds, read_toml


def worlds(
    world: Annotated[
        str | None, typer.Argument(help="A bundled id, or the path of a world's TOML file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the worlds policies are trained in, or show the root causes of one."""
    if world is None:
        rows = [_row(name, path) for name, path in list_worlds().items()]
        emit(rows, as_json=as_json, title="Bundled worlds", columns=("world", "causes", "title"))
        return
    path = find_world(world)
    data = read_toml(path)
    if as_json:
        print_json({"path": str(path), **data})
        return
    console = Console()
    console.print(f"[bold]{data.get('name', path.stem)}[/]: {_title(data)}")
    emit(_causes(data), as_json=False, title="Root causes", console=console)
    console.print(f"{path}", highlight=False)


def _row(name: str, path: Path) -> dict[str, Any]:
    data = read_toml(path)
    causes = len(data.get("causes", []))
    return {"world": name, "causes": causes, "title": _title(data), "path": str(path)}


def _title(data: dict[str, Any]) -> str:
    return str(data.get("title") or data.get("description") or "").strip()


def _causes(data: dict[str, Any]) -> list[dict[str, Any]]:
    causes = data.get("causes", [])
    named = causes.items() if isinstance(causes, dict) else [(c.get("name"), c) for c in causes]
    return [
        {"cause": name, "share": cause.get("share"), "source": cause.get("source")}
        for name, cause in named
    ]
