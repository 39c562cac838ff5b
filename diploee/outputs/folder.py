"""What a run folder is: its default place, what it may hold, how large it gets, how it appears."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path

from diploee.errors import InputError
from diploee.files import FolderKind, writing
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


@dataclass
class NewRun:
    """A run folder being written.

    Parameters
    ----------
    folder : pathlib.Path
        The hidden folder beside the place to write to.
    place : pathlib.Path
        Where it appears at the end.
    needed_mb : float, optional
        Estimated size of the whole folder [MB], for the message of a full disk; 0 = not known.
    """

    folder: Path
    place: Path
    needed_mb: float = 0.0


@contextmanager
def new_run_folder(
    place: Path | str, force: bool = False, numbered: Callable[[], Path] | None = None
) -> Iterator[NewRun]:
    """Give a folder to write a run to, and put it in its place when all went well.

    Parameters
    ----------
    place : path
        Where the run folder shall appear.
    force : bool
        Replace a run folder that stands there, if nothing else is in it; the old one is kept until
        the new one is complete.
    numbered : callable, optional
        Gives another place if the first one was taken in the meantime, by a run at the same time.

    Yields
    ------
    NewRun
        Its hidden folder is removed if the block ends with an error.

    Raises
    ------
    InputError
        If the place is taken, and either `force` is not set or something else stands there.
    OutputError
        If it can't be written: no permission, a full disk.
    """
    with writing(force) as files:
        item = files.folder(place, RUN_FOLDER)
        item.other_place = numbered
        new = NewRun(item.path, item.place)
        files.needed_mb = lambda _written_mb: new.needed_mb
        yield new
    new.place = item.place


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
