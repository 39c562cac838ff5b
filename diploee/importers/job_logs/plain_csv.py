"""A plain table of jobs: any CSV file with a header, its columns named by the user.

Keys of `columns`: ``submit``, ``start``, ``end``, ``duration``, ``nodes``, ``gpus``, ``type``,
``state``, ``id``, ``energy`` (J), ``requested_time`` (in the unit of the duration), ``user``,
``account``, ``name``. A key that is not mapped is looked for by its usual names, such as
``submit_time`` or ``n_nodes``.
There must be a submission or a start, a duration or an end, and nodes or GPUs. The delimiter
(comma, semicolon, tab or bar) is inferred from the header.

Times are ISO 8601 stamps, with or without an offset, or what `time_format` says: ``unix-s`` and
``unix-ms`` are numbers since 1970, ``s`` and ``ms`` numbers from an origin that is not known,
anything else is a format of ``strptime``. Without a column of states, it is unknown how
jobs ended. A row is taken for repeated only by a column of ids that the user maps: in others an id
that comes back is that of an array's next task.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from diploee.clock import Zone
from diploee.errors import InputError, did_you_mean, one_line, one_of, shown
from diploee.importers.job_logs.raw_log import (
    JobLogFormat,
    JobLogOptions,
    RawLog,
    raw_log,
    read_job_columns,
    stamps_ms,
    times_ms,
)
from diploee.tables import Int64Array
from diploee.textio.tables import Layout, ReadTable, header_words, listed, read_header
from diploee.textio.text import Text
from diploee.units import MS_PER_H, MS_PER_MIN, MS_PER_S

NUMERIC_TIMES: Mapping[str, tuple[int, bool]] = {
    "s": (MS_PER_S, True),
    "ms": (1, True),
    "unix-s": (MS_PER_S, False),
    "unix-ms": (1, False),
}
"""Formats of times that are numbers: their unit [ms], and whether their origin is unknown."""
UNIT_MS = {"ms": 1, "s": MS_PER_S, "min": MS_PER_MIN, "h": MS_PER_H}
TIME_KEYS = ("submit", "start", "end")
USUAL_NAMES: Mapping[str, tuple[str, ...]] = {
    "submit": ("submit", "submit_time"),
    "start": ("start", "start_time"),
    "end": ("end", "end_time"),
    "duration": ("duration", "runtime", "run_time"),
    "nodes": ("nodes", "n_nodes", "node_num"),
    "gpus": ("gpus", "n_gpus", "gpu_num"),
    "type": ("type", "class"),
    "state": ("state", "status"),
    "id": ("id", "job_id"),
    "energy": ("energy_j",),
    "requested_time": ("requested_time",),
    "user": ("user", "user_id"),
    "account": ("account",),
    "name": ("name", "job_name"),
}
_NEEDED = (("submit", "start"), ("duration", "end"), ("nodes", "gpus"))
_DELIMITERS = ",;\t|"


def recognises(text: Text) -> bool:
    """Return whether the first line has usual names for all that is needed."""
    words = header_words(text)
    return all(any(name in words for key in keys for name in USUAL_NAMES[key]) for keys in _NEEDED)


def read(text: Text, options: JobLogOptions) -> RawLog:
    """Read a plain table of jobs."""
    layout = read_header(text, _DELIMITERS)
    columns = _columns(text, layout, options.columns or {})
    table = read_job_columns(text, layout, columns, {}, "a table of jobs")
    ms, clock = _times(table, options)
    unit_ms = UNIT_MS[options.duration_unit]
    lengths = {"run": "duration", "requested": "requested_time"}
    ms |= {key: times_ms(table, name, unit_ms) for key, name in lengths.items()}
    ids_repeat = "id" not in (options.columns or {})
    return raw_log(table, ms, ids_repeat=ids_repeat, **clock)


FORMAT = JobLogFormat("csv", "plain CSV table with named columns", recognises, read)


def _columns(text: Text, layout: Layout, mapped: Mapping[Any, str]) -> dict[str, str]:
    """Return the name of the column of each key that there is."""
    for key, name in mapped.items():
        if not layout.has(name):
            near = one_line(did_you_mean(str(name), layout.names))
            raise InputError(
                f"{text.path}: columns: no column {shown(name)} for '{key}' "
                f"(found: {listed(layout.names)}){near} (--column {key}=NAME)"
            )
    found = {
        key: next((name for name in usual if layout.has(name)), "")
        for key, usual in USUAL_NAMES.items()
    }
    column_of = {key: name for key, name in (found | dict(mapped)).items() if name}
    for keys in _NEEDED:
        if not any(key in column_of for key in keys):
            raise InputError(
                f"{text.path}: no column for '{keys[0]}' or '{keys[1]}', expected one of them; "
                f"name it (--column {keys[0]}=NAME), such as columns: "
                f"{{{keys[0]}: {shown(layout.names[0])}}}"
            )
    return column_of


def _times(
    table: ReadTable, options: JobLogOptions
) -> tuple[dict[str, Int64Array], dict[str, Any]]:
    time_format = options.time_format
    if time_format is None:
        _refuse_bare_numbers(table)
    if time_format is None or time_format not in NUMERIC_TIMES:
        return stamps_ms(table, TIME_KEYS, options.zone, time_format)
    unit_ms, is_relative = NUMERIC_TIMES[time_format]
    zone = options.zone or Zone()
    ms = {key: times_ms(table, key, unit_ms) for key in TIME_KEYS}
    offset_min = None if is_relative else zone.offset_min(0)
    return ms, {"utc_offset_min": offset_min, "time_zone": zone.name}


def _refuse_bare_numbers(table: ReadTable) -> None:
    """Say what to do with times that are numbers."""
    key = next(key for key in TIME_KEYS if key in table)
    first = table.columns[key][0].as_py().strip()
    if first.lstrip("-").replace(".", "", 1).isdigit():
        table.fail(
            0,
            f"column '{table.names[key]}' is {shown(first)}, expected a time such as "
            "2023-05-17T11:00:58; for numbers give time_format as "
            f"{one_of(NUMERIC_TIMES)} (--time-format)",
        )
