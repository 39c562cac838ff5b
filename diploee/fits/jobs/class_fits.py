"""Fits of job classes: fractions, durations, and job arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special, stats

from diploee.base.errors import Brief
from diploee.base.tables import BoolArray, Float64Array, Int16Array, Int64Array
from diploee.base.units import MS_PER_H, MS_PER_MIN, MS_PER_S, SLOTS_PER_GPU
from diploee.fits.confidence_limits import round_shares, share_limits
from diploee.fits.jobs.classes import JobGroups
from diploee.fits.jobs.durations import DurationFit, fit_durations, ks_distance
from diploee.loads.jobs.job_log import JobRecords
from diploee.scenario.durations import MAX_DURATION_S
from diploee.scenario.job_streams import JobArrays

MIN_JOBS_FOR_DURATIONS = 100
"""Minimum number of jobs of a duration table; smaller classes share a table."""

MIN_SCALE = 5e-4
"""Minimum difference of a scale factor from 1 for which durations are scaled."""

GAP_MS = MS_PER_S
USER_GAP_MS = MS_PER_MIN
"""Maximum time [ms] between submissions of an array, without and with user ids.

ASSUMPTION (judgement): a loop of a script submits a job every few seconds.
"""

MAX_SPAN_MS = MS_PER_H
"""Longest array [ms]; longer loops are several arrays, which a scenario submits at
once."""

MIN_SHARE = 0.02
OVER_CHANCE = 4
"""Minimum fraction of a class's jobs in arrays, and minimum multiple of the number
expected by chance."""

EXACT_SIZES = 8
SIZE_STEP = 1.25
"""Array sizes up to the first are separate; larger ones are merged in steps of this
ratio."""


@dataclass(frozen=True, eq=False)
class NodeCountFit:
    """Fractions of node counts among the logged jobs, with limits.

    Node counts are fractions of a node if the pool allocates GPUs.
    """

    n_nodes: Int64Array | Float64Array
    share: Float64Array
    low: Float64Array
    high: Float64Array


@dataclass(frozen=True)
class ClassFit(Brief):
    """Fitted job class: its scenario keys, with limits and durations."""

    workload: str  # workload of the profiles
    n_nodes: int  # nodes of a job
    # GPUs of a job on part of a node, if the pool allocates GPUs
    n_gpus: float | None
    profile_n_nodes: int  # nodes of its power profiles
    n_jobs: int  # jobs of the log in the class
    # Fraction of the jobs, with limits
    probability: float
    low: float
    high: float
    arrays: JobArrays | None  # job arrays
    # Durations of jobs outside arrays, which keep the class's node time; None if jobs
    # run as long as their profiles
    duration: DurationFit | None
    # The class shares a duration table with similar node counts, as it has few jobs
    shares_durations: bool

    @property
    def name(self) -> str:
        """Name of the class, as `JobClass.name`."""
        width = self.n_nodes if self.n_gpus is None else f"{self.n_gpus:g}gpu"
        return f"{self.workload}/{width}"

    @property
    def model_mean_s(self) -> float | None:
        """Mean duration of the class's modelled jobs [s], arrays included."""
        if self.duration is None:
            return None
        mean_s = self.duration.model_mean_s
        if self.arrays is not None and self.arrays.duration is not None:
            mean_s += self.arrays.job_share * (self.arrays.duration.mean_s() - mean_s)
        return mean_s


def fit_classes(
    jobs: JobRecords,
    class_of: Int16Array,
    array: Int64Array,
    day: Int64Array,
    groups: JobGroups,
    draws_durations: bool,
    confidence: float,
    slots: int,
) -> tuple[ClassFit, ...]:
    """Fit fractions, arrays and durations of the classes that occur in a log.

    `array` and `day` are the array and the day of each job. `slots` is the number of
    slots per node, the unit of node counts.
    """
    # A job whose node count was merged keeps its node time
    widths = np.array(groups.n_nodes)[class_of]
    duration_s = np.minimum(
        jobs.duration_ms / MS_PER_S * (jobs.n_nodes / widths), float(MAX_DURATION_S)
    )
    share, low, high = share_limits(
        class_of.astype(np.int64), day, len(groups), confidence
    )
    is_in_array_job = is_in_array(array)
    n_jobs = np.bincount(class_of, minlength=len(groups))
    n_alone = np.bincount(class_of[~is_in_array_job], minlength=len(groups))
    # If all jobs of a class are in arrays, they count as single jobs
    single = ~is_in_array_job | (n_alone == 0)[class_of]
    n_single = np.bincount(class_of[single], minlength=len(groups))
    rows = np.flatnonzero(single)
    rows_by_class = np.split(
        rows[np.argsort(class_of[rows], kind="stable")], np.cumsum(n_single)[:-1]
    )
    tables: dict[tuple[int, ...], DurationFit] = {}
    means: dict[int, float] = {}
    result = []
    for number, (node_time_group, members) in _table_groups(groups, n_single).items():
        class_s, fit = duration_s[rows_by_class[number]], None
        if draws_durations:
            if members not in tables:
                rows = np.concatenate([rows_by_class[member] for member in members])
                tables[members] = fit_durations(duration_s[rows])
            if number not in means:
                own = [duration_s[rows_by_class[member]] for member in node_time_group]
                wide = np.array([groups.n_nodes[member] for member in node_time_group])
                means |= dict(
                    zip(node_time_group, _shrunk_means(own, wide), strict=True)
                )
            fit = _scale_durations(class_s, tables[members], means[number])
        rows = np.flatnonzero(is_in_array_job & (class_of == number))
        arrays = None
        if rows.size:
            array_duration = None
            if draws_durations and rows.size < n_jobs[number]:
                array_duration = _scale_durations(
                    duration_s[rows], fit_durations(duration_s[rows])
                ).model
            arrays = JobArrays(
                job_share=float(f"{rows.size / n_jobs[number]:.6g}"),
                sizes=size_shares(array[rows]),
                duration=array_duration,
                run_time_correlation=round(
                    run_time_correlation(duration_s[rows], array[rows]), 3
                ),
            )
        width = groups.n_nodes[number]
        result.append(
            ClassFit(
                workload=groups.workload[number],
                n_nodes=-(-width // slots),
                n_gpus=width / SLOTS_PER_GPU if width < slots else None,
                profile_n_nodes=groups.profile_n_nodes[number],
                n_jobs=int(n_jobs[number]),
                probability=float(share[number]),
                low=float(low[number]),
                high=float(high[number]),
                arrays=arrays,
                duration=fit,
                shares_durations=fit is not None and members != (number,),
            )
        )
    return tuple(result)


def _shrunk_means(
    duration_s: Sequence[Float64Array], n_nodes: Int64Array
) -> list[float]:
    """Return the mean durations of small classes, shrunk towards their common mean.

    With variance s**2 within and t**2 between classes, a class of n jobs keeps the
    fraction t**2 / (t**2 + s**2 / n) of its distance from the common mean; this is the
    best linear prediction (Bühlmann 1967). The classes' total node time is unchanged.
    """
    n = np.array([x.size for x in duration_s])
    mean = np.array([x.mean() for x in duration_s])
    common, n_jobs = np.average(mean, weights=n), n.sum()
    squares = n @ np.array([x.var() for x in duration_s])
    within = squares / max(n_jobs - n.size, 1)
    between = n @ (mean - common) ** 2 - (n.size - 1) * within
    between = max(0.0, between / max(n_jobs - (n**2).sum() / n_jobs, 1e-9))
    shrunk = common + between / np.maximum(between + within / n, 1e-300) * (
        mean - common
    )
    weight = n * n_nodes
    means: list[float] = (shrunk * (weight @ mean / (weight @ shrunk))).tolist()
    return means


def _scale_durations(
    own_s: Float64Array, table: DurationFit, mean_s: float | None = None
) -> DurationFit:
    """Return a duration fit scaled to a mean [s], by default the mean of `own_s`."""
    own_mean_s = float(own_s.mean())
    scale = float(f"{(mean_s or own_mean_s) / table.model_mean_s:.6g}")
    model = table.model
    if abs(scale - 1) > MIN_SCALE:
        model = model.model_copy(update={"scale": scale})
    return replace(
        table,
        model=model,
        mean_s=own_mean_s,
        model_mean_s=model.mean_s(),
        ks_distance=ks_distance(own_s, model),
    )


def _table_groups(
    groups: JobGroups, n_jobs: Int64Array
) -> dict[int, tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return for each class two groups of classes: for node time, for duration table.

    A class with `MIN_JOBS_FOR_DURATIONS` jobs is a group of its own. Smaller classes of
    a workload are joined with the classes of the next node counts until the group has
    as many jobs. A small group that remains uses the duration table of the group next
    to it.
    """
    tables: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {}
    for workload in dict.fromkeys(groups.workload):
        runs: list[list[int]] = [[]]
        for number in np.flatnonzero(n_jobs > 0).tolist():
            if groups.workload[number] != workload:
                continue
            alone = n_jobs[number] >= MIN_JOBS_FOR_DURATIONS
            if alone or n_jobs[runs[-1]].sum() >= MIN_JOBS_FOR_DURATIONS:
                runs.append([])
            runs[-1].append(number)
        runs = [run for run in runs if run]
        enough = [n_jobs[run].sum() >= MIN_JOBS_FOR_DURATIONS for run in runs]
        for k, run in enumerate(runs):
            near = k if enough[k] or len(runs) == 1 else k - 1 if k else 1
            tables |= dict.fromkeys(run, (tuple(run), tuple(runs[near])))
    return tables


def fit_node_counts(
    jobs: JobRecords, day: Int64Array, confidence: float, slots: int = 1
) -> NodeCountFit:
    """Return the fractions of node counts among jobs, with limits.

    `day` is the day of each job.
    """
    n_nodes, kind = np.unique(jobs.n_nodes.astype(np.int64), return_inverse=True)
    limits = share_limits(kind, day, n_nodes.size, confidence)
    return NodeCountFit(n_nodes if slots == 1 else n_nodes / slots, *limits)


def find_arrays(jobs: JobRecords, class_of: Int16Array, span_ms: float) -> Int64Array:
    """Return the array of each job, as the index of the array's first job.

    An array consists of jobs of one user, kind and node count with at most `GAP_MS`
    between submissions (`USER_GAP_MS` if users are known). If all timestamps are whole
    minutes, it consists of jobs with equal timestamps. A class has no arrays if chance
    alone would give nearly as many coincidences.
    """
    index = np.arange(len(jobs))
    gap_ms = USER_GAP_MS if jobs.user_id.any() else GAP_MS
    by_chance_ms = 2 * gap_ms
    if not (jobs.submit_ms % MS_PER_MIN).any():
        gap_ms, by_chance_ms = 0, MS_PER_MIN
    keys = (jobs.n_nodes, jobs.user_id, jobs.type_id, class_of)
    order = np.lexsort((index, jobs.submit_ms, *keys))
    other = np.any([np.diff(key[order]) != 0 for key in keys], axis=0)
    kind = np.append(0, np.cumsum(other))
    begins = np.append(True, other | (np.diff(jobs.submit_ms[order]) > gap_ms))
    since_first_ms = (
        jobs.submit_ms[order] - jobs.submit_ms[order][begins][np.cumsum(begins) - 1]
    )
    begins[1:] |= np.diff(since_first_ms // MAX_SPAN_MS) > 0
    array_of_job = np.empty_like(index)
    array_of_job[order] = order[np.flatnonzero(begins)][np.cumsum(begins) - 1]
    n_jobs = np.bincount(class_of)
    in_array = np.bincount(class_of[is_in_array(array_of_job)], minlength=n_jobs.size)
    # Probability that a job of the same kind falls into the gap, if jobs were evenly
    # distributed in time
    chance = -np.expm1(-np.bincount(kind)[kind] / span_ms * by_chance_ms)
    n_by_chance = np.bincount(class_of[order], chance, n_jobs.size)
    has_arrays = in_array > np.maximum(MIN_SHARE * n_jobs, OVER_CHANCE * n_by_chance)
    return np.where(has_arrays[class_of], array_of_job, index)


def is_in_array(array: Int64Array) -> BoolArray:
    """Return a mask of the jobs that belong to an array of several jobs."""
    together: BoolArray = np.bincount(array)[array] > 1
    return together


def size_shares(array: Int64Array) -> dict[int, float]:
    """Return the fractions of arrays by size, with similar large sizes merged.

    The number of jobs stays the same.
    """
    size = np.unique(array, return_counts=True)[1]
    step = np.ceil(
        np.log(np.maximum(size, EXACT_SIZES) / EXACT_SIZES) / np.log(SIZE_STEP)
    )
    group = np.where(size <= EXACT_SIZES, size, EXACT_SIZES + step.astype(np.int64))
    n_arrays, n_jobs = np.bincount(group), np.bincount(group, size)
    used = n_arrays > 0
    joined = np.rint(n_jobs[used] / n_arrays[used]).astype(np.int64)
    shares = n_jobs[used] / joined
    return dict(
        zip(joined.tolist(), round_shares(shares / shares.sum(), 8), strict=True)
    )


def run_time_correlation(duration_s: Float64Array, array: Int64Array) -> float:
    """Return the correlation of run times (normal scores) within arrays, 0-1."""
    score = special.ndtri((stats.rankdata(duration_s) - 0.5) / duration_s.size)
    _, of_job, size = np.unique(array, return_inverse=True, return_counts=True)
    products = np.bincount(of_job, score) ** 2 - np.bincount(of_job, score**2)
    variance = float((score**2).sum())
    if variance == 0:
        return 1.0
    return float(np.clip((products / (size - 1)).sum() / variance, 0.0, 1.0))
