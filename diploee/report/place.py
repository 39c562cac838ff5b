"""What a report may replace: another report, and anything else only when told so."""

from __future__ import annotations

import os
from pathlib import Path

from diploee.errors import OutputExistsError

MARK = '<meta name="generator" content="diploee'
_HEAD_BYTES = 2_000


def check_replaceable(place: Path, force: bool = False) -> None:
    """Check before any work that a report may stand at `place`.

    A report of diploee is replaced, as it can be made again from the run folders; anything else
    only with `force`, and a folder never.

    Raises
    ------
    OutputExistsError
        If something else stands there.
    """
    if place.is_dir():
        raise OutputExistsError(f"{place}: is a folder; --out names a file such as report.html")
    if force or not os.path.lexists(place):
        return
    try:
        with place.open("rb") as file:
            is_report = MARK.encode() in file.read(_HEAD_BYTES)
    except OSError:
        is_report = False
    if not is_report:
        raise OutputExistsError(
            f"{place}: exists and is not a report of diploee; choose another --out, or --force "
            "to replace it"
        )
