"""Whether the system lets a file be read or written, and in which words it refused."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from diploee.errors import InputError

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


def check_is_file(path: Path, error: type[InputError] = InputError) -> None:
    """Refuse what can't be read as a file, such as a pipe, which would wait for its writer.

    Raises
    ------
    InputError
        If there is nothing, or something else.
    """
    if not path.is_file():
        found = "is no file" if os.path.lexists(path) else "no such file"
        raise error(f"{path}: {found}")
