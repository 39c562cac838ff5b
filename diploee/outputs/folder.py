"""A run folder appears whole or not at all: it is written beside its place and renamed."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path

from diploee.errors import OutputError, OutputExistsError
from diploee.files import is_disk_full, reason

MANIFEST = "manifest.json"


def default_folder(name: str, sha256: str, parent: Path = Path("runs")) -> Path:
    """Return ``runs/<name>-<first 8 of the hash>``, with ``-2``, ``-3``, ... where that exists."""
    first = parent / f"{name}-{sha256[:8]}"
    others = (first.with_name(f"{first.name}-{n}") for n in count(2))
    return next(folder for folder in chain([first], others) if not os.path.lexists(folder))


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
    place: Path, force: bool = False, numbered: Callable[[], Path] | None = None
) -> Iterator[NewRun]:
    """Give a folder to write a run to, and put it in its place when all went well.

    Parameters
    ----------
    place : pathlib.Path
        Where the run folder shall appear.
    force : bool
        Replace a run folder that stands there; the old one is kept until the new one is complete.
    numbered : callable, optional
        Gives another place if the first one was taken in the meantime, by a run at the same time.

    Yields
    ------
    NewRun
        Its hidden folder is removed if the block ends with an error.

    Raises
    ------
    OutputExistsError
        If the place is taken, and either `force` is not set or what stands there is no run folder.
    OutputError
        If it can't be written: no permission, a full disk.
    """
    target = place.resolve()  # "." has no name to add to, and a link's folder is what is replaced
    staging = _beside(target, "partial")
    new = NewRun(staging, place)
    try:
        _check_free(place, force)
        target.parent.mkdir(parents=True, exist_ok=True)
        staging.mkdir()
        yield new
        if numbered is not None and os.path.lexists(target):
            new.place = numbered()
            target = target.with_name(new.place.name)
        _check_free(new.place, force)
        _swap(staging, target)
    except OSError as error:
        raise _output_error(new, error) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _check_free(place: Path, force: bool) -> None:
    if not os.path.lexists(place):
        return
    if not force:
        raise OutputExistsError(
            f"{place}: exists already; choose another --out, or --force to replace it"
        )
    if not (place / MANIFEST).is_file() and not (place.is_dir() and not any(place.iterdir())):
        raise OutputExistsError(
            f"{place}: exists and is not a run folder (no {MANIFEST}); "
            "--force replaces run folders only, choose another --out"
        )


def _swap(staging: Path, place: Path) -> None:
    if not place.exists():
        staging.rename(place)
        return
    old = _beside(place, "old")
    try:
        place.rename(old)
        staging.rename(place)
    finally:
        if place.exists():
            shutil.rmtree(old, ignore_errors=True)
        elif old.exists():  # also where an interrupt came between the two
            old.rename(place)


def _beside(place: Path, what: str) -> Path:
    return place.with_name(f".{place.name}.{what}-{secrets.token_hex(4)}")


def _output_error(new: NewRun, error: OSError) -> OutputError:
    place = new.place
    if is_disk_full(error):
        try:
            free_mb = shutil.disk_usage(place.parent).free / 1e6
        except OSError:
            free_mb = 0.0
        needed = f"the run needs about {new.needed_mb:,.4g} MB, " if new.needed_mb else ""
        return OutputError(
            f"{place}: the disk is full or a limit on file size is reached ({needed}"
            f"{_size_mb(new.folder):.1f} MB written so far, {free_mb:,.0f} MB free on the disk); "
            "nothing was kept, free some space or choose another --out"
        )
    return OutputError(
        f"{place}: can't be written ({reason(error)}); nothing was kept, check --out"
    )


def _size_mb(folder: Path) -> float:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6
