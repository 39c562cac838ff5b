"""Aggregation of a file's requests to a `RequestTrace`.

Requests are read in blocks. Invalid rows are dropped and counted by cause; the others
are counted per service and time step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from diploee.base.clock import MISSING, Zone
from diploee.base.errors import option
from diploee.base.tables import BoolArray, Int64Array
from diploee.base.units import MS_PER_DAY, MS_PER_H, MS_PER_MIN, MS_PER_S, TimeUnit
from diploee.importers.registry import FileFormat, detects_columns, drop_rows
from diploee.importers.request_traces.request_counts import (
    UNKNOWN_SERVICE,
    RequestCounts,
    ServiceNames,
    check_any_row_kept,
)
from diploee.importers.request_traces.request_rows import (
    RequestRows,
    TraceOptions,
    request_rows,
)
from diploee.importers.text.delimited_tables import (
    REPEATED_HEADER,
    TRUNCATED,
    HeaderTable,
    ReadTable,
    read_header,
)
from diploee.importers.text.text_lines import TextLines, first_block
from diploee.importers.text.time_units import (
    TimeScale,
    column_time_scale,
    rounding_step,
)
from diploee.loads.import_counts import (
    NAIVE,
    NOT_BELIEVED,
    STRAY,
    STRAY_GAP_MS,
    YEARS_MS,
    ImportCounts,
    believed_span,
)
from diploee.loads.services.request_trace import RequestTrace

OUT_OF_ORDER = "earlier than the row before; put in order"

MAX_TOGETHER = 0.01
_US_PER_MS = 1000


def _covered_period_ms(
    first_us: int, last_us: int, n_gaps: int
) -> tuple[int, int] | None:
    """Return start and end of the period that a trace covers [ms].

    Return None if all requests have the same time. ASSUMPTION (judgement): logs start
    and end at round times. The start is the roundest time (full day, hour, minute or
    second) within two mean gaps before the first request, else the first request. The
    end is found likewise after the last request, else one mean gap after it.
    """
    if not n_gaps:
        return None
    gap_ms = (last_us - first_us) / n_gaps / _US_PER_MS
    first_ms, last_ms = first_us // _US_PER_MS, last_us // _US_PER_MS
    begin_ms = _roundest(first_us / _US_PER_MS - 2 * gap_ms, first_ms, first_ms)
    end_ms = round(last_us / _US_PER_MS + gap_ms)
    end_ms = _roundest(
        last_ms + 1, last_us / _US_PER_MS + 2 * gap_ms, max(end_ms, last_ms + 1)
    )
    return begin_ms, end_ms


def _roundest(low: float, high: float, otherwise: int) -> int:
    for unit_ms in (MS_PER_DAY, MS_PER_H, MS_PER_MIN, MS_PER_S):
        moment_ms = round(otherwise / unit_ms) * unit_ms
        if low <= moment_ms <= high:
            return moment_ms
    return otherwise


def _has_fine_times(time_us: Int64Array) -> bool:
    """Return True if times are so fine that equal rows must be the same request.

    ASSUMPTION (judgement): times are so fine if the resolution is a millisecond or
    finer, and fewer than one in a hundred times are equal by chance.
    """
    if not time_us.size:
        return False
    spacing_us, span_us = rounding_step(time_us), float(time_us.max() - time_us.min())
    return (
        spacing_us <= _US_PER_MS and time_us.size * spacing_us < MAX_TOGETHER * span_us
    )


class _TraceTotals:
    """Running totals over the blocks of a trace, in file order.

    With `within`, a first and a last step, requests outside of these are dropped as
    outliers.
    """

    def __init__(
        self,
        path: Path,
        time_scale: TimeScale | None,
        options: TraceOptions,
        within: tuple[int, int] | None,
        zero_output_fails: bool,
    ) -> None:
        self._path, self._time_scale, self._options = path, time_scale, options
        self._is_relative = time_scale is not None and time_scale.is_relative
        self._zero_output_fails = zero_output_fails
        self._has_fine_times = False
        self._zone = options.zone
        self._requests: list[Int64Array] = []
        self._within = within
        self._services = ServiceNames(path, options.services)
        self._n_rows = self._n_kept = 0
        self._dropped: Counter[str] = Counter()
        self._repaired: Counter[str] = Counter()
        self._steps = RequestCounts()
        self._lengths: dict[str, RequestCounts] = {}
        self._last_row: tuple[int, ...] | None = None
        self._last_us = MISSING
        self._span_us = (-MISSING, MISSING)
        self._n_gaps = self._n_naive = 0

    def add(self, rows: RequestRows) -> None:
        """Add the rows of the next block to the totals."""
        self._n_rows += len(rows) + rows.n_cut
        self._dropped[TRUNCATED] += rows.n_cut
        self._repaired[REPEATED_HEADER] += rows.n_headers
        self._n_naive += rows.n_naive
        self._zone = self._zone or rows.zone
        if not len(rows):
            return
        if self._last_row is None:
            self._has_fine_times = _has_fine_times(
                rows.time_us[rows.time_us != MISSING]
            )
        service = self._services.numbers(rows)
        repeated = self._repeats(rows, service)
        keep = np.ones(len(rows), dtype=bool)
        drop_rows(keep, self._reasons(rows, service, repeated), self._dropped)
        if not self._has_fine_times:
            cause = "equal to the row before; kept, as the timestamps are too coarse"
            self._repair(cause, repeated & keep)
        if rows.service is not None and "" in rows.service_names:
            nameless = np.array(rows.service_names)[rows.service] == ""
            self._repair(f"no service; named '{UNKNOWN_SERVICE}'", nameless & keep)
        if keep.any():
            self._count(rows, service, keep)

    def _repair(self, cause: str, mask: BoolArray) -> None:
        self._repaired[cause] += int(np.count_nonzero(mask))

    def trace(self, trace_format: str) -> RequestTrace:
        """Return the request trace from the totals of all blocks."""
        self._services.check_requested()
        noted = {} if self._time_scale is None else self._time_scale.note(self._n_kept)
        counts = ImportCounts(
            self._n_rows,
            self._n_kept,
            self._dropped,
            self._repaired,
            {NAIVE: self._n_naive} | noted,
        )
        check_any_row_kept(self._path, counts)
        names, step_ms = self._services.names, self._options.step_ms
        first, n_requests = self._steps.steps(self._path, len(names), step_ms)
        inputs, outputs = (
            self._lengths[side].lengths(len(names)) if side in self._lengths else ()
            for side in ("input", "output")
        )
        return RequestTrace(
            source=str(self._path),
            trace_format=trace_format,
            services=names,
            origin_ms=first * step_ms,
            is_relative=self._is_relative,
            step_ms=step_ms,
            n_requests=n_requests,
            input_tokens=inputs,
            output_tokens=outputs,
            counts=counts,
            own_span_ms=_covered_period_ms(*self._span_us, self._n_gaps),
            zone=self._zone or Zone(),
            requests=np.concatenate(self._requests, axis=1) if self._requests else None,
        )

    def steps_without_outliers(self) -> tuple[int, int] | None:
        """Return first and last step without outliers; None if there are none."""
        step, _, n = self._steps.result()
        used, index = np.unique(step, return_inverse=True)
        gap = STRAY_GAP_MS // self._options.step_ms
        return believed_span(used, np.bincount(index, n), gap) if used.size else None

    def _repeats(self, rows: RequestRows, service: Int64Array) -> BoolArray:
        """Return a mask of the rows that equal the previous row in all columns."""
        columns = [
            column
            for column in (rows.time_us, rows.input_tokens, rows.output_tokens, service)
            if column is not None
        ]
        repeated = np.ones(len(rows), dtype=bool)
        for column in columns:
            repeated[1:] &= column[1:] == column[:-1]
        repeated[0] = tuple(int(column[0]) for column in columns) == self._last_row
        self._last_row = tuple(int(column[-1]) for column in columns)
        return repeated

    def _reasons(
        self, rows: RequestRows, service: Int64Array, repeated: BoolArray
    ) -> Iterator[tuple[str, BoolArray]]:
        """Yield causes of dropped rows with masks; a row counts for its first cause."""
        yield "no time", rows.time_us == MISSING
        if self._is_relative:
            yield "negative time", rows.time_us < 0
        else:
            first_us, end_us = (ms * _US_PER_MS for ms in YEARS_MS)
            yield NOT_BELIEVED, (rows.time_us < first_us) | (rows.time_us >= end_us)
        if self._within is not None:
            first, last = self._within
            steps = rows.time_us // (self._options.step_ms * _US_PER_MS)
            yield STRAY, (steps < first) | (steps > last)
        yield "other services", service < 0
        if self._has_fine_times:
            yield "repeated rows", repeated
        if self._zero_output_fails and rows.output_tokens is not None:
            yield "failed requests (no response tokens)", rows.output_tokens == 0

    def _count(self, rows: RequestRows, service: Int64Array, keep: BoolArray) -> None:
        time_us, service = rows.time_us[keep], service[keep]
        self._n_kept += time_us.size
        previous_us = np.concatenate(([self._last_us], time_us[:-1]))
        self._repair(OUT_OF_ORDER, time_us < previous_us)
        self._n_gaps += int(
            np.count_nonzero((time_us != previous_us) & (previous_us != MISSING))
        )
        first_us, last_us = self._span_us
        self._span_us = (
            min(first_us, int(time_us.min())),
            max(last_us, int(time_us.max())),
        )
        self._last_us = int(time_us[-1])
        self._steps.add(time_us // (self._options.step_ms * _US_PER_MS), service)
        sides = {"input": rows.input_tokens, "output": rows.output_tokens}
        lengths = {
            side: tokens[keep] for side, tokens in sides.items() if tokens is not None
        }
        if self._options.requests and len(lengths) == len(sides):
            requests = np.stack([time_us, *lengths.values()])
            self._requests.append(requests[:, (requests[1:] >= 0).all(axis=0)])
        for side, tokens in lengths.items():
            missing, valid = tokens == MISSING, tokens >= 0
            self._repair("no token count; counted without a length", missing)
            self._repair(
                "negative token count; counted without a length", ~missing & ~valid
            )
            counts = self._lengths.setdefault(side, RequestCounts())
            counts.add(tokens[valid], service[valid])


TraceReader = Callable[[Path, TraceOptions], RequestTrace]
TraceFormat = FileFormat[TraceReader]


class RequestBlocks(NamedTuple):
    """Requests of a file as tables, with the unit and origin of their times."""

    tables: Iterator[ReadTable]  # columns time, input, output and service
    stated: TimeScale | None = None  # unit and origin specified by the user
    documented: TimeUnit | None = None  # time unit documented by the format


Opened = Callable[[TextLines, Iterator[TextLines], TraceOptions], RequestBlocks]
"""Function from a file's first block, all blocks and the options to its requests."""


def row_format(
    name: str,
    title: str,
    recognises: Callable[[TextLines], bool],
    open_blocks: Opened,
    *,
    zero_output_fails: bool = False,
) -> TraceFormat:
    """Return a trace format with one request per row.

    Parameters are those of `FileFormat`. With `zero_output_fails`, requests without
    response tokens are dropped as failed.
    """

    def read(path: Path, options: TraceOptions) -> RequestTrace:
        within = None
        while True:
            tables, time_scale, documented = open_blocks(
                *first_block(path, "requests"), options
            )
            first: list[ReadTable] = []
            for table in tables:
                first.append(table)
                if len(table):
                    break
            if first:
                time_scale = column_time_scale(
                    first[-1],
                    ["time"],
                    options.time_unit,
                    documented=documented,
                    stated=time_scale,
                    instead=f"map it as timestamp{option('--column timestamp=NAME')}",
                )
            totals = _TraceTotals(path, time_scale, options, within, zero_output_fails)
            for table in chain(first, tables):
                totals.add(request_rows(table, time_scale, options.zone))
            if (
                within is not None
                or (within := totals.steps_without_outliers()) is None
            ):
                return totals.trace(name)

    return TraceFormat(name, title, recognises, read)


def csv_tables(
    sheet: HeaderTable,
    blocks: Iterable[TextLines],
    columns: Mapping[str, str],
    what: str,
) -> Iterator[ReadTable]:
    """Yield the required columns of each block of a CSV file as a table."""
    sheet.require(columns.values(), what)
    return (
        replace(sheet, text=block).read(columns, what, may_be_cut=True)
        for block in blocks
        if not block.data.isspace()
    )


def csv_format(
    name: str,
    title: str,
    columns: Mapping[str, str],
    documented: TimeUnit | None = None,
    *,
    zero_output_fails: bool = False,
) -> TraceFormat:
    """Return a trace format of CSV files with fixed column names."""

    def open_blocks(
        first: TextLines, blocks: Iterator[TextLines], _: TraceOptions
    ) -> RequestBlocks:
        tables = csv_tables(read_header(first), blocks, columns, title)
        return RequestBlocks(tables, documented=documented)

    return row_format(
        name,
        title,
        detects_columns(*columns.values()),
        open_blocks,
        zero_output_fails=zero_output_fails,
    )
