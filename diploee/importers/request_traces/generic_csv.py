"""Importer of any CSV trace with one request per row, by named columns.

Time columns, by key:

- `time_s`, `time_ms`: numbers from an origin of the trace.
- `unix_s`, `unix_ms`: numbers since 1970 UTC.
- `timestamp`: ISO timestamps, or numbers. Timestamps without an offset are in the
  user's zone, by default UTC. The unit of numbers is `time_unit`; if absent, it is
  inferred from their size, span and spacing.

The delimiter (comma, semicolon, tab or bar) is inferred from the header.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, get_args

from diploee.base.errors import InputError, did_you_mean, one_of
from diploee.importers.request_traces.aggregate import (
    RequestBlocks,
    csv_tables,
    row_format,
)
from diploee.importers.request_traces.request_rows import TraceOptions
from diploee.importers.text.delimited_tables import (
    DELIMITERS,
    header_fields,
    read_header,
)
from diploee.importers.text.text_lines import TextLines
from diploee.importers.text.time_units import TimeScale

_TIMES: dict[str, TimeScale | None] = {
    "timestamp": None,
    "unix_s": TimeScale("s", is_relative=False),
    "unix_ms": TimeScale("ms", is_relative=False),
    "time_s": TimeScale("s", is_relative=True),
    "time_ms": TimeScale("ms", is_relative=True),
}
_OTHERS = {"input_tokens": "input", "output_tokens": "output", "service": "service"}
Meaning = Literal[
    "timestamp",
    "unix_s",
    "unix_ms",
    "time_s",
    "time_ms",
    "input_tokens",
    "output_tokens",
    "service",
]
MEANINGS: tuple[Meaning, ...] = get_args(Meaning)
"""Allowed meanings of a column."""


def recognises(text: TextLines) -> bool:
    """Return True if the header has a time column with one of the names above."""
    return bool(_TIMES.keys() & header_fields(text))


def open_blocks(
    first: TextLines, blocks: Iterator[TextLines], options: TraceOptions
) -> RequestBlocks:
    """Return the requests of a CSV trace as tables, with the unit of their times.

    The options map meanings to columns, such as
    ``{"unix_s": "arrived", "output_tokens": "out"}``. By default a column is used whose
    name is a meaning in `MEANINGS`. A meaning that is mapped to an empty name is not
    used.
    """
    sheet = read_header(first, DELIMITERS)
    columns_by_meaning = options.columns or {}
    mapping = {meaning: name for meaning, name in columns_by_meaning.items() if name}
    if not mapping:
        mapping = {
            name: name
            for name in MEANINGS
            if name not in columns_by_meaning and sheet.has(name)
        }
    for meaning in mapping:
        if meaning not in MEANINGS:
            raise InputError(
                f"columns: unknown meaning '{meaning}', expected {one_of(MEANINGS)}"
                f"{did_you_mean(meaning, MEANINGS)}"
            )
    times = [meaning for meaning in mapping if meaning in _TIMES]
    if len(times) != 1 or len(set(mapping.values())) < len(mapping):
        raise InputError(
            f"{sheet.header}: found {one_of(mapping)} mapped, expected one of "
            f"{one_of(_TIMES)}, and a column of its own for each"
        )
    columns = {_OTHERS.get(meaning, "time"): name for meaning, name in mapping.items()}
    return RequestBlocks(
        csv_tables(sheet, blocks, columns, "the trace"), _TIMES[times[0]]
    )


FORMAT = row_format("csv", "a CSV trace with named columns", recognises, open_blocks)
