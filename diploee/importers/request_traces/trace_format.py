"""Base of importers of request traces: a name, and how to recognise and read its files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from diploee.clock import Zone
from diploee.importers.request_traces.rows import RequestRows, TimeUnit, csv_rows
from diploee.importers.request_traces.totals import Rules, TraceTotals
from diploee.loads.services.request_trace import RequestTrace
from diploee.textio.tables import header_words, read_header
from diploee.textio.text import Text, first_block


@dataclass(frozen=True)
class TraceOptions:
    """The user's options for reading a trace; see `diploee.importers.read_request_trace`."""

    step_ms: int
    services: Sequence[str] | None = None
    columns: Mapping[str, str] | None = None
    zone: Zone | None = None


@dataclass(frozen=True)
class TraceFormat:
    """A format of request traces."""

    name: str  # as users write it, such as ``"burstgpt"``
    title: str  # what it is, for lists and errors
    recognises: Callable[[Text], bool]  # whether a file looks like one; cheap, from its first lines
    read: Callable[[Path, TraceOptions], RequestTrace]  # reads a file


Rows = Callable[[Text, Iterator[Text], TraceOptions], tuple[Iterator[RequestRows], Rules]]
"""Of a file's first block, all its blocks and the options: its rows, and how to take them."""


def row_format(
    name: str, title: str, recognises: Callable[[Text], bool], rows: Rows
) -> TraceFormat:
    """Return a format whose files hold a request a row; parameters as in `TraceFormat`."""

    def read(path: Path, options: TraceOptions) -> RequestTrace:
        within = None
        while True:
            first, blocks = first_block(path, "requests")
            stream, rules = rows(first, blocks, options)
            totals = TraceTotals(path, name, rules, options, within)
            for of_block in stream:
                totals.add(of_block)
            if within is not None or (within := totals.without_strays()) is None:
                return totals.trace()

    return TraceFormat(name, title, recognises, read)


def csv_format(
    name: str, title: str, columns: Mapping[str, str], unit: TimeUnit, rules: Rules
) -> TraceFormat:
    """Return a format of CSV files with columns of fixed names."""

    def recognises(text: Text) -> bool:
        return {column.casefold() for column in columns.values()} <= header_words(text)

    def rows(
        first: Text,
        blocks: Iterator[Text],
        options: TraceOptions,
    ) -> tuple[Iterator[RequestRows], Rules]:
        layout = read_header(first)
        layout.require(first.path, columns.values(), title)
        return csv_rows(blocks, layout, columns, unit, options.zone), rules

    return row_format(name, title, recognises, rows)
