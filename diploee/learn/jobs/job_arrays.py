"""Jobs that were submitted together: which, how many at a time, and how alike their run times."""

from __future__ import annotations

import numpy as np
from scipy import special, stats

from diploee.loads.jobs.job_log import JobRecords
from diploee.tables import BoolArray, Float64Array, Int16Array, Int64Array
from diploee.units import MS_PER_H, MS_PER_MIN, MS_PER_S

GAP_MS = MS_PER_S
USER_GAP_MS = MS_PER_MIN
"""Jobs alike, or those of one user where the log tells them, that follow each other no later were
submitted together (ASSUMPTION [J]: a loop of a script submits a job in some seconds, at times in
more)."""

MOST_SPAN_MS = MS_PER_H
"""Jobs of longer loops come in several arrays: those of a scenario come at one instant."""

LEAST_SHARE = 0.02
OVER_CHANCE = 4
"""A class has arrays where they hold this share of its jobs, and as many times what chance does."""

EXACT_SIZES = 8
SIZE_STEP = 1.25
"""Sizes up to the first are counted one by one, larger ones by steps of this ratio."""


def find_arrays(jobs: JobRecords, class_of: Int16Array, span_ms: float) -> Int64Array:
    """Tell which jobs were submitted together.

    Jobs of one user, kind and width whose submissions are `GAP_MS` apart at most, `USER_GAP_MS`
    where users are known; of one stamp, where all stamps are whole minutes. Where chance would
    bring nearly as many together, none are.
    """
    own = np.arange(len(jobs))
    gap_ms = USER_GAP_MS if jobs.user_id.any() else GAP_MS
    by_chance_ms = 2 * gap_ms
    if not (jobs.submit_ms % MS_PER_MIN).any():
        gap_ms, by_chance_ms = 0, MS_PER_MIN
    keys = (jobs.n_nodes, jobs.user_id, jobs.type_id, class_of)
    order = np.lexsort((own, jobs.submit_ms, *keys))
    other = np.any([np.diff(key[order]) != 0 for key in keys], axis=0)
    kind = np.append(0, np.cumsum(other))
    begins = np.append(True, other | (np.diff(jobs.submit_ms[order]) > gap_ms))
    into_ms = jobs.submit_ms[order] - jobs.submit_ms[order][begins][np.cumsum(begins) - 1]
    begins[1:] |= np.diff(into_ms // MOST_SPAN_MS) > 0
    together = np.empty_like(own)
    together[order] = order[np.flatnonzero(begins)][np.cumsum(begins) - 1]
    n_jobs = np.bincount(class_of)
    in_array = np.bincount(class_of[in_arrays(together)], minlength=n_jobs.size)
    # Of jobs of one kind at even times: the probability that another one lies within the gap.
    chance = -np.expm1(-np.bincount(kind)[kind] / span_ms * by_chance_ms)
    by_chance = np.bincount(class_of[order], chance, n_jobs.size)
    kept = in_array > np.maximum(LEAST_SHARE * n_jobs, OVER_CHANCE * by_chance)
    return np.where(kept[class_of], together, own)


def in_arrays(array: Int64Array) -> BoolArray:
    """Return which jobs were submitted with others."""
    together: BoolArray = np.bincount(array)[array] > 1
    return together


def size_shares(array: Int64Array) -> dict[int, float]:
    """Return the shares of arrays by size, neighbouring large sizes joined; their jobs stay."""
    size = np.unique(array, return_counts=True)[1]
    step = np.ceil(np.log(np.maximum(size, EXACT_SIZES) / EXACT_SIZES) / np.log(SIZE_STEP))
    group = np.where(size <= EXACT_SIZES, size, EXACT_SIZES + step.astype(np.int64))
    n_arrays, n_jobs = np.bincount(group), np.bincount(group, size)
    used = n_arrays > 0
    joined = np.rint(n_jobs[used] / n_arrays[used]).astype(np.int64)
    shares = n_jobs[used] / joined
    shares = np.round(shares / shares.sum(), 8)
    shares[np.argmax(shares)] += 1 - shares.sum()
    return {int(n): round(float(s), 8) for n, s in zip(joined, shares, strict=True)}


def run_time_correlation(duration_s: Float64Array, array: Int64Array) -> float:
    """Return the correlation of run times within arrays, of their normal scores, 0-1."""
    score = special.ndtri((stats.rankdata(duration_s) - 0.5) / duration_s.size)
    _, of_job, size = np.unique(array, return_inverse=True, return_counts=True)
    products = np.bincount(of_job, score) ** 2 - np.bincount(of_job, score**2)
    variance = float((score**2).sum())
    if variance == 0:
        return 1.0
    return float(np.clip((products / (size - 1)).sum() / variance, 0.0, 1.0))
