"""The aggregated runs of the published data set: a row of ``metadata.csv``, a Parquet file each."""

from __future__ import annotations

import re
from pathlib import Path

from diploee.errors import InputError, LogFormatError, one_line, shown
from diploee.profiles.importers.nlr_runs import (
    TRAINING,
    Dataset,
    DatasetRun,
    SkippedRun,
    slug,
    workload_of,
)
from diploee.profiles.importers.table_file import TableFile

METADATA = "metadata.csv"
MOST_NODES = 100_000


def add_aggregated(found: Dataset, metadata: Path) -> None:
    """Add the runs of one ``metadata.csv``; what is wrong with it is a cause to skip them.

    Parameters
    ----------
    found : Dataset
        Gets the runs and what is skipped.
    metadata : pathlib.Path
        The file; its runs lie in ``results/`` beside it.
    """
    place = found.place(metadata)
    is_training = TRAINING in metadata.parent.name
    try:
        rows = _rows(metadata)
        files = sorted((metadata.parent / "results").glob("*.parquet"))
        for index, row in enumerate(rows):
            path = _result(index, row, files, len(rows))
            if path is None:
                problem = "its file is not in 'results/'"
                found.skipped.append(SkippedRun(f"{place}, row {index + 1}", problem))
                continue
            found.runs.append(_aggregated_run(found, metadata, row, path, is_training))
    except InputError as error:
        found.skipped.append(SkippedRun(place, str(error)))


def _rows(metadata: Path) -> list[dict[str, str]]:
    table = TableFile(metadata, "'model,nodes,repeat,path_save,slurmid'")
    names = [name for name in dict.fromkeys(table.names) if name]
    columns = [column.to_pylist() for column in table.read(*names)]
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def _result(index: int, row: dict[str, str], files: list[Path], n_rows: int) -> Path | None:
    """Return a row's file: the one that it names, else the one of its number."""
    named = re.split(r"[/\\]", row.get("path_save", ""))[-1]
    by_name = {path.name: path for path in files}
    if named.endswith(".parquet"):
        return by_name.get(named)
    return by_name.get(f"{index:06d}.parquet") if len(files) == n_rows else None


def _aggregated_run(
    found: Dataset, metadata: Path, row: dict[str, str], path: Path, is_training: bool
) -> DatasetRun:
    folder = metadata.parent.name
    workload = workload_of(folder)
    if workload in ("", TRAINING):
        workload = workload_of(row.get("model", "")) or TRAINING
    nodes = row.get("nodes", "1" if not is_training else "")
    try:
        n_nodes = int(float(nodes))
    except (ValueError, OverflowError):
        n_nodes = 0
    if not 1 <= n_nodes <= MOST_NODES:
        raise LogFormatError(
            f"{metadata}: 'nodes' is {shown(nodes)}, expected 1 to {MOST_NODES:,}; correct it"
        )
    slurm_id = row.get("slurmid", "").strip().removesuffix(".0")
    remarks = ", ".join(
        one_line(f"{key} {value}") for key, value in row.items() if key != "path_save"
    )
    return DatasetRun(
        "aggregated",
        workload,
        n_nodes,
        slug(slurm_id or path.stem),
        is_training,
        (path,),
        found.place(path),
        slurm_id,
        remarks,
    )
