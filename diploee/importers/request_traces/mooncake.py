"""Mooncake traces, a JSON object a line.

``timestamp``, ``input_length``, ``output_length``. Stamps count from the trace's own
origin, in ms (the published ones are rounded to 3 s). Others write such traces as well:
those of Bailian, with a ``chat_id``, have seconds. Where neither ``hash_ids`` nor
``chat_id`` is there, or the numbers speak against it, their span and spacing tell the
unit, or the user. Stamps since 1970 and in the manner of ISO 8601 are taken as such.

References
----------
.. [1] https://github.com/kvcache-ai/Mooncake, FAST25-release/traces
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from diploee.base.errors import shown
from diploee.base.tables import arrow_texts
from diploee.base.units import TimeUnit
from diploee.importers.request_traces.rows import (
    RequestRows,
    Rules,
    TraceOptions,
    rows_of,
)
from diploee.importers.request_traces.totals import row_format
from diploee.importers.text.tables import ReadTable
from diploee.importers.text.text import Text

KEYS = {"time": "timestamp", "input": "input_length", "output": "output_length"}
UNIT_BESIDE: dict[str, TimeUnit] = {"chat_id": "s", "hash_ids": "ms"}
"""Unit of the stamps by another key of the trace that documents it."""


def recognises(text: Text) -> bool:
    """Return whether the first line begins a JSON object."""
    return text.first_row.lstrip().startswith("{")


def rows(
    first: Text,
    blocks: Iterator[Text],
    options: TraceOptions,
) -> tuple[Iterator[RequestRows], Rules]:
    """Return the rows of a trace and how to understand them."""
    line, record = next(_records(first))
    for key in KEYS.values():
        if key not in record:
            first.fail(
                line,
                (
                    f"key '{key}' is missing, expected a request of a Mooncake trace "
                    "with it; write other traces as CSV with a column for each of "
                    "the meanings"
                ),
            )
    documented = next(
        (unit for key, unit in UNIT_BESIDE.items() if key in record), None
    )
    tables = (_table(block) for block in blocks if not block.data.isspace())
    found, counting = rows_of(tables, options, documented=documented)
    return found, Rules(counting)


def _without_cut(block: Text) -> tuple[Text, int]:
    """Return a block without a last line that was cut short, and how many that were."""
    end = block.data.rfind(b"\n") + 1
    last = block.data[end:].strip()
    if not last.startswith(b"{"):
        return block, 0
    try:
        json.loads(last)
    except (ValueError, RecursionError):
        return block.upto(end), 1
    return block, 0


FORMAT = row_format("mooncake", "a Mooncake trace", recognises, rows)


def _table(block: Text) -> ReadTable:
    """Return the requests of a block as columns of text."""
    block, n_cut = _without_cut(block)
    records = list(_records(block))
    lines, path = [line for line, _ in records], block.path
    columns = {}
    for key, name in KEYS.items():
        values = (record.get(name) for _, record in records)
        texts = ["" if value is None else str(value) for value in values]
        columns[key] = pa.chunked_array([arrow_texts(texts)])
    return ReadTable(path, columns, KEYS, lambda row: f"{path}:{lines[row]}", n_cut)


def _records(block: Text) -> Iterator[tuple[int, dict[str, Any]]]:
    for line, text in block.rows():
        try:
            record = json.loads(text)
        except (ValueError, RecursionError) as error:
            why = str(error) if isinstance(error, ValueError) else "nested too deeply"
            block.fail(line, f"not a JSON object ({why}); correct or remove this line")
        if not isinstance(record, dict):
            block.fail(
                line, f"found {shown(record)}, expected a JSON object; remove this line"
            )
        yield line, record
