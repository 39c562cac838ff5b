"""Importer of the training runs in the data set of arXiv:2604.07345.

The profiles have the class names and node counts of the shipped reference profiles, so
that a library of them can replace the shipped one without other changes. Unreadable
runs are skipped and reported. The files are
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
from functools import partial
from pathlib import Path

from diploee.base.errors import LogFormatError
from diploee.base.progress import report, stage
from diploee.base.units import PROFILE_STEP_MS
from diploee.importers.power_logs.options import NewProfileOptions
from diploee.importers.power_logs.readings_to_profile import ProfilesOfRuns, SkippedRun
from diploee.importers.power_logs.wattameter import import_wattameter
from diploee.profiles.profile import PowerProfile

SOURCE = "data set doi:10.7799/3025227 of arXiv:2604.07345"
LICENCE = (
    "CC BY 4.0 as a mirror states; the origin has a notice of its own, by DOE, NLR "
    "and the Alliance"
)
RAW_FOLDER = "00_raw_datasets"
TRAINING = "training"
WORKLOADS = {
    "llama2_70b_lora": ("llama2", "llama_2"),
    "stable_diffusion": ("stable_diffusion",),
}
"""Name parts in the data set, by the workload names of scenarios and profiles."""
MAX_NAME_LENGTH = 80
GPU = "NVIDIA H100"
"""GPU model of the measured nodes."""

_N_NODES = re.compile(r"(\d{1,4})[-_ ]?nodes?", re.IGNORECASE)
_SLURM_ID = re.compile(r"slurmid_(\d+)")
_KIND = re.compile(r"(nvml|rapl)_?", re.IGNORECASE)


@dataclass(frozen=True)
class _DatasetRun:
    """One measured training job of the data set, with the logs of all nodes."""

    workload: str  # workload name of scenarios
    n_nodes: int
    name: str  # unique within the workload: Slurm job or path
    paths: tuple[Path, ...]  # logs of all nodes
    place: str  # path below the data set's folder

    @property
    def profile_id(self) -> str:
        """Id of the run's profile, such as ``"llama2_70b_lora-16n-1234567"``."""
        return f"{self.workload}-{self.n_nodes}n-{self.name}"


@stage("import")
def import_nlr_genai(
    folder: Path | str, *, step_ms: int = PROFILE_STEP_MS
) -> ProfilesOfRuns:
    """Import the training runs of the data set of arXiv:2604.07345 as profiles.

    Unreadable runs are skipped.

    Parameters
    ----------
    folder : path
        Folder of the data set (doi:10.7799/3025227).
    step_ms : int
        Step of the profiles [ms].

    Returns
    -------
    list of PowerProfile
        Profiles of the runs; the list's attribute ``skipped`` has the path and the
        problem of each unreadable run or folder.

    Raises
    ------
    LogFormatError
        If the folder is no such data set, or no run can be read.
    """
    runs, profiles = find_runs(Path(folder)), ProfilesOfRuns()
    for k, run in enumerate(runs):
        report(k / len(runs), f"{k} of {len(runs)} runs")
        if isinstance(run, SkippedRun):
            profiles.skipped.append(run)
        else:
            profiles.add_run(run.profile_id, partial(_profile, run, step_ms))
    if not profiles:
        first = profiles.skipped[:1]
        why = "".join(f" (first problem: {run.place}: {run.problem})" for run in first)
        raise LogFormatError(
            f"{folder}: no run of training that can be read{why}; unpack the data set "
            "again"
        )
    return profiles


def _profile(run: _DatasetRun, step_ms: int) -> PowerProfile:
    facts = {
        "source": f"{SOURCE}, {run.place}",
        "licence": LICENCE,
        "workload": run.workload,
        "gpu": GPU,
    }
    options = NewProfileOptions(**facts, profile_id=run.profile_id, n_nodes=run.n_nodes)
    return import_wattameter(run.paths, step_ms=step_ms, **options.model_dump())


def find_runs(folder: Path) -> list[_DatasetRun | SkippedRun]:
    """Return the training runs of a data set, and the folders that were skipped."""
    raw = [
        path
        for path in (folder, *sorted(folder.rglob(RAW_FOLDER)))
        if path.name == RAW_FOLDER
    ]
    if not raw:
        raise LogFormatError(
            f"{folder}: no folder '{RAW_FOLDER}' in it, expected the layout of "
            "doi:10.7799/3025227; give the folder of the unpacked data set"
        )
    top = folder.parent if folder.name == RAW_FOLDER else folder
    groups = (group for part in raw for group in sorted(part.glob(f"{TRAINING}*/")))
    all_runs = [run for group in groups for run in _runs_of_workload(group, top)]
    runs = [run for run in all_runs if isinstance(run, _DatasetRun)]
    skipped = [run for run in all_runs if isinstance(run, SkippedRun)]
    return [*skipped, *_with_unique_names(runs)]


def _with_unique_names(runs: list[_DatasetRun]) -> list[_DatasetRun]:
    """Return the runs in order, with numbers added to repeated names."""
    ordered = sorted(
        runs, key=lambda run: (run.workload, run.n_nodes, run.name, run.place)
    )
    uses: Counter[str] = Counter()
    unique = []
    for run in ordered:
        uses[key := run.profile_id] += 1
        unique.append(
            run if uses[key] == 1 else replace(run, name=f"{run.name}-{uses[key]}")
        )
    return unique


def _runs_of_workload(group: Path, top: Path) -> Iterator[_DatasetRun | SkippedRun]:
    """Yield runs and skipped folders of a workload's folder.

    The logs of a run are in one folder and have the same Slurm job or, without one, the
    same name.
    """
    run_logs: dict[tuple[Path, str], list[Path]] = defaultdict(list)
    for path in sorted(group.rglob("*.log")):
        if kind := _KIND.match(path.name):
            job = _SLURM_ID.search(path.name)
            name = job[1] if job else path.stem[kind.end() :]
            run_logs[path.parent, name].append(path)
    if not run_logs:
        place, problem = (
            str(group.relative_to(top)),
            "no NVML or RAPL logs in this folder",
        )
        yield SkippedRun(place, problem)
    for (folder, name), paths in run_logs.items():
        place = str(folder.relative_to(top))
        parts = folder.relative_to(group).parts
        matches = [match for part in parts if (match := _N_NODES.fullmatch(part))]
        if not matches:
            problem = "no folder such as '16node' above the logs, which gives the nodes"
            yield SkippedRun(place, problem)
            continue
        facts = (workload_from_name(group.name), int(matches[-1][1]), _slug(name))
        yield _DatasetRun(*facts, tuple(paths), f"{place}, {name}")


def workload_from_name(name: str) -> str:
    """Return the workload for the name of a folder or model."""
    plain = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    for workload, parts in WORKLOADS.items():
        if any(part in plain for part in parts):
            return workload
    return plain.removeprefix(f"{TRAINING}_")[:MAX_NAME_LENGTH]


def _slug(name: str) -> str:
    """Return a name made safe for file names; a long one is cut at its beginning."""
    return re.sub(r"[^A-Za-z0-9._]+", "-", name)[-MAX_NAME_LENGTH:].strip("-.") or "run"
