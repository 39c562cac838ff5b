"""Where a sweep lies: a local folder or any fsspec URL; runs appear there whole or not at all."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from diploee.errors import DiploeeError, InputError, OutputError, shown
from diploee.files import (
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
RUN_FILES = (MANIFEST, "metrics.json", "record.json", "load_shape.parquet", *KEPT_FILES["all"])
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://.*[^/\s].*")
_NO_PLACE = re.compile(r"\s*|([A-Za-z][A-Za-z0-9+.-]+)?:(/.*)?")  # a drive has one letter
_RUN_OF_SWEEP = FolderKind("the files of a run", MANIFEST, (), lambda _manifest: RUN_FILES)


class Store:
    """A place for files by name, with the runs of a sweep under ``runs/``: a folder, maybe shared.

    The manifest of a run appears last: a run with one is complete.
    """

    def __init__(self, target: str) -> None:
        self.target = target
        self._folder = Path(target)

    def run_name(self, run: str, file: str) -> str:
        """Return the name of a file of a run."""
        return f"{RUNS}/{run}/{file}"

    def read(self, name: str, start: int = 0, end: int | None = None) -> bytes:
        """Return a file's content, or its bytes from `start` to `end`; `OSError` without a file."""
        path = self._folder / name
        if path.exists() and not path.is_file():  # a pipe is not waited for
            raise OSError(f"{path}: is no file")
        with path.open("rb") as file:
            file.seek(start)
            return file.read(-1 if end is None else end - start)

    def write(self, name: str, content: bytes) -> None:
        """Write a file whole or not at all; `OutputError` where it can't be written."""
        with whole_file(self._folder / name, force=True) as partial:
            partial.write_bytes(content)

    def remove(self, name: str) -> None:
        """Remove a file, if there is one that can be removed."""
        with suppress(OSError):
            (self._folder / name).unlink()

    def sizes(self, run: str) -> dict[str, int]:
        """Return the files of a run with their sizes [bytes]; none where there is no such run."""
        folder = self._folder / RUNS / run
        return {path.name: path.stat().st_size for path in folder.glob("*") if path.is_file()}

    def complete_runs(self) -> set[str]:
        """Return the names of the runs that have a manifest."""
        return {path.parent.name for path in (self._folder / RUNS).glob(f"[!.]*/{MANIFEST}")}

    @contextmanager
    def new_run(self, run: str) -> Iterator[Path]:
        """Give a local folder for a run, and put it in its place, instead of what lies there."""
        with whole_folder(self._folder / RUNS / run, force=True, kind=_RUN_OF_SWEEP) as folder:
            yield folder

    @contextmanager
    def claim(self) -> Iterator[None]:
        """Keep other sweeps of this machine out until the process ends, however it ends.

        What dead workers left is removed, and a folder that was made for it and stayed empty.
        """
        made = [f for f in (self._folder, *self._folder.parents) if not os.path.lexists(f)]
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
                f"{self._folder}: can't be written ({reason(error)}); choose another --out"
            ) from error
        if lock is None:
            raise InputError(
                f"{self._folder}: another sweep is writing here; wait for it or choose another "
                "--out"
            )
        return lock

    def _remove_partials(self) -> None:
        """Remove what a killed sweep left; nobody else writes here now, on no machine."""
        for folder in (self._folder, self._folder / RUNS):
            remove_leftovers(folder, any_machine=True)


class _UrlStore(Store):
    """Any place that fsspec knows: runs are simulated in a temporary folder, then copied."""

    def __init__(self, target: str) -> None:
        import fsspec

        super().__init__(target)
        try:
            self._fs, root = fsspec.url_to_fs(target)
        except (ImportError, ValueError, OSError) as error:
            raise InputError(f"--out {target}: {_line(error)}") from error
        self._root = root.rstrip("/")

    @contextmanager
    def claim(self) -> Iterator[None]:
        """Do nothing: a URL has no locks."""
        yield

    def read(self, name: str, start: int = 0, end: int | None = None) -> bytes:
        """Return an object's content, or a part of it."""
        content: bytes = self._fs.cat_file(f"{self._root}/{name}", start or None, end)
        return content

    def write(self, name: str, content: bytes) -> None:
        """Write an object, which appears whole by itself."""
        path = f"{self._root}/{name}"
        try:
            self._fs.makedirs(path.rpartition("/")[0], exist_ok=True)
            self._fs.pipe_file(path, content)
        except Exception as error:  # every file system has its own errors
            raise self._error(name, error) from error

    def remove(self, name: str) -> None:
        """Remove an object."""
        with suppress(Exception):  # every file system has its own errors
            self._fs.rm_file(f"{self._root}/{name}")

    def sizes(self, run: str) -> dict[str, int]:
        """Return the sizes of a run's objects."""
        place = f"{self._root}/{RUNS}/{run}"
        self._fs.invalidate_cache(place)
        try:
            found = self._fs.ls(place, detail=True)
        except FileNotFoundError:
            return {}
        return {str(entry["name"]).rsplit("/", 1)[1]: entry["size"] for entry in found}

    def complete_runs(self) -> set[str]:
        """Return the places that hold a manifest, by one listing."""
        self._fs.invalidate_cache()
        try:
            found = self._fs.glob(f"{self._root}/{RUNS}/*/{MANIFEST}")
        except Exception as error:  # every file system has its own errors
            raise InputError(f"--out {self.target}: can't be listed ({_line(error)})") from error
        return {str(path).rsplit("/", 2)[1] for path in found}

    @contextmanager
    def new_run(self, run: str) -> Iterator[Path]:
        """Give a folder among the system's temporary files, named by the process."""
        with tempfile.TemporaryDirectory(prefix=f"diploee-{os.getpid()}-") as folder:
            yield Path(folder) / run
            self._put(Path(folder) / run, run)

    def _put(self, folder: Path, run: str) -> None:
        """Copy the files, the manifest last."""
        place = f"{self._root}/{RUNS}/{run}"
        files = sorted(folder.iterdir(), key=lambda file: (file.name == MANIFEST, file.name))
        try:
            if self._fs.exists(f"{place}/{MANIFEST}"):
                self._fs.rm_file(f"{place}/{MANIFEST}")
            self._fs.makedirs(place, exist_ok=True)
            for file in files:
                self._fs.put_file(str(file), f"{place}/{file.name}")
        except Exception as error:  # every file system has its own errors
            raise self._error(f"{RUNS}/{run}", error) from error

    def _error(self, name: str, error: Exception) -> DiploeeError:
        return OutputError(f"{self.target}/{name}: can't be written ({_line(error)}); check --out")


def open_store(target: str | Path) -> Store:
    """Open the place of a sweep: a folder, or a URL such as ``s3://bucket/sweep``."""
    text = str(target)
    if _URL.fullmatch(text):
        return _UrlStore(text)
    if _NO_PLACE.fullmatch(text) or "://" in text:
        raise InputError(
            f"--out {shown(text)}: names no place; give a folder, or a URL such as s3://bucket/sweep"
        )
    return Store(str(local_place(text).resolve()))


def remove_staging(pid: int) -> None:
    """Remove what a process that was killed left among the system's temporary files."""
    with suppress(OSError):
        for folder in Path(tempfile.gettempdir()).glob(f"diploee-{pid}-*"):
            shutil.rmtree(folder, ignore_errors=True)


def _line(error: Any) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
