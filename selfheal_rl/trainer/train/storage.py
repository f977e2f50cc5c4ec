"""Files of a run: written whole or not at all, never pickled."""

import io
import json
import os
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfheal_rl.core.values import SelfHealError

_META = "meta"
Arrays = dict[str, NDArray[Any]]


class RunError(SelfHealError):
    """A run directory cannot be read, written or continued."""


def write_whole(path: Path, content: bytes) -> None:
    """Write beside ``path``, sync, and move into place; the old file stays when that fails.

    Raises:
        RunError: the disk refused.
    """
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        temporary = Path(name)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except OSError as error:
        kept = "the one written before is kept" if path.exists() else "nothing was written"
        raise RunError(
            f"{path}: could not be written ({error.strerror or error}); {kept}; free space or "
            "check permissions, then continue the run"
        ) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Write one JSON value; never NaN, which is no JSON."""
    write_whole(path, (json.dumps(value, indent=1, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> Any:
    """Read one JSON value.

    Raises:
        RunError: the file is absent or not JSON.
    """
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise RunError(
            f"{path}: cannot be read as JSON ({error}); expected a file of a training run; "
            "check the path, or train again"
        ) from error


def save_arrays(path: Path, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> None:
    """Write arrays and a JSON object as one ``.npz``."""
    text = json.dumps(dict(meta), allow_nan=False).encode()
    buffer = io.BytesIO()
    packed = dict(arrays) | {_META: np.frombuffer(text, np.uint8)}
    np.savez(buffer, **packed)  # type: ignore[arg-type]
    write_whole(path, buffer.getvalue())


def load_arrays(path: Path) -> tuple[Arrays, dict[str, Any]]:
    """Inverse of :func:`save_arrays`; reads no pickle.

    Raises:
        RunError: the file is absent or damaged.
    """
    try:
        with np.load(path, allow_pickle=False) as packed:
            arrays = {name: packed[name] for name in packed.files}
        meta = json.loads(arrays.pop(_META).tobytes())
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise RunError(
            f"{path}: not a readable checkpoint ({error}); restore it, or delete the seed's "
            "folder to train that seed again"
        ) from error
    return arrays, meta
