"""Where a sweep lies: a local folder or any fsspec URL; runs appear there whole or not at all."""

from __future__ import annotations

import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from diploee.errors import DiploeeError, InputError, OutputError
from diploee.files import reason, whole_file

RUNS = "runs"
MANIFEST = "manifest.json"
LOCK = ".sweep.lock"


class Store(ABC):
    """A place for files by name, with the runs of a sweep under ``runs/``.

    The manifest of a run appears last: where it stands, the run is complete.
    """

    def __init__(self, target: str) -> None:
        self.target = target

    @abstractmethod
    def read(self, name: str) -> bytes:
        """Return a file's content; `OSError` where there is none."""

    @abstractmethod
    def write(self, name: str, content: bytes) -> None:
        """Write a file whole or not at all; `OutputError` where it can't be written."""

    @abstractmethod
    def exists(self, name: str) -> bool:
        """Return whether there is such a file."""

    @abstractmethod
    def complete_runs(self) -> set[str]:
        """Return the names of the runs that are complete."""

    @abstractmethod
    @contextmanager
    def staging(self, run: str) -> Iterator[Path]:
        """Give a local folder to simulate a run in; it is removed afterwards."""

    @abstractmethod
    def put_run(self, folder: Path, run: str) -> None:
        """Put a complete run folder in its place, instead of what lies there."""

    @contextmanager
    def claim(self) -> Iterator[None]:
        """Keep other sweeps of this machine out while a sweep writes here."""
        yield

    def run_name(self, run: str, file: str) -> str:
        """Return the name of a file of a run."""
        return f"{RUNS}/{run}/{file}"


class FolderStore(Store):
    """A local folder, or one that all machines share."""

    def __init__(self, target: str) -> None:
        super().__init__(target)
        self._folder = Path(target)

    def read(self, name: str) -> bytes:
        """Return a file's content."""
        return (self._folder / name).read_bytes()

    def write(self, name: str, content: bytes) -> None:
        """Write a file beside its place and rename it."""
        with whole_file(self._folder / name) as partial:
            partial.write_bytes(content)

    def exists(self, name: str) -> bool:
        """Return whether there is such a file."""
        return (self._folder / name).exists()

    def complete_runs(self) -> set[str]:
        """Return the folders that hold a manifest."""
        return {path.parent.name for path in (self._folder / RUNS).glob(f"[!.]*/{MANIFEST}")}

    @contextmanager
    def staging(self, run: str) -> Iterator[Path]:
        """Give a hidden folder beside the run's place."""
        parent = self._folder / RUNS
        try:
            parent.mkdir(parents=True, exist_ok=True)
            staging = Path(tempfile.mkdtemp(prefix=f".{run}.partial-", dir=parent))
        except OSError as error:
            raise OutputError(f"{parent}: can't be written ({reason(error)})") from error
        try:
            yield staging
        finally:
            shutil.rmtree(staging, ignore_errors=True)

    def put_run(self, folder: Path, run: str) -> None:
        """Rename the folder to its place."""
        place = self._folder / RUNS / run
        old = folder.parent / "old"
        try:
            if place.exists():
                place.rename(old)
            folder.rename(place)
        except OSError as error:
            raise OutputError(f"{place}: can't be written ({reason(error)})") from error

    @contextmanager
    def claim(self) -> Iterator[None]:
        """Lock the folder until the process ends, however it ends."""
        try:
            import fcntl
        except ImportError:  # not on Windows: two sweeps of one folder are not kept apart there
            yield
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            lock = (self._folder / LOCK).open("w")
        except OSError as error:
            raise InputError(
                f"{self._folder}: can't be written ({reason(error)}); choose another --out"
            ) from error
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise InputError(
                    f"{self._folder}: another sweep is writing here; wait for it or choose "
                    "another --out"
                ) from error
            self._remove_partials()
            yield

    def _remove_partials(self) -> None:
        """Remove what a killed sweep left; nobody else writes here now."""
        for partial in (self._folder / RUNS).glob(".*.partial-*"):
            shutil.rmtree(partial, ignore_errors=True)


class UrlStore(Store):
    """Any place that fsspec knows: runs are simulated in a temporary folder, then copied."""

    def __init__(self, target: str) -> None:
        import fsspec

        super().__init__(target)
        try:
            self._fs, root = fsspec.url_to_fs(target)
        except (ImportError, ValueError, OSError) as error:
            raise InputError(f"--out {target}: {_line(error)}") from error
        self._root = root.rstrip("/")

    def read(self, name: str) -> bytes:
        """Return an object's content."""
        content: bytes = self._fs.cat_file(f"{self._root}/{name}")
        return content

    def write(self, name: str, content: bytes) -> None:
        """Write an object, which appears whole by itself."""
        path = f"{self._root}/{name}"
        try:
            self._fs.makedirs(path.rpartition("/")[0], exist_ok=True)
            self._fs.pipe_file(path, content)
        except Exception as error:  # every file system has its own errors
            raise self._error(name, error) from error

    def exists(self, name: str) -> bool:
        """Return whether there is such an object."""
        return bool(self._fs.exists(f"{self._root}/{name}"))

    def complete_runs(self) -> set[str]:
        """Return the places that hold a manifest, by one listing."""
        self._fs.invalidate_cache()
        try:
            found = self._fs.glob(f"{self._root}/{RUNS}/*/{MANIFEST}")
        except Exception as error:  # every file system has its own errors
            raise InputError(f"--out {self.target}: can't be listed ({_line(error)})") from error
        return {str(path).rsplit("/", 2)[1] for path in found}

    @contextmanager
    def staging(self, run: str) -> Iterator[Path]:
        """Give a folder among the system's temporary files."""
        with tempfile.TemporaryDirectory(prefix=f"diploee-{run}-") as folder:
            yield Path(folder)

    def put_run(self, folder: Path, run: str) -> None:
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
    """Open the place of a sweep: a folder, or a URL such as ``s3://bucket/sweep``.

    Raises
    ------
    InputError
        If there is no such kind of URL, or its package is not installed.
    """
    return UrlStore(str(target)) if "://" in str(target) else FolderStore(str(target))


def _line(error: Any) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
