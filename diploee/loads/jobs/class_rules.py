"""Assignment of logged jobs to the rules that determine their workload and power."""

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
"""Maximum number of a log's labels in an error message."""
UNMATCHED = -1
"""Rule number of a job that matches no rule."""


def assign_classes(
    jobs: JobRecords,
    types: Sequence[str],
    rules: Sequence[ClassRule],
    labels: Mapping[str, Sequence[str]] | None = None,
) -> Int16Array:
    """Return the index of the first matching rule of each job.

    Jobs without a matching rule have `UNMATCHED`.
    """
    rule_index = np.full(len(jobs), UNMATCHED, dtype=np.int16)
    for number in reversed(
        range(len(rules))
    ):  # the first matching rule is written last
        rule_index[_matches(jobs, types, rules[number], number, labels or {})] = number
    return rule_index


def _matches(
    jobs: JobRecords,
    types: Sequence[str],
    rule: ClassRule,
    number: int,
    labels: Mapping[str, Sequence[str]],
) -> BoolArray:
    """Return a mask of the jobs that match a rule."""
    matches: BoolArray = jobs.n_nodes >= rule.min_nodes
    matches &= jobs.duration_ms >= rule.min_duration_s * MS_PER_S
    if rule.max_nodes is not None:
        matches &= jobs.n_nodes <= rule.max_nodes
    if rule.max_duration_s is not None:
        matches &= jobs.duration_ms < rule.max_duration_s * MS_PER_S
    if rule.type is not None:
        if rule.type not in types:
            raise WorkloadError(
                f"rule {number + 1}: the log has no jobs of type '{rule.type}' "
                f"(have: {one_of(sorted(types))}){did_you_mean(rule.type, types)}"
            )
        matches &= jobs.type_id == types.index(rule.type)
    for key in ("user", "account", "name"):
        pattern, column_labels = getattr(rule, key), labels.get(key, ())
        if pattern is None:
            continue
        label_matches = np.array(
            [label != "" and fnmatchcase(label, pattern) for label in column_labels],
            dtype=bool,
        )
        if not label_matches.any():
            nonempty = [label for label in column_labels if label]
            examples = one_of(nonempty[:LISTED]) + (
                ", ..." if len(nonempty) > LISTED else ""
            )
            raise WorkloadError(
                f"rule {number + 1}: the log has no jobs of {key} '{pattern}' "
                f"(have: {examples or 'none'}){did_you_mean(pattern, nonempty)}"
            )
        matches &= label_matches[getattr(jobs, f"{key}_id")]
    return matches


def nearest_n_nodes(
    n_nodes: npt.NDArray[np.integer], measured: Sequence[int]
) -> Int64Array:
    """Return the measured node count nearest by ratio to each node count.

    Of two equally near counts, the lower one is returned.
    """
    counts = np.array(sorted(set(measured)), dtype=np.int64)
    # By ratio, the midpoint of two counts is their geometric mean; squares are exact.
    upper = np.searchsorted(
        counts[:-1] * counts[1:], np.asarray(n_nodes, np.int64) ** 2, "left"
    )
    return counts[upper]
