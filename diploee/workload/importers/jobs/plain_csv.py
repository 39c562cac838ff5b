"""A plain table of jobs: any CSV file with a header, its columns named by the user.

Keys of `columns`: ``submit``, ``start``, ``end``, ``duration``, ``nodes``, ``gpus``, ``type``,
``state``, ``id``, ``energy`` (J). A key that the user does not map is looked for by its usual
names, such as ``submit_time`` or ``n_nodes``. There must be a submission or a start, a duration or
an end, and nodes or GPUs. The delimiter (comma, semicolon, tab or bar) is told by the header.

Times are ISO 8601 stamps, with or without an offset, or what `time_format` says: ``unix-s`` and
``unix-ms`` are numbers since 1970, ``s`` and ``ms`` numbers from an origin that is not known,
anything else is a format as of ``strptime``. Where there is no column of states, it is not told how
jobs ended; where there is no column of ids, no row is taken for repeated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from diploee.errors import InputError, did_you_mean, one_line, one_of, shown
from diploee.tables import Int64Array
from diploee.workload.importers.jobs.base import JobLogFormat, header_words
from diploee.workload.importers.jobs.options import (
    COLUMN_KEYS,
    NUMERIC_TIMES,
    UNIT_MS,
    JobLogOptions,
)
from diploee.workload.importers.jobs.raw_log import RawJobs, RawLog
from diploee.workload.importers.jobs.stamps import Stamps, stamps
from diploee.workload.importers.jobs.text_file import TextFile
from diploee.workload.importers.jobs.text_table import (
    TRUNCATED,
    TextTable,
    header_dialect,
    listed,
    read_table,
    require_columns,
)
from diploee.workload.importers.jobs.values import (
    LARGEST_ENERGY_J,
    job_ids,
    labels,
    numbers,
    state_ids,
    times_ms,
)
from diploee.workload.job_log import STATES

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
}
_NEEDED = (("submit", "start"), ("duration", "end"), ("nodes", "gpus"))
_DELIMITERS = ",;\t|"


def recognises(file: TextFile) -> bool:
    """Return whether the first line has usual names for all that is needed."""
    words = header_words(file)
    return all(any(name in words for key in keys for name in USUAL_NAMES[key]) for keys in _NEEDED)


def read(file: TextFile, options: JobLogOptions) -> RawLog:
    """Read a plain table of jobs.

    Raises
    ------
    LogFormatError
        If a line has another number of fields than the header, or a value does not parse.
    InputError
        If a column is not there, or the columns do not tell enough.
    """
    dialect = header_dialect(file, _delimiter(file))
    column_of = _columns(file, dialect.names, options.columns or {})
    raw = read_table(file, dialect, column_of.values())
    table = TextTable(
        raw.path,
        {key: raw.columns[name] for key, name in column_of.items()},
        raw.line_of,
        raw.n_truncated,
    )
    times, is_relative = _times(table, options)
    type_id, types = labels(table, "type")
    state_id = np.full(len(table), STATES.index("other"), dtype=np.int16)
    rows = RawJobs(
        submit_ms=times.ms["submit"],
        start_ms=times.ms["start"],
        end_ms=times.ms["end"],
        run_ms=times_ms(table, "duration", UNIT_MS[options.duration_unit]),
        n_nodes=numbers(table, "nodes"),
        n_gpus=numbers(table, "gpus"),
        state_id=state_ids(*labels(table, "state")) if "state" in table else state_id,
        type_id=type_id,
        energy_j=numbers(table, "energy", LARGEST_ENERGY_J),
    )
    return RawLog(
        rows=rows,
        types=types,
        job_ids=job_ids(table, "id") if "id" in table else None,
        utc_offset_min=None if is_relative else times.utc_offset_min,
        dropped={TRUNCATED: table.n_truncated},
        noted=times.noted,
    )


FORMAT = JobLogFormat("csv", "plain CSV table with named columns", recognises, read)


def _delimiter(file: TextFile) -> str:
    line = file.head.partition("\n")[0]
    return max(_DELIMITERS, key=line.count)


def _columns(file: TextFile, names: Sequence[str], mapped: Mapping[str, str]) -> dict[str, str]:
    """Return the name of the column of each key that there is."""
    for key, name in mapped.items():
        if name not in names:
            near = one_line(did_you_mean(str(name), names))
            raise InputError(
                f"{file.path}: columns: no column {shown(name)} for '{key}' "
                f"(found: {listed(names)}){near}; '--column {key}=NAME' "
                "names it on the command line"
            )
    found_names = {
        key: next((name for name in USUAL_NAMES[key] if name in names), "") for key in COLUMN_KEYS
    }
    column_of = {key: name for key, name in (found_names | dict(mapped)).items() if name}
    require_columns(file, names, column_of.values(), "a table of jobs")
    for keys in _NEEDED:
        if not any(key in column_of for key in keys):
            raise InputError(
                f"{file.path}: no column for '{keys[0]}' or '{keys[1]}', expected one of them; "
                f"name it with --column {keys[0]}=NAME (columns in a scenario, such as "
                f"{{'{keys[0]}': {shown(names[0])}}})"
            )
    return column_of


def _times(table: TextTable, options: JobLogOptions) -> tuple[Stamps, bool]:
    """Return the times of the table, and whether their origin is not known."""
    time_format = options.time_format
    if time_format is None:
        _refuse_bare_numbers(table)
    if time_format is None or time_format not in NUMERIC_TIMES:
        return stamps(table, TIME_KEYS, options.zone, time_format), False
    unit_ms, is_relative = NUMERIC_TIMES[time_format]
    ms: dict[str, Int64Array] = {key: times_ms(table, key, unit_ms) for key in TIME_KEYS}
    offset_min = options.zone.offset_min(0) if options.zone else 0
    return Stamps(ms, offset_min), is_relative


def _refuse_bare_numbers(table: TextTable) -> None:
    """Say what to do with times that are numbers."""
    key = next(key for key in TIME_KEYS if key in table)
    first = table.columns[key][0].as_py().strip()
    if first.lstrip("-").replace(".", "", 1).isdigit():
        table.fail(
            0,
            f"column '{key}' is {shown(first)}, expected a time such as 2023-05-17T11:00:58; for "
            f"numbers give time_format as {one_of(NUMERIC_TIMES)} (--time-format)",
        )
