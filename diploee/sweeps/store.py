"""The folder of a sweep, maybe shared by machines.

Runs appear there whole or not at all.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from diploee.base.errors import InputError, OutputError
from diploee.base.files import (
    FolderKind,
    local_place,
    reason,
    remove_leftovers,
    whole_file,
    whole_folder,
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
_RUN_OF_SWEEP = FolderKind(
    "the files of a run", MANIFEST, (), lambda _manifest: RUN_FILES
)


class Store:
    """A folder for files by name, with the runs of a sweep under ``runs/``.

    The manifest of a run appears last: a run with one is complete.
    """

    def __init__(self, target: str) -> None:
        self.target = target
        self._folder = Path(target)

    def run_name(self, run: str, file: str) -> str:
        """Return the name of a file of a run."""
        return f"{RUNS}/{run}/{file}"

    def read(self, name: str) -> bytes:
        """Return a file's content; `OSError` without a file."""
        path = self._folder / name
        if path.exists() and not path.is_file():  # a pipe is not waited for
            raise OSError(f"{path}: is no file")
        return path.read_bytes()

    def write(self, name: str, content: bytes) -> None:
        """Write a file whole or not at all; `OutputError` where it can't be written."""
        with whole_file(self._folder / name, force=True) as partial:
            partial.write_bytes(content)

    def remove(self, name: str) -> None:
        """Remove a file, if there is one that can be removed."""
        with suppress(OSError):
            (self._folder / name).unlink()

    def sizes(self, run: str) -> dict[str, int]:
        """Return the files of a run with their sizes [bytes].

        None where there is no such run.
        """
        folder = self._folder / RUNS / run
        return {
            path.name: path.stat().st_size
            for path in folder.glob("*")
            if path.is_file()
        }

    def complete_runs(self) -> set[str]:
        """Return the names of the runs that have a manifest."""
        return {
            path.parent.name for path in (self._folder / RUNS).glob(f"[!.]*/{MANIFEST}")
        }

    @contextmanager
    def new_run(self, run: str) -> Iterator[Path]:
        """Give a local folder for a run, and put it in place at the end."""
        with whole_folder(
            self._folder / RUNS / run, force=True, kind=_RUN_OF_SWEEP
        ) as folder:
            yield folder

    @contextmanager
    def claim(self) -> Iterator[None]:
        """Keep other sweeps out until the process ends.

        What dead workers left is removed, and a folder that was made for it and stayed
        empty.
        """
        from filelock import FileLock, Timeout

        folder, lock = self._folder, FileLock(self._folder / LOCK, blocking=False)
        made = [f for f in (folder, *folder.parents) if not os.path.lexists(f)]
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock.acquire()
        except Timeout as error:
            raise InputError(
                f"{folder}: another sweep is writing here; wait for it or choose "
                "another --out"
            ) from error
        except OSError as error:
            raise OutputError(
                f"{folder}: can't be written ({reason(error)}); choose another --out"
            ) from error
        try:
            self._remove_partials()
            yield
        finally:
            self._remove_partials()
            self.remove(LOCK)
            lock.release()
            for each in made:
                with suppress(OSError):
                    each.rmdir()

    def _remove_partials(self) -> None:
        """Remove what killed workers left; nobody else writes here now."""
        for folder in (self._folder, self._folder / RUNS):
            remove_leftovers(folder, 0.0)


def open_store(target: str | Path) -> Store:
    """Open the folder of a sweep."""
    return Store(str(local_place(target).resolve()))
