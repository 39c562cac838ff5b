"""Importer of Slurm's ``sacct`` output: a header, any delimiter, any column order.

``sacct -a -X -P --format=JobID,Submit,Start,End,ElapsedRaw,NNodes,AllocTRES,State``
exports the required columns. Optional columns are `Partition` (the job type),
`ConsumedEnergyRaw`, `User`, `Account`, `JobName` and the time limit of a job
(`TimelimitRaw` or `Timelimit`; no limit if it is a word). Without ``-P``, ``sacct``
aligns columns by blanks and truncates long values: such a log can be read if no
required value is truncated. Logs saved by a spreadsheet, with quotes, can be read too.

- Steps (``.batch``, ``.extern``, ``.0``) are not jobs: dropped and counted.
- Tasks of an array (``7_3``) and components of a heterogeneous job (``7+1``) are
  separate jobs, each with its own nodes. Tasks that have not started share one row
  (``7_[4-9]``), which is dropped because it never started.
- A requeued job has a row for each of its runs (``sacct -D``), and each run is kept.
  Rows with the id and the start of an earlier row are dropped.
- The run time is `ElapsedRaw`, or else `Elapsed`, as both are unaffected by daylight
  saving and exclude suspension; `End` minus `Start` if both are missing. A job without
  an `End` is still running.
- Timestamps are local times without a zone: the zone is `utc_offset`, by default UTC.
  With ``SLURM_TIME_FORMAT=%s`` they are seconds since 1970.
- The number of GPUs is ``gres/gpu`` in `AllocTRES`. If no job of the log has this
  entry, the numbers are unknown; otherwise jobs without it have no GPUs.

References
----------
.. [1] https://slurm.schedmd.com/sacct.html
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from diploee.base.tables import Float64Array, Int64Array
from diploee.importers.job_logs.raw_log import (
    COUNT,
    ENERGY_J,
    LABELS,
    JobLogFormat,
    JobLogOptions,
    RawLog,
    durations_ms,
    raw_log,
    read_job_columns,
    times_ms,
    timestamps_ms,
)
from diploee.importers.text.delimited_tables import (
    ReadTable,
    header_fields,
    read_header,
)
from diploee.importers.text.numbers_and_labels import (
    Number,
    fail_values,
    ids,
    numbers,
    without_missing,
)
from diploee.importers.text.text_lines import TextLines
from diploee.importers.text.time_units import CLOCKED, fields_ms
from diploee.loads.jobs.job_log import MISSING_MS

COLUMNS = {
    **{"id": "JobID", "submit": "Submit", "start": "Start", "end": "End"},
    **{"state": "State", "nodes": "NNodes"},
}
OPTIONAL = {
    **{
        "run": "ElapsedRaw",
        "elapsed": "Elapsed",
        "tres": "AllocTRES",
        "energy": "ConsumedEnergyRaw",
    },
    **{"type": "Partition", "user": "User", "account": "Account", "name": "JobName"},
    **{"limit_min": "TimelimitRaw", "limit": "Timelimit"},
}
COMMAND = "sacct -P -o JobID,State,Submit,Start,End,ElapsedRaw,NNodes,AllocTRES"
EXPORT = f"export with '{COMMAND}'"
JOB_STEP = "job step"
ENERGY_OUT_OF_RANGE = "energy out of range, left out"

_DELIMITER = re.compile(r"\w+(\W)")
_GPUS = r"gres/gpu=(?P<n>\d{1,9})"
_GPUS_OF_TYPE = re.compile(r"gres/gpu:[^=,]*=(\d{1,9})")
_MINUTES = r"^(?P<min>\d{1,9})$"
_DASHES = re.compile(r"[^\n]*\n(-{2,}(?: +-+)+) *(?:\n|$)")
_CUT = r"\+$"
_ENERGY = Number(2.0**64, none=-1)
_THOUSANDS = {"K": 1024, "M": 1024**2}


def read(text: TextLines, options: JobLogOptions) -> RawLog:
    """Read the output of Slurm's ``sacct``, delimited or aligned in columns."""
    dashes = _DASHES.match(text.head)
    if dashes:
        text = _to_delimited(text, dashes[1])
    match = _DELIMITER.match(text.head.replace('"', ""))
    delimiter = match[1] if match else "|"
    # Only spreadsheets and Parquet files quote fields; otherwise a quote is part of a
    # job's name
    is_quoted = text.head.startswith('"') or (delimiter in ",;\t" and '"' in text.head)
    sheet = read_header(text, delimiter, is_quoted=is_quoted)
    table = read_job_columns(sheet, COLUMNS, OPTIONAL, f"a log; {EXPORT}")
    if dashes:
        _refuse_truncated(table)
    steps = pc.match_substring(ids(table, "id"), ".")
    is_job = ~np.asarray(pc.fill_null(steps, False), dtype=bool)
    n_steps = int((~is_job).sum())
    n_gpus = _gpus(table)[is_job]
    table = _drop_columns(table, "tres").take(is_job)
    ms, clock = timestamps_ms(table, ("submit", "start", "end"), options)
    run_ms, elapsed_ms = times_ms(table, "run"), durations_ms(table, "elapsed")
    run_ms = np.where(run_ms == MISSING_MS, elapsed_ms, run_ms)
    ms["run"] = np.where(ms["end"] == MISSING_MS, MISSING_MS, run_ms)
    energy_j = numbers(table, "energy", _ENERGY)
    impossible = energy_j > ENERGY_J.largest  # Slurm's codes for none, near 2**64
    return raw_log(
        _drop_columns(table, "nodes", "energy", "limit", "limit_min"),
        ms,
        dropped={JOB_STEP: n_steps},
        repaired={ENERGY_OUT_OF_RANGE: int(impossible.sum())},
        columns={
            "n_nodes": _node_counts(table),
            "n_gpus": n_gpus,
            "energy_j": np.where(impossible, np.nan, energy_j),
            "requested_ms": _time_limits_ms(table),
        },
        runs_share_id=True,
        **clock,
    )


def recognises(text: TextLines) -> bool:
    """Return True if the first line has the columns ``JobID`` and ``State``."""
    words = header_fields(text) | set(text.first_row.casefold().split())
    return words >= {"jobid", "state"}


FORMAT = JobLogFormat("slurm", "Slurm's 'sacct'", recognises, read)


def _to_delimited(text: TextLines, dashes: str) -> TextLines:
    """Return text aligned in columns as delimited text, as ``sacct -P`` prints it.

    The row of dashes below the header gives the edges of the columns.
    """
    spans = [match.span() for match in re.finditer("-+", dashes)]
    lines = text.data.decode().replace("|", " ").replace(dashes, "").split("\n")
    cells = (
        "|".join(line[a:b].strip() for a, b in spans) if line.strip() else ""
        for line in lines
    )
    return replace(text, data="\n".join(cells).encode())


def _refuse_truncated(table: ReadTable) -> None:
    """Refuse values that sacct truncated to the column width, marked by a plus sign."""
    for key in table.columns.keys() - {"state", *LABELS, "type"}:
        whole = pc.invert(pc.match_substring_regex(table.columns[key], _CUT))
        fail_values(
            table,
            key,
            np.asarray(whole, dtype=bool),
            "a value that was not cut",
            EXPORT,
        )


def _drop_columns(table: ReadTable, *keys: str) -> ReadTable:
    """Return a table without some columns, to release the memory of long texts."""
    columns = {key: column for key, column in table.columns.items() if key not in keys}
    return replace(table, columns=columns)


def _node_counts(table: ReadTable) -> Float64Array:
    """Return node counts, with ``2K`` of sacct read as 2,048."""
    column = without_missing(table.columns["nodes"])
    factor = np.ones(len(table))
    for suffix, thousands in _THOUSANDS.items():
        ends = pc.fill_null(pc.match_substring_regex(column, rf"\d{suffix}$"), False)
        if pc.any(ends).as_py():
            factor[np.asarray(ends, dtype=bool)] = thousands
            column = pc.if_else(ends, pc.utf8_slice_codeunits(column, 0, -1), column)
    plain = replace(table, columns={"nodes": column})
    return numbers(plain, "nodes", COUNT) * factor


def _time_limits_ms(table: ReadTable) -> Int64Array:
    """Return the time limits of jobs [ms], 0 if missing or unlimited."""
    for key, pattern in (("limit_min", _MINUTES), ("limit", CLOCKED)):
        if key in table:
            return np.maximum(fields_ms(table.columns[key], pattern), 0)
    return np.zeros(len(table), dtype=np.int64)


def _gpus(table: ReadTable) -> Float64Array:
    """Return GPUs per job from `AllocTRES`: 0 for CPU-only jobs, NaN if unknown."""
    if "tres" not in table:
        return np.full(len(table), np.nan)
    column = table.columns["tres"]
    totals = pc.struct_field(pc.extract_regex(column, pattern=_GPUS), "n")
    is_valid = np.asarray(pc.is_valid(without_missing(column)), dtype=bool)
    n_gpus = np.where(is_valid, 0.0, np.nan)
    has_total = np.asarray(pc.is_valid(totals), dtype=bool)
    n_gpus[has_total] = np.asarray(pc.cast(totals.drop_null(), pa.float64()))
    by_type = (
        np.asarray(pc.match_substring(column, "gres/gpu:"), dtype=bool) & ~has_total
    )
    texts = pc.filter(column, pa.array(by_type)).to_pylist()
    n_gpus[by_type] = [sum(map(int, _GPUS_OF_TYPE.findall(text))) for text in texts]
    # If no job has GPUs, the cluster does not account for GPUs.
    return n_gpus if (n_gpus > 0).any() else np.full(len(table), np.nan)
