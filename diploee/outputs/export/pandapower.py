"""pandapower: a table for ``DFData``, with an integer step index."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from diploee.outputs.export.base import Format, Job, Written
from diploee.outputs.export.series import Block
from diploee.outputs.export.text import CsvFile, in_mw
from diploee.tables import Float64Array

INDEX = "step"


def _write(job: Job) -> Written:
    names = [f"{job.options.name}_p_mw"]
    if job.reactive is not None:
        names.append(f"{job.options.name}_q_mvar")
    if job.place.suffix == ".csv":
        with CsvFile(job.place, (INDEX, *names)) as file:
            for block in job.series.blocks():
                file.write(block.positions, *_columns(job, block))
        reader = f"pandas.read_csv(file, index_col='{INDEX}')"
    else:
        _write_parquet(job, names)
        reader = "pandas.read_parquet(file)"
    return Written(
        {job.place.name: f"{', '.join(names)} by integer step; MW{', Mvar' if names[1:] else ''}"},
        (
            f"DFData({reader}); ConstControl(net, 'load', 'p_mw', [index of the load], "
            f"data_source=that, profile_name=['{names[0]}'])"
            f"{', and one more for q_mvar' if names[1:] else ''}",
        ),
    )


def _write_parquet(job: Job, names: list[str]) -> None:
    index = pd.Index(np.empty(0, dtype=np.int64), name=INDEX)
    empty = pd.DataFrame({name: np.empty(0) for name in names}, index=index)
    # With the metadata by which pandas finds the index again.
    schema = pa.Schema.from_pandas(empty, preserve_index=True)
    with pq.ParquetWriter(job.place, schema, compression="zstd") as writer:
        for block in job.series.blocks():
            columns = dict(zip(names, _columns(job, block), strict=True))
            writer.write_table(pa.table({**columns, INDEX: block.positions}, schema=schema))


def _columns(job: Job, block: Block) -> list[Float64Array]:
    columns = [in_mw(block.power_w)]
    if job.reactive is not None:
        columns.append(np.round(job.reactive.at(block.power_w), 9))
    return columns


PANDAPOWER = Format(
    name="pandapower",
    summary="pandapower DFData table (Parquet or CSV): integer step, MW and Mvar",
    write=_write,
    suffixes=(".parquet", ".csv"),
    options=frozenset({"q_table", "name"}),
)
