"""Import the training runs of the data set of arXiv:2604.07345 into a library, run by run.

The profiles get the class names and node counts of the reference profiles, so that a library of
them takes the place of the shipped one with nothing else changed. A run that can't be read is left
out, with its cause, and the import goes on. The layout is
``00_raw_datasets/training_<workload>/<N>node/*_slurmid_<id>_node_<host>.log``.

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

from diploee.errors import Brief, LogFormatError, ProfileError
from diploee.files import remove_leftovers, writing
from diploee.importers.power_logs.curves import SkippedRun
from diploee.importers.power_logs.options import NewProfile
from diploee.importers.power_logs.wattameter import import_wattameter
from diploee.profiles.profile import PowerProfile
from diploee.profiles.store import add_profile
from diploee.progress import Progress
from diploee.units import PROFILE_STEP_MS

SOURCE = "data set doi:10.7799/3025227 of arXiv:2604.07345"
LICENCE = (
    "CC BY 4.0 as a mirror states; the origin has a notice of its own, by DOE, NLR and the Alliance"
)
RAW_FOLDER = "00_raw_datasets"
TRAINING = "training"
WORKLOADS = {"llama2_70b_lora": ("llama2", "llama_2"), "stable_diffusion": ("stable_diffusion",)}
"""Workloads as scenarios and the reference profiles name them, by parts of the set's names."""
LONGEST_NAME = 80
GPU = "NVIDIA H100"
"""Those that were measured."""

_N_NODES = re.compile(r"(\d{1,4})[-_ ]?nodes?", re.IGNORECASE)
_SLURM_ID = re.compile(r"slurmid_(\d+)")
_KIND = re.compile(r"(nvml|rapl)_?", re.IGNORECASE)


@dataclass(frozen=True)
class _DatasetRun:
    """One measured job of the data set."""

    workload: str  # class of work, as scenarios name it
    n_nodes: int
    name: str  # unique in its class: the Slurm job, or its place
    paths: tuple[Path, ...]  # the logs of all its nodes
    place: str  # its place below the data set's folder

    @property
    def profile_id(self) -> str:
        """Id of its profile, such as ``"llama2_70b_lora-16n-1234567"``."""
        return f"{self.workload}-{self.n_nodes}n-{self.name}"


@dataclass(frozen=True)
class DatasetImport(Brief):
    """Result of an import."""

    paths: tuple[Path, ...]  # profiles written
    skipped: tuple[SkippedRun, ...]  # runs and folders that could not be read, and why


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
    with writing(force, [folder]) as files, (progress or Progress()).stage("import") as update:
        for number, run in enumerate(runs):
            update(number / len(runs), f"{run.profile_id}  {number + 1}/{len(runs)}")
            try:
                profile = _profile(run, step_ms)
            except (LogFormatError, ProfileError) as error:
                skipped.append(SkippedRun(run.profile_id, str(error)))
                continue
            paths.append(add_profile(profile, out, joins=files))
        if not paths:
            raise LogFormatError(
                f"{folder}: none of {len(runs)} runs can be read{_first(skipped)}; "
                "unpack the data set again"
            )
    return DatasetImport(tuple(paths), tuple(skipped))


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
    return import_wattameter(run.paths, step_ms=step_ms, **options.model_dump())


def find_runs(folder: Path) -> tuple[list[_DatasetRun], list[SkippedRun]]:
    """Return the runs of training in a data set, and what can't be used, with the cause."""
    if not folder.is_dir():
        raise LogFormatError(f"{folder}: no such folder; give the folder of the unpacked data set")
    raw = [path for path in (folder, *sorted(folder.rglob(RAW_FOLDER))) if path.name == RAW_FOLDER]
    if not raw:
        raise LogFormatError(
            f"{folder}: no folder '{RAW_FOLDER}' in it, expected the layout of "
            "doi:10.7799/3025227; give the folder of the unpacked data set"
        )
    top = folder.parent if folder.name == RAW_FOLDER else folder
    groups = (group for part in raw for group in sorted(part.glob(f"{TRAINING}*/")))
    found = [run for group in groups for run in _raw_runs(group, top)]
    runs = [run for run in found if isinstance(run, _DatasetRun)]
    return _with_own_names(runs), [run for run in found if isinstance(run, SkippedRun)]


def _with_own_names(runs: list[_DatasetRun]) -> list[_DatasetRun]:
    """Sort the runs; those of one name, as several of one Slurm job, get a number behind it."""
    ordered = sorted(runs, key=lambda run: (run.workload, run.n_nodes, run.name, run.place))
    times: Counter[str] = Counter()
    own = []
    for run in ordered:
        times[key := run.profile_id] += 1
        own.append(run if times[key] == 1 else replace(run, name=f"{run.name}-{times[key]}"))
    return own


def _raw_runs(group: Path, top: Path) -> Iterator[_DatasetRun | SkippedRun]:
    """Yield the runs of a class; the logs of one share the Slurm job, else the name."""
    of_run: dict[tuple[Path, str], list[Path]] = defaultdict(list)
    for path in sorted(group.rglob("*.log")):
        if kind := _KIND.match(path.name):
            job = _SLURM_ID.search(path.name)
            name = job[1] if job else path.stem[kind.end() :]
            of_run[path.parent, name].append(path)
    if not of_run:
        yield SkippedRun(str(group.relative_to(top)), "no NVML or RAPL logs in this folder")
    for (folder, name), paths in of_run.items():
        place = str(folder.relative_to(top))
        parts = folder.relative_to(group).parts
        matches = [match for part in parts if (match := _N_NODES.fullmatch(part))]
        if not matches:
            problem = "no folder such as '16node' above the logs, which gives the nodes"
            yield SkippedRun(place, problem)
            continue
        facts = (workload_of(group.name), int(matches[-1][1]), _slug(name))
        yield _DatasetRun(*facts, tuple(paths), f"{place}, {name}")


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
