"""Import the published data set of arXiv:2604.07345 into a library, run by run.

The profiles get the class names and node counts of the reference profiles, so that a library of
them takes the place of the shipped one with nothing else changed. Raw logs go before the published
sums. A run that can't be read is left out, with its cause, and the import goes on.

References
----------
.. [1] Data set of arXiv:2604.07345, doi:10.7799/3025227
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from diploee.errors import LogFormatError, ProfileError
from diploee.files import Writing, remove_leftovers, writing
from diploee.importers.power_logs.nlr_aggregated import import_aggregated
from diploee.importers.power_logs.nlr_layout import DatasetRun, Origin, SkippedRun, find_runs
from diploee.importers.power_logs.wattameter import import_wattameter
from diploee.profiles.profile import PowerProfile
from diploee.profiles.store import add_profile
from diploee.progress import Progress
from diploee.units import PROFILE_STEP_MS

SOURCE = "data set doi:10.7799/3025227 of arXiv:2604.07345"
LICENCE = (
    "CC BY 4.0 as a mirror states; the origin has a notice of its own, by DOE, NLR and the Alliance"
)

What = Literal["training", "inference", "all"]


@dataclass(frozen=True)
class DatasetImport:
    """What an import did."""

    paths: tuple[Path, ...]  # profiles written
    skipped: tuple[SkippedRun, ...]  # runs and folders that could not be read, and why
    n_by_origin: dict[str, int]  # profiles by ``"raw"`` and ``"aggregated"``
    n_left_out: int  # runs of a kind that was not asked for

    @property
    def skipped_by_cause(self) -> list[list[SkippedRun]]:
        """Skipped runs whose problems differ in places and figures alone; the most first."""
        found: dict[str, list[SkippedRun]] = {}
        for run in self.skipped:
            found.setdefault(_cause(run.problem), []).append(run)
        return sorted(found.values(), key=len, reverse=True)


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
    """Import the data set in a folder into a library."""
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
    source = f"{SOURCE}, {run.place}"
    if run.origin == "aggregated":
        return import_aggregated(
            run.paths[0],
            workload=run.workload,
            profile_id=run.profile_id,
            n_nodes=run.n_nodes,
            source=source,
            licence=LICENCE,
            remarks=run.remarks,
            step_ms=step_ms,
        )
    return import_wattameter(
        run.paths,
        workload=run.workload,
        profile_id=run.profile_id,
        n_nodes=run.n_nodes,
        step_ms=step_ms,
        source=source,
        licence=LICENCE,
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


def _cause(problem: str) -> str:
    """Return a problem without its file and its figures, up to its first comma."""
    where = re.match(r"^(?:.*[/\\][^:]*|[^:]*\.(?:log|parquet|csv)[^:]*)(?::\d+)?: ", problem)
    text = problem[where.end() :] if where else problem
    return re.split(r"[,;(]", re.sub(r"\d[\d,.]*", "N", text))[0].strip()
