"""Writing artifacts of the cache."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from glob import escape
from pathlib import Path
from typing import Any

from diploee import __version__
from diploee.files import FolderKind, writing
from diploee.neighbours.openg2g.cache import MANIFEST, Artifact, Recipe, read_once


def save_artifact(
    place: Path,
    recipe: Recipe,
    files: Mapping[str, bytes],
    details: Mapping[str, Any] | None = None,
) -> None:
    """Write an artifact, whole or not at all.

    One that stands there is replaced, unless it is of the same recipe: then the first one stays and
    this one is discarded.
    """
    manifest = {
        "kind": recipe.kind,
        "schema_version": recipe.schema_version,
        "parameters": recipe.parameters,
        "source_sha256": recipe.source_sha256 or "",
        "files": {name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
        "details": details or {},
        "diploee_version": __version__,
    }
    entries = (MANIFEST, *map(escape, files))
    kind = FolderKind("an artifact", MANIFEST, (), lambda old: (*entries, *_files_of(old)))
    with writing(force=True) as new:
        item = new.folder(place, kind, option="--data-dir")
        item.unless = lambda: isinstance(read_once(place, recipe), Artifact)
        for name, content in files.items():
            (item.path / name).write_bytes(content)
        text = json.dumps(manifest, indent=2, sort_keys=True, allow_nan=False)
        (item.path / MANIFEST).write_text(f"{text}\n", encoding="utf-8")


def _files_of(manifest: Mapping[str, Any]) -> list[str]:
    files = manifest.get("files")
    return [escape(name) for name in files] if isinstance(files, dict) else []
