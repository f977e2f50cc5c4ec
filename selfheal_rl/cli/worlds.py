"""``selfheal worlds``: list the bundled worlds, or validate and show one."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from selfheal_rl.cli.output import emit, print_json
from selfheal_rl.core.catalog import find_world, list_worlds, load_toml, read_toml

if TYPE_CHECKING:
    from selfheal_rl.trainer.sim.schema import Cause, World


def worlds(
    world: Annotated[
        str | None, typer.Argument(help="A bundled id, or the path of a world's TOML file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the worlds policies are trained in, or check one and show its root causes."""
    if world is None:
        rows = [_row(name, path) for name, path in list_worlds().items()]
        emit(rows, as_json=as_json, title="Bundled worlds", columns=("world", "causes", "title"))
        return
    path = find_world(world)
    loaded = _load(path)
    if as_json:
        print_json({"path": str(path), **loaded.model_dump(mode="json")})
        return
    console = Console()
    console.print(f"{loaded.id}: {loaded.title}\n{loaded.description}", markup=False)
    emit(_causes(loaded), as_json=False, title="Root causes", console=console)
    console.print(_worth(loaded), markup=False, highlight=False)
    console.print(f"source: {loaded.source}\nfile: {path}", markup=False, highlight=False)


def _row(name: str, path: Path) -> dict[str, Any]:
    data = read_toml(path)
    causes = len(data.get("causes", ()))
    title = str(data.get("title", ""))
    return {"world": name, "causes": causes, "title": title, "path": str(path)}


def _load(path: Path) -> "World":
    from selfheal_rl.trainer.sim.schema import World

    return load_toml(path, World)


def _worth(world: "World") -> str:
    """What knowing everything is worth there; a world that leaves nothing to learn is refused."""
    try:
        from selfheal_rl.trainer.evaluate.worth import require_worth
        from selfheal_rl.trainer.sim.compile import compile_world
    except ModuleNotFoundError:
        return "its worth is not weighed: that needs the extra 'train'"
    worth = require_worth(compile_world(world))
    return (
        f"utility of a failing task: {worth.clairvoyant:.3f} knowing everything, "
        f"{worth.best_constant:.3f} always {worth.constant}"
    )


def _causes(world: "World") -> list[dict[str, Any]]:
    total = sum(cause.share for cause in world.causes.values())
    ranked = sorted(world.causes.items(), key=lambda item: -item[1].share)
    return [_cause(name, cause, total) for name, cause in ranked]


def _cause(name: str, cause: "Cause", total: float) -> dict[str, Any]:
    ends = f"{cause.duration.median_s:g} s" if cause.duration else "never"
    odds = {action: evidence.ok / evidence.n for action, evidence in cause.repair.items()}
    best = max(odds, key=odds.__getitem__, default=None)
    return {
        "cause": name,
        "share": f"{cause.share / total:.1%}",
        "ends_by_itself": ends,
        "best_repair": f"{best} {odds[best]:.0%}" if best else "none",
        "source": cause.source,
    }
