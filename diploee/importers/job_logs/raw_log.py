"""`RawLog`: rows of a job log from a format's importer, before the common rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np
import pyarrow as pa

from diploee.base.clock import MISSING, Zone, parse_zone
from diploee.base.errors import Brief, option
from diploee.base.model import unset
from diploee.base.tables import (
    Float64Array,
    Int16Array,
    Int32Array,
    Int64Array,
    Table,
    column,
)
from diploee.base.units import MS_PER_S, US_PER_UNIT, TimeUnit
from diploee.importers.registry import FileFormat
from diploee.importers.text.delimited_tables import (
    REPEATED_HEADER,
    TRUNCATED,
    HeaderTable,
    ReadTable,
)
from diploee.importers.text.numbers_and_labels import Number, ids, labels, numbers
from diploee.importers.text.text_lines import TextLines
from diploee.importers.text.time_units import (
    TimeScale,
    clock_durations_ms,
    column_time_scale,
    has_clock_durations,
)
from diploee.importers.text.timestamps import parse_timestamps
from diploee.loads.import_counts import NAIVE
from diploee.loads.jobs.job_log import MISSING_MS, STATES
from diploee.scenario.log_replay import GpusPerNode, LogReading

COUNT = Number(1e9, none=-1)
"""Valid counts of nodes, GPUs or processors; -1 means missing."""
ENERGY_J = Number(1e15, none=-1)
"""Valid energy of a job [J], up to 278 GWh; -1 means missing."""
LABELS = ("user", "account", "name")
"""Columns of text labels of a job: user, account and job name."""
REPEATED_ROW = "repeated row"
MAX_TIME_S = 1e11
"""Maximum times [s] (3,000 years); larger values are refused as mistakes."""

STATE_WORDS = {
    "completed": "completed complete cd success successful succeeded pass passed finished done "  # noqa: E501
    "terminated ok",
    "failed": "failed fail failure f error node_fail nf boot_fail bf out_of_memory oom",
    "cancelled": "cancelled canceled cancel ca killed aborted stopped deleted",
    "timeout": "timeout to deadline dl timed_out",
}
"""Words in logs for each of `STATES`; all other words mean ``"other"``."""

OTHER = STATES.index("other")
_STATE_OF = {
    word: state for state, words in STATE_WORDS.items() for word in words.split()
}
_US_PER_MS = 1000
NUMERIC_TIMES: Mapping[str, TimeScale] = {
    "s": TimeScale("s", is_relative=True),
    "ms": TimeScale("ms", is_relative=True),
    "unix-s": TimeScale("s", is_relative=False),
    "unix-ms": TimeScale("ms", is_relative=False),
    "%s": TimeScale("s", is_relative=False),
}
"""Time formats for numbers, with their unit and origin."""


class JobLogOptions(LogReading):
    """Options for reading a job log; see `diploee.importers.read_job_log`."""

    pool_gpus_per_node: GpusPerNode | None = unset(
        "GPUs per node of the simulated pool, used if gpus_per_node is absent and the "
        "log does not specify nodes, as a header of swf does."
    )

    @property
    def zone(self) -> Zone | None:
        """Time zone specified by the user, None if absent."""
        return (
            None
            if self.utc_offset is None
            else parse_zone(self.utc_offset, "utc_offset")
        )


class RunTime(Enum):
    """Choice of run time for a log that has run times, starts and ends."""

    LOGGED = "the logged one, as its format or the user's column says"
    SPAN = "end less start, the user's columns"
    SHORTER = "the shorter in sum, as no job runs beyond its start and end"


@dataclass(frozen=True, eq=False)
class RawJobs(Table):
    """Raw rows of a job log in file order, before the rules of all formats.

    Attributes
    ----------
    start_ms, submit_ms, end_ms, run_ms, requested_ms
        Start, submission, end, logged run time, and requested run time (0 if none)
        [ms]; `MISSING_MS` if the log has no value. Logged run times may be negative.
    n_nodes, n_gpus, energy_j
        Number of nodes, number of GPUs, energy [J]; NaN if the log has no value.
    state_id, type_id, user_id, account_id, name_id
        Indices into `STATES`, `RawLog.types` and `RawLog.labels`.
    """

    start_ms: Int64Array = column("int64")
    submit_ms: Int64Array = column("int64", MISSING_MS)
    end_ms: Int64Array = column("int64", MISSING_MS)
    run_ms: Int64Array = column("int64", MISSING_MS)
    n_nodes: Float64Array = column("float64", np.nan)
    n_gpus: Float64Array = column("float64", np.nan)
    state_id: Int16Array = column("int16", OTHER)
    type_id: Int32Array = column("int32", 0)
    energy_j: Float64Array = column("float64", np.nan)
    requested_ms: Int64Array = column("int64", 0)
    user_id: Int32Array = column("int32", 0)
    account_id: Int32Array = column("int32", 0)
    name_id: Int32Array = column("int32", 0)


@dataclass(frozen=True, eq=False)
class RawLog(Brief):
    """Raw rows of a job log, with their labels, time zone and import counts."""

    rows: RawJobs  # one row for each row of the file that may be a job
    types: tuple[str, ...] = ("",)  # names by `type_id`
    # Names of the jobs, null where missing; None where the format has none
    job_ids: pa.Array | None = None
    # Offset of local time [min]; None if the origin of the times is unknown
    utc_offset_min: int | None = None
    time_zone: str = ""  # name of its zone; empty for a fixed offset
    # Counts of the importer's own changes, by cause; `rows` has no dropped rows
    dropped: Mapping[str, int] = field(default_factory=dict)
    repaired: Mapping[str, int] = field(default_factory=dict)
    noted: Mapping[str, int] = field(default_factory=dict)
    # Rule that converted processors to nodes; empty if the log counts nodes
    node_rule: str = ""
    node_unit: str = "GPU"  # unit counted by `n_gpus`, for `gpus_per_node`
    # A job id may occur again with another start, as a requeued job's in Slurm
    runs_share_id: bool = False
    is_naive: bool = False  # see `JobLog`
    # Jobs may share an id, as tasks of an array do: no row counts as repeated
    ids_repeat: bool = False
    dates_are_shifted: bool = False  # see `JobLog`
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # see `JobLog`
    # Choice between logged run time and start to end, for logs with both
    run_time: RunTime = RunTime.LOGGED
    time_unit: TimeUnit | None = None  # unit of numeric times, if known


JobLogReader = Callable[[TextLines, JobLogOptions], RawLog]
"""Reader of the raw rows of a file; `diploee.importers.job_logs.rules` follows."""
JobLogFormat = FileFormat[JobLogReader]


def read_job_columns(
    sheet: HeaderTable,
    required: Mapping[str, str],
    optional: Mapping[str, str],
    what: str,
) -> ReadTable:
    """Read a log's columns under new keys, such as ``{"gpus": "gpu_num"}``."""
    columns = {**required, **sheet.existing(optional)}
    table = sheet.read(columns, what, may_be_cut=True)
    if not len(table):
        sheet.text.fail(
            sheet.text.start_line, "no whole row, expected jobs; give a complete log"
        )
    return table


def raw_log(
    table: ReadTable,
    times_ms: Mapping[str, Int64Array],
    *,
    dropped: Mapping[str, int] | None = None,
    repaired: Mapping[str, int] | None = None,
    columns: Mapping[str, Any] | None = None,
    **facts: Any,
) -> RawLog:
    """Build a `RawLog` from times by key, and from a table with the usual keys."""
    type_id, types = labels(table, "type")
    fields: dict[str, Any] = {f"{key}_ms": ms for key, ms in times_ms.items()}
    if "requested_ms" in fields:
        fields["requested_ms"] = np.maximum(fields["requested_ms"], 0)
    names: dict[str, tuple[str, ...]] = {}
    for key in LABELS:
        index, values = labels(table, key)
        fields[f"{key}_id"] = np.where(
            np.array(values) != "", np.arange(1, len(values) + 1), 0
        )[index]
        names[key] = ("", *values)
    fields |= {
        "n_nodes": numbers(table, "nodes", COUNT),
        "n_gpus": numbers(table, "gpus", COUNT),
    }
    fields |= {"type_id": type_id, "energy_j": numbers(table, "energy", ENERGY_J)}
    if "state" in table:
        fields["state_id"] = state_ids(*labels(table, "state"))
    return RawLog(
        rows=RawJobs(**fields | dict(columns or {})),
        types=types,
        job_ids=ids(table, "id") if "id" in table else None,
        dropped={TRUNCATED: table.n_cut, **(dropped or {})},
        repaired={REPEATED_HEADER: table.n_headers, **(repaired or {})},
        labels=names,
        **facts,
    )


def times_ms(table: ReadTable, key: str, unit: TimeUnit = "s") -> Int64Array:
    """Return a numeric column as times [ms], `MISSING_MS` for missing values."""
    unit_ms = US_PER_UNIT[unit] / _US_PER_MS
    kind = Number(MAX_TIME_S * MS_PER_S / unit_ms, none=-1)
    values = numbers(table, key, kind) * unit_ms
    missing = np.isnan(values)
    return np.where(
        missing, MISSING_MS, np.rint(np.where(missing, 0, values)).astype(np.int64)
    )


def durations_ms(table: ReadTable, key: str, unit: TimeUnit = "s") -> Int64Array:
    """Return durations [ms] from numbers or ``1-02:03:04``; `MISSING_MS` if missing."""
    return (
        clock_durations_ms(table, key)
        if has_clock_durations(table, key)
        else times_ms(table, key, unit)
    )


def timestamps_ms(
    table: ReadTable, keys: Iterable[str], options: JobLogOptions
) -> tuple[dict[str, Int64Array], dict[str, Any]]:
    """Return timestamp columns [ms since 1970 UTC], and facts about the log's clock.

    A timestamp without an offset is read in the user's zone or, with a note, in UTC.
    The log's local time is the user's zone, or the most frequent offset of its
    timestamps. For numbers, unit and origin are those that the user specifies, else
    those inferred by `diploee.importers.text.time_units`.
    """
    keys, zone, time_format = tuple(keys), options.zone, options.time_format
    time_scale = NUMERIC_TIMES.get(time_format or "")
    if time_scale or time_format is None:
        time_scale = column_time_scale(
            table, keys, options.time_unit, stated=time_scale
        )
    result: dict[str, Int64Array] = {}
    offsets: dict[int, int] = {}
    n_naive = 0
    for key in keys:
        if time_scale is not None:
            result[key] = times_ms(table, key, time_scale.unit)
            continue
        remedy = (
            "correct or remove this line, or give the format of all times, such as "
        )
        remedy += f"'%d/%m/%Y %H:%M', as time_format{option('--time-format')}"
        column = parse_timestamps(table, key, time_format, remedy)
        n_local = int((column.is_present & ~column.is_aware).sum())
        n_naive = max(n_naive, n_local)
        utc_ms = column.utc_us(zone) // _US_PER_MS
        result[key] = np.where(column.is_present, utc_ms, MISSING_MS)
        if zone is None and column.is_aware.any():
            for minutes, n in column.counts_by_offset_min.items():
                offsets[minutes] = offsets.get(minutes, 0) + n
    noted = {} if time_scale is None else time_scale.note(len(table))
    facts: dict[str, Any] = {
        "noted": noted,
        "time_unit": time_scale and time_scale.unit,
    }
    if time_scale is not None and time_scale.is_relative:
        return result, facts
    if zone is not None:
        firsts = [ms[ms != MISSING][:1] for ms in result.values()]
        offset_min = zone.offset_min(next((int(ms[0]) for ms in firsts if ms.size), 0))
        return result, {**facts, "utc_offset_min": offset_min, "time_zone": zone.name}
    main_offset = max(offsets, key=offsets.__getitem__, default=0)
    if n_naive:
        noted[NAIVE] = n_naive
    return result, {
        **facts,
        "utc_offset_min": main_offset,
        "is_naive": n_naive > sum(offsets.values()),
    }


def state_ids(index: Int32Array, words: Iterable[str]) -> Int16Array:
    """Return indices into `STATES` for words such as ``CANCELLED by 1000``."""
    firsts = [(word.split() or [""])[0].rstrip("+").casefold() for word in words]
    state_index = np.array(
        [STATES.index(_STATE_OF.get(first, "other")) for first in firsts]
    )
    return state_index.astype(np.int16)[index]
