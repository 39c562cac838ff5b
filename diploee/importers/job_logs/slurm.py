"""Slurm's accounting: ``sacct -P`` (or ``-p``) with a header, any delimiter, columns in any order.

``sacct -a -X -P --format=JobID,Submit,Start,End,ElapsedRaw,NNodes,AllocTRES,State`` exports what is
read; `Partition` (the kind of a job), `ConsumedEnergyRaw`, `User`, `Account`, `JobName` and the
time limit of a job (`TimelimitRaw` or `Timelimit`, none where it is a word) are read too where they
are there.

- Steps (``.batch``, ``.extern``, ``.0``) are not jobs: dropped and counted.
- Elements of an array (``7_3``) and components of a heterogeneous job (``7+1``) are jobs of their
  own: each has its own nodes. Elements that have not started share one row (``7_[4-9]``), which is
  dropped as never started.
- A requeued job has a row for each of its runs (``sacct -D``); each had its nodes and is kept. Rows
  with the id and the start of an earlier one are dropped.
- The run time is `ElapsedRaw`, which daylight saving leaves alone and which excludes suspension;
  `End` less `Start` where it is missing. A job without an `End` is still running.
- Stamps are local time without a zone: `utc_offset` tells it, UTC where it is not given.
- GPUs are ``gres/gpu`` of `AllocTRES`; not known for any job where no job of the log has them.

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

from diploee.errors import did_you_mean, one_of
from diploee.importers.job_logs.raw_log import (
    COUNT,
    ENERGY_J,
    JobLogFormat,
    JobLogOptions,
    RawLog,
    has_columns,
    raw_log,
    read_job_columns,
    stamps_ms,
    times_ms,
)
from diploee.loads.jobs.job_log import MISSING_MS
from diploee.tables import Float64Array, Int64Array
from diploee.textio.tables import Layout, ReadTable, listed, read_header
from diploee.textio.text import Text
from diploee.textio.values import Number, ids, numbers, without_missing
from diploee.units import MS_PER_DAY, MS_PER_H, MS_PER_MIN, MS_PER_S

COLUMNS = {
    **{"id": "JobID", "submit": "Submit", "start": "Start", "end": "End"},
    **{"state": "State", "nodes": "NNodes"},
}
OPTIONAL = {
    **{"run": "ElapsedRaw", "tres": "AllocTRES", "energy": "ConsumedEnergyRaw"},
    **{"type": "Partition", "user": "User", "account": "Account", "name": "JobName"},
    **{"limit_min": "TimelimitRaw", "limit": "Timelimit"},
}
COMMAND = "sacct -P -o JobID,State,Submit,Start,End,ElapsedRaw,NNodes,AllocTRES"
JOB_STEP = "job step"
ENERGY_OUT_OF_RANGE = "energy out of range, left out"

_DELIMITER = re.compile(r"\w+(\W)")
_GPUS = r"gres/gpu=(?P<n>\d{1,9})"
_GPUS_OF_TYPE = re.compile(r"gres/gpu:[^=,]*=(\d{1,9})")
_MINUTES = r"^\s*(?P<minutes>\d{1,9})\s*$"
_LIMIT = r"^\s*(?:(?P<days>\d{1,6})-)?(?P<hours>\d{1,6}):(?P<minutes>\d\d):(?P<seconds>\d\d)\s*$"
_UNITS_MS = {"days": MS_PER_DAY, "hours": MS_PER_H, "minutes": MS_PER_MIN, "seconds": MS_PER_S}
_ENERGY = Number(2.0**64, none=-1)
_THOUSANDS = {"K": 1024, "M": 1024**2}


def read(text: Text, options: JobLogOptions) -> RawLog:
    """Read what ``sacct -P`` printed."""
    is_quoted = text.head.startswith('"')  # as of a Parquet file
    delimiter = _DELIMITER.match(text.head.replace('"', ""))
    layout = read_header(text, delimiter[1] if delimiter else "|", is_quoted=is_quoted)
    _require_all(text, layout)
    table = read_job_columns(text, layout, COLUMNS, OPTIONAL, "what sacct -P prints")
    steps = pc.match_substring(ids(table, "id"), ".")
    is_job = ~np.asarray(pc.fill_null(steps, False), dtype=bool)
    n_steps = int((~is_job).sum())
    n_gpus = _gpus(table)[is_job]
    table = _without(table, "tres").take(is_job)
    ms, clock = stamps_ms(table, ("submit", "start", "end"), options)
    ms["run"] = np.where(ms["end"] == MISSING_MS, MISSING_MS, times_ms(table, "run"))
    energy_j = numbers(table, "energy", _ENERGY)
    impossible = energy_j > ENERGY_J.largest  # Slurm's words for none, close to 2**64
    return raw_log(
        _without(table, "nodes", "energy", "limit", "limit_min"),
        ms,
        dropped={JOB_STEP: n_steps},
        repaired={ENERGY_OUT_OF_RANGE: int(impossible.sum())},
        columns={
            "n_nodes": _node_counts(table),
            "n_gpus": n_gpus,
            "energy_j": np.where(impossible, np.nan, energy_j),
            "requested_ms": _limits_ms(table),
        },
        runs_share_id=True,
        **clock,
    )


FORMAT = JobLogFormat("slurm", "Slurm's 'sacct -P'", has_columns("jobid", "state"), read)


def _require_all(text: Text, layout: Layout) -> None:
    """Name all missing columns at once, and the command that prints them."""
    missing = [name for name in COLUMNS.values() if not layout.has(name)]
    if missing:
        (near, *_) = [h for name in missing if (h := did_you_mean(name, layout.names))] or [""]
        others = f", and so are {one_of(missing[1:])}" if len(missing) > 1 else ""
        text.fail(
            text.start_line,
            f"column '{missing[0]}' is missing{others} (found: {listed(layout.names)}); "
            f"export with '{COMMAND}'{near}",
        )


def _without(table: ReadTable, *keys: str) -> ReadTable:
    """Return a table without columns that have been read, of which some are long."""
    kept = {key: column for key, column in table.columns.items() if key not in keys}
    return replace(table, columns=kept)


def _node_counts(table: ReadTable) -> Float64Array:
    """Return node counts, of which sacct writes some as ``2K``."""
    column = without_missing(table.columns["nodes"])
    factor = np.ones(len(table))
    for suffix, thousands in _THOUSANDS.items():
        has_it = pc.fill_null(pc.match_substring_regex(column, rf"\d{suffix}$"), False)
        if pc.any(has_it).as_py():
            factor[np.asarray(has_it, dtype=bool)] = thousands
            column = pc.if_else(has_it, pc.utf8_slice_codeunits(column, 0, -1), column)
    plain = replace(table, columns={"nodes": column})
    return numbers(plain, "nodes", COUNT) * factor


def _limits_ms(table: ReadTable) -> Int64Array:
    """Return the time limits of jobs [ms], 0 where they are missing or a word."""
    key, pattern = ("limit_min", _MINUTES) if "limit_min" in table else ("limit", _LIMIT)
    limits_ms = np.zeros(len(table), dtype=np.int64)
    if key not in table:
        return limits_ms
    found = pc.extract_regex(table.columns[key], pattern=pattern)
    for field in found.type:
        texts = pc.struct_field(found, field.name)
        there = pc.and_kleene(pc.is_valid(texts), pc.not_equal(texts, ""))
        numbers_of = pc.cast(pc.if_else(pc.fill_null(there, False), texts, "0"), pa.int64())
        limits_ms += np.asarray(numbers_of) * _UNITS_MS[field.name]
    return limits_ms


def _gpus(table: ReadTable) -> Float64Array:
    """Return GPUs, 0 for a job with other resources alone, NaN where they are unknown."""
    if "tres" not in table:
        return np.full(len(table), np.nan)
    column = table.columns["tres"]
    found = pc.struct_field(pc.extract_regex(column, pattern=_GPUS), "n")
    is_told = np.asarray(pc.is_valid(without_missing(column)), dtype=bool)
    n_gpus = np.where(is_told, 0.0, np.nan)
    has_total = np.asarray(pc.is_valid(found), dtype=bool)
    n_gpus[has_total] = np.asarray(pc.cast(found.drop_null(), pa.float64()))
    by_type = np.asarray(pc.match_substring(column, "gres/gpu:"), dtype=bool) & ~has_total
    texts = pc.filter(column, pa.array(by_type)).to_pylist()
    n_gpus[by_type] = [sum(map(int, _GPUS_OF_TYPE.findall(text))) for text in texts]
    # Where no job has GPUs, the cluster does not account for them.
    return n_gpus if (n_gpus > 0).any() else np.full(len(table), np.nan)
