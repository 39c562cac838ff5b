"""Importer of Mooncake traces: one JSON object per line.

Keys are ``timestamp``, ``input_length`` and ``output_length``. Timestamps count from an
origin of the trace, in ms (rounded to 3 s in the published traces). Bailian's traces
have the same format with a ``chat_id``, and are in seconds. If ``hash_ids`` and
``chat_id`` are absent, or the numbers are implausible, the unit is inferred from span
and spacing, or specified by the user. Timestamps in Unix time or ISO 8601 can be read
too.

References
----------
.. [1] https://github.com/kvcache-ai/Mooncake, FAST25-release/traces
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from diploee.base.units import TimeUnit
from diploee.importers.request_traces.aggregate import RequestBlocks, row_format
from diploee.importers.request_traces.request_rows import TraceOptions
from diploee.importers.text.delimited_tables import ReadTable, text_columns
from diploee.importers.text.text_lines import TextLines

KEYS = {"time": "timestamp", "input": "input_length", "output": "output_length"}
UNIT_BESIDE: dict[str, TimeUnit] = {"chat_id": "s", "hash_ids": "ms"}
"""Unit of timestamps by another key that shows the kind of trace."""


def recognises(text: TextLines) -> bool:
    """Return True if the first line starts a JSON object."""
    return text.first_row.lstrip().startswith("{")


def open_blocks(
    first: TextLines,
    blocks: Iterator[TextLines],
    options: TraceOptions,  # noqa: ARG001
) -> RequestBlocks:
    """Return the requests of a Mooncake trace as tables, with the time unit."""
    line, record = next(_records(first))
    if missing := [key for key in KEYS.values() if key not in record]:
        first.fail(
            line,
            f"key '{missing[0]}' is missing, expected a request of a Mooncake trace "
            "with it; write other traces as CSV with a column for each of the meanings",
        )
    units = (unit for key, unit in UNIT_BESIDE.items() if key in record)
    tables = (_table(block) for block in blocks if not block.data.isspace())
    return RequestBlocks(tables, documented=next(units, None))


def _without_cut(block: TextLines) -> tuple[TextLines, int]:
    """Return a block without an incomplete last line, and the number of such lines."""
    end = block.data.rfind(b"\n") + 1
    last = block.data[end:].strip()
    try:
        if last.startswith(b"{"):
            json.loads(last)
    except (ValueError, RecursionError):
        return block.before_offset(end), 1
    return block, 0


FORMAT = row_format("mooncake", "a Mooncake trace", recognises, open_blocks)


def _table(block: TextLines) -> ReadTable:
    """Return the requests in a block of JSON lines as columns of text."""
    block, n_cut = _without_cut(block)
    records = list(_records(block))
    lines, path = [line for line, _ in records], block.path
    columns = text_columns(
        {key: [rec.get(name) for _, rec in records] for key, name in KEYS.items()}
    )
    return ReadTable(path, columns, KEYS, lambda row: f"{path}:{lines[row]}", n_cut)


def _records(block: TextLines) -> Iterator[tuple[int, dict[str, Any]]]:
    for line, text in block.rows():
        try:
            record = dict(json.loads(text))
        except (ValueError, TypeError, RecursionError) as error:
            block.fail(
                line, f"not a JSON object ({error}); correct or remove this line"
            )
        yield line, record
