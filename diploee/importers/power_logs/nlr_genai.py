"""Import the published data set of arXiv:2604.07345 into a library, run by run.

The profiles get the class names and node counts of the reference profiles, so that a library of
them takes the place of the shipped one with nothing else changed. Raw logs go before the published
sums. A run that can't be read is left out, with its cause, and the import goes on.

References
----------
.. [1] Data set of arXiv:2604.07345, doi:10.7799/3025227
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from diploee.errors import LogFormatError, ProfileError
from diploee.files import Writing, remove_leftovers, writing
from diploee.importers.power_logs.curves import SkippedRun, device_of, measured, sum_w
from diploee.importers.power_logs.nlr_layout import DatasetRun, Origin, find_runs
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

TIME, POWER = "timestep[s]", "power[W]"
SAMPLED_EVERY_S = 0.1
"""Interval of the readings (arXiv:2604.07345, section 2.2): rows that are closer are up-sampled."""
AVERAGING_WINDOW_S = 1.0
"""Window of the driver's average on the measured H100 [s]."""
MAX_GAP_S = 3_600.0
LONGEST_S = 1e7
_CLOSER = 0.75

What = Literal["training", "inference", "all"]


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
    with writing(force, [folder]) as files:
        job = _Import(out, step_ms, files)
        job.skipped.extend(dataset.skipped)
        with (progress or Progress()).stage("import") as update:
            for number, run in enumerate(_in_turn(wanted)):
                update(number / len(wanted), f"{run.profile_id}  {number + 1}/{len(wanted)}")
                job.take(run)
        if not job.paths:
            raise LogFormatError(
                f"{folder}: none of {len(wanted)} runs can be read{_first(job.skipped)}; "
                "unpack the data set again"
            )
    return DatasetImport(
        tuple(job.paths),
        tuple(job.skipped),
        dict(job.n_by_origin),
        len(dataset.runs) - len(asked),
    )


class _Import:
    """Runs taken so far: raw ones first, sums where a run or a class has no raw one."""

    def __init__(self, out: Path, step_ms: int, files: Writing) -> None:
        self._out = out
        self._step_ms = step_ms
        self._files = files
        self.paths: list[Path] = []
        self.skipped: list[SkippedRun] = []
        self.n_by_origin: Counter[str] = Counter()
        self._raw_jobs: set[tuple[str, int, str]] = set()

    def take(self, run: DatasetRun) -> None:
        """Import a run, unless it is there already; leave a broken one out with its cause."""
        if run.origin == "aggregated" and self._has_raw(run):
            return
        try:
            profile = _profile(run, self._step_ms)
        except (LogFormatError, ProfileError) as error:
            self.skipped.append(SkippedRun(f"{run.profile_id} ({run.origin})", str(error)))
            return
        self.paths.append(add_profile(profile, self._out, joins=self._files))
        self.n_by_origin[run.origin] += 1
        if run.origin == "raw":
            self._raw_jobs.add((run.workload, run.n_nodes, run.slurm_id))

    def _has_raw(self, run: DatasetRun) -> bool:
        if run.slurm_id:
            return (run.workload, run.n_nodes, run.slurm_id) in self._raw_jobs
        # Nothing tells which of the class's raw runs a sum without a Slurm job belongs to.
        return any(job[:2] == (run.workload, run.n_nodes) for job in self._raw_jobs)


def _in_turn(runs: Iterable[DatasetRun]) -> list[DatasetRun]:
    return sorted(runs, key=lambda run: run.origin != "raw")


def _profile(run: DatasetRun, step_ms: int) -> PowerProfile:
    facts: dict[str, Any] = {"source": f"{SOURCE}, {run.place}", "licence": LICENCE}
    facts |= {"workload": run.workload, "profile_id": run.profile_id, "n_nodes": run.n_nodes}
    if run.origin == "raw":
        return import_wattameter(run.paths, step_ms=step_ms, **facts)
    return _aggregated(run.paths[0], step_ms, run.remarks, **facts)


def _aggregated(path: Path, step_ms: int, remarks: str, **facts: Any) -> PowerProfile:
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
    steps_w = sum_w([device], step_ms, counts)
    interval_s = device.interval_us / US_PER_S
    if interval_s < _CLOSER * SAMPLED_EVERY_S:
        counts["up_sampled_rows"] = int(t_us.size)
        interval_s = SAMPLED_EVERY_S
    return measured(
        step_ms=step_ms,
        power_w=steps_w,
        hashes=[sheet.sha256],
        interval_s=round(interval_s, 6),
        window_s=AVERAGING_WINDOW_S,
        counts=counts,
        notes="Sum over the nodes as published (device readings above 800 W back-filled, nodes "
        "interpolated onto the time that they share), resampled exactly in energy"
        + (f". {remarks}" if remarks else ""),
        **facts,
    )


def _check_free(runs: list[DatasetRun], out: Path) -> None:
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
