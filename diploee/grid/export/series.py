"""Power series of an export: a run's power, read in blocks and averaged to a step.

An export covers a period of the run, or the 8,760 hours of a calendar year.
"""

from __future__ import annotations

from calendar import isleap
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from diploee.base.errors import InputError, did_you_mean, one_of
from diploee.base.tables import Float64Array, Int64Array
from diploee.base.units import MS_PER_H, MS_PER_MIN, MS_PER_S, W_PER_MW
from diploee.facility.base import POWER, REACTIVE
from diploee.grid.export.csv_writer import to_mw
from diploee.runs.reader import RunFolder
from diploee.runs.series import Rows, RunSeries

REACTIVE_OF = {POWER: REACTIVE, "poi_power_w": "poi_reactive_var"}
"""Reactive power column at the same boundary, by power column."""

CONVENTION = (
    "load convention: q_mvar above 0 is reactive power that the facility draws "
    "(inductive), below 0 that it supplies (capacitive)"
)


@dataclass(frozen=True, eq=False)
class ReactiveTable:
    """Table of reactive power by active power, interpolated linearly.

    Reactive power is positive if the facility draws it (load convention). Values
    outside the table are errors.
    """

    path: Path  # file of the table
    # Rows of the table; `p_mw` increases
    p_mw: Float64Array
    q_mvar: Float64Array

    def at(self, power_w: Float64Array) -> Float64Array:
        """Return the reactive power [Mvar] at active powers [W]."""
        p_mw = power_w / W_PER_MW
        low, high = float(p_mw.min()), float(p_mw.max())
        # A mean of float32 values may exceed the table's end by rounding
        slack = 1e-6 * max(abs(self.p_mw[0]), abs(self.p_mw[-1]))
        if low < self.p_mw[0] - slack or high > self.p_mw[-1] + slack:
            worst = low if low < self.p_mw[0] - slack else high
            raise InputError(
                f"{self.path}: the run reaches {worst:.6g} MW, the table goes from "
                f"{self.p_mw[0]:g} to {self.p_mw[-1]:g} MW; add rows, nothing is "
                "extrapolated"
            )
        return np.interp(p_mw, self.p_mw, self.q_mvar)


@dataclass(frozen=True, eq=False)
class ExportBlock:
    """Consecutive steps of the written series."""

    first: int  # position of the first step in the written series
    step_ms: int
    starts_ms: Int64Array  # start of each step [ms since 1970 in UTC]
    power_w: Float64Array  # mean power over each step [W]
    # Reactive power over each step [Mvar], drawn positive, where the export has it
    q_mvar: Float64Array | None = None

    @property
    def positions(self) -> Int64Array:
        """Position of each step in the written series."""
        return self.first + np.arange(self.power_w.size, dtype=np.int64)

    @property
    def time_s(self) -> Float64Array:
        """Start of each step since the start of the export [s]."""
        return np.round(self.positions * self.step_ms / MS_PER_S, 3)

    @property
    def columns(self) -> list[Float64Array]:
        """Active power [MW] and, if available, reactive power [Mvar]."""
        reactive = [] if self.q_mvar is None else [np.round(self.q_mvar, 9)]
        return [to_mw(self.power_w), *reactive]


def check_power_column(source: RunSeries, column: str) -> None:
    """Raise `InputError` unless the series has this column and it is a power."""
    powers = {c.name for c in source.columns if c.unit == "W"}
    names = [name for name in source.check() if name.partition(".")[0] in powers]
    if column not in names:
        raise InputError(
            f"{source.path}: no power column '{column}' (have: {one_of(names)})"
            f"{did_you_mean(column, names)}"
        )


LeapDay = Literal["drop-feb29", "drop-last-day"]
YEAR_STEPS_MS = (MS_PER_H, 30 * MS_PER_MIN, 15 * MS_PER_MIN)


def check_step(run: RunFolder, source: RunSeries, step_ms: int) -> None:
    """Raise `InputError` if the series cannot be averaged to a step [ms]."""
    if step_ms < source.step_ms or step_ms % source.step_ms:
        raise InputError(
            f"{run.folder}: a step of {step_ms / MS_PER_S:g} s is no multiple of the "
            f"{source.noun}'s {source.step_s:g} s, which holds no more detail; choose "
            "a --step that is, an --event-window at 0.1 s, or run again with a finer "
            "--set resolution"
        )


def rows_between(
    source: RunSeries, first: datetime | None, until: datetime | None, step_ms: int
) -> Rows:
    """Return the rows from `first` until `until`; by default all rows."""
    first_row = 0 if first is None else source.row_at(first, "--from")
    end_row = (
        source.n_rows if until is None else source.row_at(until, "--to", is_end=True)
    )
    if first_row >= end_row:
        raise InputError(
            f"--from must be before --to, found {first} and {until or 'the end'}"
        )
    rows_per_step = step_ms // source.step_ms
    if (end_row - first_row) % rows_per_step:
        seconds = (end_row - first_row) * source.step_s
        raise InputError(
            f"{source.folder}: {seconds:g} s are no whole number of steps of "
            f"{step_ms / MS_PER_S:g} s; choose another --step, or a part with --from "
            "and --to"
        )
    return first_row, end_row


def year_spans(
    source: RunSeries,
    year: int | None,
    leap_day: LeapDay | None,
    step_ms: int,
    format_name: str,
) -> tuple[tuple[Rows, ...], str]:
    """Return the rows of a calendar year of 8,760 hours, and its rule for leap days."""
    if step_ms not in YEAR_STEPS_MS:
        steps = ", ".join(f"{ms // MS_PER_MIN} min" for ms in YEAR_STEPS_MS)
        raise InputError(
            f"'{format_name}' takes a --step of {steps}, found {step_ms / MS_PER_S:g} s"
        )
    start, end = (at.replace(tzinfo=None) for at in (source.start, source.end))
    spans = {k: _year_periods(k, leap_day) for k in range(start.year, end.year + 1)}
    complete_years = [
        k
        for k, periods in spans.items()
        if start <= periods[0][0] and periods[-1][1] <= end
    ]
    if year is None and len(complete_years) == 1:
        (year,) = complete_years
    if year not in complete_years:
        required = "a whole calendar year" if year is None else f"the whole of {year}"
        years = ", ".join(map(str, complete_years))
        remedy = f"holds the years {years}; choose one with --year"
        if not complete_years:
            remedy = "run again with --set 'duration=1 year', or export 'csv'"
        raise InputError(
            f"{source.folder}: '{format_name}' needs {required}, from 1 January 00:00 "
            f"for 8,760 hours, and the run covers {source.period_text}; {remedy}"
        )
    if isleap(year) and leap_day is None:
        raise InputError(
            f"{source.folder}: {year} is a leap year and '{format_name}' takes 365 "
            "days; choose what it loses with --leap-day "
            f"{' or --leap-day '.join(get_args(LeapDay))}"
        )
    where = f"'{format_name}', year {year}"
    rows = [tuple(source.row_at(at, where) for at in span) for span in spans[year]]
    rule = _LEAP_RULES[leap_day if isleap(year) else None]
    return tuple((a, b) for a, b in rows), rule


_LEAP_RULES = {
    None: "the year has no 29 February",
    "drop-last-day": "drop-last-day: 31 December is left out",
    "drop-feb29": (
        "drop-feb29: 29 February is left out; later days are one weekday off the "
        "calendar"
    ),
}


def _year_periods(
    year: int, leap_day: LeapDay | None
) -> list[tuple[datetime, datetime]]:
    """Return the periods of a year that remain without its leap day."""
    begin, end = datetime(year, 1, 1), datetime(year + 1, 1, 1)
    if not isleap(year) or leap_day is None:
        return [(begin, end)]
    if leap_day == "drop-last-day":
        return [(begin, datetime(year, 12, 31))]
    return [(begin, datetime(year, 2, 29)), (datetime(year, 3, 1), end)]
