"""One block of comma-separated lines, read line by line: what it can't read it names.

Slower than pyarrow by a factor of thirty, so only for the blocks that pyarrow refuses: those with a
mistake, with a header in their midst, or with counts written as ``12.0``.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np

from diploee.errors import shown
from diploee.tables import Int64Array
from diploee.workload.importers.requests.blocks import Block, fields_of
from diploee.workload.importers.requests.rows import (
    LARGEST_TIME_US,
    LARGEST_TOKENS,
    MISSING,
    MISSING_WORDS,
    RequestRows,
    TimeUnit,
    number_of,
    us_of,
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EXPECTED_TIME = {
    "stamp": "a time such as 2023-11-16 18:17:03.9799600",
    "s": "a number of seconds",
    "ms": "a number of milliseconds",
}


@dataclass(frozen=True)
class CsvColumns:
    """Which columns of a header a format reads, by position.

    Parameters
    ----------
    header : tuple of str
        All columns.
    time : int
        Column with the arrival.
    time_unit : {"stamp", "s", "ms"}
        ISO stamps, UTC where they name no zone; or numbers.
    input_tokens, output_tokens, service : int or None
        Columns with the lengths [tokens] and the name of the service or model.
    """

    header: tuple[str, ...]
    time: int
    time_unit: TimeUnit
    input_tokens: int | None = None
    output_tokens: int | None = None
    service: int | None = None


def lines_to_rows(block: Block, columns: CsvColumns) -> RequestRows:
    """Read a block line by line.

    Parameters
    ----------
    block : Block
        Lines below the header.
    columns : CsvColumns
        What to read.

    Raises
    ------
    LogFormatError
        Naming the first line that can't be read and why.
    """
    header = list(columns.header)
    time_us: list[int] = []
    inputs: list[int] = []
    outputs: list[int] = []
    service: list[int] = []
    names: dict[str, int] = {}
    n_headers = 0
    for number, text in block.text_rows():
        fields = fields_of(text)
        if fields == header:
            n_headers += 1
            continue
        if fields is None:
            block.fail(number, "the quotes are not in order; correct or remove this row")
        if len(fields) != len(header):
            block.fail(
                number,
                f"found {len(fields)} field{'s' * (len(fields) != 1)}, expected {len(header)} as "
                "in the header; correct or remove this row",
            )
        time_us.append(_time_us(block, number, columns, fields[columns.time]))
        for place, values in ((columns.input_tokens, inputs), (columns.output_tokens, outputs)):
            if place is not None:
                values.append(_tokens(block, number, header[place], fields[place]))
        if columns.service is not None:
            service.append(names.setdefault(fields[columns.service], len(names)))
    return RequestRows(
        block,
        np.array(time_us, dtype=np.int64),
        _column(columns.input_tokens, inputs),
        _column(columns.output_tokens, outputs),
        _column(columns.service, service),
        tuple(names),
        n_headers,
    )


def _column(place: int | None, values: list[int]) -> Int64Array | None:
    return None if place is None else np.array(values, dtype=np.int64)


def _time_us(block: Block, line: int, columns: CsvColumns, text: str) -> int:
    if text in MISSING_WORDS:
        return MISSING
    if columns.time_unit == "stamp":
        time_us = _stamp_us(text)
    else:
        value = number_of(text)
        time_us = None if value is None else int(us_of(np.array(value), columns.time_unit))
    if time_us is None or abs(time_us) > LARGEST_TIME_US:
        block.fail(
            line,
            f"column '{columns.header[columns.time]}' is {shown(text)}, expected "
            f"{_EXPECTED_TIME[columns.time_unit]}; correct or remove this row",
        )
    return time_us


def _stamp_us(text: str) -> int | None:
    try:
        stamp = datetime.fromisoformat(text)
        zoned = stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC)
        return (zoned - _EPOCH) // timedelta(microseconds=1)
    except (ValueError, OverflowError):
        return None


def _tokens(block: Block, line: int, name: str, text: str) -> int:
    if text in MISSING_WORDS:
        return MISSING
    value = number_of(text)
    if value is None or not value.is_integer() or abs(value) > LARGEST_TOKENS:
        block.fail(
            line,
            f"column '{name}' is {shown(text)}, expected a whole number of tokens up to "
            f"{LARGEST_TOKENS:,}; correct or remove this row",
        )
    return int(value)
