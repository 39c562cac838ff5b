"""`Formats`: registry of file formats by name, with detection of a file's format.

Formats are tried in the order of their registration.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from diploee.base.errors import one_of, option, shown
from diploee.base.model import Registry
from diploee.base.tables import BoolArray
from diploee.importers.text.delimited_tables import header_fields
from diploee.importers.text.text_lines import TextLines

R = TypeVar("R")


@dataclass(frozen=True)
class FileFormat(Generic[R]):
    """A file format of job logs or request traces, with its detector and reader."""

    name: str  # as users write it, such as ``"swf"``
    title: str  # description for lists and errors
    # Cheap test of a file's first lines for this format
    recognises: Callable[[TextLines], bool]
    read: R  # reader of a file


class Formats(Registry[FileFormat[R]]):
    """Registry of file formats by name, with detection of a file's format."""

    def detect(self, text: TextLines, remedy: str = "") -> FileFormat[R]:
        """Return the first format that recognises a text; else fail with a remedy."""
        for form in self.values():
            if form.recognises(text):
                return form
        text.fail(
            text.start_line,
            f"not a {self._what} of a known format: the first line is "
            f"{shown(text.first_row)}; specify the format{option('--format')}, one of "
            f"{one_of(self)}, {remedy}",
        )


def detects_columns(*names: str) -> Callable[[TextLines], bool]:
    """Return a detector of files whose first line has all the names, ignoring case."""
    return lambda text: header_fields(text) >= {name.casefold() for name in names}


def drop_rows(
    kept: BoolArray, causes: Iterable[tuple[str, BoolArray]], dropped: Counter[str]
) -> None:
    """Clear dropped rows in the mask `kept`, and count them by their first cause."""
    for cause, mask in causes:
        dropped[cause] += int(np.count_nonzero(kept & mask))
        kept &= ~mask
