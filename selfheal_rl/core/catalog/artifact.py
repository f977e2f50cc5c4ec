"""The artifact format: one folder per policy, written whole or not at all, and verified.

``policies/<name>/{policy.onnx | rules.toml, manifest.json, card.md, golden.jsonl}``. The manifest
carries the hash of every other file and of itself, so a truncated or edited artifact is refused
before anything of it is run. Nothing is pickled.
"""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from selfheal_rl.core.catalog.locate import MANIFEST
from selfheal_rl.core.values.actions import ACTIONS
from selfheal_rl.core.values.errors import ArtifactError
from selfheal_rl.core.values.snapshot import Frozen

FORMAT = 1
GOLDEN = "golden.jsonl"
CARD = "card.md"
PAYLOAD: dict[str, str] = {"onnx": "policy.onnx", "rules": "rules.toml"}
"""The file each kind of policy must bring."""
ACTION_SLUGS: tuple[str, ...] = tuple(a.slug for a in ACTIONS)
_PREVIOUS = ".previous"


class Training(Frozen):
    """Where a policy comes from."""

    recipe: str = ""
    command: str = ""
    """The exact command that made it."""
    seeds: tuple[int, ...] = ()
    decisions: int = Field(0, ge=0)
    """Simulated decisions spent, all seeds together."""
    seconds: float = Field(0.0, ge=0.0)
    """Wall-clock time of the training run."""


class Manifest(Frozen):
    """What an artifact says of itself."""

    format: int = FORMAT
    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=80)
    kind: Literal["onnx", "rules"]
    spec_hash: str
    """Hash of the observation's slot table the policy was made for."""
    actions: tuple[str, ...] = ACTION_SLUGS
    """Action slugs in output order."""
    belief: dict[str, Any] = Field(default_factory=dict)
    """Root-cause belief tables as JSON."""
    belief_hash: str = ""
    """:func:`json_hash` of ``belief``; filled in when the artifact is written."""
    files: dict[str, str] = Field(default_factory=dict)
    """File name -> SHA-256 in hex; filled in when the artifact is written."""
    versions: dict[str, str] = Field(default_factory=dict)
    training: Training = Training()
    scores: dict[str, Any] = Field(default_factory=dict)
    support: dict[str, Any] = Field(default_factory=dict)
    """Bounds of what the policy saw in training, outside which it abstains."""
    created: str = ""
    """ISO 8601, UTC."""
    manifest_hash: str = ""
    """:func:`json_hash` of all the other fields; names the policy in journals."""

    def sealed(self) -> "Manifest":
        """A copy whose ``belief_hash`` and ``manifest_hash`` are right."""
        copy = self.model_copy(update={"belief_hash": json_hash(self.belief)})
        return copy.model_copy(update={"manifest_hash": copy.own_hash()})

    def own_hash(self) -> str:
        """The hash ``manifest_hash`` ought to be."""
        return json_hash(self.model_dump(mode="json", exclude={"manifest_hash"}))


def json_hash(value: Any) -> str:
    """SHA-256 in hex of a JSON value in canonical form (sorted keys, no spaces)."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def write_artifact(
    directory: str | os.PathLike[str], manifest: Manifest, files: Mapping[str, bytes]
) -> Manifest:
    """Write an artifact beside its place, verify it, and move it there in one step.

    Args:
        directory: the artifact's folder; an artifact already there is replaced, and kept as it
            was when anything goes wrong.
        manifest: its hashes are filled in here.
        files: name -> content of ``policy.onnx`` or ``rules.toml``, ``golden.jsonl``, ``card.md``.

    Returns:
        The manifest as written.

    Raises:
        ArtifactError: the content is incomplete, the folder holds something else, or the disk
            refused.
    """
    target = Path(directory).absolute()
    _check_content(manifest, files)
    _check_target(target)
    hashes = {name: _sha256(files[name]) for name in sorted(files)}
    sealed = manifest.model_copy(update={"files": hashes}).sealed()
    with _disk_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        try:
            for name, content in files.items():
                _write_durably(temporary / name, content)
            text = json.dumps(sealed.model_dump(mode="json"), indent=1) + "\n"
            _write_durably(temporary / MANIFEST, text.encode())
            verify_artifact(temporary, specs=None)
            temporary.chmod(0o755)
            _swap(temporary, target)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return sealed


def read_manifest(directory: str | os.PathLike[str]) -> Manifest:
    """The manifest of an artifact, as it stands; :func:`verify_artifact` checks it too.

    Raises:
        ArtifactError: there is none, or it is not one.
    """
    path = Path(directory) / MANIFEST
    try:
        raw = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise ArtifactError(_absent(Path(directory))) from None
    except (OSError, ValueError, RecursionError) as error:
        raise ArtifactError(f"{path}: cannot be read as JSON ({error}); {_REMAKE}") from error
    if isinstance(raw, dict) and isinstance(raw.get("format"), int) and raw["format"] > FORMAT:
        raise ArtifactError(
            f"{path}: found artifact format {raw['format']}, this release reads up to {FORMAT}; "
            f"upgrade selfheal-rl or export the policy with this release"
        )
    try:
        return Manifest.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        at = ".".join(map(str, first["loc"])) or "the file"
        raise ArtifactError(f"{path}: {at}: {first['msg']}; {_REMAKE}") from None


def verify_artifact(
    directory: str | os.PathLike[str], *, specs: Collection[str] | None = None
) -> Manifest:
    """Check hashes, actions and spec of an artifact, before any of it is loaded.

    Args:
        directory: the artifact's folder.
        specs: spec hashes the caller can encode for; None leaves the spec to the caller. Rule
            tables read no observation, so theirs is never checked.

    Raises:
        ArtifactError: says what was found, what was expected and what to do.
    """
    folder = Path(directory)
    manifest = read_manifest(folder)
    _check_own_hashes(folder, manifest)
    _check_files(folder, manifest)
    if manifest.actions != ACTION_SLUGS:
        raise ArtifactError(
            f"{folder}: made for actions {list(manifest.actions)}; this release has "
            f"{list(ACTION_SLUGS)}; export the policy with this release"
        )
    if specs is not None and manifest.kind == "onnx" and manifest.spec_hash not in specs:
        raise ArtifactError(
            f"{folder}: made for observation spec {manifest.spec_hash!r}; this release encodes "
            f"{sorted(specs)}; train and export the policy with this release"
        )
    return manifest


_REMAKE = "restore the file from its source or export the policy again"


def _check_own_hashes(folder: Path, manifest: Manifest) -> None:
    checks = (
        ("the manifest", manifest.own_hash(), manifest.manifest_hash),
        ("the belief tables", json_hash(manifest.belief), manifest.belief_hash),
    )
    for what, found, expected in checks:
        if found != expected:
            raise ArtifactError(
                f"{folder / MANIFEST}: {what} changed after export: found SHA-256 {found}, "
                f"expected {expected or 'none'}; {_REMAKE}"
            )


def _check_files(folder: Path, manifest: Manifest) -> None:
    needed = PAYLOAD[manifest.kind]
    if needed not in manifest.files:
        raise ArtifactError(
            f"{folder / MANIFEST}: lists {sorted(manifest.files)}, expected {needed!r} among them; "
            f"{_REMAKE}"
        )
    for name, expected in manifest.files.items():
        if Path(name).name != name or name in ("", ".", ".."):
            raise ArtifactError(f"{folder / MANIFEST}: {name!r} is no plain file name; {_REMAKE}")
        try:
            found = _sha256((folder / name).read_bytes())
        except OSError as error:
            raise ArtifactError(
                f"{folder / name}: cannot be read ({error.strerror or error}); {_REMAKE}"
            ) from error
        if found != expected:
            raise ArtifactError(
                f"{folder / name}: damaged or changed: found SHA-256 {found}, expected {expected}; "
                f"{_REMAKE}"
            )


def _check_content(manifest: Manifest, files: Mapping[str, bytes]) -> None:
    missing = sorted({PAYLOAD[manifest.kind], GOLDEN, CARD} - set(files))
    if missing:
        raise ArtifactError(
            f"artifact {manifest.name!r} of kind {manifest.kind!r} lacks {missing}; "
            f"got {sorted(files)}; pass the content of every file"
        )
    odd = [name for name in files if Path(name).name != name or name == MANIFEST]
    if odd:
        raise ArtifactError(f"artifact {manifest.name!r}: {odd} are no plain names of content")


def _check_target(target: Path) -> None:
    if target.is_dir() and (target / MANIFEST).is_file():
        return
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ArtifactError(
            f"{target} exists and is no policy artifact; nothing was written; name another folder "
            f"or empty this one"
        )


def _swap(temporary: Path, target: Path) -> None:
    """Put ``temporary`` at ``target``; whatever fails, the old artifact is there again."""
    previous = target.with_name(f".{target.name}{_PREVIOUS}")
    if not target.exists():
        temporary.rename(target)
        return
    shutil.rmtree(previous, ignore_errors=True)
    target.rename(previous)
    try:
        temporary.rename(target)
    except BaseException:
        previous.rename(target)
        raise
    shutil.rmtree(previous, ignore_errors=True)


def _absent(folder: Path) -> str:
    text = f"{folder}: holds no {MANIFEST}; expected a policy artifact; check the path"
    previous = folder.absolute().with_name(f".{folder.name}{_PREVIOUS}")
    if (previous / MANIFEST).is_file():
        text += f" (an export was killed while replacing it: its previous state is in {previous})"
    return text


@contextmanager
def _disk_errors(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        kept = "the artifact there is unchanged" if target.exists() else "nothing was written"
        raise ArtifactError(
            f"{target}: could not be written ({error.strerror or error}); {kept}; free space or "
            f"check permissions, then export again"
        ) from error


def _write_durably(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
