"""Writing artifacts of the cache: beside their place, renamed when complete."""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from diploee import __version__
from diploee.benchmark.cache import MANIFEST, Artifact, Stamp, beside, read_once
from diploee.errors import OutputError
from diploee.files import reason

STALE_AFTER_S = 86_400.0
"""Age at which the folder of a writer that was killed is removed [s]."""
_ATTEMPTS = 50
_PAUSE_S = 0.005


def save_artifact(
    place: Path,
    stamp: Stamp,
    files: Mapping[str, bytes],
    details: Mapping[str, Any] | None = None,
) -> None:
    """Write an artifact, whole or not at all.

    One that stands there is replaced, unless it is of the same stamp: then the first one stays and
    this one is discarded.

    Parameters
    ----------
    place : pathlib.Path
        Its folder.
    stamp : Stamp
        What it is made from.
    files : mapping of str to bytes
        Its files.
    details : mapping, optional
        Further JSON values for the manifest.

    Raises
    ------
    InputError
        If one of a newer schema version stands there.
    OutputError
        If it can't be written: no permission, a full disk.
    """
    manifest = {
        "kind": stamp.kind,
        "schema_version": stamp.schema_version,
        "parameters": stamp.parameters,
        "source_sha256": stamp.source_sha256 or "",
        "files": {name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
        "details": details or {},
        "diploee_version": __version__,
    }
    staging = place.with_name(f".{place.name}.partial-{secrets.token_hex(4)}")
    try:
        staging.mkdir(parents=True)
        for name, content in files.items():
            (staging / name).write_bytes(content)
        text = json.dumps(manifest, indent=2, sort_keys=True, allow_nan=False)
        (staging / MANIFEST).write_text(f"{text}\n", encoding="utf-8")
        _publish(staging, place, stamp)
        _remove_stale(place)
    except OSError as error:
        raise OutputError(
            f"{place}: can't be written ({reason(error)}); nothing was kept"
        ) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _publish(staging: Path, place: Path, stamp: Stamp) -> None:
    """Put a complete folder in its place, unless another caller put the same one there."""
    for attempt in range(_ATTEMPTS):
        if isinstance(read_once(place, stamp), Artifact):
            return
        old = _set_aside(place)
        try:
            staging.rename(place)
            return
        except OSError:
            if not place.exists() and old is not None:
                old.rename(place)
            # Else another caller was faster: hold this one's stamp against what stands there now.
            if attempt == _ATTEMPTS - 1 or not place.is_dir():
                raise
            time.sleep(_PAUSE_S * secrets.randbelow(4))
        finally:
            if old is not None:
                shutil.rmtree(old, ignore_errors=True)


def _set_aside(place: Path) -> Path | None:
    """Rename what stands at a place; return where to, None if nothing is there."""
    old = place.with_name(f".{place.name}.old-{secrets.token_hex(4)}")
    try:
        place.rename(old)
    except FileNotFoundError:
        return None
    return old


def _remove_stale(place: Path) -> None:
    """Remove what killed writers left long ago; younger folders may be those of writers at work."""
    oldest = time.time() - STALE_AFTER_S
    for folder in beside(place, "partial", "old"):
        try:
            if folder.stat().st_mtime < oldest:
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue  # its writer was faster
