"""Jobs that are submitted together: sizes of arrays, and run times that are alike within one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from diploee.scenario import DurationModel, JobClass
from diploee.tables import Float64Array, Int64Array


def draw_sizes(
    classes: Sequence[JobClass], class_id: Int64Array, rng: np.random.Generator
) -> Int64Array:
    """Draw how many jobs each submission has."""
    level = rng.random(class_id.size)
    sizes = np.ones(class_id.size, dtype=np.int64)
    for row, job_class in enumerate(classes):
        if (arrays := job_class.arrays) is None:
            continue
        known = np.array([1, *arrays.sizes])
        n_arrays = np.array(list(arrays.sizes.values())) * arrays.job_share / arrays.mean_size
        edges = np.cumsum([1 - arrays.job_share, *n_arrays])
        own = class_id == row
        sizes[own] = known[np.searchsorted(edges[:-1] / edges[-1], level[own], side="right")]
    return sizes


def draw_alike(
    model: DurationModel, correlation: float, array: Int64Array, rng: np.random.Generator
) -> Float64Array:
    """Draw run times that correlate within arrays: a Gaussian copula, one factor per array."""
    from scipy.special import ndtr

    first = np.diff(array, prepend=-1) != 0
    common = rng.standard_normal(int(first.sum()))[np.cumsum(first) - 1]
    own = rng.standard_normal(array.size)
    score = np.sqrt(correlation) * common + np.sqrt(1 - correlation) * own
    return model.quantile(np.clip(ndtr(score), 1e-15, 1 - 1e-15))
