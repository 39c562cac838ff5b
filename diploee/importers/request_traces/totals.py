"""From a file to a `RequestTrace`.

Formats, the rules for odd rows, counted by cause, and sums.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np

from diploee.base.clock import MISSING, Zone
from diploee.base.errors import LogFormatError
from diploee.base.tables import BoolArray, Int64Array
from diploee.base.units import MS_PER_DAY, MS_PER_H, MS_PER_MIN, MS_PER_S, TimeUnit
from diploee.importers.registry import FileFormat
from diploee.importers.request_traces.counts import (
    MAX_CELLS,
    UNKNOWN_SERVICE,
    ServiceNames,
    StepCounts,
    TokenCounts,
)
from diploee.importers.request_traces.rows import (
    RequestRows,
    Rules,
    TraceOptions,
    csv_tables,
    rows_of,
)
from diploee.importers.text.tables import (
    REPEATED_HEADER,
    TRUNCATED,
    header_words,
    read_header,
)
from diploee.importers.text.text import Text, first_block
from diploee.importers.text.time_units import spacing_of
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
MAX_SPAN_MS = 20 * 366 * MS_PER_DAY
"""Longest span that is believed [ms]."""

MOST_TOGETHER = 0.01
_US_PER_MS = 1000


def check_span(path: Path, span_ms: int) -> None:
    """Raise `LogFormatError` if a trace spans more than `MAX_SPAN_MS`."""
    if span_ms > MAX_SPAN_MS:
        raise LogFormatError(
            f"{path}: the requests reach over {span_ms / 365.25 / MS_PER_DAY:,.1f} "
            "years, expected 20 at most; correct the times that are wrong"
        )


def _own_span_ms(first_us: int, last_us: int, n_gaps: int) -> tuple[int, int] | None:
    """Return when a trace of requests begins and ends [ms].

    None where one moment has them all. ASSUMPTION [J]: logs are cut at round moments.
    Of those within two mean gaps of the first and the last request the roundest is
    taken: a day, an hour, a minute, a second; where there is none, the first request
    and one gap after the last.
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


def _is_fine(time_us: Int64Array) -> bool:
    """Return whether times hardly ever repeat, so equal rows are one request.

    ASSUMPTION [J]: times are written to a millisecond or finer, and fewer than one in a
    hundred of them would fall together by chance.
    """
    if not time_us.size:
        return False
    spacing_us, span_us = spacing_of(time_us), float(time_us.max() - time_us.min())
    return (
        spacing_us <= _US_PER_MS and time_us.size * spacing_us < MOST_TOGETHER * span_us
    )


class _TraceTotals:
    """Sums over the blocks of a trace, in the order of the file.

    Where `within` is given, requests in other steps than from its first to its last
    have a wrong stamp.
    """

    def __init__(
        self,
        path: Path,
        trace_format: str,
        rules: Rules,
        options: TraceOptions,
        within: tuple[int, int] | None = None,
    ) -> None:
        self._path = path
        self._format = trace_format
        self._rules = rules
        self._is_fine = False
        self._step_ms = options.step_ms
        self._zone = options.zone
        self._requests: list[Int64Array] | None = [] if options.requests else None
        self._within = within
        self._services = ServiceNames(path, options.services)
        self._n_rows = self._n_kept = 0
        self._dropped: Counter[str] = Counter()
        self._repaired: Counter[str] = Counter()
        self._steps = StepCounts()
        self._lengths: dict[str, TokenCounts] = {}
        self._last_row: tuple[int, ...] | None = None
        self._last_us = MISSING
        self._span_us = (-MISSING, MISSING)
        self._n_gaps = self._n_naive = 0

    def add(self, rows: RequestRows) -> None:
        """Add the rows of the next block."""
        self._n_rows += len(rows) + rows.n_cut
        self._dropped[TRUNCATED] += rows.n_cut
        self._repaired[REPEATED_HEADER] += rows.n_headers
        self._n_naive += rows.n_naive
        self._zone = self._zone or rows.zone
        if not len(rows):
            return
        if self._last_row is None:
            self._is_fine = _is_fine(rows.time_us[rows.time_us != MISSING])
        service = self._services.numbers(rows)
        repeated = self._repeats(rows, service)
        keep = np.ones(len(rows), dtype=bool)
        for cause, wrong in self._reasons(rows, service, repeated):
            if wrong.any():
                self._dropped[cause] += int(np.count_nonzero(wrong & keep))
                keep &= ~wrong
        if not self._is_fine:
            cause = (
                "equal to the row before; kept, as the stamps are too coarse to tell"
            )
            self._repair(cause, repeated & keep)
        if rows.service is not None and "" in rows.service_names:
            nameless = np.array(rows.service_names)[rows.service] == ""
            self._repair(f"no service; named '{UNKNOWN_SERVICE}'", nameless & keep)
        if keep.any():
            self._count(
                rows, service, slice(None) if keep.all() else np.flatnonzero(keep)
            )

    def _repair(self, cause: str, mask: BoolArray) -> None:
        self._repaired[cause] += int(np.count_nonzero(mask))

    def trace(self) -> RequestTrace:
        """Return the whole trace."""
        self._services.check_wanted()
        counts = ImportCounts(
            self._n_rows,
            self._n_kept,
            self._dropped,
            self._repaired,
            {NAIVE: self._n_naive}
            | (
                self._rules.counting.noted(self._n_kept) if self._rules.counting else {}
            ),
        )
        if not self._n_kept:
            raise LogFormatError(
                f"{self._path}:1: no request is left ({'; '.join(counts.lines())}); "
                "give a complete trace"
            )
        names = self._services.names
        first, n_requests = self._steps.result(len(names))
        check_span(self._path, n_requests.shape[1] * self._step_ms)
        inputs, outputs = (
            self._lengths[side].lengths(len(names)) if side in self._lengths else ()
            for side in ("input", "output")
        )
        return RequestTrace(
            source=str(self._path),
            trace_format=self._format,
            services=names,
            origin_ms=first * self._step_ms,
            is_relative=self._rules.is_relative,
            step_ms=self._step_ms,
            n_requests=n_requests,
            input_tokens=inputs,
            output_tokens=outputs,
            counts=counts,
            own_span_ms=_own_span_ms(*self._span_us, self._n_gaps),
            zone=self._zone or Zone(),
            requests=np.concatenate(self._requests, axis=1) if self._requests else None,
        )

    def without_strays(self) -> tuple[int, int] | None:
        """Return the steps of nearly all requests where a few lie years away."""
        if not self._n_kept:
            return None
        first, n_requests = self._steps.result(len(self._services.names))
        of_step = n_requests.sum(axis=0)
        used = np.flatnonzero(of_step)
        return believed_span(first + used, of_step[used], STRAY_GAP_MS // self._step_ms)

    def _repeats(self, rows: RequestRows, service: Int64Array) -> BoolArray:
        """Return which rows equal the one before in all that is read."""
        columns = [
            column
            for column in (rows.time_us, rows.input_tokens, rows.output_tokens, service)
            if column is not None
        ]
        repeated = np.zeros(len(rows), dtype=bool)
        same_time = np.flatnonzero(columns[0][1:] == columns[0][:-1]) + 1
        same = np.ones(same_time.size, dtype=bool)
        for column in columns[1:]:
            same &= column[same_time] == column[same_time - 1]
        repeated[same_time[same]] = True
        repeated[0] = tuple(int(column[0]) for column in columns) == self._last_row
        self._last_row = tuple(int(column[-1]) for column in columns)
        return repeated

    def _reasons(
        self, rows: RequestRows, service: Int64Array, repeated: BoolArray
    ) -> Iterator[tuple[str, BoolArray]]:
        """Yield the causes for leaving rows out; the first that holds counts."""
        yield "no time", rows.time_us == MISSING
        if self._rules.is_relative:
            yield "negative time", rows.time_us < 0
        else:
            first_us, end_us = (ms * _US_PER_MS for ms in YEARS_MS)
            yield NOT_BELIEVED, (rows.time_us < first_us) | (rows.time_us >= end_us)
        if self._within is not None:
            first, last = self._within
            steps = rows.time_us // (self._step_ms * _US_PER_MS)
            yield STRAY, (steps < first) | (steps > last)
        if rows.service is not None:
            yield "other services", service < 0
        if self._is_fine:
            yield "repeated rows", repeated
        if self._rules.zero_output_fails and rows.output_tokens is not None:
            yield "failed requests (no response tokens)", rows.output_tokens == 0

    def _count(
        self, rows: RequestRows, service: Int64Array, keep: slice | Int64Array
    ) -> None:
        time_us, service = rows.time_us[keep], service[keep]
        self._n_kept += time_us.size
        self._repair(
            OUT_OF_ORDER, time_us < np.concatenate(([self._last_us], time_us[:-1]))
        )
        self._n_gaps += int(np.count_nonzero(time_us[1:] != time_us[:-1]))
        self._n_gaps += int(self._last_us not in (MISSING, int(time_us[0])))
        first_us, last_us = self._span_us
        self._span_us = (
            min(first_us, int(time_us.min())),
            max(last_us, int(time_us.max())),
        )
        self._last_us = int(time_us[-1])
        n_services = len(self._services.names)
        steps = time_us // (self._step_ms * _US_PER_MS)
        self._check_span(rows, keep, steps, n_services)
        self._steps.add(steps, service, n_services)
        prompt, answer = rows.input_tokens, rows.output_tokens
        if self._requests is not None and prompt is not None and answer is not None:
            of_each = np.stack([time_us, prompt[keep], answer[keep]])
            self._requests.append(of_each[:, (of_each[1:] >= 0).all(axis=0)])
        for side, column in (
            ("input", rows.input_tokens),
            ("output", rows.output_tokens),
        ):
            if column is None:
                continue
            tokens, of_service = column[keep], service
            if tokens.min() < 0:
                missing = tokens == MISSING
                self._repair("no token count; counted without a length", missing)
                negative = ~missing & (tokens < 0)
                self._repair("negative token count; counted without a length", negative)
                known = tokens >= 0
                tokens, of_service = tokens[known], of_service[known]
            self._lengths.setdefault(side, TokenCounts()).add(
                tokens, of_service, n_services
            )

    def _check_span(
        self,
        rows: RequestRows,
        keep: slice | Int64Array,
        steps: Int64Array,
        n_services: int,
    ) -> None:
        first, last = self._steps.span_with(steps)
        if (last - first + 1) * n_services <= MAX_CELLS:
            return
        outer = (
            int(np.argmax(steps)) if int(steps.max()) == last else int(np.argmin(steps))
        )
        row = int(np.arange(len(rows))[keep][outer])
        rows.fail(
            row,
            (
                f"with this row the trace spans {last - first + 1:,} steps of "
                f"{self._step_ms / 1000:g} s for {n_services} "
                f"service{'s' * (n_services > 1)}, allowed are {MAX_CELLS:,} in all; "
                "correct its time, or take longer steps"
            ),
        )


TraceReader = Callable[[Path, TraceOptions], RequestTrace]
TraceFormat = FileFormat[TraceReader]

Rows = Callable[
    [Text, Iterator[Text], TraceOptions], tuple[Iterator[RequestRows], Rules]
]
"""Of a file's first block, all its blocks and the options: its rows, and how to take
them."""


def row_format(
    name: str, title: str, recognises: Callable[[Text], bool], rows: Rows
) -> TraceFormat:
    """Return a format whose files hold a request a row.

    Parameters as in `FileFormat`.
    """

    def read(path: Path, options: TraceOptions) -> RequestTrace:
        within = None
        while True:
            first, blocks = first_block(path, "requests")
            stream, rules = rows(first, blocks, options)
            totals = _TraceTotals(path, name, rules, options, within)
            for of_block in stream:
                totals.add(of_block)
            if within is not None or (within := totals.without_strays()) is None:
                return totals.trace()

    return TraceFormat(name, title, recognises, read)


def csv_format(
    name: str,
    title: str,
    columns: Mapping[str, str],
    documented: TimeUnit | None = None,
    *,
    zero_output_fails: bool = False,
) -> TraceFormat:
    """Return a format of CSV files with fixed column names."""

    def recognises(text: Text) -> bool:
        return {column.casefold() for column in columns.values()} <= header_words(text)

    def rows(
        first: Text, blocks: Iterator[Text], options: TraceOptions
    ) -> tuple[Iterator[RequestRows], Rules]:
        layout = read_header(first)
        layout.require(first.path, columns.values(), title)
        found, counting = rows_of(
            csv_tables(blocks, layout, columns), options, documented=documented
        )
        return found, Rules(counting, zero_output_fails)

    return row_format(name, title, recognises, rows)
