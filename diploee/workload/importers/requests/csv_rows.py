"""Blocks of comma-separated lines to request rows, by pyarrow's CSV reader.

Where pyarrow refuses a block, `csv_lines` reads it line by line and names the one that is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from diploee.tables import Int64Array
from diploee.workload.importers.requests.blocks import Block
from diploee.workload.importers.requests.csv_lines import CsvColumns, lines_to_rows
from diploee.workload.importers.requests.rows import (
    LARGEST_TIME_US,
    LARGEST_TOKENS,
    MISSING,
    MISSING_WORDS,
    RequestRows,
    is_usual,
    us_of,
)


def csv_rows(blocks: Iterator[Block], columns: CsvColumns) -> Iterator[RequestRows]:
    """Read blocks of a file whose first line that is not blank is its header.

    Parameters
    ----------
    blocks : iterator of Block
        The whole file.
    columns : CsvColumns
        What to read.

    Yields
    ------
    RequestRows
        One for each block.

    Raises
    ------
    LogFormatError
        Naming the line, if a row has another number of fields than the header or a field is not
        what its column holds.
    """
    stamp_types = [pa.timestamp("ns"), pa.timestamp("ns", "UTC")]
    time_types = stamp_types if columns.time_unit == "stamp" else [pa.float64()]
    for block in _without_header(blocks):
        if block.data.strip():
            yield _arrow_rows(block, columns, time_types) or lines_to_rows(block, columns)


def _without_header(blocks: Iterator[Block]) -> Iterator[Block]:
    for block in blocks:
        header = next(block.rows(), None)
        if header is None:
            continue
        n_lines = header[0] - block.first_line + 1
        rest = b"".join(block.data.splitlines(keepends=True)[n_lines:])
        yield Block(block.path, rest, header[0] + 1)
        break
    yield from blocks


def _arrow_rows(
    block: Block, columns: CsvColumns, time_types: list[pa.DataType]
) -> RequestRows | None:
    """Read a block with pyarrow; None where it holds anything out of the ordinary."""
    for time_type in tuple(time_types):
        table = _table(block, columns, time_type)
        if table is not None:
            time_types.remove(time_type)
            time_types.insert(0, time_type)  # likely that of the next block
            break
    else:
        return None
    time_us = _times_us(table[str(columns.time)], columns.time_unit)
    inputs = _tokens(table, columns.input_tokens)
    outputs = _tokens(table, columns.output_tokens)
    lengths = [tokens for tokens in (inputs, outputs) if tokens is not None]
    if not is_usual(time_us, LARGEST_TIME_US) or not all(
        is_usual(tokens, LARGEST_TOKENS) for tokens in lengths
    ):
        return None
    if columns.service is None:
        return RequestRows(block, time_us, inputs, outputs)
    words = table[str(columns.service)].combine_chunks()
    names = tuple(name.strip() for name in words.dictionary.to_pylist())
    codes = words.indices.to_numpy().astype(np.int64)
    return RequestRows(block, time_us, inputs, outputs, codes, names)


def _table(block: Block, columns: CsvColumns, time_type: pa.DataType) -> pa.Table | None:
    types = {str(columns.time): time_type}
    for place in (columns.input_tokens, columns.output_tokens):
        if place is not None:
            types[str(place)] = pa.int64()
    if columns.service is not None:
        types[str(columns.service)] = pa.dictionary(pa.int32(), pa.string())
    try:
        return pa_csv.read_csv(
            pa.BufferReader(block.data),
            read_options=pa_csv.ReadOptions(
                use_threads=False,
                block_size=len(block.data) + 1,
                column_names=[str(place) for place in range(len(columns.header))],
            ),
            convert_options=pa_csv.ConvertOptions(
                column_types=types,
                include_columns=list(types),
                null_values=list(MISSING_WORDS),
                strings_can_be_null=False,
            ),
        )
    except pa.ArrowException:
        return None


def _times_us(column: pa.ChunkedArray, unit: str) -> Int64Array:
    if unit == "stamp":
        times_us = pc.fill_null(column.cast(pa.int64()), 0).to_numpy() // 1000
    else:
        times_us = us_of(pc.fill_null(column, 0.0).to_numpy(), unit)
    if column.null_count:
        times_us[column.is_null().to_numpy()] = MISSING
    return np.asarray(times_us, dtype=np.int64)


def _tokens(table: pa.Table, place: int | None) -> Int64Array | None:
    if place is None:
        return None
    return np.asarray(pc.fill_null(table[str(place)], MISSING).to_numpy(), dtype=np.int64)
