"""Demand at coincident peaks.

A run's mean power in the intervals that a system's peaks fell into. Transmission
charges are set by 1CP, 4CP or 12CP: by the demand of a load in the hours, or quarters
of an hour, of the system's yearly or monthly peaks. Those intervals come from a file; a
run knows no system.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import numpy as np

from diploee.base.errors import InputError, LogFormatError
from diploee.base.units import W_PER_MW
from diploee.importers.text.stamps import Stamps, moment, stamps_of_one_clock
from diploee.importers.text.tables import ReadTable, read_columns, read_header
from diploee.importers.text.text import read_text
from diploee.importers.text.values import Number, fail_values, numbers, texts
from diploee.runs.reader import Run

MAX_INTERVALS = 1_000
_DURATION = Number(above=0, largest=366 * 24 * 60, may_miss=False, of="minutes")
_EXPECTED = (
    "a header of start and end, or of start and duration_min, and a row for each "
    "interval"
)


@dataclass(frozen=True)
class _PeakInterval:
    """An interval of a system's peak."""

    # When it begins and ends; local time of the facility where they have no zone
    start: datetime
    end: datetime
    name: str  # its name in the file; empty where there is none
    where: str  # file and line, for errors
    # How long it lasts, where the file says that: it ends then, whatever the clock
    # shows
    duration: timedelta | None = None


@dataclass(frozen=True)
class _CoincidentDemand:
    """The demand of a run in one interval."""

    name: str  # name of the interval
    start: datetime  # its begin, in the facility's zone
    mw: float  # mean power [MW]
    # Mean reactive power, drawn positive [Mvar]; None where the run models none
    mvar: float | None
    # The run's largest demand over clock intervals of the same length where its metrics
    # have it (15, 30 and 60 min), else its largest interval mean [MW]
    own_peak_mw: float

    @property
    def share(self) -> float:
        """Demand over the run's own peak [1]; 0 for a run that draws nothing."""
        return self.mw / self.own_peak_mw if self.own_peak_mw > 0 else 0.0


def read_peak_intervals(path: Path | str) -> list[_PeakInterval]:
    """Read the intervals of system peaks."""
    text = read_text(Path(path), _EXPECTED)
    layout = read_header(text, ",;\t")
    names = layout.found(
        {name: name for name in ("start", "end", "duration_min", "name")}
    )
    if ("end" in names) == ("duration_min" in names):
        both = "both there" if "end" in names else "both missing"
        raise LogFormatError(
            f"{path}:{layout.header_line}: columns 'end' and 'duration_min' are "
            f"{both}, expected one of them: {_EXPECTED}"
        )
    layout.require(Path(path), ["start"], _EXPECTED)
    table = read_columns(text, layout, names)
    if not 0 < len(table) <= MAX_INTERVALS:
        raise LogFormatError(
            f"{path}: {len(table):,} intervals, expected 1 to {MAX_INTERVALS:,}; give "
            "the system's peaks alone"
        )
    start = _stamps(table, "start")
    if "end" in names:
        end = _stamps(table, "end")
        kind = (
            "an offset from UTC like the start"
            if start.is_aware[0]
            else "no offset from UTC"
        )
        fail_values(table, "end", end.is_aware == start.is_aware, f"a time with {kind}")
        end_us = end.us
    else:
        end_us = start.us + np.rint(
            numbers(table, "duration_min", _DURATION) * 60e6
        ).astype(np.int64)
    titles = texts(table, "name") if "name" in names else [""] * len(table)
    for row in np.flatnonzero(end_us <= start.us)[:1]:
        table.fail(
            int(row), "the interval does not end after its start; correct this line"
        )
    order = np.argsort(start.us, kind="stable")
    for row, following in pairwise(order):
        if start.us[following] < end_us[row]:
            table.fail(
                int(following),
                (
                    "the interval overlaps that of "
                    f"{table.where(int(row)).rpartition(':')[2]}; every interval is "
                    "counted once, remove or correct one"
                ),
            )
    zone = start.zone()
    return [
        _PeakInterval(
            moment(int(begin), zone),
            moment(int(end), zone),
            title,
            table.where(row),
            None if "end" in names else timedelta(microseconds=int(end - begin)),
        )
        for row, (begin, end, title) in enumerate(
            zip(start.us, end_us, titles, strict=True)
        )
    ]


def _stamps(table: ReadTable, key: str) -> Stamps:
    found = stamps_of_one_clock(table, key)
    fail_values(table, key, found.there, "a time")
    return found


def coincident_demand(
    run: Run, intervals: Sequence[_PeakInterval]
) -> list[_CoincidentDemand]:
    """Return the demand of a run in each interval."""
    series, metrics = run.series(), run.values
    names = {column.name for column in run.columns}
    reactive = [n for n in ("poi_reactive_var", "facility_reactive_var") if n in names][
        :1
    ]
    found = []
    for interval in intervals:
        first = series.row_at(interval.start, f"{interval.where}: start")
        end = interval.end
        if interval.duration is not None:
            end = series.at(first).astimezone(UTC) + interval.duration
        rows = first, series.row_at(end, f"{interval.where}: end", is_end=True)
        length = timedelta(milliseconds=(rows[1] - rows[0]) * series.step_ms)
        if length != (interval.duration or interval.end - interval.start):
            raise InputError(
                f"{interval.where}: the clock is changed within the interval; give "
                "both times with their offset from UTC"
            )
        block = series.read(["facility_power_w", *reactive], rows)
        mw, *mvar = (
            float(values.mean()) / W_PER_MW for values in block.columns.values()
        )
        minutes = length / timedelta(minutes=1)
        keys = (
            f"grid.maximum_demand.intervals.{minutes:g}min.max_mw",
            "grid.peak.max_mw",
        )
        own_mw = next((metrics[k] for k in keys if metrics.get(k) is not None), None)
        own_mw = run.metrics["power"]["max_mw"] if own_mw is None else own_mw
        mean_mvar = mvar[0] if mvar else None
        at = series.at(first)
        found.append(_CoincidentDemand(interval.name, at, mw, mean_mvar, own_mw))
    return found
