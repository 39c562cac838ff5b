"""The header of a CSV trace: its columns by name, whatever their case."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from diploee.errors import LogFormatError, did_you_mean, one_line, one_of, shown
from diploee.workload.importers.requests.blocks import fields_of, first_row


@dataclass(frozen=True)
class Header:
    """First line of a file that is not blank.

    Parameters
    ----------
    path : pathlib.Path
        The file, named in errors.
    line : int
        Number of the line, from 1.
    names : tuple of str
        Its fields.
    """

    path: Path
    line: int
    names: tuple[str, ...]

    @classmethod
    def of(cls, path: Path) -> Self:
        """Read the header of a file.

        Raises
        ------
        LogFormatError
            If the file can't be read, is empty, or its quotes are not in order.
        """
        line, text = first_row(path)
        names = fields_of(text)
        if names is None:
            raise LogFormatError(
                f"{path}:{line}: the header is {shown(text)}, expected column names; correct it"
            )
        return cls(path, line, tuple(names))

    def has(self, *names: str) -> bool:
        """Return whether all these columns are there."""
        return {name.casefold() for name in names} <= {name.casefold() for name in self.names}

    def place(self, name: str) -> int:
        """Return the position of a column.

        Raises
        ------
        LogFormatError
            If it is not there, or twice.
        """
        places = [i for i, other in enumerate(self.names) if other.casefold() == name.casefold()]
        if len(places) == 1:
            return places[0]
        have = one_line(one_of(self.names))
        raise LogFormatError(
            f"{self.path}:{self.line}: column '{name}' is "
            + (f"there {len(places)} times, expected once" if places else "missing")
            + f" (have: {have if len(have) <= 200 else have[:197] + '...'})"
            + did_you_mean(name, [] if places else self.names)
        )
