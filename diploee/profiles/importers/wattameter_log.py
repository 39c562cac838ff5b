"""One WattAMeter log of any generation as time stamps and readings per device, unrepaired.

Preamble lines are skipped, header blocks may repeat (append mode) with their columns in another
order, and rows may lack the trailing power columns that WattAMeter derives from energy counters.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NoReturn

import numpy as np

from diploee.errors import LogFormatError
from diploee.profiles.importers.increasing import longest_increasing
from diploee.profiles.importers.log_text import LogText
from diploee.tables import Float64Array, Int64Array

Kind = Literal["power", "counter"]

_HEADER = re.compile(r"#\s*timestamp\b")
_COLUMN = re.compile(r"time\s+\(s\)|[a-z]+\s+\d+\s+\(W\)|[^\s\[\]]+\[[^\]]*\]|\S+")
_DERIVED = re.compile(r".*\[W\]")
_POWER_TAGS = "'gpu-0[mW]', 'gpu-0[mJ]', 'cpu-0[uJ]', 'cpu 0 (W)' or 'gpu 0 (W)'"


@dataclass(frozen=True, order=True)
class Channel:
    """What one column tells about one device.

    Parameters
    ----------
    device : str
        Such as ``"gpu-0"``; the devices of a log are those with a power or a counter column.
    kind : {"power", "counter"}
        Power at the stamp, or an energy counter.
    unit : float
        Size of the column's unit [W or J].
    """

    device: str
    kind: Kind
    unit: float


_CHANNELS: tuple[tuple[re.Pattern[str], str, Kind, float], ...] = (
    # A package may be listed once per interface (-r0, -r1): the first of a device's columns counts,
    # and power goes before energy. cpu-0-core lies inside the package and is not a device.
    (re.compile(r"gpu-([0-9]{1,4})\[mW\]"), "gpu", "power", 1e-3),
    (re.compile(r"gpu-([0-9]{1,4})\[mJ\]"), "gpu", "counter", 1e-3),
    (re.compile(r"cpu-([0-9]{1,4})\[uJ\]"), "cpu", "counter", 1e-6),
    (re.compile(r"cpu-([0-9]{1,4})-r[0-9]+\[uJ\]"), "cpu", "counter", 1e-6),
    (re.compile(r"gpu\s+([0-9]{1,4})\s+\(W\)"), "gpu", "power", 1.0),
    (re.compile(r"cpu\s+([0-9]{1,4})\s+\(W\)"), "cpu", "power", 1.0),
)


@dataclass(frozen=True, eq=False)
class WattAMeterLog:
    """The rows of one log, in increasing order of their stamps.

    Parameters
    ----------
    path : pathlib.Path
        The file.
    t_us : numpy.ndarray, shape (n,), int64
        Naive local stamps, microseconds since 1970.
    line : numpy.ndarray, shape (n,), int64
        Line of each row, from 1.
    run : numpy.ndarray, shape (n,), int64
        Header block of each row, from 0: the logger was started anew at each.
    readings : dict of Channel to numpy.ndarray, shape (n,)
        Readings in the unit of their column, failed ones included.
    counts : dict of str to int
        Rows dropped and oddities met, by cause.
    """

    path: Path
    t_us: Int64Array
    line: Int64Array
    run: Int64Array
    readings: dict[Channel, Float64Array]
    counts: dict[str, int]

    @property
    def device_types(self) -> frozenset[str]:
        """``"gpu"``, ``"cpu"`` or both."""
        return frozenset(channel.device[:3] for channel in self.readings)

    @property
    def interval_us(self) -> float:
        """Median interval between rows [us], 0 for a single row."""
        return float(np.median(np.diff(self.t_us))) if self.t_us.size > 1 else 0.0


@dataclass(frozen=True)
class _Block:
    """A header and the rows below it; lines and column positions count from 0."""

    header_line: int
    columns: list[str]
    channels: dict[Channel, int]
    lines: Int64Array

    @property
    def n_required(self) -> int:
        """Columns that every row must have: all but the trailing derived ones."""
        n = len(self.columns)
        if any(channel.kind == "counter" for channel in self.channels):
            while _DERIVED.fullmatch(self.columns[n - 1]):
                n -= 1
        return n


def parse_log(path: Path, data: bytes) -> WattAMeterLog:
    """Parse the bytes of one log.

    The longest run of rows with increasing stamps is kept, the others are dropped and counted: the
    row is there twice, or the clock stood ahead of the rows that follow or behind those before.

    Parameters
    ----------
    path : pathlib.Path
        Where the bytes come from, for errors.
    data : bytes
        The file's content.

    Raises
    ------
    LogFormatError
        If it is not a WattAMeter log with at least one row.
    """
    data = data.removeprefix(b"\xef\xbb\xbf")
    if not data.strip():
        raise LogFormatError(
            f"{path}:1: the file is empty, expected a WattAMeter log; give a complete log"
        )
    text = LogText(path, data)
    blocks = _blocks(text)
    rows_without_power = sum(_check_rows(text, block) for block in blocks)
    lines = np.concatenate([block.lines for block in blocks])
    t_us = text.stamps_us(lines, text.first_field[lines])
    kept = longest_increasing(t_us)
    readings = {}
    for channel in blocks[0].channels:
        position = np.concatenate(
            [np.full(block.lines.size, block.channels[channel]) for block in blocks]
        )
        name = blocks[0].columns[blocks[0].channels[channel]]
        readings[channel] = text.numbers(lines, text.first_field[lines] + position, name)[kept]
    counts = {
        "repeated_headers": len(blocks) - 1,
        "rows_without_power": rows_without_power,
        **_count_dropped(t_us, kept),
    }
    run = np.repeat(np.arange(len(blocks)), [block.lines.size for block in blocks])
    return WattAMeterLog(path, t_us[kept], lines[kept] + 1, run[kept], readings, counts)


def _blocks(text: LogText) -> list[_Block]:
    comments = np.flatnonzero(text.is_comment)
    header_lines = [int(i) for i in comments if _HEADER.match(text.line(int(i)))]
    rows = np.flatnonzero((text.n_fields > 0) & ~text.is_comment)
    if not header_lines:
        _fail_without_header(text, comments, rows)
    if rows.size == 0:
        text.fail(header_lines[-1], "a header without rows, expected readings; give a complete log")
    if rows[0] < header_lines[0]:
        text.fail(
            int(rows[0]),
            f"a row before the first header (line {header_lines[0] + 1}); "
            "restore the file's beginning or remove these rows",
        )
    cuts = np.searchsorted(rows, header_lines[1:])
    blocks = [
        _header(text, line, lines)
        for line, lines in zip(header_lines, np.split(rows, cuts), strict=True)
    ]
    for block in blocks[1:]:
        if block.channels.keys() != blocks[0].channels.keys():
            text.fail(
                block.header_line,
                f"the devices change to {_names(block)} from {_names(blocks[0])} in line "
                f"{blocks[0].header_line + 1}, expected the same; split the log here",
            )
    return blocks


def _header(text: LogText, line: int, rows: Int64Array) -> _Block:
    columns = _COLUMN.findall(text.line(line).lstrip("# \t"))
    twice = [name for name, n in Counter(columns).items() if n > 1]
    if twice:
        text.fail(line, f"column '{twice[0]}' is there twice, expected once; correct the header")
    found: dict[str, tuple[Channel, int]] = {}
    for pattern, device, kind, unit in _CHANNELS:
        for position, name in enumerate(columns):
            if match := pattern.fullmatch(name):
                channel = Channel(f"{device}-{int(match[1])}", kind, unit)
                found.setdefault(channel.device, (channel, position))
    if not found:
        shown = ", ".join(columns[1:9]) or "none"
        text.fail(
            line,
            f"no column of GPU or CPU package power in the header (found: {shown}), "
            f"expected tags such as {_POWER_TAGS}; give an NVML, RAPL or CodeCarbon log",
        )
    return _Block(line, columns, dict(found[device] for device in sorted(found)), rows)


def _names(block: _Block) -> str:
    return ", ".join(block.columns[position] for position in block.channels.values())


def _fail_without_header(text: LogText, comments: Int64Array, rows: Int64Array) -> NoReturn:
    expected = "expected a header '# timestamp reading-time[ns] ...'"
    if comments.size and (rows.size == 0 or comments[-1] < rows[0]):
        # The line above the rows is what stands in the header's place.
        found = text.line(int(comments[-1]))[:60]
        text.fail(int(comments[-1]), f"not a WattAMeter header: {found!r}, {expected}; restore it")
    text.fail(int(rows[0]), f"a row without a header, {expected}; restore the file's beginning")


def _check_rows(text: LogText, block: _Block) -> int:
    """Return the number of rows without (all of) their derived power; others must be complete."""
    n_fields = text.n_fields[block.lines]
    n_columns = len(block.columns)
    bad = (n_fields < block.n_required) | (n_fields > n_columns)
    if bad.any():
        row = int(np.argmax(bad))
        allowed = (
            f"{n_columns}"
            if block.n_required == n_columns
            else f"{n_columns} ({block.n_required} without the trailing power columns)"
        )
        text.fail(
            int(block.lines[row]),
            f"{n_fields[row]} fields, expected {allowed} as in the header of line "
            f"{block.header_line + 1}; complete or remove this row",
        )
    return int(np.count_nonzero(n_fields < n_columns))


def _count_dropped(t_us: Int64Array, kept: Int64Array) -> dict[str, int]:
    """Count the rows not kept by how their stamps stand to those of the kept rows around them."""
    dropped = np.setdiff1d(np.arange(t_us.size), kept, assume_unique=True)
    following = np.searchsorted(kept, dropped)
    infinite = np.iinfo(np.int64)
    before_us = np.concatenate(([infinite.min], t_us[kept]))[following]
    after_us = np.concatenate((t_us[kept], [infinite.max]))[following]
    stamp_us = t_us[dropped]
    return {
        "duplicate_stamps": int(np.sum((stamp_us == before_us) | (stamp_us == after_us))),
        "out_of_order_stamps": int(np.sum(stamp_us < before_us)),
        "stamps_ahead": int(np.sum(stamp_us > after_us)),
    }
