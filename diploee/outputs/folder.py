"""A run folder appears whole or not at all: it is written beside its place and renamed."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from diploee.errors import OutputError, OutputExistsError

MANIFEST = "manifest.json"
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def default_folder(name: str, sha256: str, parent: Path = Path("runs")) -> Path:
    """Return ``runs/<name>-<first 8 of the hash>``, with ``-2``, ``-3``, ... where that exists."""
    first = parent / f"{name}-{sha256[:8]}"
    if not first.exists():
        return first
    return next(
        folder for n in count(2) if not (folder := first.with_name(f"{first.name}-{n}")).exists()
    )


@contextmanager
def new_run_folder(place: Path, force: bool = False) -> Iterator[Path]:
    """Give a folder to write a run to, and put it in its place when all went well.

    Parameters
    ----------
    place : pathlib.Path
        Where the run folder shall appear.
    force : bool
        Replace a run folder that stands there; the old one is kept until the new one is complete.

    Yields
    ------
    pathlib.Path
        A hidden folder beside the place; it is removed if the block ends with an error.

    Raises
    ------
    OutputExistsError
        If the place is taken, and either `force` is not set or what stands there is no run folder.
    OutputError
        If it can't be written: no permission, a full disk.
    """
    _check_free(place, force)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=f".{place.name}.partial-", dir=place.parent))
    except OSError as error:
        raise _output_error(place, error) from error
    try:
        yield staging
        staging.chmod(0o777 & ~_umask())
        _check_free(place, force)
        _swap(staging, place)
    except OSError as error:
        raise _output_error(place, error, staging) from error
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
    old = Path(tempfile.mkdtemp(prefix=f".{place.name}.old-", dir=place.parent))
    place.rename(old / place.name)
    try:
        staging.rename(place)
    except OSError:
        (old / place.name).rename(place)
        raise
    finally:
        if place.exists():
            shutil.rmtree(old, ignore_errors=True)


def _output_error(place: Path, error: OSError, staging: Path | None = None) -> OutputError:
    if error.errno in _DISK_FULL:
        written_mb = _size_mb(staging) if staging else 0.0
        free_mb = shutil.disk_usage(place.parent).free / 1e6 if place.parent.exists() else 0.0
        return OutputError(
            f"{place}: the disk is full ({written_mb:.0f} MB written so far, {free_mb:.0f} MB "
            "free or allowed); nothing was kept, free some space or choose another --out"
        )
    reason = error.strerror or (str(error).splitlines() or [type(error).__name__])[0]
    return OutputError(f"{place}: can't be written ({reason}); nothing was kept, check --out")


def _size_mb(folder: Path) -> float:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
