"""Renames that the standard library lacks: an exchange, and one that never replaces."""

from __future__ import annotations

import errno
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

_AT_FDCWD = -100
_NO_REPLACE, _EXCHANGE = 1, 2
_CAN_NOT = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP)


def exchange(one: Path, other: Path) -> bool:
    """Exchange two files or folders of one file system in one step."""
    return _rename(one, other, _EXCHANGE)


def rename_to_free(path: Path, place: Path) -> None:
    """Rename a file or folder to a place where nothing may stand."""
    if _rename(path, place, _NO_REPLACE):
        return
    if os.path.lexists(place):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(place))
    path.rename(place)


def _rename(path: Path, place: Path, flag: int) -> bool:
    call = _renameat2()
    if call is None:
        return False
    sys.audit("os.rename", str(path), str(place), -1, -1)  # as the interpreter's own renames do
    done = call(_AT_FDCWD, os.fsencode(path), _AT_FDCWD, os.fsencode(place), flag)
    if done == 0:
        return True
    import ctypes

    number = ctypes.get_errno()
    if number in _CAN_NOT:
        return False
    raise OSError(number, os.strerror(number), str(path), None, str(place))


@cache
def _renameat2() -> Any:
    """Return Linux's call, None where there is none."""
    if not sys.platform.startswith("linux"):
        return None
    import ctypes

    try:
        return ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return None
