"""Units of numeric times and durations, and detection of times since 1970.

The unit of numbers since 1970 follows from their size. The unit of other numbers
follows from the name of their column, such as ``submit_ms``. Otherwise the numbers are
compared, in each unit, with typical logs of jobs and requests (`LIKELY_SPAN_S`,
`MAX_SPACING_S`, `MAX_RATE_PER_S`). A unit is used if all other units are ten times
further from typical values. If there is no such unit, the user must specify it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log10
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from diploee.base.clock import MISSING
from diploee.base.errors import one_of, option
from diploee.base.tables import Float64Array, Int64Array, as_numpy
from diploee.base.units import US_PER_UNIT, TimeUnit
from diploee.importers.text.delimited_tables import ReadTable
from diploee.importers.text.numbers_and_labels import (
    IS_NUMBER,
    MISSING_WORDS,
    Number,
    fail_values,
    numbers,
    value_text,
    without_missing,
)

SINCE_US = tuple(int(np.datetime64(y, "us").astype(np.int64)) for y in ("2000", "2100"))
"""Range of times since 1970 [us]: the years in which numbers count from 1970."""

LIKELY_SPAN_S = (10.0, 20 * 366 * 86_400.0)
MAX_SPACING_S = 60.0
MAX_RATE_PER_S = 100.0
"""ASSUMPTION (judgement): a log, or its beginning, is ten seconds to twenty years long,
its times are rounded to at most a minute, and its mean rate is at most 100 requests or
jobs per second. (The highest known rate of a published trace is 57 requests/s, in
Azure's of 2024.)"""
MIN_TIMES = 30
"""Minimum number of times for inferring a unit."""
AS_LIKELY, AS_LIKELY_FEW = 0.5, 2.0
"""Maximum difference of the documented unit's misfit to the best one [decades].

The second value is for fewer than `MIN_TIMES` times."""

LIKELY_DURATION_S = (1.0, 30 * 86_400.0)
"""Range of the median run time of a log's jobs [s] (ASSUMPTION)."""

UNITS: tuple[TimeUnit, ...] = ("s", "ms", "us", "ns")
"""Units tried for times without a specified unit."""

_ANY_TIME = Number(1e20)
CLOCKED = (
    r"^(?:(?P<d>\d{1,6})(?:-|:| days?,? "
    r"))?(?P<h>\d{1,6}):(?P<min>\d\d):(?P<s>\d\d(?:\.\d+)?)$"
)
_SPELLINGS: Mapping[TimeUnit, str] = {
    **{"ns": "ns nsec nano nanosecond", "us": "us usec micro microsecond"},
    **{"ms": "ms msec milli millisecond", "s": "s sec second", "min": "min minute"},
    **{"h": "h hr hour", "d": "d day"},
}
_WORDS = {
    word + plural: unit
    for unit, words in _SPELLINGS.items()
    for word in words.split()
    for plural in ("", "s")
}


@dataclass(frozen=True)
class TimeScale:
    """Unit and origin of numeric times."""

    unit: TimeUnit
    is_relative: bool  # True for an origin of the log, False for 1970 UTC
    is_inferred: bool = False  # True if inferred from the numbers only

    def note(self, n_rows: int) -> dict[str, int]:
        """Return a note on an inferred unit, with the number of rows; or no note."""
        cause = (
            f"times taken as {self.unit} by their span and spacing; else give time_unit"
        )
        return {cause: n_rows} if self.is_inferred else {}


def infer_time_scale(
    values: Float64Array,
    unit: TimeUnit | None = None,
    documented: TimeUnit | None = None,
) -> TimeScale | None:
    """Infer the unit (unless specified) and origin of numeric times.

    Return None if the unit is unclear. A format's documented unit is used if it is
    about as likely as the most likely one.
    """
    later = values[values > 0]
    units: Sequence[TimeUnit] = (unit,) if unit else UNITS
    low, high = np.percentile(later, [5, 95]) if later.size else (0.0, 0.0)
    for each in units:
        if (
            SINCE_US[0] <= low * US_PER_UNIT[each]
            and high * US_PER_UNIT[each] < SINCE_US[1]
        ):
            return TimeScale(each, is_relative=False)
    if unit:
        return TimeScale(unit, is_relative=True)
    far = _far_from_likely(values[~np.isnan(values)])
    for each in far:
        others = [off for other, off in far.items() if other != each]
        if values.size >= MIN_TIMES and far[each] + 1 <= min(others):
            return TimeScale(each, is_relative=True, is_inferred=each != documented)
    as_likely = AS_LIKELY if values.size >= MIN_TIMES else AS_LIKELY_FEW
    if documented and (not far or far[documented] <= min(far.values()) + as_likely):
        return TimeScale(documented, is_relative=True)
    return None


def _far_from_likely(values: Float64Array) -> dict[TimeUnit, float]:
    """Return by unit how far times are from those of a typical log [decades].

    This is the sum of the distances of span, spacing and rate; empty if all times are
    equal.
    """
    low, high = np.percentile(values, [5, 95]) if values.size else (0.0, 0.0)
    span = (high - low) / 0.9
    if not span > 0:
        return {}
    spacing = rounding_step(values)
    return {
        unit: decades_off(span * unit_s, *LIKELY_SPAN_S)
        + decades_off(spacing * unit_s, 0.0, MAX_SPACING_S)
        + decades_off(values.size / (span * unit_s), 0.0, MAX_RATE_PER_S)
        for unit in UNITS
        for unit_s in (US_PER_UNIT[unit] / 1e6,)
    }


def rounding_step(times: Float64Array | Int64Array) -> float:
    """Return the resolution to which times appear rounded; 0 if they are fractions."""
    some = times[:10_000]
    different = np.unique(some)
    gaps = np.diff(different)
    if 2 * different.size < some.size:  # rounded, maybe with a jitter
        return float(np.percentile(gaps, 5)) if gaps.size else 0.0
    return (
        float(np.gcd.reduce(gaps.astype(np.int64)))
        if (gaps == np.rint(gaps)).all()
        else 0.0
    )


def decades_off(value: float, low: float, high: float) -> float:
    """Return the distance of a value from a range, in powers of ten; 0 if inside."""
    if value > high:
        return log10(value / high)
    return log10(low / value) if value < low else 0.0


def column_time_scale(
    table: ReadTable,
    keys: Iterable[str],
    unit: TimeUnit | None,
    *,
    documented: TimeUnit | None = None,
    stated: TimeScale | None = None,
    instead: str = "",
) -> TimeScale | None:
    """Return unit and origin of a table's numeric time columns; None for timestamps.

    A stated unit and origin are used. If the size of the numbers contradicts them, an
    error suggests a remedy.
    """
    columns = [key for key in keys if key in table and len(table)]
    first = next((word for key in columns if (word := first_value(table, key))), "")
    if not re.match(IS_NUMBER, first):
        return stated
    name = f"column '{table.names[columns[0]]}' is {value_text(table, columns[0], 0)}"
    if stated is not None:
        result = infer_time_scale(np.array([float(first)]))
        if result is not None and _is_wrong(stated, result, float(first)):
            instead = instead or f"leave time_format{option('--time-format')} out"
            table.fail(
                0, f"{name}, which by its size is {result.unit} since 1970; {instead}"
            )
        return stated
    values = np.concatenate([numbers(table, key, _ANY_TIME) for key in columns])
    result = infer_time_scale(values, unit, documented)
    named = {unit_in_name(table.names[key]) for key in columns}
    if not unit and len(named) == 1 and (named_unit := named.pop()):
        by_name = infer_time_scale(values, named_unit)
        is_clear = result is None or result.is_relative or result == by_name
        result = by_name if is_clear else None
    if result is None:
        table.fail(
            0,
            f"{name}, which may be {one_of(UNITS)}, expected a time such as "
            "2023-05-17T11:00:58 or numbers of a known unit; give "
            f"time_unit{option('--time-unit')}, such as {UNITS[0]}",
        )
    return result


def _is_wrong(stated: TimeScale, since_1970: TimeScale, value: float) -> bool:
    """Return True if a number contradicts the stated unit and origin."""
    if stated.is_relative:
        return value * US_PER_UNIT[stated.unit] > LIKELY_SPAN_S[1] * 1e6
    return stated.unit != since_1970.unit


def first_value(table: ReadTable, key: str) -> str:
    """Return the first value of a column that is not missing, or empty text."""
    words = (word.as_py().strip() for word in table.columns[key])
    return next((word for word in words if word.lower() not in MISSING_WORDS), "")


def unit_in_name(name: str) -> TimeUnit | None:
    """Return the time unit at the end of a name, as in ``run_ms`` or ``wall [min]``."""
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)
    return _WORDS.get(words[-1].lower()) if len(words) > 1 else None


def has_clock_durations(table: ReadTable, key: str) -> bool:
    """Return True if a column has durations such as ``1-02:03:04``."""
    return key in table and ":" in first_value(table, key)


def clock_durations_ms(table: ReadTable, key: str) -> Int64Array:
    """Return durations such as ``1-02:03:04`` (days first) [ms], or `MISSING`."""
    column = without_missing(table.columns[key])
    result = fields_ms(column)
    good = np.asarray(pc.is_null(column), dtype=bool) | (result != MISSING)
    expected = "a duration such as 01:30:00 or 1-02:03:04 (days-hours:minutes:seconds)"
    fail_values(table, key, good, expected, "write it so, or as a number")
    return result


def fields_ms(words: Any, pattern: str = CLOCKED) -> Int64Array:
    """Return durations from texts that match a pattern [ms]; `MISSING` without a match.

    The groups of the pattern are named after time units.
    """
    result = pc.extract_regex(pc.utf8_trim_whitespace(words), pattern=pattern)
    total_us = np.zeros(len(result))
    for field in result.type:
        texts = pc.struct_field(result, field.name)
        there = pc.fill_null(pc.not_equal(texts, ""), False)
        parts = as_numpy(
            pc.cast(pc.if_else(there, texts, "0"), pa.float64()), np.float64
        )
        total_us += parts * US_PER_UNIT[field.name]
    is_valid = np.asarray(pc.is_valid(result), dtype=bool)
    return np.where(is_valid, np.rint(total_us / 1000).astype(np.int64), MISSING)
