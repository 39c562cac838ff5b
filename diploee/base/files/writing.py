"""Atomic writing: each output file or folder appears complete, or not at all."""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp

from diploee.base.errors import OutputError
from diploee.base.files.paths import (
    HIDDEN,
    FolderKind,
    Paths,
    check_output_file,
    check_output_folder,
    reason,
)

_LEFTOVER_AGE_S = 86_400.0
_TAKEN = (errno.EEXIST, errno.ENOTEMPTY)


@contextmanager
def whole_file(
    path: Path | str,
    force: bool = False,
    *,
    inputs: Paths = (),
    replaces: Callable[[Path], bool] | None = None,
    option: str = "--out",
) -> Iterator[Path]:
    """Yield a hidden path to write to, then move the file to its final path.

    The arguments are those of `check_output_file`.
    """
    check = partial(
        check_output_file, path, force, inputs=inputs, replaces=replaces, option=option
    )
    with _write_atomically(path, check, option) as hidden:
        yield hidden


@contextmanager
def whole_folder(
    path: Path | str,
    force: bool = False,
    *,
    kind: FolderKind | None = None,
    inputs: Paths = (),
    option: str = "--out",
) -> Iterator[Path]:
    """Yield a hidden folder to write to, then move it to its final path.

    The arguments are those of `check_output_folder`. A symbolic link is kept.
    """
    check = partial(
        check_output_folder, path, force, kind=kind, inputs=inputs, option=option
    )
    link = Path(path).is_symlink()
    with _write_atomically(
        os.path.realpath(path) if link else path, check, option
    ) as path:
        path.mkdir()
        yield path


def remove_leftovers(folder: Path, older_than_s: float = _LEFTOVER_AGE_S) -> None:
    """Remove the hidden folders of killed processes that are older than `older_than_s`.

    Folders that can't be removed are ignored.
    """
    for hidden in folder.glob(f"{HIDDEN}*/"):
        with suppress(OSError):
            times = [path.lstat().st_mtime for path in (hidden, *hidden.rglob("*"))]
            if time.time() - max(times) >= older_than_s:
                shutil.rmtree(hidden, ignore_errors=True)


@contextmanager
def _write_atomically(
    path: Path | str, check: Callable[[], None], option: str
) -> Iterator[Path]:
    check()
    # '.' has no name, and Arrow takes a drive, as in C:/x, for a scheme
    target = Path(os.path.abspath(path))  # noqa: PTH100
    missing = [parent for parent in target.parents if not parent.exists()]
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(target.parent)
        with TemporaryDirectory(
            prefix=HIDDEN, dir=target.parent, ignore_cleanup_errors=True
        ) as hidden:
            new = Path(hidden, target.name)
            yield new
            _sync(new)
            _move_to_target(new, target, check)
    except OSError as error:
        raise OutputError(
            f"{path}: can't be written ({reason(error)}); nothing of it was kept, "
            f"check {option}"
        ) from error
    finally:
        for parent in missing:
            with suppress(OSError):
                parent.rmdir()  # unless something is in it


def _sync(new: Path) -> None:
    """Flush all files to disk, so that they survive a power failure."""
    for path in (new, *new.rglob("*")):
        if path.is_file():
            with path.open("rb+") as file:
                os.fsync(file.fileno())


def _move_to_target(new: Path, target: Path, check: Callable[[], None]) -> None:
    """Move the result to its final path, even if other processes write there too."""
    try:
        check()
        if new.is_dir():
            _move_folder(new, target, check)
        elif os.path.lexists(target):
            new.replace(target)
        else:
            _move_to_free_path(new, target)
    except OSError as error:
        if error.errno not in _TAKEN:
            raise
        _move_to_target(new, target, check)  # another process was first: check again


def _move_folder(new: Path, target: Path, check: Callable[[], None]) -> None:
    """Move a folder to its final path, after moving aside a folder that it replaces."""
    try:
        new.rename(target)  # free, or an empty folder
        return
    except OSError as error:
        if error.errno not in _TAKEN:
            raise
    check()  # of what is there now: another process may have been first
    old = Path(mkdtemp(dir=new.parent)) / "old"
    try:
        with suppress(FileNotFoundError):
            target.rename(old)
        new.rename(target)
    except BaseException:
        if old.exists() and not target.exists():
            old.rename(target)
        raise


def _move_to_free_path(new: Path, target: Path) -> None:
    """Move a file to a path that does not exist yet."""
    try:
        target.hardlink_to(new)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        new.rename(target)
