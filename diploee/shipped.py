"""Where the shipped scenarios and profiles lie: in the wheel, or atop a source checkout."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from diploee.errors import ScenarioError, did_you_mean, one_of

_PACKAGE = Path(__file__).resolve().parent

LONGEST_NAME = 150
"""Characters of a path that the message of a missing file shows."""


def shipped_folder(kind: str) -> Path:
    """Return the folder of what ships with the package."""
    checkout = _PACKAGE.parent / kind
    if (_PACKAGE.parent / "pyproject.toml").is_file() and checkout.is_dir():
        return checkout
    return _PACKAGE / "_shipped" / kind


def find_shipped(what: str, name_or_path: str | Path, shipped: Mapping[str, Path]) -> Path:
    """Return the file given by path or by shipped name."""
    path = Path(name_or_path)
    if os.path.isfile(path):  # noqa: PTH113  # unlike pathlib's, no error for any text
        return path
    if str(name_or_path) in shipped:
        return shipped[str(name_or_path)]
    if os.path.isdir(path):  # noqa: PTH112
        raise ScenarioError([f"{path}: is a folder, expected a {what} file"])
    name = str(name_or_path)
    if len(name) > LONGEST_NAME:  # its end says more
        name = f"...{name[3 - LONGEST_NAME :]}"
    raise ScenarioError(
        [
            f"{name}: no such {what} file or shipped {what} (shipped: {one_of(shipped)})"
            f"{did_you_mean(path.stem, shipped)}"
        ]
    )
