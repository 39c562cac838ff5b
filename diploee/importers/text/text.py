"""Foreign text that is safe to parse.

Unpacked, UTF-8, lines ended by LF, with their numbers.
"""

from __future__ import annotations

import codecs
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from diploee.base.errors import Brief, LogFormatError, one_line
from diploee.base.tables import Int64Array
from diploee.importers.text.source import (
    open_file,
    read_bytes,
    unpacked,
    unpacked_pieces,
)

CHUNK_BYTES = 1 << 24
HEAD_BYTES = 1 << 16
LONGEST_LINE_BYTES = 1 << 23

_NOT_TEXT = {
    b"PK\x03\x04": "a zip archive",
    b"PAR1": "a Parquet file",
    b"\xff\xfe": "UTF-16 text",
    b"\xfe\xff": "UTF-16 text",
}
_FILLED = re.compile(rb"\S")
_NEWLINE, _SPACE = ord("\n"), ord(" ")
_MAY_STAND = np.zeros(256, dtype=bool)
_MAY_STAND[[9, 10, 13]] = True

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Text(Brief):
    """Whole lines of a text file."""

    path: Path  # named in errors
    # The lines: UTF-8 without a byte order mark, no control bytes, ended by LF
    data: bytes
    first_line: int = 1  # number of the first line in the file, from 1
    # Hash of the file as it is stored; empty where it was not asked for
    sha256: str = ""

    @cached_property
    def head(self) -> str:
        """The first lines, 64 KiB at most, without blank lines before them."""
        return self.data[self.start : self.start + HEAD_BYTES].decode(
            "utf-8", "replace"
        )

    @property
    def first_row(self) -> str:
        """The first line that is not blank."""
        return self.head.partition("\n")[0]

    @cached_property
    def start(self) -> int:
        """Byte where the first line that is not blank begins."""
        first = _FILLED.search(self.data)
        return self.data.rfind(b"\n", 0, first.start() if first else 0) + 1

    @property
    def start_line(self) -> int:
        """Number of the first line that is not blank."""
        return self.line_at(self.start)

    def line_at(self, offset: int) -> int:
        """Return the line of a byte, from 1."""
        return self.data.count(b"\n", 0, offset) + self.first_line

    def filled_lines(self, start: int) -> Int64Array:
        """Return the numbers of the lines from a byte on that are not empty."""
        newlines = [
            np.flatnonzero(_raw(self.data[first : first + CHUNK_BYTES]) == _NEWLINE)
            + first
            for first in range(start, len(self.data), CHUNK_BYTES)
        ]
        ends = np.concatenate([*newlines, [len(self.data)]])
        starts = np.concatenate(([start], ends[:-1] + 1))
        return np.flatnonzero(ends > starts) + self.line_at(start)

    def rows(self) -> Iterator[tuple[int, str]]:
        """Yield the number and the text of each line that is not blank."""
        for number, line in enumerate(self.data.decode().split("\n"), self.first_line):
            if line and not line.isspace():
                yield number, line

    def after(self, offset: int) -> Text:
        """Return the lines from a byte on, which begins one."""
        return replace(self, data=self.data[offset:], first_line=self.line_at(offset))

    def upto(self, offset: int) -> Text:
        """Return the lines before a byte, which begins one."""
        return replace(self, data=self.data[:offset])

    def without_comments(self, sign: str) -> Text:
        """Return the text with lines that begin with a sign left empty."""
        mark = sign.encode()
        if mark not in self.data:
            return self
        comment = re.compile(rb"^[ \t]*" + re.escape(mark) + rb"[^\n]*", re.M)
        parts = (
            comment.sub(b"", part) if mark in part else part for part in self._parts()
        )
        return replace(self, data=b"".join(parts))

    def single_spaced(self) -> Text:
        """Return the text with single blanks between words, and none around."""
        return replace(self, data=b"".join(map(_single_spaced, self._parts())))

    def _parts(self) -> Iterator[bytes]:
        """Yield the lines, about `CHUNK_BYTES` at a time."""
        offset = 0
        while offset < len(self.data):
            end = self.data.rfind(b"\n", offset, offset + CHUNK_BYTES) + 1
            end = end or self.data.find(b"\n", offset) + 1 or len(self.data)
            yield self.data[offset:end]
            offset = end

    def fail(self, line: int, problem: str) -> NoReturn:
        """Raise a `LogFormatError` about a line."""
        raise LogFormatError(f"{self.path}:{line}: {one_line(problem)}")


def read_text(path: Path, expected: str, *, hashed: bool = False) -> Text:
    """Read a text file as a whole, packed or not."""
    stored = read_bytes(path)
    sha256 = hashlib.sha256(stored).hexdigest() if hashed else ""
    return text_of(path, stored, expected, sha256)


def text_of(path: Path, stored: bytes, expected: str, sha256: str = "") -> Text:
    """Return the content of a file, as it is stored, as text.

    Arguments as in `read_text`.
    """
    data = unpacked(path, stored)
    _check_kind(path, data)
    data = b"".join(_plain(iter([data])))
    _check_text(path, data, 1)
    if not data or data.isspace():
        raise LogFormatError(
            f"{path}:1: the file is empty, expected {expected}; give a complete file"
        )
    return Text(path, data, sha256=sha256)


def read_blocks(path: Path) -> Iterator[Text]:
    """Read a text file of any length a few MiB at a time."""
    line, rest = 1, b""
    with open_file(path) as file:
        pieces = unpacked_pieces(path, file)
        first = next(pieces, b"")
        _check_kind(path, first)
        for piece in _plain(chain([first], pieces)):
            head, newline, tail = piece.rpartition(b"\n")
            if not newline:
                rest += piece
            else:
                data = rest + head + newline
                _check_text(path, data, line)
                yield Text(path, data, line)
                line += data.count(b"\n")
                rest = tail
            if len(rest) > LONGEST_LINE_BYTES:
                raise LogFormatError(
                    f"{path}:{line}: a line of more than "
                    f"{LONGEST_LINE_BYTES / 2**20:g} MiB, expected one row a line; is "
                    "this the log itself?"
                )
    if rest:
        _check_text(path, rest, line)
        yield Text(path, rest, line)


def first_block(path: Path, expected: str = "text") -> tuple[Text, Iterator[Text]]:
    """Return the first block of a file that is not blank, and all blocks from it on."""
    blocks = read_blocks(path)
    for block in blocks:
        if not block.data.isspace():
            return block, chain([block], blocks)
    raise LogFormatError(
        f"{path}:1: the file is empty, expected {expected}; give a complete file"
    )


def _plain(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield pieces without a byte order mark, their lines ended by LF."""
    held = codecs.BOM_UTF8  # compared with the beginning
    is_first = True
    for piece in pieces:
        if is_first:
            piece, held, is_first = piece.removeprefix(held), b"", False
        piece, held = held + piece if held else piece, b""
        if piece.endswith(b"\r"):  # its LF may begin the next piece
            piece, held = piece[:-1], b"\r"
        if b"\r" in piece:
            piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        yield piece
    if not is_first and held:
        yield b"\n"


def _check_kind(path: Path, data: bytes) -> None:
    kind = next(
        (name for magic, name in _NOT_TEXT.items() if data.startswith(magic)), None
    )
    if data[257:262] == b"ustar":
        kind = "a tar archive"
    if kind:
        raise LogFormatError(
            f"{path}:1: found {kind}, expected UTF-8 text, plain or packed; unpack or "
            "convert it"
        )


def _check_text(path: Path, data: bytes, first_line: int) -> None:
    for first in range(0, len(data), CHUNK_BYTES):
        chunk = _raw(data[first : first + CHUNK_BYTES])
        low = np.flatnonzero(chunk < _SPACE)
        control = low[~_MAY_STAND[chunk[low]]]
        if control.size:
            _fail_byte(
                path, data, first + int(control[0]), "a control byte", first_line
            )
    if data.isascii():
        return
    decoder = codecs.getincrementaldecoder("utf-8")()
    for first in range(0, len(data), CHUNK_BYTES):
        n_pending = len(decoder.getstate()[0])
        is_last = first + CHUNK_BYTES >= len(data)
        try:
            decoder.decode(data[first : first + CHUNK_BYTES], final=is_last)
        except UnicodeDecodeError as error:
            offset = first - n_pending + error.start
            _fail_byte(path, data, offset, "a byte that is not UTF-8", first_line)


def _fail_byte(
    path: Path, data: bytes, offset: int, what: str, first_line: int
) -> NoReturn:
    line = data.count(b"\n", 0, offset) + first_line
    raise LogFormatError(
        f"{path}:{line}: found {what} (0x{data[offset]:02x}), expected UTF-8 text; "
        "convert the file to UTF-8 or export it again"
    )


def _raw(data: bytes) -> Bytes:
    return np.frombuffer(data, dtype=np.uint8)


def _single_spaced(lines: bytes) -> bytes:
    raw = _raw(lines.replace(b"\t", b" "))
    is_space, is_gap = raw == _SPACE, (raw == _SPACE) | (raw == _NEWLINE)
    # One at most, none before
    raw = raw[~(is_space & np.concatenate(([True], is_gap[:-1])))]
    is_last = np.concatenate((raw[1:] == _NEWLINE, [True]))
    return bytes(raw[~((raw == _SPACE) & is_last[: raw.size])])
