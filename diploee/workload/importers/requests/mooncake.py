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
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json

from diploee.errors import LogFormatError, shown
from diploee.tables import Int64Array
from diploee.workload.importers.requests.blocks import Block, first_row
from diploee.workload.importers.requests.rows import (
    LARGEST_TIME_US,
    LARGEST_TOKENS,
    MISSING,
    RequestRows,
    is_usual,
    us_of,
)
from diploee.workload.importers.requests.totals import Rules

NAME = "mooncake"
RULES = Rules(is_relative=True)

_TIME, _INPUT, _OUTPUT = KEYS = ("timestamp", "input_length", "output_length")
_SCHEMA = pa.schema([(_TIME, pa.float64()), (_INPUT, pa.int64()), (_OUTPUT, pa.int64())])


def is_first_line(text: str) -> bool:
    """Return whether a file whose first line is this may be such a trace."""
    return text.lstrip().startswith("{")


def json_rows(blocks: Iterator[Block]) -> Iterator[RequestRows]:
    """Read blocks of JSON lines.

    Yields
    ------
    RequestRows
        One for each block.

    Raises
    ------
    LogFormatError
        Naming the line, if it is no JSON object or a value is no number of its kind.
    """
    for block in blocks:
        if block.data.strip():
            yield _arrow_rows(block) or _lines_to_rows(block)


def check_first_line(path: Any) -> None:
    """Check that the first request has the keys of this format.

    Raises
    ------
    LogFormatError
        If a key is missing; or if there is a ``chat_id``, as in the Bailian traces, which have the
        same keys but stamps in seconds.
    """
    line, text = first_row(path)
    block = Block(path, b"", line)
    record = _record(block, line, text)
    missing = [key for key in KEYS if key not in record]
    if missing:
        block.fail(
            line, f"key '{missing[0]}' is missing, expected a request of a Mooncake trace with it"
        )
    if "chat_id" in record:
        block.fail(
            line,
            "found the key 'chat_id' of the Bailian traces, whose stamps are seconds, expected a "
            "Mooncake trace; write it as CSV with a column time_s",
        )


def _arrow_rows(block: Block) -> RequestRows | None:
    try:
        table = pa_json.read_json(
            pa.BufferReader(block.data),
            read_options=pa_json.ReadOptions(use_threads=False, block_size=len(block.data) + 1),
            parse_options=pa_json.ParseOptions(
                explicit_schema=_SCHEMA, unexpected_field_behavior="ignore"
            ),
        )
    except pa.ArrowException:
        return None
    time_us = us_of(pc.fill_null(table[_TIME], 0.0).to_numpy(), "ms")
    time_us[table[_TIME].is_null().to_numpy()] = MISSING
    inputs, outputs = (
        np.asarray(pc.fill_null(table[key], MISSING).to_numpy(), dtype=np.int64)
        for key in (_INPUT, _OUTPUT)
    )
    usual = is_usual(time_us, LARGEST_TIME_US) and all(
        is_usual(tokens, LARGEST_TOKENS) for tokens in (inputs, outputs)
    )
    return RequestRows(block, time_us, inputs, outputs) if usual else None


def _lines_to_rows(block: Block) -> RequestRows:
    found: dict[str, list[int]] = {key: [] for key in KEYS}
    for line, text in block.text_rows():
        record = _record(block, line, text)
        for key, values in found.items():
            values.append(_value(block, line, key, record.get(key)))

    def column(key: str) -> Int64Array:
        return np.array(found[key], dtype=np.int64)

    return RequestRows(block, column(_TIME), column(_INPUT), column(_OUTPUT))


def _record(block: Block, line: int, text: str) -> dict[str, Any]:
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        why = str(error) if isinstance(error, ValueError) else "nested too deeply"
        raise LogFormatError(
            f"{block.path}:{line}: not a JSON object ({why}); correct or remove this line"
        ) from error
    if not isinstance(record, dict):
        block.fail(line, f"found {shown(record)}, expected a JSON object; remove this line")
    return record


def _value(block: Block, line: int, key: str, value: object) -> int:
    """Return a time [us] or a token count; `MISSING` where it is null or absent."""
    if value is None:
        return MISSING
    expected = "a number of milliseconds" if key == _TIME else "a whole number of tokens"
    if isinstance(value, int | float) and not isinstance(value, bool):
        if key == _TIME:
            time_us = int(us_of(np.array(_as_float(value)), "ms"))
            if abs(time_us) <= LARGEST_TIME_US:
                return time_us
        elif abs(value) <= LARGEST_TOKENS and value == int(value):
            return int(value)
    block.fail(line, f"'{key}' is {shown(value)}, expected {expected}; correct or remove this line")


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer of hundreds of digits
        return float("inf")
