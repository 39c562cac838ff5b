"""`Formats`: registry of file formats by name.

In the order in which a file is checked against them.
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
from diploee.importers.text.tables import header_words
from diploee.importers.text.text import TextLines

R = TypeVar("R")


@dataclass(frozen=True)
class FileFormat(Generic[R]):
    """A format of job logs or of request traces."""

    name: str  # as users write it, such as ``"swf"``
    title: str  # what it is, for lists and errors
    # Whether a file looks like one; cheap, from its first lines
    recognises: Callable[[TextLines], bool]
    read: R  # reads a file


class Formats(Registry[FileFormat[R]]):
    """Formats of files by name; of several that recognise a file the first is taken."""

    def recognised(self, text: TextLines, remedy: str = "") -> FileFormat[R]:
        """Return the format of a text, else say what to do."""
        for known in self.values():
            if known.recognises(text):
                return known
        text.fail(
            text.start_line,
            f"not a {self._what} of a known format, the first line is "
            f"{shown(text.first_row)}; give its format{option('--format')}, one of "
            f"{one_of(self)}, {remedy}",
        )


def has_columns(*names: str) -> Callable[[TextLines], bool]:
    """Return a detector of files by names in their first line, in any case."""
    return lambda text: header_words(text) >= {name.casefold() for name in names}


def leave_out(
    kept: BoolArray, causes: Iterable[tuple[str, BoolArray]], dropped: Counter[str]
) -> None:
    """Take rows out of those kept, and count them by the first cause that applies."""
    for cause, mask in causes:
        dropped[cause] += int(np.count_nonzero(kept & mask))
        kept &= ~mask
