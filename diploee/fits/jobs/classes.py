"""Classes of logged jobs: workload of the matching rule, and node count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from diploee.base.errors import ProfileError, ScenarioError, WorkloadError, shown
from diploee.base.tables import BoolArray, Float64Array, Int16Array, Int64Array
from diploee.base.validation import checked
from diploee.loads.jobs.class_rules import UNMATCHED, assign_classes, nearest_n_nodes
from diploee.loads.jobs.job_log import JobRecords
from diploee.profiles.library import ProfileLibrary
from diploee.scenario.log_replay import ClassRule
from diploee.scenario.yaml_lines import key_location, load_yaml_with_lines

MAX_CLASSES = 24
"""Maximum number of classes of a fit; the rarest node counts are merged."""


def read_rules(path: Path | str) -> tuple[ClassRule, ...]:
    """Read class rules from YAML: a list as in ``replay.rules`` of a scenario."""
    path = Path(path)
    such_as = "a list of rules such as '- workload: llama2_70b_lora'"
    data, lines = load_yaml_with_lines(path, such_as, (dict, list))
    prefix: tuple[str | int, ...] = ()
    if isinstance(data, dict) and list(data) == ["rules"]:
        data, prefix = data["rules"], ("rules",)
    if not isinstance(data, list) or not data:
        raise ScenarioError([f"{path}:1: expected {such_as}, found {shown(data)}"])
    return checked(
        data,
        tuple[ClassRule, ...],
        lambda at: key_location(path, lines, (*prefix, *at)),
    )


@dataclass(frozen=True, eq=False)
class JobGroups:
    """Jobs grouped into classes by workload and node count."""

    workload: tuple[str, ...]  # workload of each class
    n_nodes: tuple[int, ...]  # node count of each class
    # Node count of each class's power profiles
    profile_n_nodes: tuple[int, ...]
    # Class of each job; `UNMATCHED` if no rule fits or the job is too large
    class_of: Int16Array
    # Masks of jobs that no rule fits, and of jobs larger than the pool
    unmatched: BoolArray
    too_wide: BoolArray
    n_joined: int  # number of jobs whose node count was merged into another

    def __len__(self) -> int:
        return len(self.workload)


def group_jobs(
    jobs: JobRecords,
    types: Sequence[str],
    rules: Sequence[ClassRule],
    library: ProfileLibrary,
    pool_n_nodes: int | None = None,
    max_classes: int = MAX_CLASSES,
    slots_per_node: int = 1,
    labels: Mapping[str, Sequence[str]] | None = None,
) -> JobGroups:
    """Group jobs into classes that a scenario can contain.

    The rarest node counts, by node time, are merged into the nearest of their workload
    until at most `max_classes` are left.
    """
    rule_of = assign_classes(jobs, types, rules, labels)
    unmatched = rule_of == UNMATCHED
    too_wide = ~unmatched & (jobs.n_nodes > (pool_n_nodes or np.inf))
    used = ~unmatched & ~too_wide
    if not used.any():
        raise WorkloadError(
            f"no job is left to fit: {int(unmatched.sum()):,} fit no rule, "
            f"{int(too_wide.sum()):,} are wider than the pool; change the rules or "
            "the pool"
        )
    workloads = tuple(dict.fromkeys(rule.workload for rule in rules))
    of_rule = np.array([workloads.index(rule.workload) for rule in rules])
    workload = np.where(used, of_rule[rule_of], -1)
    requested = jobs.slots(slots_per_node).astype(np.int64)
    node_time = requested.astype(np.float64) * jobs.duration_ms
    n_nodes = _merge_node_counts(workload, requested, node_time, used, max_classes)
    source = _profile_counts(
        rule_of, -(-n_nodes // slots_per_node), used, rules, library
    )

    result, inverse = _distinct_rows(workload[used], n_nodes[used], source[used])
    pairs = list(zip(result[0].tolist(), result[1].tolist(), strict=True))
    for before, after in zip(range(len(pairs) - 1), range(1, len(pairs)), strict=True):
        if pairs[before] == pairs[after]:
            raise WorkloadError(
                f"the rules give jobs of '{workloads[pairs[before][0]]}' on "
                f"{pairs[before][1]} nodes the profiles of {result[2][before]} and of "
                f"{result[2][after]} nodes; set the same scale_from_n_nodes in all "
                "rules that fit them"
            )
    class_of = np.full(len(jobs), UNMATCHED, dtype=np.int16)
    class_of[used] = inverse
    return JobGroups(
        workload=tuple(workloads[i] for i in result[0]),
        n_nodes=tuple(result[1].tolist()),
        profile_n_nodes=tuple(result[2].tolist()),
        class_of=class_of,
        unmatched=unmatched,
        too_wide=too_wide,
        n_joined=int((n_nodes != requested)[used].sum()),
    )


def _distinct_rows(*columns: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Return the distinct rows of columns, sorted, and the index of each row."""
    code = np.zeros_like(
        columns[0]
    )  # one number per row: much faster to sort than rows
    for column in columns:
        code = code * (int(column.max()) + 1) + column
    _, first, inverse = np.unique(code, return_index=True, return_inverse=True)
    return np.stack([column[first] for column in columns]), inverse


def _merge_node_counts(
    workload: Int64Array,
    n_nodes: Int64Array,
    node_time: Float64Array,
    used: BoolArray,
    max_classes: int,
) -> Int64Array:
    """Return node counts with the rarest merged into the nearest of their workload."""
    keys, inverse = _distinct_rows(workload[used], n_nodes[used])
    node_time_by_class = np.bincount(inverse, node_time[used], keys.shape[1])
    merged = n_nodes.copy()
    if keys.shape[1] <= max_classes:
        return merged
    by_node_time = np.argsort(-node_time_by_class, kind="stable")
    first = [by_node_time[keys[0][by_node_time] == w][0] for w in np.unique(keys[0])]
    others = [k for k in by_node_time if k not in first]
    kept_classes = np.array(first + others[: max(0, max_classes - len(first))])
    for w in np.unique(keys[0]):
        rows = used & (workload == w)
        merged[rows] = nearest_n_nodes(
            n_nodes[rows], keys[1][kept_classes][keys[0][kept_classes] == w]
        )
    return merged


def _profile_counts(
    rule_of: Int16Array,
    n_nodes: Int64Array,
    used: BoolArray,
    rules: Sequence[ClassRule],
    library: ProfileLibrary,
) -> Int64Array:
    """Return the node count of the power profiles of each job."""
    source = np.zeros(n_nodes.size, dtype=np.int64)
    for number, rule in enumerate(rules):
        rows = used & (rule_of == number)
        if not rows.any():
            continue
        measured = [e.n_nodes for e in library.entries if e.workload == rule.workload]
        wanted = rule.scale_from_n_nodes or (measured[0] if measured else 1)
        try:
            library.select(rule.workload, wanted)
        except ProfileError as error:
            raise ProfileError(f"rule {number + 1}: {error}") from error
        source[rows] = rule.scale_from_n_nodes or nearest_n_nodes(
            n_nodes[rows], measured
        )
    return source
