"""Importer of the Standard Workload Format 2.2.

A line has 18 fields; header comments follow ``;``, and -1 means missing.

- Times are seconds since `UnixStartTime`; without this header their origin is unknown.
  If most submissions are after 1980 when read as Unix time, they are Unix time whatever
  the header says.
- Lines of partial executions (status 2, 3 and 4) are not jobs, as the standard has a
  separate line for the whole job. They are dropped and counted.
- A job's number of nodes is its allocated (or, if missing, its requested) processors
  divided by the processors per node: `MaxProcs` / `MaxNodes`, or 1 if the header has
  only `MaxNodes`. ASSUMPTION: a processor of this log is what the user means by a GPU
  in `gpus_per_node`, and for a log without `MaxNodes` it is a GPU of the pool's nodes.
  If no number of processors per node is known, each processor counts as a node, with a
  note.
- Lines may have more than 18 fields. With 21 fields, as written by Alea and AleaNG, the
  last one requests nodes (``2:ppn=8:...`` or ``all:excl:2x8``), and a number in the
  19th is the number of GPUs. ASSUMPTION (judgement): with 20 fields (a log of the
  machine Frontier), the last is the number of nodes if fields 5 and 8 are empty.
- The run time requested by the user is field 9.
- The job type is the queue. The local time zone is `TimeZoneString`, else the offset
  `TimeZone` [s], else UTC.

References
----------
.. [1] https://www.cs.huji.ac.il/labs/parallel/workload/swf.html
.. [2] https://github.com/aleasimulator/SWF_Workload_Generator, header of the
   generated logs
"""

from __future__ import annotations

import re
from dataclasses import replace
from math import ceil
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from diploee.base.clock import Zone, parse_zone
from diploee.base.errors import option, shown
from diploee.base.tables import Float64Array, Int16Array, Int64Array
from diploee.base.units import MS_PER_S, S_PER_MIN
from diploee.importers.job_logs.raw_log import (
    COUNT,
    OTHER,
    JobLogFormat,
    JobLogOptions,
    RawLog,
    raw_log,
    read_job_columns,
    times_ms,
)
from diploee.importers.text.delimited_tables import HeaderTable, ReadTable
from diploee.importers.text.numbers_and_labels import numbers
from diploee.importers.text.text_lines import TextLines
from diploee.loads.import_counts import YEARS_MS
from diploee.loads.jobs.job_log import MISSING_MS, STATES

FIELDS = (
    *("job", "submit", "wait", "run", "processors", "cpu_time", "memory"),
    *("requested_processors", "requested_time", "requested_memory", "status"),
    *("user", "group", "executable", "queue", "partition", "preceding", "think_time"),
)
COLUMNS = {
    **{
        "id": "job",
        "submit": "submit",
        "wait": "wait",
        "run": "run",
        "status": "status",
    },
    **{
        "processors": "processors",
        "requested": "requested_processors",
        "type": "queue",
    },
    **{"requested_time": "requested_time", "user": "user", "account": "group"},
    **{"name": "executable"},
}
STATE_OF_STATUS = {1: "completed", 0: "failed", 5: "cancelled"}
PARTIAL_STATUS = (2, 3, 4)
ALEA_FIELDS, FRONTIER_FIELDS = 21, 20
ALEA_RULE = "nodes as asked for in field 21"
FRONTIER_RULE = "nodes counted by field 20"
ONE_PROCESSOR = (
    "1 node = 1 processor, as the header has no MaxNodes; else give gpus_per_node"
)
PARTIAL_EXECUTION = "partial execution, the job has its own line"

_HEADER = re.compile(
    r"^\s*;\s*(UnixStartTime|MaxNodes|MaxProcs|TimeZoneString|TimeZone)\s*:[ \t]*(.*)$",
    re.M,
)
_Header = dict[str, tuple[int, str]]
_OFFSET_S = re.compile(r"[+-]?(0|[1-9]\d{0,4})")  # +0900 is not seconds
MIN_OFFSET_S, MAX_OFFSET_S = 900, 14 * 3_600
_WHOLE_NUMBER = re.compile(r"\d{1,18}(?!\d)")
_ROW = re.compile(r"\s*(-?\d+(\.\d*)?\s+){17}-?\d+(\.\d*)?(\s+\S+)*\s*")
_ASKED = r"(?:^|:)(?P<n>\d{1,9})(?::ppn=|x\d+(?:$|:))"
_COUNTED = r"^(?P<n>\d{1,9})$"


def recognises(text: TextLines) -> bool:
    """Return True if the first line is a ``;`` comment or has 18 numbers."""
    line = text.first_row
    return line.lstrip().startswith(";") or _ROW.fullmatch(line) is not None


def read(text: TextLines, options: JobLogOptions) -> RawLog:
    """Read a log in the Standard Workload Format."""
    header = _header(text)
    rows = text.without_comments(";").single_spaced()
    n_fields = max(len(rows.first_row.split()), len(FIELDS))
    further = tuple(
        f"field {number}" for number in range(len(FIELDS) + 1, n_fields + 1)
    )
    sheet = HeaderTable(rows, FIELDS + further, " ", is_quoted=False)
    further_of = {
        ALEA_FIELDS: {"used_gpus": "field 19", "asked": "field 21"},
        FRONTIER_FIELDS: {"asked": "field 20"},
    }
    columns = COLUMNS | further_of.get(n_fields, {})
    table = read_job_columns(sheet, columns, {}, "an SWF log")
    status = numbers(table, "status", COUNT)
    is_job = ~np.isin(status, PARTIAL_STATUS)
    table, status = table.take(is_job), status[is_job]
    counts, node_rule = _nodes(table, header, options, n_fields)
    ms, clock = _times(text, table, header, options)
    raw = raw_log(
        table,
        ms,
        dropped={PARTIAL_EXECUTION: int((~is_job).sum())},
        columns={**counts, "state_id": _states(status)},
        node_rule=node_rule,
        node_unit="processor",
        **clock,
    )
    return replace(
        raw, types=tuple(f"queue {queue}" if queue else "" for queue in raw.types)
    )


FORMAT = JobLogFormat("swf", "Standard Workload Format 2.2", recognises, read)


def _header(text: TextLines) -> _Header:
    """Return line number and text of each known header comment by key."""
    end = len(text.data)
    offset = text.start
    while offset < end and text.data[offset : offset + 200].lstrip(b" \t").startswith(
        (b";", b"\n")
    ):
        offset = text.data.find(b"\n", offset) + 1 or end
    head = text.data[:offset].decode()
    result: _Header = {}
    for match in _HEADER.finditer(head):
        result.setdefault(
            match[1], (head.count("\n", 0, match.start(1)) + 1, match[2].strip())
        )
    return result


def _number(header: _Header, key: str) -> int:
    match = _WHOLE_NUMBER.match(header.get(key, (0, ""))[1])
    return int(match[0]) if match else 0


def _times(
    text: TextLines, table: ReadTable, header: _Header, options: JobLogOptions
) -> tuple[dict[str, Int64Array], dict[str, Any]]:
    submit_ms, wait_ms = times_ms(table, "submit"), times_ms(table, "wait")
    has_start = (submit_ms != MISSING_MS) & (wait_ms != MISSING_MS)
    start_ms = np.where(has_start, submit_ms + wait_ms, MISSING_MS)
    ms = {"submit": submit_ms, "start": start_ms, "run": times_ms(table, "run")}
    ms["requested"] = times_ms(table, "requested_time")
    origin = _number(header, "UnixStartTime")
    valid_ms = submit_ms[submit_ms != MISSING_MS]
    if valid_ms.size and YEARS_MS[0] <= np.median(valid_ms) < YEARS_MS[1]:
        origin = 0  # seconds since 1970, whatever the header says
    elif not origin:
        return ms, {}
    elif origin * MS_PER_S >= YEARS_MS[1]:
        text.fail(
            header["UnixStartTime"][0],
            (
                f"UnixStartTime is {origin}, expected seconds since 1970 such as "
                "835466306; correct it"
            ),
        )
    for key in ("submit", "start"):
        ms[key] = np.where(
            ms[key] == MISSING_MS, MISSING_MS, ms[key] + origin * MS_PER_S
        )
    zone = options.zone or _zone(text, header)
    first_ms = int(valid_ms[0]) if valid_ms.size else 0
    offset_min = zone.offset_min(first_ms + origin * MS_PER_S)
    return ms, {"utc_offset_min": offset_min, "time_zone": zone.name}


def _zone(text: TextLines, header: _Header) -> Zone:
    line, name = header.get("TimeZoneString", (0, ""))
    if name:
        return parse_zone(name, f"{text.path}:{line}: TimeZoneString")
    line, offset = header.get("TimeZone", (0, ""))
    if not offset:
        return Zone()
    if (
        not _OFFSET_S.fullmatch(offset)
        or int(offset) % MIN_OFFSET_S
        or abs(int(offset)) > MAX_OFFSET_S
    ):
        text.fail(
            line,
            (
                f"TimeZone is {shown(offset)}, expected an offset from UTC in seconds "
                "such as -28800; correct it, or give "
                f"utc_offset{option('--utc-offset')}"
            ),
        )
    return Zone("", int(offset) // S_PER_MIN)


def _nodes(
    table: ReadTable, header: _Header, options: JobLogOptions, n_fields: int
) -> tuple[dict[str, Float64Array], str]:
    """Return node or GPU counts of jobs by column, and text that defines a node."""
    allocated, requested = (
        numbers(table, key, COUNT) for key in ("processors", "requested")
    )
    processors = np.where(allocated > 0, allocated, requested)
    if n_fields == ALEA_FIELDS and not options.gpus_per_node:
        counts = {"n_nodes": _extract_number(table, "asked", _ASKED)}
        if not np.isnan(counts["n_nodes"]).all():
            n_gpus = _extract_number(table, "used_gpus", _COUNTED)
            return counts if np.isnan(n_gpus).all() else counts | {
                "n_gpus": n_gpus
            }, ALEA_RULE
    max_nodes = _number(header, "MaxNodes")
    if n_fields == FRONTIER_FIELDS and not (processors > 0).any():
        n_nodes = _extract_number(table, "asked", _COUNTED)
        if (n_nodes > 0).any():
            return {"n_nodes": n_nodes}, FRONTIER_RULE
    if options.gpus_per_node or (options.pool_gpus_per_node and not max_nodes):
        return {"n_gpus": processors}, ""
    if not max_nodes:
        return {"n_nodes": processors}, ONE_PROCESSOR
    n_processors = _number(header, "MaxProcs") or max_nodes
    per_node = max(ceil(n_processors / max_nodes), 1)
    rule = (
        f"1 node = {per_node:,} processors, from the log's header"
        if per_node > 1
        else ""
    )
    return {"n_nodes": np.ceil(processors / per_node)}, rule


def _extract_number(table: ReadTable, key: str, pattern: str) -> Float64Array:
    """Return the number matched by a pattern in each text, NaN without a match."""
    digits = pc.struct_field(pc.extract_regex(table.columns[key], pattern=pattern), "n")
    return np.asarray(
        pc.fill_null(pc.cast(digits, pa.float64()), np.nan), dtype=np.float64
    )


def _states(status: Float64Array) -> Int16Array:
    state_id = np.full(status.size, OTHER, dtype=np.int16)
    for code, state in STATE_OF_STATUS.items():
        state_id[status == code] = STATES.index(state)
    return state_id
