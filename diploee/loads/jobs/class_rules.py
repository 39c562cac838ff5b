"""Assignment of logged jobs to rules, which determine their workload and power."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

import numpy as np
import numpy.typing as npt

from diploee.base.errors import WorkloadError, did_you_mean, one_of
from diploee.base.tables import BoolArray, Int16Array, Int64Array
from diploee.base.units import MS_PER_S
from diploee.loads.jobs.job_log import JobRecords
from diploee.scenario.log_replay import ClassRule

LISTED = 8
"""Words of a log that an error lists."""
UNMATCHED = -1
"""Rule number of a job that no rule fits."""


def assign_classes(
    jobs: JobRecords,
    types: Sequence[str],
    rules: Sequence[ClassRule],
    words: Mapping[str, Sequence[str]] | None = None,
) -> Int16Array:
    """Return the index of the first matching rule of each job."""
    result = np.full(len(jobs), UNMATCHED, dtype=np.int16)
    for number in reversed(range(len(rules))):  # the first rule is written last
        result[_fits(jobs, types, rules[number], number, words or {})] = number
    return result


def _fits(
    jobs: JobRecords,
    types: Sequence[str],
    rule: ClassRule,
    number: int,
    words: Mapping[str, Sequence[str]],
) -> BoolArray:
    fits: BoolArray = jobs.n_nodes >= rule.min_nodes
    fits &= jobs.duration_ms >= rule.min_duration_s * MS_PER_S
    if rule.max_nodes is not None:
        fits &= jobs.n_nodes <= rule.max_nodes
    if rule.max_duration_s is not None:
        fits &= jobs.duration_ms < rule.max_duration_s * MS_PER_S
    if rule.type is not None:
        if rule.type not in types:
            raise WorkloadError(
                f"rule {number + 1}: the log has no jobs of type '{rule.type}' "
                f"(have: {one_of(sorted(types))}){did_you_mean(rule.type, types)}"
            )
        fits &= jobs.type_id == types.index(rule.type)
    for key in ("user", "account", "name"):
        pattern, known = getattr(rule, key), words.get(key, ())
        if pattern is None:
            continue
        alike = np.array(
            [word != "" and fnmatchcase(word, pattern) for word in known], dtype=bool
        )
        if not alike.any():
            told = [word for word in known if word]
            have = one_of(told[:LISTED]) + (", ..." if len(told) > LISTED else "")
            raise WorkloadError(
                f"rule {number + 1}: the log has no jobs of {key} '{pattern}' "
                f"(have: {have or 'none'}){did_you_mean(pattern, told)}"
            )
        fits &= alike[getattr(jobs, f"{key}_id")]
    return fits


def nearest_n_nodes(
    n_nodes: npt.NDArray[np.integer], measured: Sequence[int]
) -> Int64Array:
    """Return the measured node count nearest by ratio to each node count.

    The lower count is taken if two are equally near.
    """
    known = np.array(sorted(set(measured)), dtype=np.int64)
    # Halfway between two by ratio is their geometric mean; squares stay exact.
    upper = np.searchsorted(
        known[:-1] * known[1:], np.asarray(n_nodes, np.int64) ** 2, "left"
    )
    return known[upper]
