"""What a run folder is: its default place, what it may hold, how large it gets."""

from __future__ import annotations

import os
from itertools import chain, count
from pathlib import Path

from diploee.errors import InputError
from diploee.files import FolderKind
from diploee.units import MS_PER_S

MANIFEST = "manifest.json"
ENTRIES = ("facility.parquet", "jobs.parquet", MANIFEST, "metrics.json", "zooms/*.parquet")
"""All that a run folder may hold, as patterns; with anything else it is never replaced."""

RUN_FOLDER = FolderKind(
    "a run folder", MANIFEST, ("schema_version", "scenario_sha256"), lambda _manifest: ENTRIES
)


def default_folder(name: str, sha256: str, parent: Path = Path("runs")) -> Path:
    """Return ``runs/<name>-<first 8 of the hash>``, with ``-2``, ``-3``, ... where that exists."""
    first = parent / f"{name}-{sha256[:8]}"
    others = (first.with_name(f"{first.name}-{n}") for n in count(2))
    return next(folder for folder in chain([first], others) if not os.path.lexists(folder))


def run_files(folder: Path) -> list[Path]:
    """Return the files of a run folder that are there."""
    return [path for pattern in ENTRIES for path in folder.glob(pattern)]


def refuse_in_run(place: Path | str, folder: Path, option: str = "--out") -> None:
    """Refuse a place for a file within a run folder, which is never replaced with others in it."""
    if Path(place).resolve().is_relative_to(folder.resolve()):
        raise InputError(
            f"{option}: {place} lies in the run folder {folder}, which could not be replaced by "
            "--force with other files in it; choose a place beside it"
        )


BYTES_PER_INTERVAL = 10
"""Of `facility.parquet`, measured on year-long runs; smooth 0.1 s series compress to half."""
BYTES_PER_SERVICE = 12
BYTES_PER_JOB = 13


def expected_mb(n_intervals: int, step_ms: int, n_services: int, n_jobs: int) -> float:
    """Estimate the size of a run's files [MB], to about a factor of two.

    Parameters
    ----------
    n_intervals, step_ms : int
        Intervals of the power series and length of each [ms].
    n_services : int
        Inference services, with five columns each.
    n_jobs : int
        Rows of `jobs.parquet`; 0 where it is not written.
    """
    per_interval = float(BYTES_PER_INTERVAL + BYTES_PER_SERVICE * n_services)
    if step_ms < MS_PER_S:
        per_interval /= 2
    return (per_interval * n_intervals + BYTES_PER_JOB * n_jobs) / 1e6
