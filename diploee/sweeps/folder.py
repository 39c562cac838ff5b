"""Folder of a sweep, shared by machines if needed: ``runs/``, and files on all runs.

Runs and files are written atomically, so a run folder with a manifest is complete.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from diploee.base.errors import InputError, OutputError
from diploee.base.files import (
    FolderKind,
    local_path,
    reason,
    remove_leftovers,
    whole_file,
)
from diploee.sweeps.spec import KEPT_FILES

RUNS = "runs"
MANIFEST = "manifest.json"
LOCK = ".sweep.lock"
RUN_FILES = (
    MANIFEST,
    "metrics.json",
    "record.json",
    "load_shape.parquet",
    *KEPT_FILES["all"],
)
RUN_OF_SWEEP = FolderKind(
    "the files of a run", MANIFEST, (), lambda _manifest: RUN_FILES
)


def sweep_folder(target: str | Path) -> Path:
    """Return the absolute folder of a sweep, valid for workers anywhere."""
    return Path(os.path.realpath(local_path(target)))


def read_file(path: Path) -> bytes:
    """Return a file's content; raise `OSError` if there is no file."""
    if path.exists() and not path.is_file():  # a pipe is not waited for
        raise OSError(f"{path}: is no file")
    return path.read_bytes()


def write_file(path: Path, content: bytes) -> None:
    """Write a file atomically; raise `OutputError` if it can't be written."""
    with whole_file(path, force=True) as partial:
        partial.write_bytes(content)


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Lock a folder against other sweeps until the process ends.

    Unfinished files of killed workers are removed. At exit, a newly created folder is
    removed if it is still empty.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(folder / LOCK, blocking=False)
    made = [f for f in (folder, *folder.parents) if not os.path.lexists(f)]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout as error:
        raise InputError(
            f"{folder}: another sweep is writing here; wait for it or choose another "
            "--out"
        ) from error
    except OSError as error:
        raise OutputError(
            f"{folder}: can't be written ({reason(error)}); choose another --out"
        ) from error
    try:
        _remove_leftovers(folder)
        yield
    finally:
        _remove_leftovers(folder)
        with suppress(OSError):
            (folder / LOCK).unlink()
        lock.release()
        for each in made:
            with suppress(OSError):
                each.rmdir()


def _remove_leftovers(folder: Path) -> None:
    """Remove unfinished files of killed workers; call it only with the lock."""
    for each in (folder, folder / RUNS):
        remove_leftovers(each, 0.0)
