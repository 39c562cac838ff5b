"""Streaming reader of the power series in a run folder; every row is checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from diploee.base.clock import (
    NamedSpan,
    WallClock,
    instant_ms,
    is_skipped,
    local_ms,
    zone_name,
)
from diploee.base.column_specs import Columns, ValueKind, coarsen, find_column
from diploee.base.errors import Brief, InputError, one_line
from diploee.base.tables import (
    Float64Array,
    Int64Array,
    Kind,
    as_numpy,
    numbers,
    open_parquet,
)
from diploee.base.units import MS_PER_H, MS_PER_S
from diploee.runs.parquet_files import FACILITY_FILE, stored_columns

if TYPE_CHECKING:
    import pandas as pd

BATCH_ROWS = 1 << 18
"""Rows per read; limits the memory without effect on the values."""

CHANGED = "the run folder was changed, run it again"

NO_KINDS: Mapping[str, ValueKind] = MappingProxyType({})

Rows = tuple[int, int]
"""Half-open range of rows of a series: first row, and row after the last."""


@dataclass(frozen=True, eq=False)
class SeriesBlock(Brief):
    """Columns of a power series over consecutive steps."""

    starts_ms: Int64Array  # start of each step [ms since 1970 in UTC], shape (n,)
    columns: Mapping[str, Float64Array]  # values by column, in its unit, of shape (n,)

    def rows(self, rows: slice) -> SeriesBlock:
        """Return a slice of the steps."""
        return SeriesBlock(
            self.starts_ms[rows],
            {name: values[rows] for name, values in self.columns.items()},
        )


@dataclass(frozen=True)
class RunSeries(Brief):
    """The power series of a run, or of an event window of a run."""

    folder: Path  # the run folder
    path: Path  # file of the series, with the columns of ``facility.parquet``
    start: datetime  # start of the first interval, in the facility's zone
    step_ms: int  # interval of the series [ms]
    n_rows: int  # number of intervals
    event_window: str = ""  # name of the event window; empty for the whole run

    @cached_property
    def columns(self) -> Columns:
        """Column declarations of the series."""
        return stored_columns(self.folder / FACILITY_FILE)

    @property
    def noun(self) -> str:
        """Noun for the series in messages: run or event window."""
        return "event window" if self.event_window else "run"

    @property
    def step_s(self) -> float:
        """Interval of the stored series [s]."""
        return self.step_ms / MS_PER_S

    @property
    def start_ms(self) -> int:
        """Start of the first interval [ms since 1970 in UTC]."""
        return instant_ms(self.start)

    @property
    def end(self) -> datetime:
        """End of the last interval, in local time."""
        return self.at(self.n_rows)

    def at(self, row: int) -> datetime:
        """Return the local start time of a row."""
        return WallClock(self.start).at(row * self.step_ms)

    @property
    def period_text(self) -> str:
        """Start and end of the series as text."""
        hours = self.n_rows * self.step_ms / MS_PER_H
        return f"{self.start.isoformat()} to {self.end.isoformat()} ({hours:,.5g} h)"

    def local_ms(self, starts_ms: Int64Array) -> Int64Array:
        """Convert times [ms since 1970 in UTC] to local times [ms since 1970]."""
        return local_ms(starts_ms, self.start.tzinfo or UTC)

    def row_at(self, moment: datetime, where: str, *, is_end: bool = False) -> int:
        """Return the row that starts at a time, or `n_rows` for the end of the series.

        A naive datetime is local time of the facility; if it occurs twice, the first
        one is meant. `where` is the origin of the time, for error messages. A time
        skipped by daylight saving is valid only as the end of a period (`is_end`).
        """
        clock = WallClock(self.start)
        last_time = moment - timedelta(milliseconds=1 if is_end else 0)
        if moment.tzinfo is None and all(
            is_skipped(time, clock.zone) for time in (moment, last_time)
        ):
            raise InputError(
                f"{where}: {moment.isoformat()} does not exist in "
                f"{zone_name(clock.zone)}, where the clock is put forward over it"
            )
        row, remainder = divmod(clock.time_ms(moment), self.step_ms)
        if not 0 <= row <= self.n_rows or (row == self.n_rows and remainder):
            raise InputError(
                f"{where}: {moment.isoformat()} lies outside the {self.noun}, "
                f"{self.period_text}"
            )
        if remainder:
            raise InputError(
                f"{where}: {moment.isoformat()} lies within an interval; the "
                f"{self.noun}'s start every {self.step_s:g} s from "
                f"{self.start.isoformat()}"
            )
        return row

    def rows_of(self, span: NamedSpan) -> Rows:
        """Return the rows of a period; errors name the file and the period."""
        first = self.row_at(span.start, f"{span.where}: start")
        end = span.end
        if span.duration is not None:
            end = self.at(first).astimezone(UTC) + span.duration
        last = self.row_at(end, f"{span.where}: end", is_end=True)
        length = timedelta(milliseconds=(last - first) * self.step_ms)
        if length != (span.duration or span.end - span.start):
            raise InputError(
                f"{span.where}: the clock is changed within the interval; give both "
                "times with their offset from UTC"
            )
        return first, last

    def check(self, columns: Sequence[str] = ()) -> tuple[str, ...]:
        """Return the names of the file's columns, from the file's metadata only.

        Raises an error if the file has the wrong number of rows, or if columns are
        missing, duplicated or not numeric.
        """
        kinds: dict[str, Kind] = {
            "timestamp": "time",
            **dict.fromkeys(columns, "number"),
        }
        with open_parquet(self.path, kinds, remedy=CHANGED) as file:
            n_rows = file.metadata.num_rows
            names = tuple(file.schema_arrow.names)
        if n_rows != self.n_rows:
            raise InputError(
                f"{self.path}: holds {n_rows:,} intervals where the {self.noun} has "
                f"{self.n_rows:,}; {CHANGED}"
            )
        return names

    def blocks(
        self,
        columns: Sequence[str],
        step_ms: int | None = None,
        rows: Rows | None = None,
    ) -> Iterator[SeriesBlock]:
        """Stream columns as `RunFolder.blocks` does, for a range of rows."""
        self.check(columns)
        step_ms = step_ms or self.step_ms
        if step_ms % self.step_ms:
            raise InputError(
                f"{self.path}: a step of {step_ms / MS_PER_S:g} s is no multiple of "
                f"the {self.noun}'s {self.step_s:g} s"
            )
        blocks = self._read(columns, *(rows or (0, self.n_rows)))
        if step_ms == self.step_ms:
            return blocks
        kinds = {name: find_column(name, self.columns)[0].kind for name in columns}
        return average_steps(blocks, step_ms // self.step_ms, kinds)

    def read(self, columns: Sequence[str], rows: Rows | None = None) -> SeriesBlock:
        """Return columns as one block, for series that fit into memory."""
        blocks = list(self.blocks(columns, rows=rows))
        return (
            _concatenate(blocks) if blocks else SeriesBlock(np.empty(0, np.int64), {})
        )

    def frame(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """Return columns (all by default), indexed by zone-aware `timestamp`.

        Floats are float64: a cumulative sum over a year in the stored float32 would be
        off by 0.01 %.
        """
        names = self.check(columns or ())
        column_names = (
            [name for name in names if name != "timestamp"]
            if columns is None
            else columns
        )
        self.check(column_names)
        with open_parquet(self.path, {}, remedy=CHANGED) as file:
            table = file.read(columns=["timestamp", *column_names]).select(
                ["timestamp", *column_names]
            )
        row = 0
        for batch in table.to_batches():
            self._block(batch, column_names, row)
            row += batch.num_rows
        table = table.cast(
            pa.schema(
                [f.with_type(_widened_type(f.type)) for f in table.schema],
                table.schema.metadata,
            )
        )
        frame: pd.DataFrame = table.to_pandas()
        return frame.set_index("timestamp")

    def _read(
        self, columns: Sequence[str], first: int, end: int
    ) -> Iterator[SeriesBlock]:
        """Yield the blocks of a range of rows."""
        names, missing = ["timestamp", *columns], end - first
        with open_parquet(self.path, {}, remedy=CHANGED) as file:
            row = 0
            # One row group at a time: across groups pyarrow keeps all it has read.
            for group in range(file.num_row_groups):
                n_rows = file.metadata.row_group(group).num_rows
                if row + n_rows <= first or row >= end:
                    row += n_rows
                    continue
                for batch in file.iter_batches(
                    BATCH_ROWS, row_groups=[group], columns=names
                ):
                    low, high = max(first - row, 0), min(end - row, batch.num_rows)
                    if low < high:
                        yield self._block(
                            batch.slice(low, high - low), columns, row + low
                        )
                        missing -= high - low
                    row += batch.num_rows
        if missing:
            raise InputError(
                f"{self.path}: {missing:,} intervals are missing; {CHANGED}"
            )

    def _block(
        self, batch: pa.RecordBatch, columns: Sequence[str], row: int
    ) -> SeriesBlock:
        """Return a batch of the file as a block; check values and timestamps."""
        where = one_line(str(self.path))
        starts_ms = self.start_ms + np.arange(row, row + batch.num_rows) * self.step_ms
        # By index, as a dotted name could select further columns
        values_by_column = {}
        for name in columns:
            values = batch.column(batch.schema.get_field_index(name))
            may_have_gaps = (
                values.null_count
                and find_column(name, self.columns)[0].per == "service"
            )
            values_by_column[name] = numbers(
                values, f"{where}: column '{name}'", row, has_gaps=bool(may_have_gaps)
            )
        timestamps = batch.column(batch.schema.get_field_index("timestamp"))
        stored_ms = timestamps.cast(pa.timestamp("ms", timestamps.type.tz)).cast(
            pa.int64()
        )
        # Only if needed: filling creates a scalar, which imports pandas
        if stored_ms.null_count:
            stored_ms = stored_ms.fill_null(-1)
        timestamps_ms = as_numpy(pa.chunked_array([stored_ms]), np.int64)
        if not np.array_equal(timestamps_ms, starts_ms):
            bad_row = int(np.argmax(timestamps_ms != starts_ms))
            raise InputError(
                f"{where}: the timestamp of row {row + bad_row:,} is "
                f"{timestamps[bad_row]}, expected one every {self.step_s:g} s from "
                f"{self.start.isoformat()}; {CHANGED}"
            )
        return SeriesBlock(starts_ms, values_by_column)


def _widened_type(kind: pa.DataType) -> pa.DataType:
    """Return float64 for float32, or the unchanged type."""
    return pa.float64() if pa.types.is_float32(kind) else kind


def average_steps(
    blocks: Iterable[SeriesBlock],
    n_rows: int,
    kinds: Mapping[str, ValueKind] = NO_KINDS,
) -> Iterator[SeriesBlock]:
    """Aggregate every n rows to one, by the kind of each column (mean by default).

    A step may extend over two blocks. The last step has fewer rows if the number of
    rows is not a multiple of n.
    """
    carried: list[SeriesBlock] = []
    for block in blocks:
        joined = _concatenate([*carried, block])
        end = joined.starts_ms.size // n_rows * n_rows
        if end:
            yield _coarsen_block(joined.rows(slice(end)), n_rows, kinds)
        carried = [joined.rows(slice(end, None))]
    if carried and carried[0].starts_ms.size:
        yield _coarsen_block(carried[0], carried[0].starts_ms.size, kinds)


def _coarsen_block(
    block: SeriesBlock, n_rows: int, kinds: Mapping[str, ValueKind]
) -> SeriesBlock:
    """Aggregate every n rows of a block."""
    return SeriesBlock(
        block.starts_ms[::n_rows],
        {
            name: coarsen(v, n_rows, kinds.get(name, "mean"))
            for name, v in block.columns.items()
        },
    )


def _concatenate(blocks: Sequence[SeriesBlock]) -> SeriesBlock:
    """Concatenate blocks of a series that follow each other."""
    if len(blocks) == 1:
        return blocks[0]
    return SeriesBlock(
        np.concatenate([block.starts_ms for block in blocks]),
        {
            name: np.concatenate([block.columns[name] for block in blocks])
            for name in blocks[0].columns
        },
    )
