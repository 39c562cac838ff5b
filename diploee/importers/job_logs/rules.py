"""Rules that turn the rows of a job log of any format into a `JobLog`.

The rules are applied in this order. A dropped row is counted under the first rule that
drops it.

1. A time before 1980 or after 2099 counts as missing. (Some systems write 1970 for
   "unknown".) This does not apply to logs with an unknown origin of time or fictitious
   dates.
2. A missing submission is set to the start. A row without submission and start is
   dropped.
3. A cancelled job without a run time, or with run time zero, never started and is
   dropped. A job without a start and a run time is dropped too. A job with a start but
   no end was still running when the log was written, and is dropped because its run
   time is unknown.
4. The run time is the logged one, or else end minus start. There is an exception for
   plain tables. If the user mapped the end but not the run time, or mapped neither and
   the total of end minus start is shorter by more than 1 %, end minus start replaces
   the logged run time. If the totals differ by more than 1 %, the choice is noted.
   Negative run times and run times over ten years are dropped. A run time of zero is
   below the log's resolution; it is dropped, or set to one second by an option.
5. A missing start is set to end minus run time. If a start precedes the submission, the
   submission is set to the start, as the job used its nodes from then on.
6. If GPUs per node are known, a job's number of nodes is its GPUs divided by this
   number, rounded up, at least 1. Otherwise it is the log's node count, rounded up.
   GPUs per node are the user's, else those of the pool's nodes (but not if the log
   defines its nodes, as an SWF header does). A CPU-only job keeps the log's node count,
   or has 1 node; an option drops such jobs. A row without nodes and GPUs is dropped.
7. A row is dropped if it repeats an earlier row or job id, unless the earlier row was
   itself dropped. Rows without an id never count as repeated. Neither do rows of a
   plain table whose id column the user did not map; they are renumbered and counted.
8. Jobs in a state that the user excludes are dropped. By default, failed jobs and jobs
   cancelled while running are kept, as they used nodes and power.
9. Jobs far from all others in time have wrong timestamps and are dropped. If more than
   95 % of the jobs form a group without gaps of over a year between submissions, jobs
   are dropped that are further from this group than a year and than its own length.
10. Rows are sorted by submission; rows with equal submission keep the file's order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from diploee.base.errors import LogFormatError, option, plural
from diploee.base.tables import BoolArray, Float64Array, Int64Array
from diploee.base.units import MS_PER_S, S_PER_H
from diploee.importers.job_logs.raw_log import (
    REPEATED_ROW,
    JobLogOptions,
    RawJobs,
    RawLog,
    RunTime,
)
from diploee.importers.registry import drop_rows
from diploee.loads.import_counts import (
    NOT_BELIEVED,
    STRAY,
    STRAY_GAP_MS,
    YEARS_MS,
    ImportCounts,
    believed_span,
)
from diploee.loads.jobs.job_log import (
    GPU_ROUNDING,
    MISSING_MS,
    STATES,
    JobLog,
    JobRecords,
)
from diploee.scenario.durations import MAX_DURATION_S

CPU_ONLY = "CPU-only job"
MAX_APART = 0.01
RENUMBERED = "repeated job id, kept and renumbered as tasks of an array"
MAX_RUN_MS = MAX_DURATION_S * MS_PER_S
MAX_NODE_COUNT = 2**31 - 1


def apply_rules(
    path: Path, log_format: str, raw: RawLog, options: JobLogOptions
) -> JobLog:
    """Build a `JobLog` from raw rows by the rules of this module."""
    plausible, is_implausible = _plausible_rows(raw)
    plausible, run_time_notes = _choose_run_time(plausible, raw.run_time)
    rows, repaired = _fill_times(plausible, options)
    repaired[f"{NOT_BELIEVED}, left out"] = is_implausible
    n_nodes, rounded, noted = _node_counts(rows, raw.node_rule, raw.node_unit, options)
    repaired |= rounded
    noted |= run_time_notes
    kept = np.ones(len(rows), dtype=bool)

    def causes() -> Iterator[tuple[str, BoolArray]]:
        """Yield causes of dropped rows and their masks, in the order of the rules.

        Later causes depend on the rows that are left in `kept`.
        """
        yield NOT_BELIEVED, is_implausible & (rows.submit_ms == MISSING_MS)
        yield from _unusable_masks(plausible, rows).items()
        _check_nodes(path, n_nodes, kept)
        yield "no node count", np.isnan(n_nodes)
        if options.cpu_only == "drop":
            yield CPU_ONLY, noted[CPU_ONLY]
        yield from _repeat_masks(rows, raw, kept).items()
        for index, state in enumerate(STATES):
            if state not in options.states:
                yield f"state '{state}' left out", rows.state_id == index
        yield STRAY, _outlier_mask(rows.submit_ms, kept)

    dropped = Counter(raw.dropped)
    drop_rows(kept, causes(), dropped)
    order = np.flatnonzero(kept)
    submit_ms = rows.submit_ms[order]
    n_out_of_order = (
        int((np.maximum.accumulate(submit_ms) > submit_ms).sum()) if order.size else 0
    )
    order = order[np.argsort(submit_ms, kind="stable")]
    job_ids, n_renumbered = _job_names(raw, order)

    def counts_by_cause(masks: Mapping[str, BoolArray]) -> dict[str, int]:
        return {cause: int(mask[order].sum()) for cause, mask in masks.items()}

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
            dropped=dropped,
            repaired={
                **raw.repaired,
                **counts_by_cause(repaired),
                "out of order of submission, sorted": n_out_of_order,
            },
            noted={**raw.noted, **counts_by_cause(noted), RENUMBERED: n_renumbered},
        ),
        dates_are_shifted=raw.dates_are_shifted,
        time_zone=raw.time_zone,
        is_naive=raw.is_naive,
        labels=raw.labels,
    )


def _plausible_rows(raw: RawLog) -> tuple[RawJobs, BoolArray]:
    """Return rows without implausible times, and the mask of rows that had some."""
    rows = raw.rows
    wrong = np.zeros(len(rows), dtype=bool)
    if raw.utc_offset_min is None or raw.dates_are_shifted:
        return rows, wrong
    columns = {}
    for name in ("submit_ms", "start_ms", "end_ms"):
        ms = getattr(rows, name)
        is_out = (ms != MISSING_MS) & ((ms < YEARS_MS[0]) | (ms >= YEARS_MS[1]))
        columns[name] = np.where(is_out, MISSING_MS, ms)
        wrong |= is_out
    return replace(rows, **columns), wrong


def _outlier_mask(submit_ms: Int64Array, kept: BoolArray) -> BoolArray:
    """Return the mask of kept rows that are outliers in submission time."""
    times = np.sort(submit_ms[kept])
    span = believed_span(times, np.ones(times.size), STRAY_GAP_MS)
    if span is None:
        return np.zeros(submit_ms.size, dtype=bool)
    return kept & ((submit_ms < span[0]) | (submit_ms > span[1]))


def _choose_run_time(
    rows: RawJobs, run_time: RunTime
) -> tuple[RawJobs, dict[str, BoolArray]]:
    """Return rows with the chosen run time, and notes on differing run times.

    If the two run times differ in sum, the note has a mask of the rows with both. Else
    there is no note.
    """
    span_ms = rows.end_ms - rows.start_ms
    both = (rows.start_ms != MISSING_MS) & (rows.end_ms != MISSING_MS) & (span_ms > 0)
    both &= rows.run_ms > 0
    logged_s, span_s = (
        float(ms[both].sum(dtype=np.float64)) / MS_PER_S
        for ms in (rows.run_ms, span_ms)
    )
    differ = abs(logged_s - span_s) > MAX_APART * max(logged_s, span_s)
    takes_span = run_time is RunTime.SPAN or (
        run_time is RunTime.SHORTER and logged_s > span_s * (1 + MAX_APART)
    )
    if takes_span:
        rows = replace(rows, run_ms=np.where(both, span_ms, rows.run_ms))
    if not differ:
        return rows, {}
    cause = (
        f"run times logged ({logged_s / S_PER_H:,.4g} h in sum) and from start to end "
        f"({span_s / S_PER_H:,.4g} h) differ; taken is {run_time.value}"
    )
    return rows, {cause: both}


def _fill_times(
    raw: RawJobs, options: JobLogOptions
) -> tuple[RawJobs, dict[str, BoolArray]]:
    """Return rows with missing times filled from other times, and masks of repairs."""
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
        "submission missing, taken as the start": no_submit,
        "start missing, taken as end less run time": from_end,
        "start before submission, submission moved to it": early,
        "zero run time, taken as 1 s": zero & (run_ms > 0),
    }


def _unusable_masks(raw: RawJobs, rows: RawJobs) -> dict[str, BoolArray]:
    """Return masks of rows that can't be used, by cause, in the order of the rules."""
    no_run = rows.run_ms == MISSING_MS
    no_start = rows.start_ms == MISSING_MS
    did_not_run = (
        no_run | (raw.run_ms == 0) | (~no_start & (raw.end_ms == rows.start_ms))
    )
    cancelled = rows.state_id == STATES.index("cancelled")
    return {
        "neither submission nor start": rows.submit_ms == MISSING_MS,
        "cancelled before start": cancelled & did_not_run,
        "never started": no_run & no_start,
        "started without an end": no_run,
        "negative run time": rows.run_ms < 0,
        "zero run time": rows.run_ms == 0,
        "run time of more than ten years": rows.run_ms > MAX_RUN_MS,
    }


def _node_counts(
    rows: RawJobs, rule: str, unit: str, options: JobLogOptions
) -> tuple[Float64Array, dict[str, BoolArray], dict[str, BoolArray]]:
    """Return node counts (NaN if unknown), masks of repairs, and masks of notes."""
    logged = np.where(rows.n_nodes > 0, np.ceil(rows.n_nodes), np.nan)
    cpu_only = rows.n_gpus == 0
    n_nodes = np.where(cpu_only & np.isnan(logged), 1.0, logged)
    differs = np.zeros(len(rows), dtype=bool)
    rounded = ~np.isnan(logged) & (rows.n_nodes != logged)
    by_rule = ~np.isnan(logged)
    per_node = options.gpus_per_node or options.pool_gpus_per_node
    if per_node is not None:
        has_gpus = rows.n_gpus > 0
        by_gpus = np.maximum(np.ceil(rows.n_gpus / per_node - GPU_ROUNDING), 1.0)
        differs = has_gpus & (logged > 0) & (by_gpus != logged)
        n_nodes = np.where(has_gpus, by_gpus, n_nodes)
        rounded &= ~has_gpus
        if not rule:
            whose = "as given" if options.gpus_per_node else "those of the pool's nodes"
            rule, by_rule = f"1 node = {plural(per_node, unit)}, {whose}", has_gpus
    noted = {
        CPU_ONLY: cpu_only,
        "node count by GPUs differs from the log's": differs,
        "start not known": rows.start_ms == MISSING_MS,
    }
    if rule:
        noted[rule] = by_rule
    return n_nodes, {"fractional node counts rounded up": rounded}, noted


def _check_nodes(path: Path, n_nodes: Float64Array, kept: BoolArray) -> None:
    if kept.any() and np.isnan(n_nodes[kept]).all():
        raise LogFormatError(
            f"{path}: no job has a node count; give "
            f"gpus_per_node{option('--gpus-per-node')}, so that nodes follow from GPUs"
        )
    largest = float(np.nanmax(n_nodes[kept], initial=0))
    if largest > MAX_NODE_COUNT:
        raise LogFormatError(
            f"{path}: a job has {largest:g} nodes, expected at most "
            f"{MAX_NODE_COUNT:,}; correct the counts of GPUs or give more "
            "gpus_per_node"
        )


def _records(rows: RawJobs, n_nodes: Float64Array, order: Int64Array) -> JobRecords:
    columns = {
        name: getattr(rows, "run_ms" if name == "duration_ms" else name)[order]
        for name in JobRecords.__dataclass_fields__
    }
    return JobRecords(**columns | {"n_nodes": n_nodes[order].astype(np.int32)})


def _job_names(raw: RawLog, order: Int64Array) -> tuple[tuple[str, ...], int]:
    """Return job names (row numbers from 1 if missing), and the number of repeats.

    If ids may repeat, repeated names are numbered: ``7``, ``7#2``.
    """
    rows = (order + 1).tolist()
    if raw.job_ids is None:
        return tuple(map(str, rows)), 0
    job_ids = raw.job_ids.take(pa.array(order)).to_pylist()
    names = [
        str(row) if name is None else name
        for row, name in zip(rows, job_ids, strict=True)
    ]
    n_repeats = len(names) - len(set(names)) if raw.ids_repeat else 0
    uses: Counter[str] = Counter()
    for index, name in enumerate(names if n_repeats else ()):
        uses[name] += 1
        if uses[name] > 1:
            names[index] = f"{name}#{uses[name]}"
    return tuple(names), n_repeats


def _repeat_masks(rows: RawJobs, raw: RawLog, kept: BoolArray) -> dict[str, BoolArray]:
    """Return masks of kept rows that repeat an earlier row or job id, by cause."""
    if raw.job_ids is None or raw.ids_repeat:
        return {}
    encoded = raw.job_ids.dictionary_encode()
    if len(encoded.dictionary) == len(encoded) - encoded.null_count:
        return {}
    places = np.flatnonzero(kept & np.asarray(pc.is_valid(encoded)))
    keys = np.asarray(encoded.indices.fill_null(0), dtype=np.int64)[places]
    starts = (
        rows.start_ms[places]
        if raw.runs_share_id
        else np.zeros(keys.size, dtype=np.int64)
    )
    order = np.lexsort((starts, keys))  # stable: ties stay in the order of the file
    keys, starts, places = keys[order], starts[order], places[order]
    is_first = np.ones(keys.size, dtype=bool)
    is_first[1:] = (keys[1:] != keys[:-1]) | (starts[1:] != starts[:-1])
    firsts = places[np.maximum.accumulate(np.where(is_first, np.arange(keys.size), 0))]
    equal = _equal_rows(rows, firsts, places)
    result = {
        cause: np.zeros(len(rows), dtype=bool)
        for cause in (REPEATED_ROW, "repeated job id")
    }
    for mask, is_repeat in zip(result.values(), (equal, ~equal), strict=True):
        mask[places[~is_first & is_repeat]] = True
    return result


def _equal_rows(rows: RawJobs, first: Int64Array, second: Int64Array) -> BoolArray:
    equal = np.ones(first.size, dtype=bool)
    for name in RawJobs.__dataclass_fields__:
        values = getattr(rows, name)
        one, other = values[first], values[second]
        equal &= (one == other) | ((one != one) & (other != other))  # NaN is NaN
    return equal
