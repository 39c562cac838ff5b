"""One WattAMeter log of any generation as time stamps and readings per device, unrepaired.

Preamble lines are skipped, header blocks may repeat (append mode) with their columns in another
order, and rows may lack the trailing power columns that WattAMeter derives from energy counters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple, NoReturn

import numpy as np
import pyarrow.compute as pc

from diploee.errors import shown
from diploee.importers.power_logs.curves import longest_increasing
from diploee.tables import Float64Array, Int64Array
from diploee.textio.stamps import stamps
from diploee.textio.tables import Layout, ReadTable, listed, read_columns
from diploee.textio.text import Text, text_of
from diploee.textio.values import Number, fail_values, numbers

Kind = Literal["power", "counter"]

_HEADER = re.compile(rb"^# ?timestamp\b[^\n]*", re.M)
_COMMENT = re.compile(rb"^#[^\n]*", re.M)
_STAMP = r"^\d{4}-\d\d-\d\d_\d\d:\d\d:\d\d\.\d{1,6}$"
_READING = Number(may_miss=False)
_COLUMN = re.compile(r"time\s+\(s\)|[a-z]+\s+\d+\s+\(W\)|[^\s\[\]]+\[[^\]]*\]|\S+")
_DERIVED = re.compile(r".*\[W\]")
_POWER_TAGS = "'gpu-0[mW]', 'gpu-0[mJ]', 'cpu-0[uJ]', 'cpu 0 (W)' or 'gpu 0 (W)'"


@dataclass(frozen=True, order=True)
class Channel:
    """One column of one device."""

    # Such as ``"gpu-0"``; the devices of a log are those with a power or a counter column
    device: str
    kind: Kind  # power at the stamp, or an energy counter
    unit: float  # size of the column's unit [W or J]


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
    """The rows of one log, in increasing order of their stamps."""

    path: Path  # the file
    t_us: Int64Array  # naive local stamps, microseconds since 1970
    line: Int64Array  # line of each row, from 1
    run: Int64Array  # header block of each row, from 0: the logger was started anew at each
    # Readings in the unit of their column, failed ones included
    readings: dict[Channel, Float64Array]
    counts: dict[str, int]  # rows dropped and oddities met, by cause

    @property
    def device_types(self) -> frozenset[str]:
        """``"gpu"``, ``"cpu"`` or both."""
        return frozenset(channel.device[:3] for channel in self.readings)

    @property
    def interval_us(self) -> float:
        """Median interval between rows [us], 0 for a single row."""
        return float(np.median(np.diff(self.t_us))) if self.t_us.size > 1 else 0.0

    def where(self, row: int) -> str:
        """Return file and line of a row."""
        return f"{self.path}:{self.line[row]}"


class _Section(NamedTuple):
    """A header and the rows below it."""

    layout: Layout
    channels: dict[Channel, str]  # their columns' names
    rows: Text


def parse_log(path: Path, data: bytes) -> WattAMeterLog:
    """Parse the bytes of one log.

    The longest run of rows with increasing stamps is kept, the others are dropped and counted: the
    row is there twice, or the clock stood ahead of the rows that follow or behind those before.
    """
    text = text_of(path, data, "a WattAMeter log").single_spaced()
    blocks = _blocks(text)
    tables = []
    for layout, channels, rows in blocks:
        names = {channel.device: name for channel, name in channels.items()}
        tables.append(read_columns(rows, layout, {"timestamp": layout.names[0], **names}))
    sizes = [len(table) for table in tables]
    if not sum(sizes):
        problem = "a header without rows, expected readings; give a complete log"
        text.fail(blocks[-1].layout.header_line, problem)
    t_us = np.concatenate([_stamps_us(table) for table in tables])
    kept = longest_increasing(t_us)
    readings = {
        channel: np.concatenate([numbers(table, channel.device, _READING) for table in tables])
        for channel in blocks[0].channels
    }
    counts = {
        "repeated_headers": len(blocks) - 1,
        "rows_without_power": sum(table.n_short for table in tables),
        **_count_dropped(t_us, kept),
    }
    lines = np.concatenate([block.rows.filled_lines(0) for block in blocks])
    run = np.repeat(np.arange(len(blocks)), sizes)
    of_kept = {channel: values[kept] for channel, values in readings.items()}
    return WattAMeterLog(path, t_us[kept], lines[kept], run[kept], of_kept, counts)


def _blocks(text: Text) -> list[_Section]:
    starts = [match.start() for match in _HEADER.finditer(text.data)]
    if not starts:
        _fail_without_header(text)
    before = text.upto(starts[0]).without_comments("#")
    if before.first_row:
        text.fail(
            before.start_line,
            f"a row before the first header (line {text.line_at(starts[0])}); "
            "restore the file's beginning or remove these rows",
        )
    parts = zip(starts, [*starts[1:], len(text.data)], strict=True)
    blocks = [_block(text.upto(end).after(start)) for start, end in parts]
    for block in blocks[1:]:
        if block.channels.keys() != blocks[0].channels.keys():
            text.fail(
                block.layout.header_line,
                f"the devices change to {', '.join(block.channels.values())} from "
                f"{', '.join(blocks[0].channels.values())} in line {blocks[0].layout.header_line}, "
                "expected the same; split the log here",
            )
    return blocks


def _block(part: Text) -> _Section:
    """Return what the header in the first line says of the lines below it."""
    names = tuple(_COLUMN.findall(part.first_row.lstrip("# ")))
    found: dict[str, tuple[Channel, str]] = {}
    for pattern, device, kind, unit in _CHANNELS:
        for name in names:
            if match := pattern.fullmatch(name):
                channel = Channel(f"{device}-{int(match[1])}", kind, unit)
                found.setdefault(channel.device, (channel, name))
    if not found:
        part.fail(
            part.first_line,
            "no column of GPU or CPU package power in the header (found: "
            f"{listed(names[1:9])}), expected tags such as {_POWER_TAGS}; give an NVML, RAPL or "
            "CodeCarbon log",
        )
    channels = dict(found[device] for device in sorted(found))
    n_least = len(names)
    if any(channel.kind == "counter" for channel in channels):
        while _DERIVED.fullmatch(names[n_least - 1]):  # the last rows may lack these
            n_least -= 1
    layout = Layout(names, " ", False, part.first_line, n_least)
    layout.require(part.path, channels.values(), "a WattAMeter header")
    rows = part.after(part.data.find(b"\n") + 1 or len(part.data)).without_comments("#")
    return _Section(layout, channels, rows)


def _fail_without_header(text: Text) -> NoReturn:
    expected = "expected a header '# timestamp reading-time[ns] ...'"
    rows = text.without_comments("#")
    comments = [match.start() for match in _COMMENT.finditer(text.data)]
    if comments and (not rows.first_row or comments[-1] < rows.start):
        # The line above the rows is what stands in the header's place.
        found = text.after(comments[-1])
        problem = f"not a WattAMeter header: {shown(found.first_row)}, {expected}; restore it"
        text.fail(found.first_line, problem)
    problem = f"a row without a header, {expected}; restore the file's beginning"
    text.fail(rows.start_line, problem)


def _stamps_us(table: ReadTable) -> Int64Array:
    words = table.columns["timestamp"]
    good = np.asarray(pc.match_substring_regex(words, _STAMP), dtype=bool)
    fail_values(table, "timestamp", good, "YYYY-mm-dd_HH:MM:SS.ffffff")
    iso = pc.replace_substring(words, "_", "T")
    return stamps(replace(table, columns={"timestamp": iso}), "timestamp").us


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
