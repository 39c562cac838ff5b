"""`read_job_log`: reads a job log and detects its format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from diploee.base.errors import InputError, one_of, option, shown
from diploee.base.progress import stage
from diploee.base.validation import checked
from diploee.importers.job_logs import (
    acme,
    alibaba_2020,
    generic_csv,
    openb,
    philly,
    slurm,
    swf,
)
from diploee.importers.job_logs.raw_log import (
    JobLogFormat,
    JobLogOptions,
    JobLogReader,
    RawLog,
)
from diploee.importers.job_logs.rules import apply_rules
from diploee.importers.registry import Formats
from diploee.importers.text.text_lines import read_text
from diploee.loads.jobs.job_log import JobLog

JOB_LOG_FORMATS: Formats[JobLogReader] = Formats(
    "job log",
    (m.FORMAT for m in (swf, slurm, acme, philly, alibaba_2020, openb, generic_csv)),
)
"""Job log formats by name; the first that recognises a file is used."""


@stage("read log")
def read_job_log(
    path: Path | str, log_format: str | None = None, **fields: Any
) -> JobLog:
    """Read a job log of any known format, plain or compressed, or a Parquet file.

    `diploee.importers.job_logs.rules` documents the rules for jobs and for missing,
    negative, zero and repeated values; each format's module documents the rules of the
    format. Dropped and repaired rows are counted by cause in `JobLog.counts`. A Parquet
    file is read as the CSV file of its table.

    Parameters
    ----------
    path : pathlib.Path
        Path of the log.
    log_format : str, optional
        A name in `JOB_LOG_FORMATS`; detected from the content if absent.
    **fields
        Reading options: fields of `JobLogOptions`, such as ``gpus_per_node=8``.

    Returns
    -------
    JobLog
        Jobs in the order of submission; no jobs if every row was dropped.

    Raises
    ------
    LogFormatError
        If the file can't be read, is not recognised, or has an invalid line; the
        message starts with the file and the line.
    InputError
        If an option is invalid, or does not apply to the format.
    """
    path = Path(path)

    def where(key: tuple[str | int, ...]) -> str:
        return f"{path}: {'.'.join(map(str, key))}"

    options = checked(
        fields, JobLogOptions, where, lambda problems: InputError("; ".join(problems))
    )
    if log_format is not None:
        JOB_LOG_FORMATS.named(path, log_format)
    chosen, raw = _read(path, log_format, options)
    if raw.utc_offset_min is None and options.utc_offset is not None:
        raise InputError(
            f"{path}: utc_offset is {shown(options.utc_offset)}, but the times of "
            "this log count from an origin that is not known; leave utc_offset out"
        )
    return apply_rules(path, chosen.name, raw, options)


def _read(
    path: Path, log_format: str | None, options: JobLogOptions
) -> tuple[JobLogFormat, RawLog]:
    """Return the format of a file and its raw rows.

    The memory of the file's text is released on return.
    """
    text = read_text(path, "a job log")
    log_format = log_format or ("csv" if options.columns else None)
    columns = option("--column MEANING=NAME")
    chosen = (
        JOB_LOG_FORMATS[log_format]
        if log_format
        else JOB_LOG_FORMATS.detect(
            text,
            f"or the columns of any other table{columns}, such as {{submit: NAME, "
            "duration: NAME, nodes: NAME}",
        )
    )
    _check_options(path, chosen, options)
    raw = chosen.read(text, options)
    pa.default_memory_pool().release_unused()
    return chosen, raw


_OF_STAMPS = tuple(m.FORMAT.name for m in (generic_csv, slurm, acme, philly))
_FORMATS_OF = {
    "columns": ("column", _OF_STAMPS[:1]),
    "time_format": ("time-format", _OF_STAMPS),
    "time_unit": ("time-unit", _OF_STAMPS),
    "duration_unit": ("duration-unit", _OF_STAMPS[:1]),
}
"""Options of some formats only: the command line's option, and the formats."""


def _check_options(path: Path, chosen: JobLogFormat, options: JobLogOptions) -> None:
    for name, (flag, formats) in _FORMATS_OF.items():
        if chosen.name not in formats and getattr(options, name):
            raise InputError(
                f"{path}: {name} is only for format {one_of(formats)}, this log is of "
                f"'{chosen.name}'; leave {name}{option(f'--{flag}')} out"
            )
