"""Files that appear whole or not at all, and the words for why one can't be written."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from diploee.errors import LogFormatError, OutputError, one_line

_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def is_disk_full(error: OSError) -> bool:
    """Return whether an error says that the disk, a quota or a size limit is exhausted."""
    return error.errno in _DISK_FULL


def reason(error: OSError) -> str:
    """Return why the system refused, in a few words, such as ``Permission denied``."""
    if is_disk_full(error):
        return "the disk is full"
    if isinstance(error, FileExistsError | NotADirectoryError):
        return "a part of its path is a file, not a folder"
    return error.strerror or (str(error).splitlines() or [type(error).__name__])[0]


Stamp = tuple[tuple[str, int, int], ...]
"""Names, times of change and sizes of files: what a cached reading of them depends on."""


def input_stamp(path: Path, key: str) -> Stamp:
    """Return what tells whether a file, or the files of a folder, changed since they were read.

    Parameters
    ----------
    path : pathlib.Path
        The file or folder.
    key : str
        Key of the scenario that names it, for the error.

    Raises
    ------
    LogFormatError
        If it can't be read.
    """
    try:
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        found = [(file.as_posix(), file.stat()) for file in files]
    except (OSError, ValueError) as error:  # a name with a null byte is a ValueError
        why = reason(error) if isinstance(error, OSError) else str(error)
        raise LogFormatError(
            f"{one_line(str(path))}: can't be read ({why}); {key} is relative to the scenario file"
        ) from error
    return tuple((name, stat.st_mtime_ns, stat.st_size) for name, stat in found)


@contextmanager
def whole_file(place: Path) -> Iterator[Path]:
    """Give a path to write a file to, and put it in its place when all went well.

    Parameters
    ----------
    place : pathlib.Path
        Where the file shall appear; its folder is made. A file that stands there is replaced.

    Yields
    ------
    pathlib.Path
        A hidden path beside the place; removed if the block ends with an error.

    Raises
    ------
    OutputError
        If it can't be written: no permission, a full disk.
    """
    target = Path(os.path.abspath(place))  # noqa: PTH100  # "." and "x/.." have no name to add to
    partial = target.with_name(f".{target.name}.partial")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield partial
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(
            f"{place}: can't be written ({reason(error)}); nothing was kept"
        ) from error
