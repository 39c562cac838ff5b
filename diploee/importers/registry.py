"""`Formats`: formats of files by name.

In the order in which a file is checked against them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from diploee.base.model import Registry
from diploee.importers.text.tables import header_words
from diploee.importers.text.text import Text

R = TypeVar("R")


@dataclass(frozen=True)
class FileFormat(Generic[R]):
    """A format of job logs or of request traces."""

    name: str  # as users write it, such as ``"swf"``
    title: str  # what it is, for lists and errors
    # Whether a file looks like one; cheap, from its first lines
    recognises: Callable[[Text], bool]
    read: R  # reads a file


class Formats(Registry[FileFormat[R]]):
    """Formats of files by name; of several that recognise a file the first is taken."""

    def recognised(self, text: Text) -> FileFormat[R] | None:
        """Return the format of a text, None where it is of none."""
        return next((known for known in self.values() if known.recognises(text)), None)


def has_columns(*names: str) -> Callable[[Text], bool]:
    """Return what recognises a file by names in its first line, in any case."""
    return lambda text: header_words(text) >= {name.casefold() for name in names}
