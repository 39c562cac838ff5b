"""Paths: checks of output paths, identification of output folders, shipped files."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from diploee.base.errors import (
    InputError,
    OutputExistsError,
    ScenarioError,
    did_you_mean,
    one_of,
)

Paths = Iterable[Path | str | None]

HIDDEN = ".diploee-"
"""Prefix of the hidden folder into which a result is written before it is moved."""
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_IN_USE = (5, 32, 33)
"""Windows error codes of a file in use: access denied, sharing violation, lock
violation."""


def reason(error: OSError) -> str:
    """Return a short reason for an `OSError`, such as ``Permission denied``."""
    if error.errno in _DISK_FULL:
        return "the disk is full"
    if getattr(error, "winerror", None) in _IN_USE:
        return "another program has it open: close it there"
    if isinstance(error, FileExistsError | NotADirectoryError):
        return "a part of its path is a file, not a folder"
    return error.strerror or (str(error).splitlines() or [type(error).__name__])[0]


def check_is_file(path: Path, error: type[InputError] = InputError) -> None:
    """Raise an error unless the path is a regular file."""
    if not path.is_file():
        result = "is no file" if os.path.lexists(path) else "no such file"
        raise error(f"{path}: {result}")


_MAX_MARKER_BYTES = 1 << 28
"""Maximum size of a marker file that is parsed to identify a folder [bytes]."""


@dataclass(frozen=True)
class FolderKind:
    """A kind of output folder that this package writes and may replace."""

    name: str  # such as ``"run folder"``
    marker: str  # name of the JSON file that identifies the folder
    keys: Collection[str]  # keys required in the marker; without keys it may be absent
    # Function of the marker's content that returns the relative names of all files that
    # the folder may contain, as patterns of `fnmatch`
    entries: Callable[[Mapping[str, Any]], Iterable[str]]

    def refusal(self, folder: Path) -> str | None:
        """Return the reason why a folder must not be replaced, or None if it may be."""
        if folder.is_dir() and not any(folder.iterdir()):
            return None
        content = _read_json_object(folder / self.marker)
        if not set(self.keys) <= content.keys():
            has_marker = (folder / self.marker).is_file()
            mismatch = (
                f"its {self.marker} is not diploee's"
                if has_marker
                else f"no {self.marker}"
            )
            return (
                f"exists and is not {self.name} ({mismatch}); --force replaces such "
                "folders only"
            )
        if not folder.is_dir():  # a file, a pipe, a device, or a link to one
            return f"is no folder, expected {self.name}"
        extra_files = _unexpected_files(folder, self.entries(content))
        if extra_files:
            return (
                f"holds {one_of(extra_files)} besides {self.name}, which --force would "
                "remove"
            )
        return None


def _read_json_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file, or an empty dict if there is none."""
    try:
        if path.is_file() and path.stat().st_size < _MAX_MARKER_BYTES:
            content = json.loads(path.read_bytes())
            return content if isinstance(content, dict) else {}
    except (OSError, ValueError, RecursionError):
        pass
    return {}


def _unexpected_files(folder: Path, patterns: Iterable[str]) -> list[str]:
    """Return the sorted relative names of files that match no pattern.

    Hidden folders of other writers are ignored.
    """
    allowed = tuple(patterns)
    files = (p for p in folder.rglob("*") if p.is_symlink() or not p.is_dir())
    names = sorted(path.relative_to(folder).as_posix() for path in files)
    return [
        name
        for name in names
        if not name.startswith(HIDDEN)
        and not any(
            fnmatchcase(name, pattern) and name.count("/") == pattern.count("/")
            for pattern in allowed
        )
    ]


# A scheme has two letters or more: 'C:/' is a drive. A `Path` has lost one of the two
# slashes.
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)?:(/|$)")


def local_path(path: Path | str, option: str = "--out") -> Path:
    """Return a path on the local machine; refuse URLs and invalid names."""
    text = str(path)
    if not text:
        raise InputError(f"{option}: is empty; name a file or folder")
    if _URL.match(text):
        raise InputError(f"{option}: '{text}' is a URL; name a local file or folder")
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise InputError(
            f"{option}: '{text}' is not a name in UTF-8; choose another one"
        )
    return Path(path)


def check_output_file(
    path: Path | str,
    force: bool = False,
    *,
    inputs: Paths = (),
    replaces: Callable[[Path], bool] | None = None,
    option: str = "--out",
) -> None:
    """Raise an error if an output file exists, unless it may be replaced.

    `force` permits replacing a file, unless it is one of the `inputs` or lies within
    one. `replaces` is a function that returns True for a file that may be replaced
    without `force`. `option` is the name of the path in error messages.
    """
    if (existing := _existing_path(path, option)) is None:
        return
    path = existing
    if path.exists() and not path.is_file():
        actual = "folder" if path.is_dir() else "device or pipe"
        raise OutputExistsError(
            f"{path}: is a {actual}, expected a file; choose another {option}"
        )
    if replaces is not None and replaces(path):
        return
    for input_path in inputs:
        if input_path is not None and _is_same_or_contains(Path(input_path), path):
            raise InputError(
                f"{option}: {path} is an input of this command; give another place"
            )
    if not force:
        raise OutputExistsError(
            f"{path}: exists already; choose another {option}, or --force to replace it"
        )


def check_output_folder(
    path: Path | str,
    force: bool = False,
    *,
    kind: FolderKind | None = None,
    inputs: Paths = (),
    option: str = "--out",
) -> None:
    """Raise an error if an output folder exists, unless it may be replaced.

    `force` permits replacing an empty folder or one of the `kind`, unless an input lies
    in it. The other arguments are those of `check_output_file`.
    """
    if (existing := _existing_path(path, option)) is None:
        return
    path = existing
    if not force or kind is None:
        remedy = "" if kind is None else ", or --force to replace it"
        raise OutputExistsError(
            f"{path}: exists already; choose another {option}{remedy}"
        )
    refusal = kind.refusal(path)
    if refusal is not None:
        raise OutputExistsError(f"{path}: {refusal}; choose another {option}")
    for needed in (Path(), *inputs):
        if needed is not None and _is_same_or_contains(path, Path(needed)):
            name = "the current folder" if needed == Path() else str(needed)
            raise InputError(
                f"{path}: holds {name}, which this command needs; choose another"
            )


def is_free(path: Path) -> bool:
    """Return True if a path does not exist and no process is writing to it."""
    hidden = path.parent.glob(f"{HIDDEN}*/{path.name}")
    return not os.path.lexists(path) and not any(hidden)


def _existing_path(path: Path | str, option: str) -> Path | None:
    """Return the path if it exists, or None; refuse a path that can't be created.

    Only creating a folder beside it shows whether it can.
    """
    path = local_path(path, option)
    if os.path.lexists(path):
        return path
    parent = next((p for p in path.absolute().parents if os.path.lexists(p)), Path("/"))
    why = f"{parent} is a file, not a folder"
    if parent.is_dir():
        try:
            with TemporaryDirectory(prefix=HIDDEN, dir=parent):
                return None
        except OSError as error:
            if error.errno in _DISK_FULL:  # the writer says so
                return None
            why = reason(error)
    raise InputError(f"{path}: can't be written ({why}); check {option}")


def _is_same_or_contains(outer: Path, inner: Path) -> bool:
    """Return True if both paths are the same file, or the first contains the second."""
    try:
        outer_stat = outer.stat()
        real = Path(os.path.realpath(inner))
        ancestors = (
            path.stat()
            for path in ((real, *real.parents) if outer.is_dir() else (real,))
        )
        return any(os.path.samestat(outer_stat, stat) for stat in ancestors)
    except (OSError, ValueError):
        return False


_PACKAGE = Path(__file__).resolve().parents[2]

MAX_NAME_LENGTH = 150
"""Maximum length of a path in the message of a missing file [characters]."""


def shipped_folder(kind: str) -> Path:
    """Return a folder of files that ship with the package.

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
    """Return the shipped files of a kind, by name.

    Parameters
    ----------
    kind : {"scenario", "sweep", "limits"}
        Scenarios, sweeps over them, or presets of limits.
    """
    folder = shipped_folder("scenarios") / _FOLDERS[kind]
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def find_shipped(kind: ShippedKind, name_or_path: str | Path) -> Path:
    """Return the file with a path or shipped name, or raise an error."""
    files = shipped(kind)
    if not str(name_or_path).strip():
        raise ScenarioError([f"no {kind} given (shipped: {one_of(files)})"])
    path = Path(name_or_path)
    if os.path.isfile(path):  # unlike pathlib's, no error for any text  # noqa: PTH113
        return path
    if str(name_or_path) in files:
        return files[str(name_or_path)]
    if os.path.isdir(path):  # noqa: PTH112
        raise ScenarioError([f"{path}: is a folder, expected a {kind} file"])
    name = str(name_or_path)
    if len(name) > MAX_NAME_LENGTH:  # its end says more
        name = f"...{name[3 - MAX_NAME_LENGTH :]}"
    raise ScenarioError(
        [
            f"{name}: no such {kind} file or shipped {kind} (shipped: {one_of(files)})"
            f"{did_you_mean(path.stem, files)}"
        ]
    )
