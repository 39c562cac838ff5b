"""Where the runs of the published data set lie: its folders, its metadata, its names.

The layout of doi:10.7799/3025227, as published beside arXiv:2604.07345:

- ``00_raw_datasets/training_<workload>/<N>node/*_slurmid_<id>_node_<host>.log``
- ``00_raw_datasets/inference_<kind>/**/{nvml,rapl}_*.log``, one node
- ``01_aggregated_datasets/*/results/%06d.parquet`` with ``metadata.csv`` beside ``results/``
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from diploee.errors import LogFormatError
from diploee.profiles.importers.nlr_metadata import METADATA, add_aggregated
from diploee.profiles.importers.nlr_runs import (
    TRAINING,
    Dataset,
    DatasetRun,
    SkippedRun,
    slug,
    workload_of,
)

RAW_FOLDER = "00_raw_datasets"
AGGREGATED_FOLDER = "01_aggregated_datasets"

_N_NODES = re.compile(r"(\d{1,4})[-_ ]?nodes?", re.IGNORECASE)
_SLURM_ID = re.compile(r"slurmid_(\d+)")
_KIND = re.compile(r"nvml|rapl", re.IGNORECASE)
_PREFIX = re.compile(r"^(nvml|rapl)_?", re.IGNORECASE)


def find_runs(folder: Path | str) -> Dataset:
    """Find all runs of a data set.

    Parameters
    ----------
    folder : pathlib.Path or str
        The unpacked data set: the folder that holds `RAW_FOLDER` or `AGGREGATED_FOLDER`, at any
        depth, or one of the two itself.

    Raises
    ------
    LogFormatError
        If the folder is missing or holds neither.
    """
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
            add_aggregated(found, metadata)
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
