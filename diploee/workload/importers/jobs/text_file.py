"""One foreign text file as bytes that are safe to parse: unpacked, UTF-8, lines ended by LF."""

from __future__ import annotations

import codecs
import gzip
import re
import zlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NoReturn

import numpy as np

from diploee.errors import LogFormatError, one_line
from diploee.files import reason
from diploee.tables import Int64Array

CHUNK_BYTES = 1 << 24
HEAD_BYTES = 1 << 16

_GZIP = b"\x1f\x8b"
_NOT_TEXT = {
    b"PK\x03\x04": "a zip archive",
    b"\xfd7zXZ\x00": "an xz file",
    b"BZh": "a bzip2 file",
    b"\x28\xb5\x2f\xfd": "a zstd file",
    b"PAR1": "a Parquet file",
    b"\xff\xfe": "UTF-16 text",
    b"\xfe\xff": "UTF-16 text",
}
_FILLED = re.compile(rb"\S")
_NEWLINE = ord("\n")
_IS_CONTROL = np.zeros(256, dtype=bool)
_IS_CONTROL[:32] = True
_IS_CONTROL[[9, 10, 13]] = False


@dataclass(frozen=True, eq=False)
class TextFile:
    """A text file in memory.

    Parameters
    ----------
    path : pathlib.Path
        Named in errors.
    data : bytes
        The content: UTF-8 without a byte order mark, no control bytes, lines ended by LF.
    """

    path: Path
    data: bytes

    @cached_property
    def head(self) -> str:
        """The first lines, 64 KiB at most, without blank lines before them."""
        return self.data[self.start : self.start + HEAD_BYTES].decode("utf-8", "replace")

    @cached_property
    def start(self) -> int:
        """Byte where the first line that is not blank begins."""
        first = _FILLED.search(self.data)
        return self.data.rfind(b"\n", 0, first.start() if first else 0) + 1

    def line_at(self, place: int) -> int:
        """Return the line of a byte, from 1."""
        return self.data.count(b"\n", 0, place) + 1

    def filled_lines(self, start: int) -> Int64Array:
        """Return the numbers of the lines from a byte on that are not empty, from 1."""
        newlines = [
            np.flatnonzero(
                np.frombuffer(self.data[first : first + CHUNK_BYTES], dtype=np.uint8) == _NEWLINE
            )
            + first
            for first in range(start, len(self.data), CHUNK_BYTES)
        ]
        ends = np.concatenate([*newlines, [len(self.data)]])
        starts = np.concatenate(([start], ends[:-1] + 1))
        return np.flatnonzero(ends > starts) + self.line_at(start)

    def fail(self, line: int, problem: str) -> NoReturn:
        """Raise a `LogFormatError` about a line, counted from 1."""
        raise LogFormatError(f"{self.path}:{line}: {one_line(problem)}")


def read_text(path: Path) -> TextFile:
    """Read a text file, packed with gzip or not.

    Parameters
    ----------
    path : pathlib.Path
        The file; what it is packed with is told by its content, not by its name.

    Raises
    ------
    LogFormatError
        If it can't be read or unpacked, is empty or is not UTF-8 text.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise LogFormatError(
            f"{path}: can't be read ({reason(error)}); give a readable file"
        ) from error
    except ValueError as error:  # a path that no system can have
        raise LogFormatError(f"{one_line(str(path))}: can't be read ({error})") from error
    if data.startswith(_GZIP):
        data = _unpacked(path, data)
    data = data.removeprefix(codecs.BOM_UTF8)
    _check_kind(path, data)
    _check_text(path, data)
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if not data or data.isspace():
        raise LogFormatError(
            f"{path}:1: the file is empty, expected a job log; give a complete log"
        )
    return TextFile(path, data)


def _unpacked(path: Path, data: bytes) -> bytes:
    try:
        return gzip.decompress(data)
    except EOFError as error:
        raise LogFormatError(
            f"{path}: the gzip stream ends before its end; copy the file again"
        ) from error
    except (OSError, zlib.error) as error:
        raise LogFormatError(f"{path}: not a whole gzip file ({error}); pack it again") from error


def _check_kind(path: Path, data: bytes) -> None:
    kind = next((name for magic, name in _NOT_TEXT.items() if data.startswith(magic)), None)
    if data[257:262] == b"ustar":
        kind = "a tar archive"
    if kind:
        raise LogFormatError(
            f"{path}:1: found {kind}, expected UTF-8 text, plain or packed with gzip; "
            "unpack or convert it"
        )


def _check_text(path: Path, data: bytes) -> None:
    decoder = codecs.getincrementaldecoder("utf-8")()
    is_ascii = data.isascii()
    for first in range(0, len(data), CHUNK_BYTES):
        chunk = data[first : first + CHUNK_BYTES]
        control = _IS_CONTROL[np.frombuffer(chunk, dtype=np.uint8)]
        if control.any():
            _fail_byte(path, data, first + int(np.argmax(control)), "a control byte")
        if is_ascii:
            continue
        n_pending = len(decoder.getstate()[0])
        try:
            decoder.decode(chunk, final=first + CHUNK_BYTES >= len(data))
        except UnicodeDecodeError as error:
            _fail_byte(path, data, first - n_pending + error.start, "a byte that is not UTF-8")


def _fail_byte(path: Path, data: bytes, place: int, what: str) -> NoReturn:
    line = data.count(b"\n", 0, place) + 1
    raise LogFormatError(
        f"{path}:{line}: found {what} (0x{data[place]:02x}), expected UTF-8 text; "
        "convert the file to UTF-8 or export it again"
    )
