"""Where the runs of the published data set lie: its folders, its metadata, its names.

The layout of doi:10.7799/3025227, as published beside arXiv:2604.07345:

- ``00_raw_datasets/training_<workload>/<N>node/*_slurmid_<id>_node_<host>.log``
- ``00_raw_datasets/inference_<kind>/**/{nvml,rapl}_*.log``, one node
- ``01_aggregated_datasets/*/results/%06d.parquet``, and ``metadata.csv`` beside ``results/`` with a
  row for each
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Literal

from diploee.errors import InputError, LogFormatError, one_line, shown
from diploee.importers.power_logs.curves import SkippedRun
from diploee.textio.sheets import read_sheet

RAW_FOLDER = "00_raw_datasets"
AGGREGATED_FOLDER = "01_aggregated_datasets"
METADATA = "metadata.csv"
TRAINING = "training"
WORKLOADS = {"llama2_70b_lora": ("llama2", "llama_2"), "stable_diffusion": ("stable_diffusion",)}
"""Workloads as scenarios and the reference profiles name them, by parts of the set's names."""
LONGEST_NAME = 80
MOST_NODES = 100_000

Origin = Literal["raw", "aggregated"]

_N_NODES = re.compile(r"(\d{1,4})[-_ ]?nodes?", re.IGNORECASE)
_SLURM_ID = re.compile(r"slurmid_(\d+)")
_KIND = re.compile(r"nvml|rapl", re.IGNORECASE)
_PREFIX = re.compile(r"^(nvml|rapl)_?", re.IGNORECASE)


@dataclass(frozen=True)
class DatasetRun:
    """One measured job of the data set."""

    origin: Origin  # logs of all its nodes, or their published sum
    workload: str  # class of work, as scenarios name it
    n_nodes: int  # nodes
    name: str  # what tells it from others of its class: the Slurm job, or where it lies
    is_training: bool  # a job of a class, rather than a test of a served model
    paths: tuple[Path, ...]  # its logs, or its Parquet file
    place: str  # where it lies, below the data set's folder
    slurm_id: str = ""  # its Slurm job; empty where the set does not tell
    remarks: str = ""  # what the set's metadata tells about it

    @property
    def profile_id(self) -> str:
        """Id of its profile, such as ``"llama2_70b_lora-16n-1234567"``."""
        return f"{self.workload}-{self.n_nodes}n-{self.name}"


@dataclass(frozen=True)
class Dataset:
    """Contents of a folder."""

    folder: Path  # the data set
    runs: list[DatasetRun] = field(default_factory=list)  # runs, by class and name
    skipped: list[SkippedRun] = field(default_factory=list)  # what can't be used, and why

    def place(self, path: Path) -> str:
        """Return a path as the data set knows it."""
        return path.relative_to(self.folder).as_posix()


def find_runs(folder: Path | str) -> Dataset:
    """Find all runs of a data set."""
    folder = Path(folder)
    if not folder.is_dir():
        raise LogFormatError(f"{folder}: no such folder; give the folder of the unpacked data set")
    raw, aggregated = _named(folder, RAW_FOLDER), _named(folder, AGGREGATED_FOLDER)
    if not raw and not aggregated:
        raise LogFormatError(
            f"{folder}: no folder '{RAW_FOLDER}' or '{AGGREGATED_FOLDER}' in it, expected the "
            "layout of doi:10.7799/3025227; give the folder of the unpacked data set"
        )
    found = Dataset(folder.parent if folder.name in (RAW_FOLDER, AGGREGATED_FOLDER) else folder)
    for part in raw:
        for group in sorted(path for path in part.iterdir() if path.is_dir()):
            _add_raw(found, group)
    for part in aggregated:
        for metadata in sorted(part.rglob(METADATA)):
            _add_aggregated(found, metadata)
        for results in sorted(path for path in part.rglob("results") if path.is_dir()):
            if not (results.parent / METADATA).exists():
                problem = f"no '{METADATA}' beside it, which tells the class of its runs"
                found.skipped.append(SkippedRun(found.place(results), problem))
    found.runs[:] = _with_own_names(found.runs)
    return found


def _with_own_names(runs: list[DatasetRun]) -> list[DatasetRun]:
    """Sort the runs; those of one name, as several of one Slurm job, get a number behind it."""
    ordered = sorted(runs, key=lambda run: (run.workload, run.n_nodes, run.name, run.place))
    times: Counter[tuple[str, str]] = Counter()
    own = []
    for run in ordered:
        times[key := (run.origin, run.profile_id)] += 1
        own.append(run if times[key] == 1 else replace(run, name=f"{run.name}-{times[key]}"))
    return own


def _named(folder: Path, name: str) -> list[Path]:
    if folder.name == name:
        return [folder]
    return sorted(path for path in folder.rglob(name) if path.is_dir())


def _add_raw(found: Dataset, group: Path) -> None:
    is_training = group.name.startswith(TRAINING)
    logs = sorted(path for path in group.rglob("*.log") if _KIND.match(path.name))
    if not logs:
        found.skipped.append(SkippedRun(found.place(group), "no NVML or RAPL logs in this folder"))
    for (folder, name), group_of_paths in groupby(
        sorted(logs, key=lambda p: (str(p.parent), _run_name(p))),
        key=lambda p: (p.parent, _run_name(p)),
    ):
        paths = tuple(group_of_paths)
        n_nodes = _nodes_of(folder.relative_to(group)) if is_training else 1
        if n_nodes is None:
            problem = "no folder such as '16node' above the logs, which tells the nodes"
            found.skipped.append(SkippedRun(found.place(folder), problem))
            continue
        place = found.place(folder)
        below = "" if is_training else f"{slug(folder.relative_to(group).as_posix())}-"
        found.runs.append(
            DatasetRun(
                "raw",
                workload_of(group.name),
                n_nodes,
                slug(f"{below}{name}"),
                is_training,
                paths,
                f"{place}, {name}",
                name if _SLURM_ID.search(paths[0].name) else "",
            )
        )


def _run_name(path: Path) -> str:
    """Return what the logs of a run share: the Slurm job, else the name after the kind."""
    match = _SLURM_ID.search(path.name)
    return match[1] if match else _PREFIX.sub("", path.stem)


def _nodes_of(folder: Path) -> int | None:
    for part in reversed(folder.parts):
        if match := _N_NODES.fullmatch(part):
            return int(match[1])
    return None


def _add_aggregated(found: Dataset, metadata: Path) -> None:
    """Add the runs of one ``metadata.csv``; what is wrong with it is a cause to skip them."""
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
    sheet = read_sheet(metadata, "columns 'model,nodes,repeat,path_save,slurmid'")
    names = [name for name in dict.fromkeys(sheet.names) if name]
    table = sheet.read(names, "metadata of runs")
    rows = zip(*(column.to_pylist() for column in table.columns.values()), strict=True)
    return [dict(zip(table.columns, map(str, values), strict=True)) for values in rows]


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


def workload_of(name: str) -> str:
    """Return the class of work that a folder or a model's name stands for."""
    plain = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    if not plain.startswith("inference"):
        for workload, parts in WORKLOADS.items():
            if any(part in plain for part in parts):
                return workload
    return plain.removeprefix(f"{TRAINING}_")[:LONGEST_NAME]


def slug(name: str) -> str:
    """Return a name as part of a file's name; the end of a long one tells it from others."""
    return re.sub(r"[^A-Za-z0-9._]+", "-", name)[-LONGEST_NAME:].strip("-.") or "run"
