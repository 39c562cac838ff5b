"""Mooncake traces, a JSON object a line: ``timestamp`` [ms], ``input_length``, ``output_length``.

``hash_ids`` and all other keys are not read. Stamps count from the trace's own origin and are
rounded (the published ones to 3 s), so that equal rows may well be different requests.

References
----------
.. [1] https://github.com/kvcache-ai/Mooncake, FAST25-release/traces
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from diploee.errors import shown
from diploee.importers.request_traces.rows import (
    TOKENS,
    RequestRows,
    Rules,
    TraceOptions,
    time_of,
    us_of,
    whole,
)
from diploee.importers.request_traces.totals import row_format
from diploee.tables import Float64Array
from diploee.textio.text import Text
from diploee.textio.values import Number

KEYS: dict[str, Number] = {
    "timestamp": time_of("ms"),
    "input_length": TOKENS,
    "output_length": TOKENS,
}


def recognises(text: Text) -> bool:
    """Return whether the first line begins a JSON object."""
    return text.first_row.lstrip().startswith("{")


def rows(
    first: Text,
    blocks: Iterator[Text],
    options: TraceOptions,  # noqa: ARG001  # such a trace needs none
) -> tuple[Iterator[RequestRows], Rules]:
    """Return the rows of a trace and how to understand them."""
    line, record = next(_records(first))
    for key in KEYS:
        if key not in record:
            problem = f"key '{key}' is missing, expected a request of a Mooncake trace with it"
            first.fail(line, problem)
    if "chat_id" in record:
        first.fail(
            line,
            "found the key 'chat_id' of the Bailian traces, whose stamps are seconds, expected a "
            "Mooncake trace; write it as CSV with a column time_s",
        )
    return map(_rows, (block for block in blocks if not block.data.isspace())), Rules(True)


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


def _rows(block: Text) -> RequestRows:
    block, n_cut = _without_cut(block)
    records = list(_records(block))
    lines = [line for line, _ in records]
    found: dict[str, Float64Array] = {}
    for key, kind in KEYS.items():
        values = [record.get(key) for _, record in records]
        found[key] = np.array([_number(value) for value in values], dtype=np.float64)
        missing = np.array([value is None for value in values], dtype=bool)
        for row in np.flatnonzero(~(kind.holds(found[key]) | missing))[:1].tolist():
            problem = f"'{key}' is {shown(values[row])}, expected {kind}"
            block.fail(lines[row], f"{problem}; correct or remove this line")
    path = block.path
    time_ms, inputs, outputs = found.values()
    times_us = us_of(time_ms, "ms")
    return RequestRows(
        lambda row: f"{path}:{lines[row]}", times_us, whole(inputs), whole(outputs), n_cut=n_cut
    )


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return float("nan")
    try:
        return float(value)
    except OverflowError:  # an integer of hundreds of digits
        return float("inf")


def _records(block: Text) -> Iterator[tuple[int, dict[str, Any]]]:
    for line, text in block.rows():
        try:
            record = json.loads(text)
        except (ValueError, RecursionError) as error:
            why = str(error) if isinstance(error, ValueError) else "nested too deeply"
            block.fail(line, f"not a JSON object ({why}); correct or remove this line")
        if not isinstance(record, dict):
            block.fail(line, f"found {shown(record)}, expected a JSON object; remove this line")
        yield line, record
