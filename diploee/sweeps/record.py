"""Record of a finished run of a sweep: its load's shape, and a record by which damage shows.

The shape is some hundred numbers, few enough to keep for every run.
"""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from diploee.errors import InputError
from diploee.measures.distribution import Distribution
from diploee.outputs import METRICS_FILE, Run
from diploee.outputs.folder import write_json
from diploee.plain_data import Record, parse_json
from diploee.sweeps.spec import KEPT_FILES, Keep
from diploee.sweeps.store import MANIFEST, FolderStore, Store
from diploee.tables import Float64Array, Int64Array, arrow_numbers, arrow_texts, read_parquet
from diploee.units import HOURS_PER_DAY, HOURS_PER_WEEK, MS_PER_H

RECORD_FILE = "record.json"
SHAPE_FILE = "load_shape.parquet"
KINDS = ("hour_of_week_mean", "hour_of_week_max", "duration_curve")
EXCEEDED = np.concatenate([np.arange(0, 10) / 10_000, np.arange(1, 1001) / 1_000])
"""Fractions of time of the duration curve; finer at the peak."""
END_BYTES = 65_536
"""Of each end of a file that its mark covers: a year of a large file is not read to resume."""


class FileMark(Record):
    """Proof that a file is whole: its size, and the SHA-256 of its first and last 64 KiB."""

    size: int
    sha256: str


class RunRecord(Record):
    """Record of a finished run: its hash, what was kept, its warnings and its files.

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


def load_shape(run: Run) -> pa.Table:
    """Return the load by hour of the week and its duration curve."""
    total, count = np.zeros(HOURS_PER_WEEK), np.zeros(HOURS_PER_WEEK)
    largest = np.zeros(HOURS_PER_WEEK)
    distribution = Distribution()
    series = run.series()
    for block in series.blocks(["facility_power_w"]):
        power_w = block.columns["facility_power_w"]
        hours = _hours_of_week(series.local_ms(block.starts_ms))
        total += np.bincount(hours, power_w, minlength=HOURS_PER_WEEK)
        count += np.bincount(hours, minlength=HOURS_PER_WEEK)
        np.maximum.at(largest, hours, power_w)
        distribution.add(power_w)
    seen = np.flatnonzero(count)
    levels = np.array(distribution.percentiles(*(100 * (1 - EXCEEDED)).tolist()))
    return pa.concat_tables(
        [
            _rows(KINDS[0], seen, total[seen] / count[seen]),
            _rows(KINDS[1], seen, largest[seen]),
            _rows(KINDS[2], EXCEEDED, levels),
        ]
    )


def _hours_of_week(local_ms: Int64Array) -> Int64Array:
    hours: Int64Array = (local_ms // MS_PER_H + 3 * HOURS_PER_DAY) % HOURS_PER_WEEK
    return hours  # 1970 began on a Thursday


def _rows(kind: str, at: np.ndarray, power_w: Float64Array) -> pa.Table:
    return pa.table(
        {
            "kind": arrow_texts([kind] * len(at)),
            "at": arrow_numbers(at.astype(np.float64)),
            "power_w": arrow_numbers(power_w),
        }
    )
