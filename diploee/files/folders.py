"""Kinds of folders: how one of this package is told from anything else."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from diploee.errors import one_of
from diploee.files.staging import remove_leftovers

_LARGEST = 1 << 28
"""Size of a JSON file that is read to tell whose it is [bytes]."""


@dataclass(frozen=True)
class FolderKind:
    """A kind of folder that this package writes and may replace.

    Parameters
    ----------
    name : str
        What it is called, such as ``"run folder"``.
    marker : str
        Its JSON file that tells it from others.
    keys : collection of str
        Keys that this file has; a kind that asks for none may lack the file.
    entries : callable
        Returns from the file's content the relative names of all that may be in the folder, as
        patterns of `fnmatch`.
    """

    name: str
    marker: str
    keys: Collection[str]
    entries: Callable[[Mapping[str, Any]], Iterable[str]]

    def foreign(self, folder: Path) -> str | None:
        """Return as a clause why a folder is not to be replaced; None if it may be."""
        remove_leftovers(folder)
        if folder.is_dir() and not any(folder.iterdir()):
            return None
        content = _object(folder / self.marker)
        if not set(self.keys) <= content.keys():
            there = (folder / self.marker).is_file()
            lacks = f"its {self.marker} is not diploee's" if there else f"no {self.marker}"
            return f"exists and is not {self.name} ({lacks}); --force replaces such folders only"
        if not folder.is_dir():  # a file, a pipe, a device, or a link to one
            return f"is no folder, expected {self.name}"
        others = entries_beyond(folder, self.entries(content))
        if others:
            return f"holds {one_of(others)} besides {self.name}, which --force would remove"
        return None


def _object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file of anybody's, an empty one where there is none."""
    try:
        if path.is_file() and path.stat().st_size < _LARGEST:
            content = json.loads(path.read_bytes())
            return content if isinstance(content, dict) else {}
    except (OSError, ValueError, RecursionError):
        pass
    return {}


def entries_beyond(folder: Path, patterns: Iterable[str]) -> list[str]:
    """Return the relative names of what is in a folder beyond what the patterns name, sorted."""
    known = tuple(patterns)
    below = {pattern.rpartition("/")[0] for pattern in known}
    others = []
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        is_folder = path.is_dir() and not path.is_symlink()
        is_known = any(
            fnmatchcase(name, pattern) and name.count("/") == pattern.count("/")
            for pattern in known
        )
        if not (is_known or (is_folder and name in below)):
            others.append(name)
    return others
