"""From the rows of any job log to a `JobLog`: one set of rules for all formats.

The rules, in this order; a row is dropped by the first that applies:

1. A time before 1980 or from 2100 on is none, such as the 1970 that some systems write for
   "unknown"; but for a log whose times count from an origin of its own, or whose dates are made up.
2. A row without a submission takes its start as submission; without either it is dropped.
3. A job that was cancelled and has no run time, or one of zero, never started: dropped. So is a job
   with neither a start nor a run time. One that started and has no end was still running when the
   log was written, and is dropped too: its run time is not known.
4. The run time is the logged one, else end less start. A negative one is dropped, and one of more
   than ten years. A zero one means less than the log's resolution; it is dropped, or taken as a
   second where the user says so.
5. A missing start is end less run time where both are known. A start before the submission moves
   the submission to the start, as the nodes were in use then.
6. Nodes: where the user gives GPUs per node, GPUs over it, rounded up, at least 1; else the log's
   node count, fractions rounded up. GPUs per node of the pool count as given, but for a log that
   tells what its nodes are, as a header of SWF does. A job on CPUs alone keeps the log's node
   count, 1 where it has none, and is dropped where the user says so. A row without either is
   dropped.
7. A row that repeats another one, or whose job id was there before, is dropped. The first that was
   not dropped for another cause stays. Rows without an id are never taken for repeated; nor are
   those of a plain table whose column of ids the user did not map: they are renumbered and counted.
8. A job in a state that the user leaves out is dropped. Failed jobs and jobs that were cancelled
   while they ran had nodes and drew power, and stay otherwise.
9. Jobs that are fewer than one in twenty and were submitted more than a year before or after all
   others, and further from these than they from each other, have a wrong stamp: dropped.
10. Rows are sorted by submission, ties in the order of the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from diploee.errors import LogFormatError, plural
from diploee.importers.job_logs.options import JobLogOptions
from diploee.importers.job_logs.raw_log import RawJobs, RawLog
from diploee.importers.job_logs.repeats import RENUMBERED, renumbered, repeated
from diploee.loads.import_counts import (
    NOT_BELIEVED,
    STRAY,
    STRAY_GAP_MS,
    YEARS_MS,
    ImportCounts,
    believed_span,
)
from diploee.loads.jobs.job_log import GPU_ROUNDING, MISSING_MS, STATES, JobLog, JobRecords
from diploee.scenario.durations import MAX_DURATION_S
from diploee.tables import BoolArray, Float64Array, Int64Array
from diploee.units import MS_PER_S

NO_TIME = "neither submission nor start"
CANCELLED_BEFORE_START = "cancelled before start"
NEVER_STARTED = "never started"
NO_RUN_TIME = "started without an end"
NEGATIVE_RUN_TIME = "negative run time"
ZERO_RUN_TIME = "zero run time"
LONG_RUN_TIME = "run time of more than ten years"
NO_NODE_COUNT = "no node count"
CPU_ONLY = "CPU-only job"
STATE_LEFT_OUT = "state '{}' left out"

TIME_LEFT_OUT = f"{NOT_BELIEVED}, left out"
SUBMISSION_MISSING = "submission missing, taken as the start"
START_MISSING = "start missing, taken as end less run time"
START_BEFORE_SUBMISSION = "start before submission, submission moved to it"
ZERO_AS_ONE_SECOND = "zero run time, taken as 1 s"
FRACTION_OF_NODE = "fractional node counts rounded up"
OUT_OF_ORDER = "out of order of submission, sorted"

START_UNKNOWN = "start not known"
OTHER_NODE_COUNT = "node count by GPUs differs from the log's"

LONGEST_RUN_MS = MAX_DURATION_S * MS_PER_S
LARGEST_NODE_COUNT = 2**31 - 1


def apply_rules(path: Path, log_format: str, raw: RawLog, options: JobLogOptions) -> JobLog:
    """Make a `JobLog` of rows by the rules of this module."""
    believed, not_believed = _believed(raw)
    rows, repaired = _with_times(believed, options)
    repaired[TIME_LEFT_OUT] = not_believed
    n_nodes, of_nodes, noted = _node_counts(rows, raw.node_rule, raw.node_unit, options)
    repaired |= of_nodes
    kept = np.ones(len(rows), dtype=bool)
    dropped = dict(raw.dropped)
    _drop(dropped, kept, NOT_BELIEVED, not_believed & (rows.submit_ms == MISSING_MS))
    for cause, mask in _unusable(believed, rows).items():
        _drop(dropped, kept, cause, mask)
    _check_nodes(path, n_nodes, kept)
    _drop(dropped, kept, NO_NODE_COUNT, np.isnan(n_nodes))
    if options.cpu_only == "drop":
        _drop(dropped, kept, CPU_ONLY, noted[CPU_ONLY])
    for cause, mask in repeated(rows, raw, kept).items():
        _drop(dropped, kept, cause, mask)
    for index, state in enumerate(STATES):
        if state not in options.states:
            _drop(dropped, kept, STATE_LEFT_OUT.format(state), rows.state_id == index)
    _drop(dropped, kept, STRAY, _strays(rows.submit_ms, kept))
    order = np.flatnonzero(kept)
    submit_ms = rows.submit_ms[order]
    n_out_of_order = int((np.maximum.accumulate(submit_ms) > submit_ms).sum()) if order.size else 0
    order = order[np.argsort(submit_ms, kind="stable")]
    job_ids, n_renumbered = _names(raw, order), 0
    if raw.ids_repeat:
        n_renumbered = len(job_ids) - len(set(job_ids))
        job_ids = renumbered(job_ids) if n_renumbered else job_ids
    return JobLog(
        source=str(path),
        log_format=log_format,
        jobs=_records(rows, n_nodes, order),
        job_ids=job_ids,
        types=raw.types,
        utc_offset_min=raw.utc_offset_min,
        is_relative=raw.utc_offset_min is None,
        counts=ImportCounts(
            n_rows=len(rows) + sum(raw.dropped.values()),
            n_kept=order.size,
            dropped=_found(dropped),
            repaired=_counted(raw.repaired, repaired, order)
            | _found({OUT_OF_ORDER: n_out_of_order}),
            noted=_counted(raw.noted, noted, order) | _found({RENUMBERED: n_renumbered}),
        ),
        dates_are_shifted=raw.dates_are_shifted,
        time_zone=raw.time_zone,
        is_naive=raw.is_naive,
        labels=raw.labels,
    )


def _drop(dropped: dict[str, int], kept: BoolArray, cause: str, mask: BoolArray) -> None:
    hit = kept & mask
    dropped[cause] = dropped.get(cause, 0) + int(hit.sum())
    kept &= ~hit


def _counted(
    before: Mapping[str, int], masks: Mapping[str, BoolArray], order: Int64Array
) -> dict[str, int]:
    return _found({**before, **{cause: int(mask[order].sum()) for cause, mask in masks.items()}})


def _found(counts: Mapping[str, int]) -> dict[str, int]:
    return {cause: n for cause, n in counts.items() if n}


def _believed(raw: RawLog) -> tuple[RawJobs, BoolArray]:
    """Return the rows without times that no log can have, and which rows had such."""
    rows = raw.rows
    wrong = np.zeros(len(rows), dtype=bool)
    if raw.utc_offset_min is None or raw.dates_are_shifted:
        return rows, wrong
    kept = {}
    for name in ("submit_ms", "start_ms", "end_ms"):
        ms = getattr(rows, name)
        out = (ms != MISSING_MS) & ((ms < YEARS_MS[0]) | (ms >= YEARS_MS[1]))
        kept[name] = np.where(out, MISSING_MS, ms)
        wrong |= out
    return replace(rows, **kept), wrong


def _strays(submit_ms: Int64Array, kept: BoolArray) -> BoolArray:
    """Return which of the kept rows stand alone, far from all others."""
    times = np.sort(submit_ms[kept])
    span = believed_span(times, np.ones(times.size), STRAY_GAP_MS)
    if span is None:
        return np.zeros(submit_ms.size, dtype=bool)
    return kept & ((submit_ms < span[0]) | (submit_ms > span[1]))


def _with_times(raw: RawJobs, options: JobLogOptions) -> tuple[RawJobs, dict[str, BoolArray]]:
    """Return the rows with missing times filled in where others tell them, and what was done."""
    submit_ms, start_ms, run_ms = raw.submit_ms, raw.start_ms, raw.run_ms
    has_end = raw.end_ms != MISSING_MS
    from_end = (start_ms == MISSING_MS) & has_end & (run_ms != MISSING_MS)
    start_ms = np.where(from_end, raw.end_ms - run_ms, start_ms)
    has_start = start_ms != MISSING_MS
    from_span = (run_ms == MISSING_MS) & has_start & has_end
    run_ms = np.where(from_span, raw.end_ms - start_ms, run_ms)
    zero = run_ms == 0
    if options.zero_durations == "one-second":
        run_ms = np.where(zero, MS_PER_S, run_ms)
    no_submit = (submit_ms == MISSING_MS) & has_start
    early = (submit_ms != MISSING_MS) & has_start & (start_ms < submit_ms)
    submit_ms = np.where(no_submit | early, start_ms, submit_ms)
    rows = replace(
        raw,
        submit_ms=submit_ms,
        start_ms=start_ms,
        run_ms=run_ms,
        n_gpus=np.where(raw.n_gpus < 0, np.nan, raw.n_gpus),
        energy_j=np.where(raw.energy_j > 0, raw.energy_j, np.nan),
    )
    return rows, {
        SUBMISSION_MISSING: no_submit,
        START_MISSING: from_end,
        START_BEFORE_SUBMISSION: early,
        ZERO_AS_ONE_SECOND: zero & (run_ms > 0),
    }


def _unusable(raw: RawJobs, rows: RawJobs) -> dict[str, BoolArray]:
    """Return which rows can't be jobs, by cause, in the order of the rules."""
    no_run = rows.run_ms == MISSING_MS
    no_start = rows.start_ms == MISSING_MS
    did_not_run = no_run | (raw.run_ms == 0) | (~no_start & (raw.end_ms == rows.start_ms))
    cancelled = rows.state_id == STATES.index("cancelled")
    return {
        NO_TIME: rows.submit_ms == MISSING_MS,
        CANCELLED_BEFORE_START: cancelled & did_not_run,
        NEVER_STARTED: no_run & no_start,
        NO_RUN_TIME: no_run,
        NEGATIVE_RUN_TIME: rows.run_ms < 0,
        ZERO_RUN_TIME: rows.run_ms == 0,
        LONG_RUN_TIME: rows.run_ms > LONGEST_RUN_MS,
    }


def _node_counts(
    rows: RawJobs, rule: str, unit: str, options: JobLogOptions
) -> tuple[Float64Array, dict[str, BoolArray], dict[str, BoolArray]]:
    """Return the nodes of each row, NaN where not known, what was repaired and what is to note."""
    logged = np.where(rows.n_nodes > 0, np.ceil(rows.n_nodes), np.nan)
    cpu_only = rows.n_gpus == 0
    n_nodes = np.where(cpu_only & np.isnan(logged), 1.0, logged)
    other = np.zeros(len(rows), dtype=bool)
    rounded = ~np.isnan(logged) & (rows.n_nodes != logged)
    by_rule = ~np.isnan(logged)
    per_node = options.gpus_per_node or options.pool_gpus_per_node
    if per_node is not None:
        has_gpus = rows.n_gpus > 0
        by_gpus = np.maximum(np.ceil(rows.n_gpus / per_node - GPU_ROUNDING), 1.0)
        other = has_gpus & (logged > 0) & (by_gpus != logged)
        n_nodes = np.where(has_gpus, by_gpus, n_nodes)
        rounded &= ~has_gpus
        if not rule:
            whose = "as given" if options.gpus_per_node else "those of the pool's nodes"
            rule, by_rule = f"1 node = {plural(per_node, unit)}, {whose}", has_gpus
    noted = {
        CPU_ONLY: cpu_only,
        OTHER_NODE_COUNT: other,
        START_UNKNOWN: rows.start_ms == MISSING_MS,
    }
    if rule:
        noted[rule] = by_rule
    return n_nodes, {FRACTION_OF_NODE: rounded}, noted


def _check_nodes(path: Path, n_nodes: Float64Array, kept: BoolArray) -> None:
    if kept.any() and np.isnan(n_nodes[kept]).all():
        raise LogFormatError(
            f"{path}: no job has a node count; give gpus_per_node (--gpus-per-node), so that GPUs "
            "tell the nodes"
        )
    largest = float(np.nanmax(n_nodes[kept], initial=0))
    if largest > LARGEST_NODE_COUNT:
        raise LogFormatError(
            f"{path}: a job has {largest:g} nodes, expected at most {LARGEST_NODE_COUNT:,}; "
            "correct the counts of GPUs or give more gpus_per_node"
        )


def _records(rows: RawJobs, n_nodes: Float64Array, order: Int64Array) -> JobRecords:
    taken = {
        name: getattr(rows, "run_ms" if name == "duration_ms" else name)[order]
        for name in JobRecords.__dataclass_fields__
    }
    return JobRecords(**taken | {"n_nodes": n_nodes[order].astype(np.int32)})


def _names(raw: RawLog, order: Int64Array) -> tuple[str, ...]:
    """Return the names of jobs; one without a name has the number of its row, from 1."""
    if raw.job_ids is None:
        return tuple(map(str, (order + 1).tolist()))
    names = raw.job_ids.take(pa.array(order)).to_pylist()
    rows = order.tolist()
    return tuple(
        str(row + 1) if name is None else name for row, name in zip(rows, names, strict=True)
    )
