"""The power series of a source, streamed from its file and resampled by exact means."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from diploee.errors import InputError, did_you_mean, one_of
from diploee.outputs.export.source import Source
from diploee.tables import Float64Array, Int64Array
from diploee.units import J_PER_MWH, MS_PER_S, W_PER_MW

BATCH_ROWS = 1 << 18
"""Rows read at a time; it bounds the memory and does not change the values."""

Span = tuple[int, int]
"""Rows of the source, from the first to before the second."""


@dataclass(frozen=True, eq=False)
class Block:
    """Consecutive steps of the exported series.

    Parameters
    ----------
    first : int
        Position of the first step in the exported series.
    starts_ms : numpy.ndarray, shape (n,), int64
        Start of each step [ms since 1970 in UTC].
    power_w : numpy.ndarray, shape (n,), float64
        Mean power over each step [W].
    """

    first: int
    starts_ms: Int64Array
    power_w: Float64Array

    @property
    def positions(self) -> Int64Array:
        """Position of each step in the exported series."""
        return self.first + np.arange(self.power_w.size, dtype=np.int64)


@dataclass
class Totals:
    """Energy and peak of what was streamed."""

    energy_j: float = 0.0
    peak_w: float = -np.inf

    @property
    def energy_mwh(self) -> float:
        """Energy [MWh]."""
        return self.energy_j / J_PER_MWH

    @property
    def peak_mw(self) -> float:
        """Largest mean power over a step [MW]."""
        return self.peak_w / W_PER_MW


@dataclass
class Series:
    """One power column of a source at a coarser or the same step.

    Parameters
    ----------
    source : Source
        Where the series is read from.
    column : str
        Its column [W].
    step_ms : int
        Step of the export [ms], a multiple of the source's.
    spans : tuple of (int, int)
        Rows of the source to export; each a whole number of steps.
    progress : callable, optional
        Told the fraction streamed after each block.
    """

    source: Source
    column: str
    step_ms: int
    spans: tuple[Span, ...]
    progress: Callable[[float], None] = field(default=lambda _fraction: None)
    totals: Totals = field(default_factory=Totals)
    """Of the last complete pass over `blocks`."""

    @property
    def rows_per_step(self) -> int:
        """Intervals of the source in a step."""
        return self.step_ms // self.source.step_ms

    @property
    def step_s(self) -> float:
        """Step of the export [s]."""
        return self.step_ms / MS_PER_S

    @property
    def in_milliseconds(self) -> bool:
        """Whether steps start within a second, so that stamps need milliseconds."""
        return bool(self.step_ms % MS_PER_S or self.edge(self.spans[0][0]).microsecond)

    @property
    def n_steps(self) -> int:
        """Number of exported steps."""
        return sum(b - a for a, b in self.spans) // self.rows_per_step

    def edge(self, row: int) -> datetime:
        """Return when a row of the source starts, in the facility's fixed UTC offset."""
        zone = self.source.start.tzinfo
        return datetime.fromtimestamp(self._epoch_ms(row) / MS_PER_S, tz=zone)

    def blocks(self) -> Iterator[Block]:
        """Stream the series from its start; memory is bounded by the block.

        Yields
        ------
        Block
            Blocks in the order of time.

        Raises
        ------
        InputError
            If the file is damaged, or holds a power that is no number.
        """
        totals, done, k = Totals(), 0, self.rows_per_step
        self.progress(0.0)
        for span in self.spans:
            row = span[0]
            for power_w in _means(self._rows(span), k):
                if not np.isfinite(power_w).all():
                    raise InputError(
                        f"{self.source.path}: '{self.column}' holds values that are no number"
                    )
                starts = (
                    self._epoch_ms(row) + np.arange(power_w.size, dtype=np.int64) * self.step_ms
                )
                totals.energy_j += float(power_w.sum()) * self.step_s
                totals.peak_w = max(totals.peak_w, float(power_w.max()))
                yield Block(done, starts, power_w)
                row += power_w.size * k
                done += power_w.size
                self.progress(done / self.n_steps)
        self.totals = totals

    def _epoch_ms(self, row: int) -> int:
        return round(self.source.start.timestamp() * MS_PER_S) + row * self.source.step_ms

    def _rows(self, span: Span) -> Iterator[Float64Array]:
        """Read rows of the source, a few hundred thousand at a time [W]."""
        with open_series(self.source, self.column) as file:
            base = 0
            for group in range(file.num_row_groups):
                n_rows = file.metadata.row_group(group).num_rows
                if base + n_rows > span[0] and base < span[1]:
                    yield from self._of_group(file, group, span[0] - base, span[1] - base)
                base += n_rows

    def _of_group(
        self, file: pq.ParquetFile, group: int, low: int, high: int
    ) -> Iterator[Float64Array]:
        at = 0
        try:
            for batch in file.iter_batches(BATCH_ROWS, row_groups=[group], columns=[self.column]):
                a, b = max(low - at, 0), min(high - at, batch.num_rows)
                if a < b:
                    # A dotted name can select further columns too, so take this one by name.
                    values = batch.column(batch.schema.get_field_index(self.column)).slice(a, b - a)
                    yield values.to_numpy(zero_copy_only=False).astype(np.float64)
                at += batch.num_rows
        except (OSError, pa.ArrowException) as error:
            raise _unreadable(self.source.path, error) from error


def _means(rows: Iterator[Float64Array], k: int) -> Iterator[Float64Array]:
    """Return means over `k` rows each; what is left of a batch goes before the next."""
    left = np.empty(0)
    for batch in rows:
        values = np.concatenate([left, batch]) if left.size else batch
        n_whole = values.size // k
        if n_whole:
            yield values[: n_whole * k].reshape(n_whole, k).mean(axis=1)
        left = values[n_whole * k :]


def open_series(source: Source, column: str) -> pq.ParquetFile:
    """Open the file of a power series, after checking that it holds a column whole.

    Raises
    ------
    InputError
        If the file can't be read, is not as long as it should be, or lacks the column.
    """
    path = source.path
    if not path.is_file():
        raise InputError(f"{path}: no such file in this run folder")
    try:
        file = pq.ParquetFile(path, memory_map=False)
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(path, error) from error
    names = [name for name in file.schema_arrow.names if name.split(".")[0].endswith("_power_w")]
    if column not in names:
        file.close()
        raise InputError(
            f"{path}: no power column '{column}' (have: {one_of(names)})"
            f"{did_you_mean(column, names)}"
        )
    if file.metadata.num_rows != source.n_rows:
        n_rows = file.metadata.num_rows
        file.close()
        raise InputError(
            f"{path}: holds {n_rows:,} intervals where the {source.name} has {source.n_rows:,}; "
            "the run folder was changed, run it again"
        )
    return file


def _unreadable(path: object, error: Exception) -> InputError:
    return InputError(f"{path}: can't be read ({(str(error).splitlines() or [''])[0]})")
