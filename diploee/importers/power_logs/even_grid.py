"""Rows at almost even stamps become values on an even grid, repaired and counted by cause."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from diploee.errors import LogFormatError
from diploee.importers.power_logs.curves import longest_gap_s
from diploee.profiles.resample import US_PER_MS
from diploee.tables import BoolArray, Float64Array, Int64Array
from diploee.textio.tables import ReadTable

OFF_GRID = 0.1
"""A stamp is uneven if it lies further from its place than this part of a step."""
MOST_UNEVEN = 0.05
"""Largest part of the rows that may be uneven."""
MOST_STEPS_PER_ROW = 100


@dataclass(frozen=True, eq=False)
class EvenGrid:
    """Columns at even steps."""

    start_us: int  # stamp of the first value [us]
    step_ms: int  # step [ms]
    n_steps: int  # number of values of each column
    values: dict[str, Float64Array]  # the columns
    counts: dict[str, int]  # rows read, dropped and repaired, by cause


def even_grid(
    table: ReadTable,
    t_us: Int64Array,
    there: BoolArray,
    columns: Mapping[str, Float64Array],
    max_gap_s: float,
) -> EvenGrid:
    """Put rows on an even grid.

    The step is the most frequent distance of neighbouring stamps. Rows without a time or with a
    time that is taken are dropped; a stamp within half a step is moved to its place; missing values
    are bridged by straight lines, and held at the ends.
    """
    rows = np.flatnonzero(there)
    in_order = bool(np.all(np.diff(t_us[rows]) >= 0))
    counts = {"rows": int(there.size), "rows_without_time": int(there.size - rows.size)}
    counts["rows_out_of_order"] = int(np.count_nonzero(np.diff(t_us[rows]) < 0))
    if not in_order:
        rows = rows[np.argsort(t_us[rows], kind="stable")]
    first = np.concatenate(([True], np.diff(t_us[rows]) > 0))[: rows.size]
    counts["repeated_times"] = int(rows.size - np.count_nonzero(first))
    rows = rows[first]
    step_ms = _step_ms(table, t_us, rows)
    longest_gap_s(t_us[rows], np.arange(rows.size), max_gap_s, lambda k: table.where(int(rows[k])))
    nth, n_moved = _steps_of(table, t_us, rows, step_ms)
    counts["times_moved_to_the_grid"] = n_moved
    kept = np.concatenate(([True], np.diff(nth) > 0))
    counts["repeated_times"] += int(rows.size - np.count_nonzero(kept))
    rows, nth = rows[kept], nth[kept]
    n_steps = int(nth[-1]) + 1
    counts["missing_rows_filled"] = n_steps - rows.size
    values = {}
    for name, column in columns.items():
        values[name], n_filled = _filled(
            table, name, column[rows], rows, nth, n_steps, step_ms, max_gap_s
        )
        counts[f"missing_{name}_filled"] = n_filled
    return EvenGrid(int(t_us[rows[0]]), step_ms, n_steps, values, counts)


def _step_ms(table: ReadTable, t_us: Int64Array, rows: Int64Array) -> int:
    if rows.size < 2:
        raise LogFormatError(
            f"{table.path}: {rows.size} rows with a time of their own, expected two or more to "
            "tell the step; give a complete table"
        )
    steps_ms = np.rint(np.diff(t_us[rows]) / US_PER_MS).astype(np.int64)
    found, n_times = np.unique(steps_ms, return_counts=True)
    step_ms = int(found[np.argmax(n_times)])
    if step_ms < 1:
        raise LogFormatError(
            f"{table.where(int(rows[1]))}: the step is less than 1 ms, expected 1 ms or more; "
            "resample the data"
        )
    return step_ms


def _steps_of(
    table: ReadTable, t_us: Int64Array, rows: Int64Array, step_ms: int
) -> tuple[Int64Array, int]:
    """Return the place of each row on the grid, and how many stamps are moved to get there."""
    steps = (t_us[rows] - t_us[rows[0]]) / (step_ms * US_PER_MS)
    nth = np.rint(steps).astype(np.int64)
    if nth[-1] >= MOST_STEPS_PER_ROW * rows.size:
        raise LogFormatError(
            f"{table.path}: {rows.size:,} rows over {int(nth[-1]) + 1:,} steps of "
            f"{step_ms / 1000:g} s, expected few gaps; resample the data"
        )
    off = np.abs(steps - nth)
    uneven = off > OFF_GRID
    if np.count_nonzero(uneven) > MOST_UNEVEN * rows.size:
        row = int(rows[np.argmax(uneven)])
        raise LogFormatError(
            f"{table.where(row)}: its time lies between the steps of {step_ms / 1000:g} s "
            f"({int(uneven.sum()):,} such rows), expected even steps; resample the data"
        )
    return nth, int(np.count_nonzero(off * step_ms > 1))


def _filled(
    table: ReadTable,
    name: str,
    column: Float64Array,
    rows: Int64Array,
    nth: Int64Array,
    n_steps: int,
    step_ms: int,
    max_gap_s: float,
) -> tuple[Float64Array, int]:
    good = ~np.isnan(column)
    if not good.any():
        raise LogFormatError(
            f"{table.where(int(rows[0]))}: '{name}' is missing in every row, expected numbers; "
            "give a complete table"
        )

    def where(place: int) -> str:
        return table.where(int(rows[np.searchsorted(nth, places[place], side="right") - 1]))

    # The ends of the grid count, so that a gap there is held to the same limit.
    places = np.unique(np.concatenate(([0], nth[good], [n_steps - 1])))
    known = np.flatnonzero(np.isin(places, nth[good]))
    longest_gap_s(places * (step_ms * US_PER_MS), known, max_gap_s, where, f"'{name}'")
    values = np.interp(np.arange(n_steps), nth[good], column[good])
    return values, int(np.count_nonzero(~good))
