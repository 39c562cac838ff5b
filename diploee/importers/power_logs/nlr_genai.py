"""Import the published data set of arXiv:2604.07345 into a library, run by run.

The profiles get the class names and node counts of the reference profiles, so that a library of
them takes the place of the shipped one with nothing else changed. Raw logs go before the published
sums. A run that can't be read is left out, with its cause, and the import goes on. The layout:

- ``00_raw_datasets/training_<workload>/<N>node/*_slurmid_<id>_node_<host>.log``
- ``00_raw_datasets/inference_<kind>/**/{nvml,rapl}_*.log``, one node
- ``01_aggregated_datasets/*/results/%06d.parquet``, and ``metadata.csv`` beside ``results/`` with a
  row for each

References
----------
.. [1] Data set of arXiv:2604.07345, doi:10.7799/3025227
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np

from diploee.errors import InputError, LogFormatError, ProfileError, one_line, shown
from diploee.files import remove_leftovers, writing
from diploee.importers.power_logs.curves import SkippedRun, device_of, measured, sum_w
from diploee.importers.power_logs.options import NewProfile
from diploee.importers.power_logs.wattameter import import_wattameter
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
SAMPLED_EVERY_S = 0.1
"""Interval of the readings (arXiv:2604.07345, section 2.2): rows that are closer are up-sampled."""
AVERAGING_WINDOW_S = 1.0
"""Window of the driver's average on the measured H100 [s]."""
MAX_GAP_S = 3_600.0
LONGEST_S = 1e7
_CLOSER = 0.75

Origin = Literal["raw", "aggregated"]
What = Literal["training", "inference", "all"]

_N_NODES = re.compile(r"(\d{1,4})[-_ ]?nodes?", re.IGNORECASE)
_SLURM_ID = re.compile(r"slurmid_(\d+)")
_KIND = re.compile(r"(nvml|rapl)_?", re.IGNORECASE)


@dataclass(frozen=True)
class _DatasetRun:
    """One measured job of the data set."""

    origin: Origin  # logs of all its nodes, or their published sum
    workload: str  # class of work, as scenarios name it
    n_nodes: int  # nodes
    name: str  # unique in its class: the Slurm job, or where it lies
    is_training: bool  # a job of a class, rather than a test of a served model
    paths: tuple[Path, ...]  # its logs, or its Parquet file
    place: str  # where it lies, below the data set's folder
    slurm_id: str = ""  # its Slurm job; empty where not given
    remarks: str = ""  # remarks from the metadata of the set

    @property
    def profile_id(self) -> str:
        """Id of its profile, such as ``"llama2_70b_lora-16n-1234567"``."""
        return f"{self.workload}-{self.n_nodes}n-{self.name}"


@dataclass(frozen=True)
class _Dataset:
    """Contents of a folder."""

    folder: Path  # the data set
    runs: list[_DatasetRun] = field(default_factory=list)  # runs, by class and name
    skipped: list[SkippedRun] = field(default_factory=list)  # what can't be used, and why

    def place(self, path: Path) -> str:
        """Return a path as the data set knows it."""
        return path.relative_to(self.folder).as_posix()

    def skip(self, path: Path, problem: str) -> None:
        """Leave out what lies at a path."""
        self.skipped.append(SkippedRun(self.place(path), problem))


@dataclass(frozen=True)
class DatasetImport:
    """Result of an import."""

    paths: tuple[Path, ...]  # profiles written
    skipped: tuple[SkippedRun, ...]  # runs and folders that could not be read, and why
    n_by_origin: dict[str, int]  # profiles by ``"raw"`` and ``"aggregated"``
    n_left_out: int  # runs of a kind that was not asked for


def import_nlr_genai(
    folder: Path | str,
    out: Path,
    *,
    origin: Origin | Literal["auto"] = "auto",
    what: What = "training",
    step_ms: int = PROFILE_STEP_MS,
    force: bool = False,
    progress: Progress | None = None,
) -> DatasetImport:
    """Import the data set in a folder into a library.

    Parameters
    ----------
    folder : path
        Folder of the data set (doi:10.7799/3025227).
    out : path
        Folder of the library.
    origin : str
        Which of its copies of a run is read; by default the first that there is.
    what : {"training", ...}
        Workloads to import.
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
    dataset = find_runs(folder)
    asked = [
        run for run in dataset.runs if what == "all" or run.is_training == (what != "inference")
    ]
    wanted = [run for run in asked if origin in ("auto", run.origin)]
    if not wanted:
        raise LogFormatError(
            f"{folder}: no {'' if origin == 'auto' else f'{origin} '}runs"
            f"{'' if what == 'all' else f' of {what}'} among {len(dataset.runs)} found"
            f"{_first(dataset.skipped)}; take others with 'origin' and 'what'"
        )
    if not force:
        _check_free(wanted, out)
    skipped, paths = list(dataset.skipped), []
    taken: list[_DatasetRun] = []
    with writing(force, [folder]) as files, (progress or Progress()).stage("import") as update:
        for number, run in enumerate(sorted(wanted, key=lambda run: run.origin != "raw")):
            update(number / len(wanted), f"{run.profile_id}  {number + 1}/{len(wanted)}")
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
                f"{folder}: none of {len(wanted)} runs can be read{_first(skipped)}; "
                "unpack the data set again"
            )
    by_origin = dict(Counter(str(run.origin) for run in taken))
    return DatasetImport(tuple(paths), tuple(skipped), by_origin, len(dataset.runs) - len(asked))


def _is_sum_of(raw: _DatasetRun, run: _DatasetRun) -> bool:
    """Return whether a published sum may be that of a raw run: no Slurm id tells any of a class."""
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
    facts = {"source": f"{SOURCE}, {run.place}", "licence": LICENCE, "workload": run.workload}
    options = NewProfile(**facts, profile_id=run.profile_id, n_nodes=run.n_nodes)
    if run.origin == "raw":
        return import_wattameter(run.paths, step_ms=step_ms, **options.model_dump())
    return _aggregated(run.paths[0], step_ms, run, options)


def _aggregated(path: Path, step_ms: int, run: _DatasetRun, options: NewProfile) -> PowerProfile:
    """Read one ``results/%06d.parquet``: the power of all nodes of a run, at any step.

    Rows closer than the readings were (the sustained-rate tests are up-sampled to 1 ms) add no
    bandwidth.
    """
    sheet = read_sheet(path, f"columns '{TIME},{POWER}'")
    table = sheet.read((TIME, POWER), "sums over nodes")
    t_s = numbers(table, TIME, Number(LONGEST_S, may_miss=False, of="seconds"))
    power_w = numbers(table, POWER, Number(at_least=0, of="watts"))
    later = np.diff(t_s, prepend=-np.inf) * US_PER_S >= 1
    fail_values(table, TIME, later, "a later time than in the row before")
    t_us = np.rint((t_s - t_s[:1]) * US_PER_S).astype(np.int64)
    device = device_of(path, t_us, power_w, MAX_GAP_S, table.where, "the run")
    counts = {"up_sampled_rows": 0, "missing_power_filled": int(np.isnan(power_w).sum())}
    steps_w = sum_w([device], step_ms)
    interval_s = device.interval_us / US_PER_S
    if interval_s < _CLOSER * SAMPLED_EVERY_S:
        counts["up_sampled_rows"] = int(t_us.size)
        interval_s = SAMPLED_EVERY_S
    remarks = f". {run.remarks}" if run.remarks else ""
    return measured(
        *options.of_nodes(run.n_nodes),
        step_ms,
        steps_w,
        options,
        source="",
        hashes=[sheet.sha256],
        interval_s=round(interval_s, 6),
        window_s=AVERAGING_WINDOW_S,
        counts=counts,
        notes="Sum over the nodes as published (device readings above 800 W back-filled, nodes "
        f"interpolated onto the time that they share), resampled exactly in energy{remarks}",
    )


def find_runs(folder: Path | str) -> _Dataset:
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
    found = _Dataset(folder.parent if folder.name in (RAW_FOLDER, AGGREGATED_FOLDER) else folder)
    for part in raw:
        for group in sorted(path for path in part.iterdir() if path.is_dir()):
            _add_raw(found, group)
    for part in aggregated:
        for metadata in sorted(part.rglob(METADATA)):
            _add_aggregated(found, metadata)
        for results in sorted(path for path in part.rglob("results") if path.is_dir()):
            if not (results.parent / METADATA).exists():
                found.skip(results, f"no '{METADATA}' beside it, which tells the class of its runs")
    found.runs[:] = _with_own_names(found.runs)
    return found


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


def _add_raw(found: _Dataset, group: Path) -> None:
    is_training = group.name.startswith(TRAINING)
    of_run: dict[tuple[Path, str, bool], list[Path]] = defaultdict(list)
    for path in sorted(group.rglob("*.log")):
        if kind := _KIND.match(path.name):
            # The logs of a run share the Slurm job, else the name after the kind.
            job = _SLURM_ID.search(path.name)
            name = job[1] if job else path.stem[kind.end() :]
            of_run[path.parent, name, job is not None].append(path)
    if not of_run:
        found.skip(group, "no NVML or RAPL logs in this folder")
    for (folder, name, is_job), paths in of_run.items():
        inner = folder.relative_to(group)
        matches = [match for part in inner.parts if (match := _N_NODES.fullmatch(part))]
        if is_training and not matches:
            found.skip(folder, "no folder such as '16node' above the logs, which tells the nodes")
            continue
        found.runs.append(
            _DatasetRun(
                "raw",
                workload_of(group.name),
                int(matches[-1][1]) if is_training else 1,
                _slug(name if is_training else f"{_slug(inner.as_posix())}-{name}"),
                is_training,
                tuple(paths),
                f"{found.place(folder)}, {name}",
                name if is_job else "",
            )
        )


def _add_aggregated(found: _Dataset, metadata: Path) -> None:
    """Add the runs of one ``metadata.csv``; what is wrong with it is a cause to skip them."""
    files = {path.name: path for path in (metadata.parent / "results").glob("*.parquet")}
    try:
        sheet = read_sheet(metadata, "columns 'model,nodes,repeat,path_save,slurmid'")
        table = sheet.read([*dict.fromkeys(filter(None, sheet.names))], "metadata of runs")
        columns = (map(str, column.to_pylist()) for column in table.columns.values())
        for index, values in enumerate(zip(*columns, strict=True)):
            row = dict(zip(table.columns, values, strict=True))
            # The file that a row names, else the one of its number, where each row has one.
            name = re.split(r"[/\\]", row.get("path_save", ""))[-1]
            if not name.endswith(".parquet"):
                name = f"{index:06d}.parquet" if len(files) == len(table) else ""
            if name in files:
                found.runs.append(_aggregated_run(found, metadata, row, files[name]))
            else:
                place = f"{found.place(metadata)}, row {index + 1}"
                found.skipped.append(SkippedRun(place, "its file is not in 'results/'"))
    except InputError as error:
        found.skip(metadata, str(error))


def _aggregated_run(
    found: _Dataset, metadata: Path, row: dict[str, str], path: Path
) -> _DatasetRun:
    folder = metadata.parent.name
    is_training = TRAINING in folder
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
    remarks = (f"{key} {value}" for key, value in row.items() if key != "path_save")
    return _DatasetRun(
        "aggregated",
        workload,
        n_nodes,
        _slug(slurm_id or path.stem),
        is_training,
        (path,),
        found.place(path),
        slurm_id,
        ", ".join(map(one_line, remarks)),
    )


def workload_of(name: str) -> str:
    """Return the class of work that a folder or a model's name stands for."""
    plain = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    if not plain.startswith("inference"):
        for workload, parts in WORKLOADS.items():
            if any(part in plain for part in parts):
                return workload
    return plain.removeprefix(f"{TRAINING}_")[:LONGEST_NAME]


def _slug(name: str) -> str:
    """Return a name as part of a file's name; the end of a long one tells it from others."""
    return re.sub(r"[^A-Za-z0-9._]+", "-", name)[-LONGEST_NAME:].strip("-.") or "run"
