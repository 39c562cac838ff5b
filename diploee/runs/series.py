"""The power series of a run folder, streamed with every row checked.

The one reader of it.
"""

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

from diploee.base.clock import WallClock, instant_ms, is_skipped, local_ms, zone_name
from diploee.base.column_specs import Columns, ValueKind, coarser, find_column
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
"""Rows read at a time; it bounds the memory and does not change the values."""

CHANGED = "the run folder was changed, run it again"

NO_KINDS: Mapping[str, ValueKind] = MappingProxyType({})

Rows = tuple[int, int]
"""Rows of a series, from the first to before the second."""


@dataclass(frozen=True, eq=False)
class SeriesBlock(Brief):
    """Consecutive steps of some columns."""

    starts_ms: Int64Array  # start of each step [ms since 1970 in UTC], shape (n,)
    columns: Mapping[str, Float64Array]  # values by column, in its unit, of shape (n,)

    def rows(self, rows: slice) -> SeriesBlock:
        """Return a part of the steps."""
        return SeriesBlock(
            self.starts_ms[rows],
            {name: values[rows] for name, values in self.columns.items()},
        )


@dataclass(frozen=True)
class RunSeries(Brief):
    """A power series that a run folder holds.

    Of the whole run, or one of its event windows.
    """

    folder: Path  # the run folder
    path: Path  # its file, with the columns of ``facility.parquet``
    start: datetime  # of the first interval, in the facility's zone
    step_ms: int  # interval of the series [ms]
    n_rows: int  # number of intervals
    event_window: str = ""  # its name; empty for the whole run

    @cached_property
    def columns(self) -> Columns:
        """Its columns, as the run declared them."""
        return stored_columns(self.folder / FACILITY_FILE)

    @property
    def name(self) -> str:
        """The kind of the series in a word."""
        return "event window" if self.event_window else "run"

    @property
    def step_s(self) -> float:
        """Interval of the series [s]."""
        return self.step_ms / MS_PER_S

    @property
    def start_ms(self) -> int:
        """Start of the first interval [ms since 1970 in UTC]."""
        return instant_ms(self.start)

    @property
    def end(self) -> datetime:
        """End of the last interval."""
        return self.at(self.n_rows)

    def at(self, row: int) -> datetime:
        """Return when a row starts, local time."""
        return WallClock(self.start).at(row * self.step_ms)

    @property
    def covered(self) -> str:
        """The span as text."""
        hours = self.n_rows * self.step_ms / MS_PER_H
        return f"{self.start.isoformat()} to {self.end.isoformat()} ({hours:,.5g} h)"

    def local_ms(self, starts_ms: Int64Array) -> Int64Array:
        """Return times since 1970 in UTC [ms] as local times since 1970 [ms]."""
        return local_ms(starts_ms, self.start.tzinfo or UTC)

    def row_at(self, moment: datetime, where: str, *, is_end: bool = False) -> int:
        """Return the row that starts at a moment, or the end of the series.

        The moment is local time of the facility unless it has a zone, of an hour that
        comes twice the first; `where` says in the error what gave it. The time at which
        the clock is put forward exists as an end (`is_end`) alone.
        """
        clock = WallClock(self.start)
        before = moment - timedelta(milliseconds=1 if is_end else 0)
        if moment.tzinfo is None and all(
            is_skipped(at, clock.zone) for at in (moment, before)
        ):
            raise InputError(
                f"{where}: {moment.isoformat()} does not exist in "
                f"{zone_name(clock.zone)}, where the clock is put forward over it"
            )
        row, within = divmod(clock.time_ms(moment), self.step_ms)
        if not 0 <= row <= self.n_rows or (row == self.n_rows and within):
            raise InputError(
                f"{where}: {moment.isoformat()} lies outside the {self.name}, "
                f"{self.covered}"
            )
        if within:
            raise InputError(
                f"{where}: {moment.isoformat()} lies within an interval; the "
                f"{self.name}'s start every {self.step_s:g} s from "
                f"{self.start.isoformat()}"
            )
        return row

    def check(self, columns: Sequence[str] = ()) -> tuple[str, ...]:
        """Return the names of the file's columns, after a look at its head alone.

        A file that is not as long as it should be is refused, and columns that are
        missing, there twice, or hold no numbers.
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
                f"{self.path}: holds {n_rows:,} intervals where the {self.name} has "
                f"{self.n_rows:,}; {CHANGED}"
            )
        return names

    def blocks(
        self,
        columns: Sequence[str],
        step_ms: int | None = None,
        rows: Rows | None = None,
    ) -> Iterator[SeriesBlock]:
        """Stream columns; arguments and errors as in `RunFolder.blocks`, the span given in rows."""  # noqa: E501
        self.check(columns)
        step_ms = step_ms or self.step_ms
        if step_ms % self.step_ms:
            raise InputError(
                f"{self.path}: a step of {step_ms / MS_PER_S:g} s is no multiple of "
                f"the {self.name}'s {self.step_s:g} s"
            )
        blocks = self._read(columns, *(rows or (0, self.n_rows)))
        if step_ms == self.step_ms:
            return blocks
        kinds = {name: find_column(name, self.columns)[0].kind for name in columns}
        return averaged(blocks, step_ms // self.step_ms, kinds)

    def read(self, columns: Sequence[str], rows: Rows | None = None) -> SeriesBlock:
        """Return columns as one block; as `blocks`, for parts that fit into memory."""
        blocks = list(self.blocks(columns, rows=rows))
        return _joined(blocks) if blocks else SeriesBlock(np.empty(0, np.int64), {})

    def frame(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """Return columns, all by default, indexed by zone-aware `timestamp`.

        Floats in float64. As they are stored, in float32, a running sum over a year
        would be off by 0.01 %.
        """
        names = self.check(columns or ())
        chosen = (
            [name for name in names if name != "timestamp"]
            if columns is None
            else columns
        )
        self.check(chosen)
        with open_parquet(self.path, {}, remedy=CHANGED) as file:
            table = file.read(columns=["timestamp", *chosen]).select(
                ["timestamp", *chosen]
            )
        row = 0
        for batch in table.to_batches():
            self._block(batch, chosen, row)
            row += batch.num_rows
        table = table.cast(
            pa.schema(
                [f.with_type(_wide(f.type)) for f in table.schema],
                table.schema.metadata,
            )
        )
        frame: pd.DataFrame = table.to_pandas()
        return frame.set_index("timestamp")

    def _read(
        self, columns: Sequence[str], first: int, end: int
    ) -> Iterator[SeriesBlock]:
        wanted, missing = ["timestamp", *columns], end - first
        with open_parquet(self.path, {}, remedy=CHANGED) as file:
            row = 0
            # Group by group: over all of them pyarrow keeps what it has read of the
            # file.
            for group in range(file.num_row_groups):
                n_rows = file.metadata.row_group(group).num_rows
                if row + n_rows <= first or row >= end:
                    row += n_rows
                    continue
                for batch in file.iter_batches(
                    BATCH_ROWS, row_groups=[group], columns=wanted
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
        where = one_line(str(self.path))
        starts_ms = self.start_ms + np.arange(row, row + batch.num_rows) * self.step_ms
        # By name, as a dotted one can select further columns.
        result = {}
        for name in columns:
            values = batch.column(batch.schema.get_field_index(name))
            gaps = (
                values.null_count
                and find_column(name, self.columns)[0].per == "service"
            )
            result[name] = numbers(
                values, f"{where}: column '{name}'", row, has_gaps=bool(gaps)
            )
        stamps = batch.column(batch.schema.get_field_index("timestamp"))
        found_ms = stamps.cast(pa.timestamp("ms", stamps.type.tz)).cast(pa.int64())
        # Only then: filling makes a scalar, which imports pandas
        if found_ms.null_count:
            found_ms = found_ms.fill_null(-1)
        stamps_ms = as_numpy(pa.chunked_array([found_ms]), np.int64)
        if not np.array_equal(stamps_ms, starts_ms):
            wrong = int(np.argmax(stamps_ms != starts_ms))
            raise InputError(
                f"{where}: the stamp of row {row + wrong:,} is {stamps[wrong]}, "
                f"expected one every {self.step_s:g} s from {self.start.isoformat()}; "
                f"{CHANGED}"
            )
        return SeriesBlock(starts_ms, result)


def _wide(kind: pa.DataType) -> pa.DataType:
    return pa.float64() if pa.types.is_float32(kind) else kind


def averaged(
    blocks: Iterable[SeriesBlock],
    n_rows: int,
    kinds: Mapping[str, ValueKind] = NO_KINDS,
) -> Iterator[SeriesBlock]:
    """Yield n rows each as one, means but where the kind of a column is another.

    What is left of a block goes before the next one. The last rows are fewer where they
    are no whole number of steps.
    """
    left: list[SeriesBlock] = []
    for block in blocks:
        whole = _joined([*left, block])
        end = whole.starts_ms.size // n_rows * n_rows
        if end:
            yield _coarser(whole.rows(slice(end)), n_rows, kinds)
        left = [whole.rows(slice(end, None))]
    if left and left[0].starts_ms.size:
        yield _coarser(left[0], left[0].starts_ms.size, kinds)


def _coarser(
    block: SeriesBlock, n_rows: int, kinds: Mapping[str, ValueKind]
) -> SeriesBlock:
    return SeriesBlock(
        block.starts_ms[::n_rows],
        {
            name: coarser(v, n_rows, kinds.get(name, "mean"))
            for name, v in block.columns.items()
        },
    )


def _joined(blocks: Sequence[SeriesBlock]) -> SeriesBlock:
    if len(blocks) == 1:
        return blocks[0]
    return SeriesBlock(
        np.concatenate([block.starts_ms for block in blocks]),
        {
            name: np.concatenate([block.columns[name] for block in blocks])
            for name in blocks[0].columns
        },
    )
