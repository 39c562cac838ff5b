"""Slurm's accounting: ``sacct -P`` (or ``-p``) with a header, any delimiter, columns in any order.

``sacct -a -X -P --format=JobID,Submit,Start,End,ElapsedRaw,NNodes,AllocTRES,State`` exports what is
read; `Partition` (the kind of a job) and `ConsumedEnergyRaw` are read too where they are there.

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
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from diploee.errors import did_you_mean, one_of
from diploee.tables import BoolArray, Float64Array
from diploee.workload.importers.jobs.base import JobLogFormat, header_words
from diploee.workload.importers.jobs.options import JobLogOptions
from diploee.workload.importers.jobs.raw_log import RawJobs, RawLog
from diploee.workload.importers.jobs.stamps import stamps
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
    without_missing,
)
from diploee.workload.job_log import MISSING_MS

REQUIRED = ("JobID", "Submit", "Start", "End", "State", "NNodes")
OPTIONAL = ("ElapsedRaw", "AllocTRES", "ConsumedEnergyRaw", "Partition")
COMMAND = "sacct -P -o JobID,State,Submit,Start,End,ElapsedRaw,NNodes,AllocTRES"
JOB_STEP = "job step"
ENERGY_OUT_OF_RANGE = "energy out of range, left out"

_DELIMITER = re.compile(r"\w+(\W)")
_GPUS = r"gres/gpu=(?P<n>\d{1,9})"
_GPUS_OF_TYPE = re.compile(r"gres/gpu:[^=,]*=(\d{1,9})")
_LARGEST_COUNTER = 2.0**64
_THOUSANDS = {"K": 1024, "M": 1024**2}


def recognises(file: TextFile) -> bool:
    """Return whether the first line names Slurm's columns."""
    return {"JobID", "State"} <= header_words(file)


def read(file: TextFile, options: JobLogOptions) -> RawLog:
    """Read what ``sacct -P`` printed.

    Raises
    ------
    LogFormatError
        If a column is missing, a line has another number of fields, or a value does not parse.
    """
    delimiter = _DELIMITER.match(file.head)
    dialect = header_dialect(file, delimiter[1] if delimiter else "|", is_quoted=False)
    _require_all(file, dialect.names)
    require_columns(file, dialect.names, REQUIRED, "what sacct -P prints")
    table = read_table(file, dialect, REQUIRED + OPTIONAL)
    ids = job_ids(table, "JobID")
    is_job = ~np.asarray(pc.fill_null(pc.match_substring(ids, "."), False), dtype=bool)
    n_gpus = _gpus(table)[is_job]
    table = _only(table, is_job)
    times = stamps(table, ("Submit", "Start", "End"), options.zone)
    end_ms = times.ms["End"]
    type_id, partitions = labels(table, "Partition")
    energy_j = numbers(table, "ConsumedEnergyRaw", _LARGEST_COUNTER)
    impossible = energy_j > LARGEST_ENERGY_J  # Slurm's words for none, close to 2**64
    rows = RawJobs(
        submit_ms=times.ms["Submit"],
        start_ms=times.ms["Start"],
        end_ms=end_ms,
        run_ms=np.where(end_ms == MISSING_MS, MISSING_MS, times_ms(table, "ElapsedRaw")),
        n_nodes=_node_counts(table),
        n_gpus=n_gpus,
        state_id=state_ids(*labels(table, "State")),
        type_id=type_id,
        energy_j=np.where(impossible, np.nan, energy_j),
    )
    return RawLog(
        rows=rows,
        types=partitions,
        job_ids=job_ids(table, "JobID"),
        utc_offset_min=times.utc_offset_min,
        dropped={TRUNCATED: table.n_truncated, JOB_STEP: int((~is_job).sum())},
        repaired={ENERGY_OUT_OF_RANGE: int(impossible.sum())},
        noted=times.noted,
        runs_share_id=True,
    )


FORMAT = JobLogFormat("slurm", "Slurm's 'sacct -P'", recognises, read)


def _require_all(file: TextFile, names: Sequence[str]) -> None:
    """Name all missing columns at once, and the command that prints them."""
    missing = [name for name in REQUIRED if name not in names]
    if missing:
        (near, *_) = [hint for name in missing if (hint := did_you_mean(name, names))] or [""]
        others = f", and so are {one_of(missing[1:])}" if len(missing) > 1 else ""
        file.fail(
            file.line_at(file.start),
            f"column '{missing[0]}' is missing{others} (found: {listed(names)}); "
            f"export with '{COMMAND}'{near}",
        )


def _only(table: TextTable, mask: BoolArray) -> TextTable:
    """Return some rows, without the long texts that have been read."""
    rows, line_of = np.flatnonzero(mask), table.line_of
    columns = {
        name: column if mask.all() else pc.filter(column, pa.array(mask))
        for name, column in table.columns.items()
        if name != "AllocTRES"
    }
    return TextTable(table.path, columns, lambda row: line_of(int(rows[row])), table.n_truncated)


def _node_counts(table: TextTable) -> Float64Array:
    """Return node counts, of which sacct writes some as ``2K``."""
    column = without_missing(table.columns["NNodes"])
    factor = np.ones(len(table))
    for suffix, thousands in _THOUSANDS.items():
        has_it = pc.fill_null(pc.match_substring_regex(column, rf"\d{suffix}$"), False)
        if pc.any(has_it).as_py():
            factor[np.asarray(has_it, dtype=bool)] = thousands
            column = pc.if_else(has_it, pc.utf8_slice_codeunits(column, 0, -1), column)
    plain = TextTable(table.path, {"NNodes": column}, table.line_of)
    return numbers(plain, "NNodes") * factor


def _gpus(table: TextTable) -> Float64Array:
    """Return GPUs, 0 for a job with other resources alone, NaN where they are not told."""
    if "AllocTRES" not in table:
        return np.full(len(table), np.nan)
    column = table.columns["AllocTRES"]
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
