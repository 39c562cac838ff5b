"""A text file of any length as blocks of whole lines that know their line numbers."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NoReturn, cast

from diploee.errors import LogFormatError

BLOCK_BYTES = 8 * 2**20
"""Bytes read at a time: some 200,000 requests, so that memory does not grow with the file."""

LONGEST_LINE_BYTES = 16 * 2**20

_GZIP = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Block:
    """Whole lines of a file.

    Parameters
    ----------
    path : pathlib.Path
        The file, named in errors.
    data : bytes
        The lines.
    first_line : int
        Number of the first one in the file, from 1.
    """

    path: Path
    data: bytes
    first_line: int

    def rows(self) -> Iterator[tuple[int, bytes]]:
        """Yield the number and the bytes of each line that is not blank."""
        for number, line in enumerate(self.data.splitlines(), self.first_line):
            if line.strip():
                yield number, line

    def text_rows(self) -> Iterator[tuple[int, str]]:
        """Yield the number and the text of each line that is not blank.

        Raises
        ------
        LogFormatError
            If a line is not UTF-8.
        """
        for number, line in self.rows():
            try:
                yield number, line.decode()
            except UnicodeDecodeError as error:
                self.fail(
                    number,
                    f"found a byte that is not UTF-8 (0x{line[error.start]:02x}), "
                    "expected UTF-8 text; convert the file",
                )

    def line_of_row(self, row: int) -> int:
        """Return the line number of the row-th line that is not blank, counted from 0."""
        numbers = (number for index, (number, _) in enumerate(self.rows()) if index == row)
        return next(numbers, self.first_line)

    def fail(self, line: int, problem: str) -> NoReturn:
        """Raise a `LogFormatError` about a line of the file, counted from 1."""
        raise LogFormatError(f"{self.path}:{line}: {problem}")


def fail_to_read(path: Path, error: OSError | ValueError) -> NoReturn:
    """Raise a `LogFormatError` for a file or folder that the system does not give."""
    why = error.strerror if isinstance(error, OSError) else error
    raise LogFormatError(f"{path}: can't be read ({why}); give a readable file") from error


def read_blocks(path: Path) -> Iterator[Block]:
    """Read a file, plain or gzip by its first bytes, as blocks of whole lines.

    Parameters
    ----------
    path : pathlib.Path
        The file.

    Yields
    ------
    Block
        Of about `BLOCK_BYTES`; none for an empty file.

    Raises
    ------
    LogFormatError
        If it can't be read or unpacked, or a line is longer than `LONGEST_LINE_BYTES`.
    """
    line, rest = 1, b""
    try:
        with path.open("rb") as raw:
            packed = raw.peek(2)[:2] == _GZIP
            file = cast(BinaryIO, gzip.GzipFile(fileobj=raw)) if packed else raw
            while piece := file.read(BLOCK_BYTES):
                if line == 1 and not rest:
                    piece = piece.removeprefix(_BYTE_ORDER_MARK)
                head, newline, tail = piece.rpartition(b"\n")
                if newline:
                    data = rest + head + newline
                    yield Block(path, data, line)
                    line += data.count(b"\n")
                    rest = tail
                else:
                    rest += piece
                if len(rest) > LONGEST_LINE_BYTES:
                    raise LogFormatError(
                        f"{path}:{line}: a line of more than {LONGEST_LINE_BYTES // 2**20} MiB, "
                        "expected one request a line; give the trace as text, unpacked"
                    )
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise LogFormatError(
            f"{path}:{line}: the gzip data are damaged or cut off here ({error}); fetch the file "
            "again"
        ) from error
    except (OSError, ValueError) as error:
        fail_to_read(path, error)
    if rest:
        yield Block(path, rest, line)


def first_row(path: Path) -> tuple[int, str]:
    """Return the number and the text of the first line that is not blank.

    Raises
    ------
    LogFormatError
        If the file can't be read, holds no such line, or it is not UTF-8.
    """
    for block in read_blocks(path):
        for number, text in block.text_rows():
            return number, text
    raise LogFormatError(f"{path}:1: the file is empty, expected requests; give a complete trace")


def fields_of(text: str) -> list[str] | None:
    """Return the comma-separated fields of a line, stripped; None where its quoting is broken."""
    try:
        return [field.strip() for field in next(csv.reader([text], strict=True))]
    except (csv.Error, StopIteration):
        return None
