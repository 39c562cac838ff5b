"""Where files lie: where a result may go, what may be replaced there, and what is shipped."""  # noqa: E501

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from diploee.base.errors import (
    InputError,
    OutputError,
    OutputExistsError,
    ScenarioError,
    did_you_mean,
    one_of,
)

Paths = Iterable[Path | str | None]

HIDDEN = ".diploee-"
"""How the folders begin that lie beside a place while its result is written."""
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_IN_USE = (5, 32, 33)
"""Errors of Windows where a file is open: access denied, sharing violation, lock
violation."""


def reason(error: OSError) -> str:
    """Return why the system refused, in a few words, such as ``Permission denied``."""
    if error.errno in _DISK_FULL:
        return "the disk is full"
    if getattr(error, "winerror", None) in _IN_USE:
        return "another program has it open: close it there"
    if isinstance(error, FileExistsError | NotADirectoryError):
        return "a part of its path is a file, not a folder"
    return error.strerror or (str(error).splitlines() or [type(error).__name__])[0]


def check_is_file(path: Path, error: type[InputError] = InputError) -> None:
    """Refuse what can't be read as a file, such as a pipe."""
    if not path.is_file():
        result = "is no file" if os.path.lexists(path) else "no such file"
        raise error(f"{path}: {result}")


_LARGEST = 1 << 28
"""Size of a JSON file that is read to tell whose it is [bytes]."""


@dataclass(frozen=True)
class FolderKind:
    """A kind of folder that this package writes and may replace."""

    name: str  # such as ``"run folder"``
    marker: str  # JSON file by which it differs from others
    keys: Collection[str]  # of this file; a kind without any may lack the file
    # Returns from the file's content the relative names of all that may be in the
    # folder, as patterns of `fnmatch`
    entries: Callable[[Mapping[str, Any]], Iterable[str]]

    def foreign(self, folder: Path) -> str | None:
        """Return as a clause why a folder is not to be replaced; None if it may be."""
        if folder.is_dir() and not any(folder.iterdir()):
            return None
        content = _object(folder / self.marker)
        if not set(self.keys) <= content.keys():
            there = (folder / self.marker).is_file()
            lacks = (
                f"its {self.marker} is not diploee's" if there else f"no {self.marker}"
            )
            return (
                f"exists and is not {self.name} ({lacks}); --force replaces such "
                "folders only"
            )
        if not folder.is_dir():  # a file, a pipe, a device, or a link to one
            return f"is no folder, expected {self.name}"
        others = _entries_beyond(folder, self.entries(content))
        if others:
            return (
                f"holds {one_of(others)} besides {self.name}, which --force would "
                "remove"
            )
        return None


def _object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a foreign file, an empty one if none."""
    try:
        if path.is_file() and path.stat().st_size < _LARGEST:
            content = json.loads(path.read_bytes())
            return content if isinstance(content, dict) else {}
    except (OSError, ValueError, RecursionError):
        pass
    return {}


def _entries_beyond(folder: Path, patterns: Iterable[str]) -> list[str]:
    """Return sorted relative names of files in a folder that no pattern matches.

    What others write there, hidden, is left out.
    """
    known = tuple(patterns)
    files = (p for p in folder.rglob("*") if p.is_symlink() or not p.is_dir())
    names = sorted(path.relative_to(folder).as_posix() for path in files)
    return [
        name
        for name in names
        if not name.startswith(HIDDEN)
        and not any(
            fnmatchcase(name, pattern) and name.count("/") == pattern.count("/")
            for pattern in known
        )
    ]


# A scheme has two letters or more: 'C:/' is a drive. A `Path` has lost one of the two
# slashes.
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)?:(/|$)")


def local_place(place: Path | str, option: str = "--out") -> Path:
    """Return a place as a path of this machine.

    Refuse URLs and what can't be a name.
    """
    text = str(place)
    if not text:
        raise InputError(f"{option}: is empty; name a file or folder")
    if _URL.match(text):
        raise InputError(f"{option}: '{text}' is a URL; name a local file or folder")
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise InputError(
            f"{option}: '{text}' is not a name in UTF-8; choose another one"
        )
    return Path(place)


def check_file(
    place: Path | str,
    force: bool = False,
    *,
    inputs: Paths = (),
    replaces: Callable[[Path], bool] | None = None,
    option: str = "--out",
) -> None:
    """Refuse a place for a file that is taken, unless it may be replaced.

    `force` replaces a file, unless it is one of the `inputs` or in one; `replaces`
    returns whether a file may be replaced without it, also in a folder that is read.
    `option` names the place in errors.
    """
    if (taken := _taken(place, option)) is None:
        return
    place = taken
    if place.exists() and not place.is_file():
        result = "folder" if place.is_dir() else "device or pipe"
        raise OutputExistsError(
            f"{place}: is a {result}, expected a file; choose another {option}"
        )
    if replaces is not None and replaces(place):
        return
    for path in inputs:
        if path is not None and _is_or_holds(Path(path), place):
            raise InputError(
                f"{option}: {place} is an input of this command; give another place"
            )
    if not force:
        raise OutputExistsError(
            f"{place}: exists already; choose another {option}, or --force to replace "
            "it"
        )


def check_folder(
    place: Path | str,
    force: bool = False,
    *,
    kind: FolderKind | None = None,
    inputs: Paths = (),
    option: str = "--out",
) -> None:
    """Refuse a place for a folder that is taken, unless it may be replaced.

    `force` replaces an empty folder or one of the `kind`, unless an input is in it; the
    other arguments are those of `check_file`.
    """
    if (taken := _taken(place, option)) is None:
        return
    place = taken
    if not force or kind is None:
        remedy = "" if kind is None else ", or --force to replace it"
        raise OutputExistsError(
            f"{place}: exists already; choose another {option}{remedy}"
        )
    why = kind.foreign(place)
    if why is not None:
        raise OutputExistsError(f"{place}: {why}; choose another {option}")
    for path in (Path(), *inputs):
        if path is not None and _is_or_holds(place, Path(path)):
            what = "the current folder" if path == Path() else str(path)
            raise InputError(
                f"{place}: holds {what}, which this command needs; choose another"
            )


def is_free(place: Path) -> bool:
    """Return whether nothing is at a place, and nobody writes what shall be there."""
    hidden = place.parent.glob(f"{HIDDEN}*/{place.name}")
    return not os.path.lexists(place) and not any(hidden)


def _taken(place: Path | str, option: str) -> Path | None:
    """Return the place where something is there; refuse one where nothing can be."""
    place = local_place(place, option)
    if os.path.lexists(place):
        return place
    parent = next(
        (p for p in place.absolute().parents if os.path.lexists(p)), Path("/")
    )
    if not parent.is_dir():
        raise OutputError(
            f"{place}: can't be written ({parent} is a file, not a folder); check "
            f"{option}"
        )
    return None


def _is_or_holds(one: Path, other: Path) -> bool:
    """Return whether two names are of one file, or the first holds the second."""
    try:
        result = one.stat()
        real = Path(os.path.realpath(other))
        inside = (
            path.stat() for path in ((real, *real.parents) if one.is_dir() else (real,))
        )
        return any(os.path.samestat(result, each) for each in inside)
    except (OSError, ValueError):
        return False


_PACKAGE = Path(__file__).resolve().parents[2]

MAX_NAME_LENGTH = 150
"""Characters of a path that the message of a missing file shows."""


def shipped_folder(kind: str) -> Path:
    """Return the folder of what ships with the package.

    Parameters
    ----------
    kind : {"profiles", "scenarios"}
        Folder of the repository.
    """
    checkout = _PACKAGE.parent / kind
    if (_PACKAGE.parent / "pyproject.toml").is_file() and checkout.is_dir():
        return checkout
    return _PACKAGE / "_shipped" / kind


ShippedKind = Literal["scenario", "sweep", "limits"]
_FOLDERS = {"scenario": "", "sweep": "sweeps", "limits": "limits"}


def shipped(kind: ShippedKind) -> dict[str, Path]:
    """Return the files that ship, by name.

    Parameters
    ----------
    kind : {"scenario", "sweep", "limits"}
        Scenarios, sweeps over them, or presets of limits.
    """
    folder = shipped_folder("scenarios") / _FOLDERS[kind]
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def find_shipped(kind: ShippedKind, name_or_path: str | Path) -> Path:
    """Return the file given by path or by shipped name; there must be one."""
    have = shipped(kind)
    path = Path(name_or_path)
    if os.path.isfile(path):  # unlike pathlib's, no error for any text  # noqa: PTH113
        return path
    if str(name_or_path) in have:
        return have[str(name_or_path)]
    if os.path.isdir(path):  # noqa: PTH112
        raise ScenarioError([f"{path}: is a folder, expected a {kind} file"])
    name = str(name_or_path)
    if len(name) > MAX_NAME_LENGTH:  # its end says more
        name = f"...{name[3 - MAX_NAME_LENGTH :]}"
    raise ScenarioError(
        [
            f"{name}: no such {kind} file or shipped {kind} (shipped: {one_of(have)})"
            f"{did_you_mean(path.stem, have)}"
        ]
    )
