"""Writing results: each file or folder appears whole, or not at all."""

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
    check_file,
    check_folder,
    reason,
)

_LEFT_AFTER_S = 86_400.0


@contextmanager
def whole_file(
    place: Path | str,
    force: bool = False,
    *,
    inputs: Paths = (),
    replaces: Callable[[Path], bool] | None = None,
    option: str = "--out",
) -> Iterator[Path]:
    """Give a hidden path to write to, and put the file in its place at the end.

    The arguments are those of `check_file`.
    """
    check = partial(
        check_file, place, force, inputs=inputs, replaces=replaces, option=option
    )
    with _whole(place, check, option) as path:
        yield path


@contextmanager
def whole_folder(
    place: Path | str,
    force: bool = False,
    *,
    kind: FolderKind | None = None,
    inputs: Paths = (),
    option: str = "--out",
) -> Iterator[Path]:
    """Give a hidden folder to write to, and put it in its place at the end.

    The arguments are those of `check_folder`. A link to a folder stays one.
    """
    check = partial(check_folder, place, force, kind=kind, inputs=inputs, option=option)
    link = Path(place).is_symlink()
    with _whole(os.path.realpath(place) if link else place, check, option) as path:
        path.mkdir()
        yield path


def remove_leftovers(folder: Path, older_than_s: float = _LEFT_AFTER_S) -> None:
    """Remove what killed writers left in a folder, once nobody writes there any more.

    What can't be removed stays, and harms nobody.
    """
    for hidden in folder.glob(f"{HIDDEN}*/"):
        with suppress(OSError):
            times = [path.lstat().st_mtime for path in (hidden, *hidden.rglob("*"))]
            if time.time() - max(times) >= older_than_s:
                shutil.rmtree(hidden, ignore_errors=True)


@contextmanager
def _whole(place: Path | str, check: Callable[[], None], option: str) -> Iterator[Path]:
    check()
    # '.' has no name, and Arrow takes a drive, as in C:/x, for a scheme
    target = Path(os.path.abspath(place))  # noqa: PTH100
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
            _put(new, target, check)
    except OSError as error:
        raise OutputError(
            f"{place}: can't be written ({reason(error)}); nothing of it was kept, "
            f"check {option}"
        ) from error
    finally:
        for parent in missing:
            with suppress(OSError):
                parent.rmdir()  # unless something is in it


def _sync(new: Path) -> None:
    """Make files last through a power cut."""
    for path in (new, *new.rglob("*")):
        if path.is_file():
            with path.open("rb+") as file:
                os.fsync(file.fileno())


def _put(new: Path, target: Path, check: Callable[[], None]) -> None:
    """Move what was written to its place, where others may write at the same time."""
    try:
        check()
        if new.is_dir():
            _swap(new, target, Path(mkdtemp(dir=new.parent)) / "old")
        elif os.path.lexists(target):
            new.replace(target)
        else:
            _link(new, target)
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            raise
        _put(new, target, check)  # another one came first


def _swap(new: Path, target: Path, old: Path) -> None:
    """Move a folder to its place, and what was there aside."""
    try:
        with suppress(FileNotFoundError):
            target.rename(old)
        new.rename(target)
    except BaseException:
        if old.exists() and not target.exists():
            old.rename(target)
        raise


def _link(new: Path, target: Path) -> None:
    """Move a file to a place that is free."""
    try:
        target.hardlink_to(new)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        new.rename(target)
