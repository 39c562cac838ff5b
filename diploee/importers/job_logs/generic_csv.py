"""Importer of any CSV table of jobs with a header, by columns that the user names.

Keys of `columns`: ``submit``, ``start``, ``end``, ``duration``, ``nodes``, ``gpus``,
``type``, ``state``, ``id``, ``energy`` [J], ``requested_time`` (in the unit of the
duration), ``user``, ``account``, ``name``. An unmapped key is looked up by its usual
names, such as ``submit_time`` or ``n_nodes``; a key mapped to an empty name is
skipped. The table needs a submission or a start, a duration or an end, and nodes or
GPUs. The delimiter (comma, semicolon, tab or bar) is inferred from the header.

Times are ISO 8601 timestamps or numbers. With `time_format`, ``unix-s`` and
``unix-ms`` are numbers since 1970, ``s`` and ``ms`` numbers from an unknown origin,
and anything else is a format of ``strptime``. Otherwise the unit of numbers is
`time_unit`, the unit in the column's name, or, since 1970, inferred from their size.

Durations are numbers or texts such as ``1-02:03:04``. Their unit is the first that is
known of: `duration_unit`, the unit in the column's name (``run_ms``), the unit that
agrees with start (or submission) and end, seconds. If seconds are implausible, or
milliseconds equally plausible, the user must specify the unit.

If the table has both durations and ends, the column that the user maps is used, and the
duration if the user maps both. Without a column of states, the end state of all jobs is
unknown. Rows with a repeated id are dropped only if the user maps the id column,
because otherwise a repeated id may be the next task of an array.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import log10
from typing import Any

import numpy as np

from diploee.base.errors import InputError, one_of, option, shown
from diploee.base.tables import Int64Array
from diploee.base.units import US_PER_UNIT, TimeUnit
from diploee.importers.job_logs.raw_log import (
    JobLogFormat,
    JobLogOptions,
    RawLog,
    RunTime,
    durations_ms,
    raw_log,
    read_job_columns,
    timestamps_ms,
)
from diploee.importers.text.delimited_tables import (
    DELIMITERS,
    HeaderTable,
    ReadTable,
    header_fields,
    read_header,
)
from diploee.importers.text.numbers_and_labels import numbers, value_text
from diploee.importers.text.text_lines import TextLines
from diploee.importers.text.time_units import (
    LIKELY_DURATION_S,
    decades_off,
    has_clock_durations,
    unit_in_name,
)
from diploee.loads.jobs.job_log import MISSING_MS

TIME_KEYS = ("submit", "start", "end")
USUAL_NAMES: Mapping[str, tuple[str, ...]] = {
    "submit": ("submit", "submit_time"),
    "start": ("start", "start_time"),
    "end": ("end", "end_time"),
    "duration": ("duration", "runtime", "run_time", "elapsed"),
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
ALIKE = 2.0
"""Maximum factor between durations and end minus start for a unit to be accepted.

Durations may include a wait or exclude a pause."""
_NEEDED = (("submit", "start"), ("duration", "end"), ("nodes", "gpus"))


def recognises(text: TextLines) -> bool:
    """Return True if the first line has a usual name of each required column."""
    words = header_fields(text)
    return all(
        any(name in words for key in keys for name in USUAL_NAMES[key])
        for keys in _NEEDED
    )


def read(text: TextLines, options: JobLogOptions) -> RawLog:
    """Read a CSV table of jobs by the user's column names, or the usual ones."""
    sheet = read_header(text, DELIMITERS)
    mapped = options.columns or {}
    table = read_job_columns(sheet, _columns(sheet, mapped), {}, "a table of jobs")
    ms, clock = timestamps_ms(table, TIME_KEYS, options)
    unit = options.duration_unit or _duration_unit(table, ms, clock["time_unit"])
    ms["run"] = durations_ms(table, "duration", unit)
    requested_unit = unit_in_name(table.names.get("requested_time", "")) or unit
    ms["requested"] = durations_ms(
        table, "requested_time", options.duration_unit or requested_unit
    )
    run_time = RunTime.SPAN if mapped.get("end") else RunTime.SHORTER
    run_time = RunTime.LOGGED if mapped.get("duration") else run_time
    return raw_log(table, ms, ids_repeat="id" not in mapped, run_time=run_time, **clock)


FORMAT = JobLogFormat("csv", "plain CSV table with named columns", recognises, read)


def _columns(sheet: HeaderTable, mapped: Mapping[Any, str]) -> dict[str, str]:
    """Return column names by key: the user's, else usual names found in the header."""
    usual_columns = {
        key: next((name for name in usual if sheet.has(name)), "")
        for key, usual in USUAL_NAMES.items()
    }
    columns = {
        key: name for key, name in (usual_columns | dict(mapped)).items() if name
    }
    for keys in _NEEDED:
        if not any(key in columns for key in keys):
            raise InputError(
                f"{sheet.path}: no column for '{keys[0]}' or '{keys[1]}', expected one "
                f"of them; name it{option(f'--column {keys[0]}=NAME')}, such as "
                f"columns: {{{keys[0]}: {shown(sheet.names[0])}}}"
            )
    return columns


def _duration_unit(
    table: ReadTable, ms: Mapping[str, Int64Array], time_unit: TimeUnit | None
) -> TimeUnit:
    """Return the unit of durations, inferred from column name, times or size."""
    if "duration" not in table or has_clock_durations(table, "duration"):
        return "s"
    named = unit_in_name(table.names["duration"])
    if named:
        return named
    values = numbers(table, "duration")
    begin = np.where(ms["start"] == MISSING_MS, ms["submit"], ms["start"])
    has_both = (begin != MISSING_MS) & (ms["end"] > begin) & (values > 0)
    if has_both.any():
        us = 1000 * np.median((ms["end"] - begin)[has_both] / values[has_both])
        unit = min(US_PER_UNIT, key=lambda unit: abs(log10(us / US_PER_UNIT[unit])))
        if 1 / ALIKE < us / US_PER_UNIT[unit] < ALIKE:
            return unit
    median = (
        float(np.median(values[values > 0]))
        if (values > 0).any()
        else LIKELY_DURATION_S[0]
    )
    far_s, far_ms = (decades_off(median * s, *LIKELY_DURATION_S) for s in (1.0, 1e-3))
    if far_s or (not far_ms and time_unit not in (None, "s")):
        table.fail(
            0,
            (
                f"column '{table.names['duration']}' is "
                f"{value_text(table, 'duration', 0)}, whose unit is not clear; give "
                f"duration_unit{option('--duration-unit')}, one of "
                f"{one_of(US_PER_UNIT)}"
            ),
        )
    return "s"
