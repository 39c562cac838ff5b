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
from math import ceil

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from diploee.errors import LogFormatError
from diploee.tables import Float64Array, Int16Array
from diploee.units import MS_PER_S
from diploee.workload.importers.jobs.base import JobLogFormat
from diploee.workload.importers.jobs.clock import Zone, zone_of
from diploee.workload.importers.jobs.options import JobLogOptions
from diploee.workload.importers.jobs.raw_log import RawJobs, RawLog
from diploee.workload.importers.jobs.text_file import CHUNK_BYTES, TextFile
from diploee.workload.importers.jobs.text_table import TRUNCATED, Dialect, TextTable, read_table
from diploee.workload.importers.jobs.values import job_ids, labels, numbers, times_ms
from diploee.workload.job_log import MISSING_MS, STATES

FIELDS = (
    *("job", "submit", "wait", "run", "processors", "cpu_time", "memory"),
    *("requested_processors", "requested_time", "requested_memory", "status"),
    *("user", "group", "executable", "queue", "partition", "preceding", "think_time"),
)
WANTED = ("job", "submit", "wait", "run", "processors", "requested_processors", "status", "queue")
STATE_OF_STATUS = {1: "completed", 0: "failed", 5: "cancelled"}
PARTIAL_STATUS = (2, 3, 4)
PARTIAL_EXECUTION = "partial execution, the job has its own line"

_HEADER = re.compile(
    r"^\s*;\s*(UnixStartTime|MaxNodes|MaxProcs|TimeZoneString)\s*:[ \t]*(.*)$", re.M
)
_COMMENT = re.compile(rb"^[ \t]*;[^\n]*", re.M)
_SPACE, _NEWLINE = ord(" "), ord("\n")
_WHOLE_NUMBER = re.compile(r"\d{1,12}(?!\d)")
_ROW = re.compile(r"\s*(-?\d+(\.\d*)?\s+){17}-?\d+(\.\d*)?\s*")


def recognises(file: TextFile) -> bool:
    """Return whether the first line is a comment after ``;`` or 18 numbers."""
    line = file.head.partition("\n")[0]
    return line.lstrip().startswith(";") or _ROW.fullmatch(line) is not None


def read(file: TextFile, options: JobLogOptions) -> RawLog:
    """Read a log in the Standard Workload Format.

    Raises
    ------
    LogFormatError
        If a line has not 18 numbers, or neither the header nor the user tells how many processors
        a node has.
    """
    header = _header(file)
    table = _table(file)
    is_job = ~np.isin(numbers(table, "status"), PARTIAL_STATUS)
    submit_ms, wait_ms = times_ms(table, "submit"), times_ms(table, "wait")
    has_start = (submit_ms != MISSING_MS) & (wait_ms != MISSING_MS)
    start_ms = np.where(has_start, submit_ms + wait_ms, MISSING_MS)
    origin = _number(header.get("UnixStartTime", (0, ""))[1])
    zone = _zone(file, header, options) if origin else None
    if origin:
        submit_ms, start_ms = (
            np.where(ms == MISSING_MS, MISSING_MS, ms + origin * MS_PER_S)
            for ms in (submit_ms, start_ms)
        )
    processors = _processors(table)
    n_nodes = n_gpus = np.full(len(table), np.nan)
    node_rule = ""
    if options.gpus_per_node or (options.pool_gpus_per_node and not _max_nodes(header)):
        n_gpus = processors
    else:
        per_node = _processors_per_node(file, header)
        n_nodes = np.ceil(processors / per_node)
        if per_node > 1:
            node_rule = f"1 node = {per_node:,} processors, from the log's header"
    type_id, queues = labels(table, "queue")
    rows = RawJobs(
        submit_ms=submit_ms,
        start_ms=start_ms,
        end_ms=np.full(len(table), MISSING_MS),
        run_ms=times_ms(table, "run"),
        n_nodes=n_nodes,
        n_gpus=n_gpus,
        state_id=_states(table),
        type_id=type_id,
        energy_j=np.full(len(table), np.nan),
    )
    return RawLog(
        rows=rows.take(is_job),
        types=tuple(f"queue {queue}" if queue else "" for queue in queues),
        job_ids=pc.filter(job_ids(table, "job"), pa.array(is_job)),
        utc_offset_min=zone.offset_min(origin * MS_PER_S) if zone else None,
        dropped={TRUNCATED: table.n_truncated, PARTIAL_EXECUTION: int((~is_job).sum())},
        node_rule=node_rule,
    )


FORMAT = JobLogFormat("swf", "Standard Workload Format 2.2", recognises, read)


def _table(file: TextFile) -> TextTable:
    dialect = Dialect(" ", FIELDS, is_quoted=False, has_header=False)
    return read_table(TextFile(file.path, _single_spaces(file.data)), dialect, WANTED)


def _header(file: TextFile) -> dict[str, tuple[int, str]]:
    """Return line and text of the header comments that matter, the first of each."""
    end = len(file.data)
    place = file.start
    while place < end and file.data[place : place + 200].lstrip(b" \t").startswith((b";", b"\n")):
        place = file.data.find(b"\n", place) + 1 or end
    text = file.data[:place].decode("utf-8", "replace")
    found: dict[str, tuple[int, str]] = {}
    for match in _HEADER.finditer(text):
        found.setdefault(match[1], (text.count("\n", 0, match.start(1)) + 1, match[2].strip()))
    return found


def _number(text: str) -> int:
    match = _WHOLE_NUMBER.match(text)
    return int(match[0]) if match else 0


def _zone(file: TextFile, header: dict[str, tuple[int, str]], options: JobLogOptions) -> Zone:
    if options.zone is not None:
        return options.zone
    line, name = header.get("TimeZoneString", (0, ""))
    return zone_of(name, f"{file.path}:{line}: TimeZoneString") if name else Zone()


def _max_nodes(header: dict[str, tuple[int, str]]) -> int:
    return _number(header.get("MaxNodes", (0, ""))[1])


def _processors_per_node(file: TextFile, header: dict[str, tuple[int, str]]) -> int:
    n_nodes = _max_nodes(header)
    n_processors = _number(header.get("MaxProcs", (0, ""))[1]) or n_nodes
    if not n_nodes:
        raise LogFormatError(
            f"{file.path}: the header has no MaxNodes, so that processors tell no nodes; "
            "give gpus_per_node (--gpus-per-node), the processors of a node, or add "
            "'; MaxNodes: <number>'"
        )
    return max(ceil(n_processors / n_nodes), 1)


def _processors(table: TextTable) -> Float64Array:
    allocated, requested = numbers(table, "processors"), numbers(table, "requested_processors")
    return np.where(allocated > 0, allocated, requested)


def _states(table: TextTable) -> Int16Array:
    status = numbers(table, "status")
    state_id = np.full(status.size, STATES.index("other"), dtype=np.int16)
    for code, state in STATE_OF_STATUS.items():
        state_id[status == code] = STATES.index(state)
    return state_id


def _single_spaces(data: bytes) -> bytes:
    """Return lines of words with one space between them, comments left empty."""
    parts = []
    place = 0
    while place < len(data):
        end = data.rfind(b"\n", place, place + CHUNK_BYTES) + 1
        end = end or data.find(b"\n", place) + 1 or len(data)
        chunk = data[place:end]
        if b";" in chunk:
            chunk = _COMMENT.sub(b"", chunk)
        parts.append(_chunk_with_single_spaces(chunk))
        place = end
    return b"".join(parts)


def _chunk_with_single_spaces(chunk: bytes) -> bytes:
    if b"\t" in chunk:
        chunk = chunk.replace(b"\t", b" ")
    raw = np.frombuffer(chunk, dtype=np.uint8)
    is_space, is_gap = raw == _SPACE, (raw == _SPACE) | (raw == _NEWLINE)
    raw = raw[~(is_space & np.concatenate(([True], is_gap[:-1])))]  # one at most, none before
    is_last = np.concatenate((raw[1:] == _NEWLINE, [True]))
    return bytes(raw[~((raw == _SPACE) & is_last[: raw.size])])
