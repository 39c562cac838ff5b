"""`record.json`: what a finished run of a sweep holds, so that a damaged one is done again."""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path
from typing import Any

from diploee.errors import InputError
from diploee.outputs import METRICS_FILE, write_json
from diploee.plain_data import Record, parse_json
from diploee.sweeps.shape import SHAPE_FILE
from diploee.sweeps.spec import KEPT_FILES, Keep
from diploee.sweeps.store import MANIFEST, FolderStore, Store
from diploee.tables import read_parquet

RECORD_FILE = "record.json"
END_BYTES = 65_536
"""Of each end of a file that its mark covers: a year of a large file is not read to resume."""


class FileMark(Record):
    """What tells that a file is whole: its size, and the SHA-256 of its first and last 64 KiB."""

    size: int
    sha256: str


class RunRecord(Record):
    """What is known of a finished run: its hash, what was kept, its warnings and its files.

    The manifest is known by a hash of its content without the times.
    """

    run: str
    keep: Keep
    warnings: list[str]
    manifest_sha256: str
    files: dict[str, FileMark]


def write_record(folder: Path, run: str, keep: Keep) -> None:
    """Write the record of the finished run in a folder."""
    store = FolderStore(str(folder))
    sizes = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
    sizes.pop(MANIFEST)
    manifest = store.read(MANIFEST)
    record = RunRecord(
        run=run,
        keep=keep,
        warnings=json.loads(manifest)["warnings"],
        manifest_sha256=_manifest_hash(manifest),
        files={
            name: FileMark(size=size, sha256=_ends_hash(store, name, size))
            for name, size in sizes.items()
        },
    )
    write_json(folder / RECORD_FILE, record.model_dump(mode="json"))


def read_record(store: Store, run: str, keep: Keep) -> RunRecord | None:
    """Return the record of a run, or None where a file that `keep` asks for is damaged or gone."""
    try:
        sizes = store.sizes(run)
        if not {MANIFEST, RECORD_FILE} <= sizes.keys():
            return None
        content = store.read(store.run_name(run, RECORD_FILE))
        record = parse_json(content, RECORD_FILE, RunRecord)
        wanted, known = set(KEPT_FILES[keep]), set(KEPT_FILES[record.keep])
        whole = wanted <= known and all(
            sizes.get(name) == mark.size
            and _ends_hash(store, store.run_name(run, name), mark.size) == mark.sha256
            for name, mark in record.files.items()
            if name not in known - wanted
        )
        manifest = store.read(store.run_name(run, MANIFEST))
        return record if whole and _manifest_hash(manifest) == record.manifest_sha256 else None
    except (OSError, InputError):
        return None


def _manifest_hash(manifest: bytes) -> str:
    content = parse_json(manifest, MANIFEST, dict[str, Any])
    content.pop("timing", None)
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _ends_hash(store: Store, name: str, size: int) -> str:
    digest = hashlib.sha256(store.read(name, 0, min(size, END_BYTES)))
    if size > END_BYTES:
        digest.update(store.read(name, max(END_BYTES, size - END_BYTES), size))
    return digest.hexdigest()


def read_metrics(store: Store, run: str) -> dict[str, Any]:
    """Return the metrics of a complete run."""
    metrics: dict[str, Any] = json.loads(store.read(store.run_name(run, METRICS_FILE)))
    return metrics


def read_shape(store: Store, run: str) -> Any:
    """Return the load shape of a complete run, an Arrow table."""
    return read_parquet(io.BytesIO(store.read(store.run_name(run, SHAPE_FILE))))
