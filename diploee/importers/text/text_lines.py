"""Text lines of a foreign file with line numbers, decoded and checked before parsing.

The text is UTF-8 with LF line ends. A Parquet file is converted to CSV text.
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
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from diploee.base.errors import Brief, LogFormatError, one_line
from diploee.base.tables import Int64Array
from diploee.importers.text.file_bytes import (
    MAX_UNPACKED_BYTES,
    decompress,
    decompress_chunks,
    fail_size,
    open_file,
    read_bytes,
)

HEAD_BYTES = 1 << 16
MAX_LINE_BYTES = 1 << 23

_PARQUET = b"PAR1"
_NOT_TEXT = {
    b"PK\x03\x04": "a zip archive",
    _PARQUET: "a Parquet file",
    b"\xff\xfe": "UTF-16 text",
    b"\xfe\xff": "UTF-16 text",
}
_FILLED = re.compile(rb"\S")
_CONTROL = bytes({*range(32)} - {*b"\t\n\r"})


@dataclass(frozen=True, eq=False)
class TextLines(Brief):
    """Whole lines of a text file, with line numbers for errors."""

    path: Path  # named in errors
    # UTF-8 lines without a byte order mark or control bytes, ended by LF
    data: bytes
    first_line: int = 1  # line number of the first line in the file, from 1
    sha256: str = ""  # hash of the stored file; empty for a part of a file

    @cached_property
    def head(self) -> str:
        """First 64 KiB of text from the first non-blank line on."""
        return self.data[self.start : self.start + HEAD_BYTES].decode(
            "utf-8", "replace"
        )

    @property
    def first_row(self) -> str:
        """Text of the first non-blank line."""
        return self.head.partition("\n")[0]

    @cached_property
    def start(self) -> int:
        """Byte offset of the first non-blank line."""
        first = _FILLED.search(self.data)
        return self.data.rfind(b"\n", 0, first.start() if first else 0) + 1

    @property
    def start_line(self) -> int:
        """Line number of the first non-blank line."""
        return self.line_at(self.start)

    def line_at(self, offset: int) -> int:
        """Return the line number at a byte offset, from 1."""
        return self.data.count(b"\n", 0, offset) + self.first_line

    def filled_line_numbers(self, start: int) -> Int64Array:
        """Return the line numbers of non-empty lines from a byte offset on."""
        raw = np.frombuffer(self.data, np.uint8, offset=start)
        ends = np.append(np.flatnonzero(raw == ord("\n")), raw.size)
        return np.flatnonzero(np.diff(ends, prepend=-1) > 1) + self.line_at(start)

    def rows(self) -> Iterator[tuple[int, str]]:
        """Yield line number and text of each non-blank line."""
        for number, line in enumerate(self.data.decode().split("\n"), self.first_line):
            if line and not line.isspace():
                yield number, line

    def from_offset(self, offset: int) -> TextLines:
        """Return the lines from a byte offset on, which must be a line's start."""
        return replace(self, data=self.data[offset:], first_line=self.line_at(offset))

    def before_offset(self, offset: int) -> TextLines:
        """Return the lines before a byte offset, which must be a line's start."""
        return replace(self, data=self.data[:offset])

    def without_comments(self, sign: str) -> TextLines:
        """Return the text with lines emptied that begin with the comment sign."""
        last = self.data.rfind(sign.encode()) + 1
        comment = re.compile(rb"^[ \t]*" + re.escape(sign.encode()) + rb"[^\n]*", re.M)
        end = self.data.find(b"\n", last) if last else 0
        end = len(self.data) if end < 0 else end
        data = comment.sub(b"", self.data[:end]) + self.data[end:]
        return replace(self, data=data)

    def single_spaced(self) -> TextLines:
        """Return the text with single spaces between words, and none at line ends."""
        data = self.data.replace(b"\t", b" ")
        while b"  " in data:
            data = data.replace(b"  ", b" ")
        data = data.replace(b" \n", b"\n").replace(b"\n ", b"\n").strip(b" ")
        return replace(self, data=data)

    def pad_rows(
        self, delimiter: str, n_least: int, n_fields: int
    ) -> tuple[TextLines, int]:
        """Return the text with missing last fields added, and the number of such rows.

        The added fields are empty. Rows with fewer than `n_least` fields are unchanged.
        """
        sign = delimiter.encode()
        lines = self.data.split(b"\n")
        n_missing = [n_fields - 1 - line.count(sign) for line in lines]
        n_short = 0
        for row, (line, n) in enumerate(zip(lines, n_missing, strict=True)):
            if line and 0 < n <= n_fields - n_least:
                lines[row], n_short = line + n * sign, n_short + 1
        return replace(self, data=b"\n".join(lines)), n_short

    def fail(self, line: int, problem: str) -> NoReturn:
        """Raise a `LogFormatError` about a line number, with the file."""
        raise LogFormatError(f"{self.path}:{line}: {one_line(problem)}")


def read_text(path: Path, expected: str) -> TextLines:
    """Read a whole text file, plain or compressed, or a Parquet file as CSV text."""
    return decode_text(path, read_bytes(path), expected)


def decode_text(path: Path, stored: bytes, expected: str) -> TextLines:
    """Decode stored file content (plain, compressed or Parquet) to text."""
    data = decompress(path, stored)
    if data.startswith(_PARQUET) or {".parquet", ".pq"} & set(path.suffixes[-2:]):
        data = _csv_of_parquet(path, data)
    text = _text(path, data)
    if not text.data or text.data.isspace():
        raise LogFormatError(
            f"{path}:1: the file is empty, expected {expected}; give a complete file"
        )
    return replace(text, sha256=hashlib.sha256(stored).hexdigest())


def read_blocks(path: Path) -> Iterator[TextLines]:
    """Yield blocks of whole lines of a text file, a few MiB each."""
    line, rest = 1, b""
    with open_file(path) as file:
        for piece in chain(decompress_chunks(path, file), [b""]):
            rest += piece
            # A CR at the end may be followed by an LF in the next chunk
            end = max(rest.rfind(b"\n"), rest.rfind(b"\r", 0, -1)) + 1
            block = _text(path, rest[: end if piece else None], line)
            if len(rest) - end > MAX_LINE_BYTES:
                block.fail(
                    line,
                    f"a line of more than {MAX_LINE_BYTES / 2**20:g} MiB, expected "
                    "one row a line; is this the log itself?",
                )
            if block.data:
                yield block
            line, rest = line + block.data.count(b"\n"), rest[end:]


def first_block(
    path: Path, expected: str = "text"
) -> tuple[TextLines, Iterator[TextLines]]:
    """Return the first non-blank block of a file, and all blocks from that one on."""
    blocks = read_blocks(path)
    for block in blocks:
        if not block.data.isspace():
            return block, chain([block], blocks)
    raise LogFormatError(
        f"{path}:1: the file is empty, expected {expected}; give a complete file"
    )


def _text(path: Path, data: bytes, first_line: int = 1) -> TextLines:
    """Decode bytes to lines with LF ends, without byte order mark; fail if not text."""
    if first_line == 1:
        kinds = [name for magic, name in _NOT_TEXT.items() if data.startswith(magic)]
        if kinds or data[257:262] == b"ustar":
            raise LogFormatError(
                f"{path}:1: found {[*kinds, 'a tar archive'][0]}, expected UTF-8 text, "
                "plain or packed; unpack or convert it"
            )
        data = data.removeprefix(codecs.BOM_UTF8)
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    text, wrong = TextLines(path, data, first_line), None
    if len(data.translate(None, _CONTROL)) < len(data):
        offset = next(k for k, byte in enumerate(data) if byte in _CONTROL)
        wrong = offset, "a control byte"
    elif not data.isascii():
        try:
            data.decode()
        except UnicodeDecodeError as error:
            wrong = error.start, "a byte that is not UTF-8"
    if wrong:
        offset, what = wrong
        text.fail(
            text.line_at(offset),
            f"found {what} (0x{data[offset]:02x}), expected UTF-8 text; convert the "
            "file to UTF-8 or export it again",
        )
    return text


def _csv_of_parquet(path: Path, data: bytes) -> bytes:
    """Convert a Parquet file to CSV text; row n, from 0, is line n + 2.

    Nested columns, such as lists, are dropped. Durations become seconds, and timestamps
    with a zone become UTC.
    """
    try:
        with pq.ParquetFile(pa.BufferReader(data)) as file:
            columns = [
                k
                for k, field in enumerate(file.schema_arrow)
                if not pa.types.is_nested(field.type)
            ]
            if file.metadata.num_rows * len(columns) > MAX_UNPACKED_BYTES // 8:
                fail_size(path, MAX_UNPACKED_BYTES)
            table = file.read().select(columns)  # by index, as names may be repeated
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        why = one_line((str(error).splitlines() or [repr(error)])[0])[:200]
        raise LogFormatError(
            f"{path}: not a readable Parquet file ({why}); write it again"
        ) from error
    text = pa.BufferOutputStream()
    columns = [_csv_writable(column) for column in table.columns]
    pa_csv.write_csv(pa.table(columns, names=table.column_names), text)
    return bytes(text.getvalue().to_pybytes())


def _csv_writable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column in a type that Arrow can write to CSV."""
    kind = column.type
    if pa.types.is_duration(kind):
        us = pc.cast(pc.cast(column, pa.duration("us"), safe=False), pa.int64())
        return pc.divide(pc.cast(us, pa.float64()), 1e6)
    if pa.types.is_floating(kind):  # float32 text would be another number
        return pc.cast(column, pa.float64())
    if pa.types.is_dictionary(kind) or pa.types.is_decimal(kind):
        column = pc.cast(column, pa.string())
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return pc.replace_substring_regex(column, pattern=r"[\r\n]+", replacement=" ")
    return column
