"""Import the training runs of the data set of arXiv:2604.07345 into a library, run by run.

The profiles get the class names and node counts of the reference profiles, so that a library of
them takes the place of the shipped one with nothing else changed. Raw logs go before the published
sums. A run that can't be read is left out, with its cause, and the import goes on. The layout:

- ``00_raw_datasets/training_<workload>/<N>node/*_slurmid_<id>_node_<host>.log``
- ``01_aggregated_datasets/*training*/results/%06d.parquet``, and ``metadata.csv`` beside
  ``results/`` with a row for each

References
----------
.. [1] Data set of arXiv:2604.07345, doi:10.7799/3025227
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from diploee.errors import Brief, InputError, LogFormatError, ProfileError, one_line, shown
from diploee.files import remove_leftovers, writing
from diploee.importers.power_logs.curves import SkippedRun, device_of, measured, sum_w
from diploee.importers.power_logs.options import NewProfile
from diploee.importers.power_logs.wattameter import import_wattameter
from diploee.profiles.meters import known_meter
from diploee.profiles.profile import PowerProfile
from diploee.profiles.resample import US_PER_S
from diploee.profiles.store import add_profile
from diploee.progress import Progress
from diploee.textio.sheets import read_sheet
from diploee.textio.values import Number, fail_values, numbers
from diploee.units import PROFILE_STEP_MS

SOURCE = "data set doi:10.7799/3025227 of arXiv:2604.07345"
LICENCE = (
    "CC BY 4.0 as a mirror states; the origin has a notice of its own, by DOE, NLR and the Alliance"
)
RAW_FOLDER, AGGREGATED_FOLDER = "00_raw_datasets", "01_aggregated_datasets"
METADATA = "metadata.csv"
TRAINING = "training"
WORKLOADS = {"llama2_70b_lora": ("llama2", "llama_2"), "stable_diffusion": ("stable_diffusion",)}
"""Workloads as scenarios and the reference profiles name them, by parts of the set's names."""
LONGEST_NAME = 80
MOST_NODES = 100_000

TIME, POWER = "timestep[s]", "power[W]"
GPU = "NVIDIA H100"
"""Those that were measured."""
MAX_GAP_S = 3_600.0
LONGEST_S = 1e7

_N_NODES = re.compile(r"(\d{1,4})[-_ ]?nodes?", re.IGNORECASE)
_SLURM_ID = re.compile(r"slurmid_(\d+)")
_KIND = re.compile(r"(nvml|rapl)_?", re.IGNORECASE)


@dataclass(frozen=True)
class _DatasetRun:
    """One measured job of the data set."""

    origin: str  # ``"raw"``, logs of all its nodes, or ``"aggregated"``, their published sum
    workload: str  # class of work, as scenarios name it
    n_nodes: int
    name: str  # unique in its class: the Slurm job, or its place
    paths: tuple[Path, ...]  # its logs, or its Parquet file
    place: str  # its place below the data set's folder
    slurm_id: str = ""  # its Slurm job; empty where not given
    remarks: str = ""  # remarks from the metadata of the set

    @property
    def profile_id(self) -> str:
        """Id of its profile, such as ``"llama2_70b_lora-16n-1234567"``."""
        return f"{self.workload}-{self.n_nodes}n-{self.name}"


@dataclass(frozen=True)
class DatasetImport(Brief):
    """Result of an import."""

    paths: tuple[Path, ...]  # profiles written
    skipped: tuple[SkippedRun, ...]  # runs and folders that could not be read, and why
    n_by_origin: dict[str, int]  # profiles by ``"raw"`` and ``"aggregated"``


def import_nlr_genai(
    folder: Path | str,
    out: Path,
    *,
    step_ms: int = PROFILE_STEP_MS,
    force: bool = False,
    progress: Progress | None = None,
) -> DatasetImport:
    """Import the training runs of the data set in a folder into a library.

    Parameters
    ----------
    folder : path
        Folder of the data set (doi:10.7799/3025227).
    out : path
        Folder of the library.
    step_ms : int
        Step of the profiles [ms].
    force : bool
        Replace profiles of the same ids.
    progress : Progress, optional
        Called as runs are read.

    Raises
    ------
    InputError
        If the folder is no such data set.
    """
    runs, skipped = find_runs(Path(folder))
    if not runs:
        raise LogFormatError(
            f"{folder}: no run of training in it{_first(skipped)}; unpack the data set again"
        )
    if not force:
        _check_free(runs, out)
    paths: list[Path] = []
    taken: list[_DatasetRun] = []
    with writing(force, [folder]) as files, (progress or Progress()).stage("import") as update:
        for number, run in enumerate(sorted(runs, key=lambda run: run.origin != "raw")):
            update(number / len(runs), f"{run.profile_id}  {number + 1}/{len(runs)}")
            if run.origin == "aggregated" and any(_is_sum_of(raw, run) for raw in taken):
                continue
            try:
                profile = _profile(run, step_ms)
            except (LogFormatError, ProfileError) as error:
                skipped.append(SkippedRun(f"{run.profile_id} ({run.origin})", str(error)))
                continue
            paths.append(add_profile(profile, out, joins=files))
            taken.append(run)
        if not paths:
            raise LogFormatError(
                f"{folder}: none of {len(runs)} runs can be read{_first(skipped)}; "
                "unpack the data set again"
            )
    return DatasetImport(tuple(paths), tuple(skipped), dict(Counter(run.origin for run in taken)))


def _is_sum_of(raw: _DatasetRun, run: _DatasetRun) -> bool:
    """Return whether a published sum may be of a raw run: without a Slurm id, of any of a class."""
    same_class = (raw.origin, raw.workload, raw.n_nodes) == ("raw", run.workload, run.n_nodes)
    return same_class and run.slurm_id in ("", raw.slurm_id)


def _check_free(runs: list[_DatasetRun], out: Path) -> None:
    remove_leftovers(out)  # of an import that was killed: what it put there is no profile of `out`
    ids = dict.fromkeys(run.profile_id for run in runs)
    taken = [name for name in ids if (out / f"{name}.parquet").exists()]
    if taken:
        raise ProfileError(
            f"{out / taken[0]}.parquet: exists already ({len(taken)} such profiles); give another "
            "folder, or --force to replace them"
        )


def _first(skipped: list[SkippedRun]) -> str:
    return f" (first problem: {skipped[0].place}: {skipped[0].problem})" if skipped else ""


def _profile(run: _DatasetRun, step_ms: int) -> PowerProfile:
    facts = {
        "source": f"{SOURCE}, {run.place}",
        "licence": LICENCE,
        "workload": run.workload,
        "gpu": GPU,
    }
    options = NewProfile(**facts, profile_id=run.profile_id, n_nodes=run.n_nodes)
    if run.origin == "raw":
        return import_wattameter(run.paths, step_ms=step_ms, **options.model_dump())
    return _aggregated(run.paths[0], step_ms, run, options)


def _aggregated(path: Path, step_ms: int, run: _DatasetRun, options: NewProfile) -> PowerProfile:
    """Read one ``results/%06d.parquet``: the power of all nodes of a run, at any step."""
    sheet = read_sheet(path, f"columns '{TIME},{POWER}'")
    table = sheet.read((TIME, POWER), "sums over nodes")
    t_s = numbers(table, TIME, Number(LONGEST_S, may_miss=False, of="seconds"))
    power_w = numbers(table, POWER, Number(at_least=0, of="watts"))
    later = np.diff(t_s, prepend=-np.inf) * US_PER_S >= 1
    fail_values(table, TIME, later, "a later time than in the row before")
    t_us = np.rint((t_s - t_s[:1]) * US_PER_S).astype(np.int64)
    device = device_of(path, t_us, power_w, MAX_GAP_S, table.where, "the run")
    remarks = f". {run.remarks}" if run.remarks else ""
    return measured(
        *options.of_nodes(run.n_nodes),
        step_ms,
        sum_w([device], step_ms),
        options,
        source="",
        hashes=[sheet.sha256],
        meter=known_meter("power.draw", GPU, round(device.interval_us / US_PER_S, 6)),
        counts={"missing_power_filled": int(np.isnan(power_w).sum())},
        notes="Sum over the nodes as published (device readings above 800 W back-filled, nodes "
        f"interpolated onto the time that they share), resampled exactly in energy{remarks}",
    )


def find_runs(folder: Path) -> tuple[list[_DatasetRun], list[SkippedRun]]:
    """Return the runs of training in a data set, and what can't be used, with the cause."""
    if not folder.is_dir():
        raise LogFormatError(f"{folder}: no such folder; give the folder of the unpacked data set")
    raw, aggregated = _named(folder, RAW_FOLDER), _named(folder, AGGREGATED_FOLDER)
    if not raw and not aggregated:
        raise LogFormatError(
            f"{folder}: no folder '{RAW_FOLDER}' or '{AGGREGATED_FOLDER}' in it, expected the "
            "layout of doi:10.7799/3025227; give the folder of the unpacked data set"
        )
    top = folder.parent if folder.name in (RAW_FOLDER, AGGREGATED_FOLDER) else folder
    found: list[_DatasetRun | SkippedRun] = []
    for group in (group for part in raw for group in sorted(part.glob(f"{TRAINING}*/"))):
        found.extend(_raw_runs(group, top))
    for part in aggregated:
        for results in sorted(part.rglob(f"*{TRAINING}*/results/")):
            try:
                found.extend(_aggregated_runs(results, top))
            except InputError as error:
                place = str((results.parent / METADATA).relative_to(top))
                found.append(SkippedRun(place, str(error)))
    runs = [run for run in found if isinstance(run, _DatasetRun)]
    return _with_own_names(runs), [run for run in found if isinstance(run, SkippedRun)]


def _with_own_names(runs: list[_DatasetRun]) -> list[_DatasetRun]:
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


def _raw_runs(group: Path, top: Path) -> Iterator[_DatasetRun | SkippedRun]:
    """Yield the runs of a class; the logs of one share the Slurm job, else the name."""
    of_run: dict[tuple[Path, str, bool], list[Path]] = defaultdict(list)
    for path in sorted(group.rglob("*.log")):
        if kind := _KIND.match(path.name):
            job = _SLURM_ID.search(path.name)
            name = job[1] if job else path.stem[kind.end() :]
            of_run[path.parent, name, job is not None].append(path)
    if not of_run:
        yield SkippedRun(str(group.relative_to(top)), "no NVML or RAPL logs in this folder")
    for (folder, name, is_job), paths in of_run.items():
        place = str(folder.relative_to(top))
        parts = folder.relative_to(group).parts
        matches = [match for part in parts if (match := _N_NODES.fullmatch(part))]
        if not matches:
            problem = "no folder such as '16node' above the logs, which gives the nodes"
            yield SkippedRun(place, problem)
            continue
        facts = ("raw", workload_of(group.name), int(matches[-1][1]), _slug(name))
        yield _DatasetRun(*facts, tuple(paths), f"{place}, {name}", name if is_job else "")


def _aggregated_runs(results: Path, top: Path) -> Iterator[_DatasetRun | SkippedRun]:
    """Yield the runs of one ``metadata.csv``: the file that a row names, else of its number."""
    metadata = results.parent / METADATA
    if not metadata.exists():
        problem = f"no '{METADATA}' beside it, which gives the class of its runs"
        yield SkippedRun(str(results.relative_to(top)), problem)
        return
    files = {path.name: path for path in results.glob("*.parquet")}
    sheet = read_sheet(metadata, "columns 'model,nodes,repeat,path_save,slurmid'")
    table = sheet.read([*dict.fromkeys(filter(None, sheet.names))], "metadata of runs")
    columns = (column.to_pylist() for column in table.columns.values())
    for index, values in enumerate(zip(*columns, strict=True)):
        row = dict(zip(table.columns, values, strict=True))
        name = re.split(r"[/\\]", row.get("path_save", ""))[-1]
        if not name.endswith(".parquet"):
            name = f"{index:06d}.parquet" if len(files) == len(table) else ""
        if name not in files:
            place = f"{metadata.relative_to(top)}, row {index + 1}"
            yield SkippedRun(place, "its file is not in 'results/'")
            continue
        workload = workload_of(metadata.parent.name)
        if workload in ("", TRAINING):
            workload = workload_of(row.get("model", "")) or TRAINING
        slurm_id = row.get("slurmid", "").strip().removesuffix(".0")
        remarks = ", ".join(one_line(f"{k} {v}") for k, v in row.items() if k != "path_save")
        facts = ("aggregated", workload, _nodes(metadata, row), _slug(slurm_id or name[:-8]))
        place = str(files[name].relative_to(top))
        yield _DatasetRun(*facts, (files[name],), place, slurm_id, remarks)


def _nodes(metadata: Path, row: dict[str, str]) -> int:
    nodes = row.get("nodes", "")
    if not re.fullmatch(r"\d{1,9}(\.0*)?", nodes) or not 1 <= float(nodes) <= MOST_NODES:
        raise LogFormatError(
            f"{metadata}: 'nodes' is {shown(nodes)}, expected 1 to {MOST_NODES:,}; correct it"
        )
    return int(float(nodes))


def workload_of(name: str) -> str:
    """Return the class of work of a folder's or a model's name."""
    plain = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    for workload, parts in WORKLOADS.items():
        if any(part in plain for part in parts):
            return workload
    return plain.removeprefix(f"{TRAINING}_")[:LONGEST_NAME]


def _slug(name: str) -> str:
    """Return a name as part of a file's name; of a long one the end, by which it is known."""
    return re.sub(r"[^A-Za-z0-9._]+", "-", name)[-LONGEST_NAME:].strip("-.") or "run"
