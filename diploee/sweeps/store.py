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
    try_lock,
    uninterrupted,
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
        """Keep other sweeps of this machine out until the process ends.

        What dead workers left is removed, and a folder that was made for it and stayed
        empty.
        """
        made = [
            f for f in (self._folder, *self._folder.parents) if not os.path.lexists(f)
        ]
        lock: int | None = None
        try:
            with uninterrupted():
                lock = self._lock()
            self._remove_partials()
            yield
        finally:
            with uninterrupted():
                if lock is not None:
                    self._remove_partials()
                    self.remove(LOCK)
                    os.close(lock)
                for folder in made:
                    with suppress(OSError):
                        folder.rmdir()

    def _lock(self) -> int:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            lock = try_lock(self._folder / LOCK, os.O_CREAT)
        except OSError as error:
            raise OutputError(
                f"{self._folder}: can't be written ({reason(error)}); choose another "
                "--out"
            ) from error
        if lock is None:
            raise InputError(
                f"{self._folder}: another sweep is writing here; wait for it or "
                "choose another --out"
            )
        return lock

    def _remove_partials(self) -> None:
        """Remove what a killed sweep left.

        Nobody else writes here now, on no machine.
        """
        for folder in (self._folder, self._folder / RUNS):
            remove_leftovers(folder, any_machine=True)


def open_store(target: str | Path) -> Store:
    """Open the folder of a sweep."""
    return Store(str(local_place(target).resolve()))
