"""Standard Workload Format 2.2: 18 fields a line, header comments after ``;``, -1 for missing.

- Times are seconds since `UnixStartTime`; without it their origin is not known.
- Lines of partial executions (status 2, 3 and 4) are not jobs: the standard has the job's own line
  beside them. They are dropped and counted.
- A job's nodes are its allocated processors, or where they are missing the requested ones, over the
  processors of a node: `MaxProcs` over `MaxNodes`, 1 where the header has `MaxNodes` alone.
  ASSUMPTION: who gives `gpus_per_node` says that this log's processors are GPUs; so are those of a
  log without `MaxNodes` where the nodes of the pool have GPUs.
- The kind of a job is its queue. Local time is that of `TimeZoneString`, else UTC.

References
----------
.. [1] https://www.cs.huji.ac.il/labs/parallel/workload/swf.html
"""

from __future__ import annotations

import re
from dataclasses import replace
from math import ceil

import numpy as np

from diploee.errors import LogFormatError
from diploee.importers.job_log import MISSING_MS, STATES
from diploee.importers.job_logs.options import JobLogOptions
from diploee.importers.job_logs.raw_log import (
    COUNT,
    OTHER,
    JobLogFormat,
    LogTimes,
    RawLog,
    raw_log,
    read_job_columns,
    times_ms,
)
from diploee.tables import Float64Array, Int16Array
from diploee.textio.clock import Zone, zone_of
from diploee.textio.tables import Layout, ReadTable
from diploee.textio.text import Text
from diploee.textio.values import numbers
from diploee.units import MS_PER_S

FIELDS = (
    *("job", "submit", "wait", "run", "processors", "cpu_time", "memory"),
    *("requested_processors", "requested_time", "requested_memory", "status"),
    *("user", "group", "executable", "queue", "partition", "preceding", "think_time"),
)
COLUMNS = {
    **{"id": "job", "submit": "submit", "wait": "wait", "run": "run", "status": "status"},
    **{"processors": "processors", "requested": "requested_processors", "type": "queue"},
}
STATE_OF_STATUS = {1: "completed", 0: "failed", 5: "cancelled"}
PARTIAL_STATUS = (2, 3, 4)
PARTIAL_EXECUTION = "partial execution, the job has its own line"

_HEADER = re.compile(
    r"^\s*;\s*(UnixStartTime|MaxNodes|MaxProcs|TimeZoneString)\s*:[ \t]*(.*)$", re.M
)
_WHOLE_NUMBER = re.compile(r"\d{1,12}(?!\d)")
_ROW = re.compile(r"\s*(-?\d+(\.\d*)?\s+){17}-?\d+(\.\d*)?\s*")


def recognises(text: Text) -> bool:
    """Return whether the first line is a comment after ``;`` or 18 numbers."""
    line = text.first_row
    return line.lstrip().startswith(";") or _ROW.fullmatch(line) is not None


def read(text: Text, options: JobLogOptions) -> RawLog:
    """Read a log in the Standard Workload Format.

    Raises
    ------
    LogFormatError
        If a line has not 18 numbers, or neither the header nor the user tells how many processors
        a node has.
    """
    header = _header(text)
    rows = text.without_comments(";").single_spaced()
    table = read_job_columns(rows, Layout(FIELDS, " ", is_quoted=False), COLUMNS, {}, "an SWF log")
    status = numbers(table, "status", COUNT)
    is_job = ~np.isin(status, PARTIAL_STATUS)
    table, status = table.take(is_job), status[is_job]
    processors = _processors(table)
    counts, node_rule = {"n_gpus": processors}, ""
    if not (options.gpus_per_node or (options.pool_gpus_per_node and not _max_nodes(header))):
        per_node = _processors_per_node(text, header)
        counts = {"n_nodes": np.ceil(processors / per_node)}
        if per_node > 1:
            node_rule = f"1 node = {per_node:,} processors, from the log's header"
    raw = raw_log(
        table,
        _times(text, table, header, options),
        dropped={PARTIAL_EXECUTION: int((~is_job).sum())},
        columns={**counts, "state_id": _states(status)},
        node_rule=node_rule,
    )
    return replace(raw, types=tuple(f"queue {queue}" if queue else "" for queue in raw.types))


FORMAT = JobLogFormat("swf", "Standard Workload Format 2.2", recognises, read)


def _header(text: Text) -> dict[str, tuple[int, str]]:
    """Return line and text of the header comments that matter, the first of each."""
    end = len(text.data)
    offset = text.start
    while offset < end and text.data[offset : offset + 200].lstrip(b" \t").startswith(
        (b";", b"\n")
    ):
        offset = text.data.find(b"\n", offset) + 1 or end
    head = text.data[:offset].decode()
    found: dict[str, tuple[int, str]] = {}
    for match in _HEADER.finditer(head):
        found.setdefault(match[1], (head.count("\n", 0, match.start(1)) + 1, match[2].strip()))
    return found


def _number(text: str) -> int:
    match = _WHOLE_NUMBER.match(text)
    return int(match[0]) if match else 0


def _times(
    text: Text, table: ReadTable, header: dict[str, tuple[int, str]], options: JobLogOptions
) -> LogTimes:
    submit_ms, wait_ms = times_ms(table, "submit"), times_ms(table, "wait")
    has_start = (submit_ms != MISSING_MS) & (wait_ms != MISSING_MS)
    start_ms = np.where(has_start, submit_ms + wait_ms, MISSING_MS)
    ms = {"submit": submit_ms, "start": start_ms, "run": times_ms(table, "run")}
    origin = _number(header.get("UnixStartTime", (0, ""))[1])
    if not origin:
        return LogTimes(ms)
    for key in ("submit", "start"):
        ms[key] = np.where(ms[key] == MISSING_MS, MISSING_MS, ms[key] + origin * MS_PER_S)
    line, name = header.get("TimeZoneString", (0, ""))
    zone = options.zone
    if zone is None:
        zone = zone_of(name, f"{text.path}:{line}: TimeZoneString") if name else Zone()
    return LogTimes(ms, zone.offset_min(origin * MS_PER_S), time_zone=zone.name)


def _max_nodes(header: dict[str, tuple[int, str]]) -> int:
    return _number(header.get("MaxNodes", (0, ""))[1])


def _processors_per_node(text: Text, header: dict[str, tuple[int, str]]) -> int:
    n_nodes = _max_nodes(header)
    n_processors = _number(header.get("MaxProcs", (0, ""))[1]) or n_nodes
    if not n_nodes:
        raise LogFormatError(
            f"{text.path}: the header has no MaxNodes, so that processors tell no nodes; "
            "give gpus_per_node (--gpus-per-node), the processors of a node, or add "
            "'; MaxNodes: <number>'"
        )
    return max(ceil(n_processors / n_nodes), 1)


def _processors(table: ReadTable) -> Float64Array:
    allocated, requested = (numbers(table, key, COUNT) for key in ("processors", "requested"))
    return np.where(allocated > 0, allocated, requested)


def _states(status: Float64Array) -> Int16Array:
    state_id = np.full(status.size, OTHER, dtype=np.int16)
    for code, state in STATE_OF_STATUS.items():
        state_id[status == code] = STATES.index(state)
    return state_id
