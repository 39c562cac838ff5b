"""An export appears whole or not at all, with its sidecar: written beside and renamed."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from diploee.errors import OutputError, OutputExistsError

FOLDER_SIDECAR = "diploee_export.json"
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def sidecar_of(place: Path, is_folder: bool) -> Path:
    """Return where the sidecar of a file or folder stands."""
    return place / FOLDER_SIDECAR if is_folder else place.with_name(f"{place.name}.meta.json")


@contextmanager
def new_export(
    place: Path, is_folder: bool, force: bool, fraction: Callable[[], float]
) -> Iterator[Path]:
    """Give a place to write an export to, and put it in its own when all went well.

    Parameters
    ----------
    place : pathlib.Path
        Where the file or folder shall appear, with its sidecar.
    is_folder : bool
        Whether it is a folder.
    force : bool
        Replace an export that stands there.
    fraction : callable
        Returns the part of the export done, 0-1, from which a full disk's needs are estimated.

    Yields
    ------
    pathlib.Path
        The file or (existing) folder to write to, in a hidden folder beside the place.

    Raises
    ------
    OutputExistsError
        If the place is taken, and either `force` is not set or no export stands there.
    OutputError
        If it can't be written: no permission, a full disk. Nothing is kept then.
    """
    check_free(place, is_folder, force)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=f".{place.name}.partial-", dir=place.parent))
    except OSError as error:
        raise _output_error(place, error, None, 0.0) from error
    try:
        target = staging / place.name
        if is_folder:
            target.mkdir()
        yield target
        check_free(place, is_folder, force)
        if is_folder:
            _swap_folder(target, place, staging)
        else:
            _swap_file(target, place)
    except OSError as error:
        raise _output_error(place, error, staging, fraction()) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def check_free(place: Path, is_folder: bool, force: bool) -> None:
    """Refuse a place that is taken, unless it may be replaced.

    Raises
    ------
    OutputExistsError
        If it may not.
    """
    sidecar = sidecar_of(place, is_folder)
    taken = next((p for p in (place, sidecar) if os.path.lexists(p)), None)
    if taken is None:
        return
    if not force:
        raise OutputExistsError(
            f"{taken}: exists already; choose another --out, or --force to replace it"
        )
    if is_folder and not sidecar.is_file() and not (place.is_dir() and not any(place.iterdir())):
        raise OutputExistsError(
            f"{place}: exists and is not an exported folder (no {FOLDER_SIDECAR}); "
            "--force replaces exports only, choose another --out"
        )
    if not is_folder and any(os.path.lexists(p) and not p.is_file() for p in (place, sidecar)):
        raise OutputExistsError(f"{place}: exists and is no file; choose another --out")


def _swap_file(target: Path, place: Path) -> None:
    """Move file and sidecar; the sidecar first, so that no data stand without one."""
    place_sidecar = sidecar_of(place, is_folder=False)
    had_sidecar = place_sidecar.exists()
    sidecar_of(target, is_folder=False).replace(place_sidecar)
    try:
        target.replace(place)
    except OSError:
        if not had_sidecar:
            place_sidecar.unlink(missing_ok=True)
        raise


def _swap_folder(target: Path, place: Path, staging: Path) -> None:
    old = staging / "replaced"
    if place.exists():
        place.rename(old)
    try:
        target.rename(place)
    except BaseException:  # an interruption too must not take the old one with it
        if old.exists():
            old.rename(place)
        raise


def _output_error(
    place: Path, error: OSError, staging: Path | None, fraction: float
) -> OutputError:
    if error.errno in _DISK_FULL:
        written_mb = _size_mb(staging) if staging else 0.0
        free_mb = shutil.disk_usage(place.parent).free / 1e6 if place.parent.exists() else 0.0
        needed = f", about {written_mb / fraction:.2f} MB needed in all" if fraction > 0 else ""
        return OutputError(
            f"{place}: the disk is full ({written_mb:.2f} MB written{needed}, {free_mb:.0f} MB "
            "free or allowed); nothing was kept, free some space or choose another --out"
        )
    reason = error.strerror or (str(error).splitlines() or [type(error).__name__])[0]
    return OutputError(f"{place}: can't be written ({reason}); nothing was kept, check --out")


def _size_mb(folder: Path) -> float:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6
