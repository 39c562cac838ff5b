"""The run folder: its default path, allowed files, and expected size."""

from __future__ import annotations

import hashlib
import json
import os
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np

from diploee.base.errors import InputError, one_line, shown
from diploee.base.files import FolderKind, is_free
from diploee.base.units import MS_PER_S

SCHEMA_VERSION = 1
METRICS_FILE = "metrics.json"
MANIFEST = "manifest.json"
LIMITS_FILE = "limits.json"
ENTRIES = (
    "facility.parquet",
    "jobs.parquet",
    "nodes.parquet",
    "parts.parquet",
    MANIFEST,
    METRICS_FILE,
    LIMITS_FILE,
    "zooms/*.parquet",
)
"""Patterns of all files of a run folder; a folder with other files is not replaced."""

RUN_FOLDER = FolderKind(
    "a run folder",
    MANIFEST,
    ("schema_version", "scenario_sha256"),
    lambda _manifest: ENTRIES,
)


def default_folder(name: str, sha256: str, parent: Path = Path("runs")) -> Path:
    """Return ``runs/<name>-<first 8 digits of the hash>``, numbered if it exists."""
    first_folder = parent / f"{name}-{sha256[:8]}"
    numbered = (first_folder.with_name(f"{first_folder.name}-{n}") for n in count(2))
    return next(folder for folder in chain([first_folder], numbered) if is_free(folder))


def run_files(folder: Path) -> list[Path]:
    """Return the existing files of a run folder."""
    return [path for pattern in ENTRIES for path in folder.glob(pattern)]


def check_not_in_run(path: Path | str, folder: Path, option: str = "--out") -> None:
    """Raise an error if an output path is inside a run folder."""
    if Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)):
        raise InputError(
            f"{option}: {path} lies in the run folder {folder}, which could not be "
            "replaced by --force with other files in it; choose a folder next to it"
        )


BYTES_PER_INTERVAL = 10
"""Size of `facility.parquet` per interval [bytes], measured on year-long runs; smooth
0.1 s series take half."""
BYTES_PER_SERVICE = 12
BYTES_PER_JOB = 13


def estimate_size_mb(
    n_intervals: int, step_ms: int, n_services: int, n_jobs: int
) -> float:
    """Estimate the size of a run's files [MB], to about a factor of two.

    `n_jobs` is 0 if `jobs.parquet` is not written.
    """
    per_interval = float(BYTES_PER_INTERVAL + BYTES_PER_SERVICE * n_services)
    if step_ms < MS_PER_S:
        per_interval /= 2
    return (per_interval * n_intervals + BYTES_PER_JOB * n_jobs) / 1e6


def write_json(path: Path, content: dict[str, Any]) -> str:
    """Write JSON with one line per key, and return its SHA-256."""
    data = f"{json.dumps(content, indent=2, ensure_ascii=False, default=_to_python_number)}\n".encode()  # noqa: E501
    path.write_bytes(data)
    return hashlib.sha256(data).hexdigest()


def _to_python_number(value: object) -> Any:
    """Return a numpy number as a Python number; refuse other objects."""
    if isinstance(value, np.generic):
        return value.item()
    raise InputError(
        f"a result is {one_line(shown(value))}, expected numbers, text or lists"
    )
