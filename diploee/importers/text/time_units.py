"""Units of numeric times and durations, and whether times count from 1970.

Numbers since 1970 tell their unit by their size, others by the name of their column,
such as ``submit_ms``. Where it has none, they are judged in each unit by what logs of
jobs and requests are like (`LIKELY_SPAN_S`, `MAX_SPACING_S`, `MAX_RATE_PER_S`). A unit
is taken where every other one is ten times further off; else the user is asked.
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
from diploee.importers.text.tables import ReadTable
from diploee.importers.text.values import (
    IS_NUMBER,
    MISSING_WORDS,
    Number,
    fail_values,
    numbers,
    value_shown,
    without_missing,
)

SINCE_US = tuple(int(np.datetime64(y, "us").astype(np.int64)) for y in ("2000", "2100"))
"""Numbers between these [us since 1970] in one of their units count from 1970."""

LIKELY_SPAN_S = (10.0, 20 * 366 * 86_400.0)
MAX_SPACING_S = 60.0
MAX_RATE_PER_S = 100.0
"""ASSUMPTION [J]: a log or its beginning reaches over ten seconds to twenty years, its
times are rounded to a minute at most, and there are at most 100 requests or jobs a
second in the mean: of published traces Azure's of 2024 is the busiest that we know, at
57 requests/s."""
MIN_TIMES = 30
"""Fewer times don't tell their unit."""
AS_LIKELY, AS_LIKELY_FEW = 0.5, 2.0
"""Powers of ten by which the documented unit may be further off than the best one, and
of few."""

LIKELY_DURATION_S = (1.0, 30 * 86_400.0)
"""ASSUMPTION: the median run time of a log's jobs lies between these."""

UNITS: tuple[TimeUnit, ...] = ("s", "ms", "us", "ns")
"""Units of times that nobody named."""

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
class Counting:
    """How numbers count time."""

    unit: TimeUnit
    is_relative: bool  # they count from an origin of the log, else from 1970 UTC
    is_inferred: bool = False  # inferred from the numbers alone, which is noted

    def noted(self, n_rows: int) -> dict[str, int]:
        """Return the note on an inferred unit, with the rows concerned."""
        cause = (
            f"times taken as {self.unit} by their span and spacing; else give time_unit"
        )
        return {cause: n_rows} if self.is_inferred else {}


def counting_of(
    values: Float64Array,
    unit: TimeUnit | None = None,
    documented: TimeUnit | None = None,
) -> Counting | None:
    """Return how numbers count time, in a unit or in the likely one.

    None where that is not clear. The unit that a format documents is taken where it is
    about as likely as any other.
    """
    later = values[values > 0]
    units: Sequence[TimeUnit] = (unit,) if unit else UNITS
    low, high = np.percentile(later, [5, 95]) if later.size else (0.0, 0.0)
    for of in units:
        if (
            SINCE_US[0] <= low * US_PER_UNIT[of]
            and high * US_PER_UNIT[of] < SINCE_US[1]
        ):
            return Counting(of, is_relative=False)
    if unit:
        return Counting(unit, is_relative=True)
    far = _far_from_likely(values[~np.isnan(values)])
    for of in far:
        others = [off for other, off in far.items() if other != of]
        if values.size >= MIN_TIMES and far[of] + 1 <= min(others):
            return Counting(of, is_relative=True, is_inferred=of != documented)
    as_likely = AS_LIKELY if values.size >= MIN_TIMES else AS_LIKELY_FEW
    if documented and (not far or far[documented] <= min(far.values()) + as_likely):
        return Counting(documented, is_relative=True)
    return None


def _far_from_likely(values: Float64Array) -> dict[TimeUnit, float]:
    """Return by how many powers of ten times in each unit are off.

    Nothing for one time.
    """
    low, high = np.percentile(values, [5, 95]) if values.size else (0.0, 0.0)
    span = (high - low) / 0.9
    if not span > 0:
        return {}
    spacing = spacing_of(values)
    return {
        unit: decades_off(span * unit_s, *LIKELY_SPAN_S)
        + decades_off(spacing * unit_s, 0.0, MAX_SPACING_S)
        + decades_off(values.size / (span * unit_s), 0.0, MAX_RATE_PER_S)
        for unit in UNITS
        for unit_s in (US_PER_UNIT[unit] / 1e6,)
    }


def spacing_of(times: Float64Array | Int64Array) -> float:
    """Return the resolution to which times appear rounded; 0 for fractions."""
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
    """Return by how many powers of ten a value lies outside of bounds."""
    if value > high:
        return log10(value / high)
    return log10(low / value) if value < low else 0.0


def counting_in(
    table: ReadTable,
    keys: Iterable[str],
    unit: TimeUnit | None,
    *,
    documented: TimeUnit | None = None,
    stated: Counting | None = None,
    instead: str = "",
) -> Counting | None:
    """Return how the columns of a table that hold numbers count time.

    None where they are stamps. What is stated holds, but where the size of the numbers
    rules it out: that is refused, with what to do instead.
    """
    there = [key for key in keys if key in table and len(table)]
    first = next((word for key in there if (word := first_word(table, key))), "")
    if not re.match(IS_NUMBER, first):
        return stated
    name = f"column '{table.names[there[0]]}' is {value_shown(table, there[0], 0)}"
    if stated is not None:
        result = counting_of(np.array([float(first)]))
        if result is not None and _is_wrong(stated, result, float(first)):
            instead = instead or f"leave time_format{option('--time-format')} out"
            table.fail(
                0, f"{name}, which by its size is {result.unit} since 1970; {instead}"
            )
        return stated
    values = np.concatenate([numbers(table, key, _ANY_TIME) for key in there])
    result = counting_of(values, unit, documented)
    named = {unit_in(table.names[key]) for key in there}
    if not unit and len(named) == 1 and (of := named.pop()):
        by_name = counting_of(values, of)
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


def _is_wrong(stated: Counting, since_1970: Counting, value: float) -> bool:
    """Return whether a number that may count from 1970 can't count as stated."""
    if stated.is_relative:
        return value * US_PER_UNIT[stated.unit] > LIKELY_SPAN_S[1] * 1e6
    return stated.unit != since_1970.unit


def first_word(table: ReadTable, key: str) -> str:
    """Return the first value of a column that is not missing; empty where all are."""
    words = (word.as_py().strip() for word in table.columns[key])
    return next((word for word in words if word.lower() not in MISSING_WORDS), "")


def unit_in(name: str) -> TimeUnit | None:
    """Return the unit that ends a column's name, as ``run_ms`` or ``wall [min]``."""
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)
    return _WORDS.get(words[-1].lower()) if len(words) > 1 else None


def is_clocked(table: ReadTable, key: str) -> bool:
    """Return whether a column holds durations such as ``1-02:03:04``."""
    return key in table and ":" in first_word(table, key)


def clocked_ms(table: ReadTable, key: str) -> Int64Array:
    """Return durations such as ``1-02:03:04`` (days first) in ms, or `MISSING`."""
    column = without_missing(table.columns[key])
    result = fields_ms(column)
    good = np.asarray(pc.is_null(column), dtype=bool) | (result != MISSING)
    words = "a duration such as 01:30:00 or 1-02:03:04 (days-hours:minutes:seconds)"
    fail_values(table, key, good, words, "write it so, or as a number")
    return result


def fields_ms(words: Any, pattern: str = CLOCKED) -> Int64Array:
    """Return sums of parts named by units in a pattern [ms], or `MISSING`."""
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
