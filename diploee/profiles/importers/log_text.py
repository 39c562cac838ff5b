"""Whitespace-separated logs as NumPy arrays: lines, fields, numbers, stamps; no loop per field."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from diploee.errors import LogFormatError
from diploee.tables import Float64Array, Int64Array

STAMP_WIDTH = 26
SHORTEST_STAMP = 21
LONGEST_NUMBER = 32
LARGEST_NUMBER = 1e18
EXACT_DIGITS = 15
STAMP_FORMAT = "YYYY-mm-dd_HH:MM:SS.ffffff"

_SEPARATORS = {4: "-", 7: "-", 10: "_", 13: ":", 16: ":", 19: "."}
_TEXT_BYTES = np.ones(256, dtype=bool)
_TEXT_BYTES[:32] = False
_TEXT_BYTES[[9, 10, 13]] = True

ByteMatrix = npt.NDArray[np.uint8]


class LogText:
    """Lines and fields of a text file.

    Parameters
    ----------
    path : pathlib.Path
        Named in errors.
    data : bytes
        The file, UTF-8.

    Attributes
    ----------
    n_fields : numpy.ndarray, shape (n_lines,)
        Fields on each line.
    first_field : numpy.ndarray, shape (n_lines,)
        Index of each line's first field.
    is_comment : numpy.ndarray, shape (n_lines,), bool
        Lines that begin with ``#``.

    Raises
    ------
    LogFormatError
        If the file is not UTF-8 text.
    """

    def __init__(self, path: Path, data: bytes) -> None:
        self.path = path
        self._data = data
        self._raw = np.frombuffer(self._data, dtype=np.uint8)
        self._check_text()
        blank = self._raw <= ord(" ")
        self._start = np.flatnonzero(~blank & np.concatenate(([True], blank[:-1])))
        self._end = np.flatnonzero(~blank & np.concatenate((blank[1:], [True]))) + 1
        line_ends = np.flatnonzero(self._raw == ord("\n"))
        self._line_start = np.concatenate(([0], line_ends + 1))
        self._line_end = np.concatenate((line_ends, [self._raw.size]))
        self.first_field: Int64Array = np.searchsorted(self._start, self._line_start)
        self.n_fields: Int64Array = np.diff(self.first_field, append=self._start.size)
        self.is_comment = np.zeros(self.n_fields.size, dtype=bool)
        filled = np.flatnonzero(self.n_fields)
        self.is_comment[filled] = self._raw[self._start[self.first_field[filled]]] == ord("#")

    def line(self, index: int) -> str:
        """Return one line as text without its line end."""
        return self._data[self._line_start[index] : self._line_end[index]].decode().strip()

    def fail(self, line: int, problem: str) -> NoReturn:
        """Raise a `LogFormatError` about a line, counted from 0."""
        raise LogFormatError(f"{self.path}:{line + 1}: {problem}")

    def numbers(self, lines: Int64Array, fields: Int64Array, name: str) -> Float64Array:
        """Return fields as numbers.

        Parameters
        ----------
        lines, fields : numpy.ndarray, shape (n,)
            Line and index of each field.
        name : str
            Column, named in errors.

        Raises
        ------
        LogFormatError
            If one is not a finite number of usual size.
        """
        length = self._end[fields] - self._start[fields]
        if length.max(initial=0) > LONGEST_NUMBER:
            self._fail_number(lines, fields, int(np.argmax(length > LONGEST_NUMBER)), name)
        width = int(length.max(initial=1))
        if width <= EXACT_DIGITS:
            digits = self._right_aligned(fields, width) - ord("0")
            if digits.max(initial=0) <= 9:
                return np.asarray(digits @ 10.0 ** np.arange(width)[::-1], dtype=np.float64)
        return self._any_numbers(lines, fields, name, width)

    def stamps_us(self, lines: Int64Array, fields: Int64Array) -> Int64Array:
        """Return stamps such as ``2025-10-07_09:38:40.617145`` as microseconds since 1970.

        The stamps are naive local time and stay so; the fraction has one to six digits.

        Raises
        ------
        LogFormatError
            If one does not parse.
        """
        length = self._end[fields] - self._start[fields]
        text = self._left_aligned(fields, STAMP_WIDTH)
        text[:, SHORTEST_STAMP:][text[:, SHORTEST_STAMP:] == 0] = ord("0")
        good = (length >= SHORTEST_STAMP) & (length <= STAMP_WIDTH)
        for place in range(STAMP_WIDTH):
            char = text[:, place]
            if place in _SEPARATORS:
                good &= char == ord(_SEPARATORS[place])
            else:
                good &= (char >= ord("0")) & (char <= ord("9"))
        if not good.all():
            self._fail_stamp(lines, fields, int(np.argmin(good)))
        text[:, 10] = ord("T")
        stamps = text.view(f"S{STAMP_WIDTH}").ravel()
        try:
            return stamps.astype("datetime64[us]").astype(np.int64)
        except ValueError:
            wrong = next(i for i, stamp in enumerate(stamps) if not _is_stamp(stamp))
            self._fail_stamp(lines, fields, wrong)

    def _check_text(self) -> None:
        control = np.flatnonzero(~_TEXT_BYTES[self._raw])
        if control.size:
            place, why = int(control[0]), "a control byte"
        elif self._data.isascii():
            return
        else:
            try:
                self._data.decode()
                return
            except UnicodeDecodeError as error:
                place, why = error.start, "a byte that is not UTF-8"
        line = self._data.count(b"\n", 0, place) + 1
        raise LogFormatError(
            f"{self.path}:{line}: found {why} (0x{self._data[place]:02x}), expected a UTF-8 text "
            "log; give the log itself, unpacked and not converted"
        )

    def _left_aligned(self, fields: Int64Array, width: int) -> ByteMatrix:
        at = self._start[fields][:, None] + np.arange(width)
        text: ByteMatrix = self._raw[np.minimum(at, self._raw.size - 1)]
        text[at >= self._end[fields][:, None]] = 0
        return text

    def _right_aligned(self, fields: Int64Array, width: int) -> ByteMatrix:
        at = self._end[fields][:, None] - np.arange(width, 0, -1)
        text: ByteMatrix = self._raw[np.maximum(at, 0)]
        text[at < self._start[fields][:, None]] = ord("0")
        return text

    def _any_numbers(
        self, lines: Int64Array, fields: Int64Array, name: str, width: int
    ) -> Float64Array:
        text = self._left_aligned(fields, width)
        underscore = (text == ord("_")).any(axis=1)  # Python's float takes 1_000, a log must not
        words = text.view(f"S{width}").ravel()
        try:
            values = words.astype(np.float64)
        except ValueError:
            wrong = next(i for i, word in enumerate(words) if not _is_number(word))
            self._fail_number(lines, fields, wrong, name)
        bad = underscore | ~(np.abs(values) <= LARGEST_NUMBER)
        if bad.any():
            self._fail_number(lines, fields, int(np.argmax(bad)), name)
        return values

    def _field(self, field: int) -> str:
        return self._data[self._start[field] : self._end[field]].decode()

    def _fail_number(self, lines: Int64Array, fields: Int64Array, row: int, name: str) -> NoReturn:
        self.fail(
            int(lines[row]),
            f"column '{name}' is {_quote(self._field(int(fields[row])))}, expected a number; "
            "correct or remove this row",
        )

    def _fail_stamp(self, lines: Int64Array, fields: Int64Array, row: int) -> NoReturn:
        self.fail(
            int(lines[row]),
            f"time stamp is {_quote(self._field(int(fields[row])))}, expected {STAMP_FORMAT}; "
            "correct or remove this row",
        )


def _quote(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")


def _is_number(word: bytes) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _is_stamp(stamp: bytes) -> bool:
    try:
        np.datetime64(stamp.decode(), "us")
    except ValueError:
        return False
    return True
