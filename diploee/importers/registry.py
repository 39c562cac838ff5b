"""`Formats`: formats of files by name, in the order in which a file is checked against them."""

from __future__ import annotations

from typing import Protocol, TypeVar

from diploee.model import Registry
from diploee.textio.text import Text


class FileFormat(Protocol):
    """Base of every format: a name, and a test that recognises its files."""

    @property
    def name(self) -> str:
        """As users write it, such as ``"swf"``."""
        ...

    def recognises(self, text: Text, /) -> bool:
        """Return whether a file looks like one; cheap, from its first lines."""
        ...


F = TypeVar("F", bound=FileFormat)


class Formats(Registry[F]):
    """Formats of files by name; of several that recognise a file the first is taken."""

    def recognised(self, text: Text) -> F | None:
        """Return the format of a text, None where it is of none."""
        return next((known for known in self._formats.values() if known.recognises(text)), None)
