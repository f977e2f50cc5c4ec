"""``selfheal policies``: list the bundled policies, or verify and show one."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markdown import Markdown

from selfheal_rl.cli.output import emit, print_json
from selfheal_rl.core.catalog import find_policy, list_policies, verify_artifact
from selfheal_rl.core.catalog.artifact import CARD, Manifest
from selfheal_rl.core.values.errors import ArtifactError


def policies(
    policy: Annotated[
        str | None, typer.Argument(help="A bundled id, or the path of an artifact's folder.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the policies that ship with the package, or verify one and show its card."""
    if policy is None:
        rows = [_row(name, folder) for name, folder in list_policies().items()]
        columns = ("policy", "kind", "state", "recipe", "seeds", "decisions", "kilobytes")
        emit(rows, as_json=as_json, title="Bundled policies", columns=columns)
        return
    folder = find_policy(policy)
    manifest = verify_artifact(folder, specs=_specs())
    if as_json:
        print_json({"path": str(folder), **manifest.model_dump(mode="json", exclude={"belief"})})
        return
    console = Console()
    console.print(Markdown((folder / CARD).read_text("utf-8")))
    console.print(f"\n{folder}\nverified; hash {manifest.manifest_hash[:16]}", highlight=False)


def _row(name: str, folder: Path) -> dict[str, Any]:
    try:
        manifest = verify_artifact(folder, specs=_specs())
    except ArtifactError as error:
        return {"policy": name, "state": f"refused: {error}", "path": str(folder)}
    return {"policy": name, "state": "verified", **_facts(folder, manifest)}


def _facts(folder: Path, manifest: Manifest) -> dict[str, Any]:
    return {
        "kind": manifest.kind,
        "recipe": manifest.training.recipe,
        "command": manifest.training.command,
        "seeds": len(manifest.training.seeds),
        "decisions": manifest.training.decisions,
        "kilobytes": round(sum(f.stat().st_size for f in folder.iterdir()) / 1000, 1),
        "hash": manifest.manifest_hash,
        "scores": manifest.scores,
        "path": str(folder),
    }


def _specs() -> set[str]:
    from selfheal_rl.core.situation import SPEC_HASH

    return {SPEC_HASH}
