"""pandapower: a table for ``DFData``, with an integer step index."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from diploee.outputs.export.base import ExportRequest, Format, Written
from diploee.outputs.export.text import CsvFile

INDEX = "step"


def _write(request: ExportRequest) -> Written:
    names = [f"{request.options.name}_p_mw"]
    if request.has_reactive:
        names.append(f"{request.options.name}_q_mvar")
    if request.path.suffix == ".csv":
        with CsvFile(request.path, (INDEX, *names)) as file:
            for block in request.series.blocks():
                file.write(block.positions, *request.power_columns(block))
        reader = f"pandas.read_csv(file, index_col='{INDEX}')"
    else:
        _write_parquet(request, names)
        reader = "pandas.read_parquet(file)"
    content = f"{', '.join(names)} by integer step; MW{', Mvar' if names[1:] else ''}"
    return Written(
        {request.path.name: content},
        (
            f"DFData({reader}); ConstControl(net, 'load', 'p_mw', [index of the load], "
            f"data_source=that, profile_name=['{names[0]}'])"
            f"{', and one more for q_mvar' if names[1:] else ''}",
        ),
    )


def _write_parquet(request: ExportRequest, names: list[str]) -> None:
    index = pd.Index(np.empty(0, dtype=np.int64), name=INDEX)
    empty = pd.DataFrame({name: np.empty(0) for name in names}, index=index)
    # With the metadata by which pandas finds the index again.
    schema = pa.Schema.from_pandas(empty, preserve_index=True)
    with pq.ParquetWriter(request.path, schema, compression="zstd") as writer:
        for block in request.series.blocks():
            columns = dict(zip(names, request.power_columns(block), strict=True))
            writer.write_table(pa.table({**columns, INDEX: block.positions}, schema=schema))


PANDAPOWER = Format(
    name="pandapower",
    summary="pandapower DFData table (Parquet or CSV): integer step, MW and Mvar",
    write=_write,
    suffixes=(".parquet", ".csv"),
    options=frozenset({"q_table", "name"}),
)
