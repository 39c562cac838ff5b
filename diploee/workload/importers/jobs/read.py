"""`read_job_log`: any known job log, its format told by its content."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import pyarrow as pa

from diploee.errors import InputError, did_you_mean, one_of, shown
from diploee.workload.importers.jobs import acme, alibaba_2020, openb, philly, plain_csv, slurm, swf
from diploee.workload.importers.jobs.base import JobLogFormat
from diploee.workload.importers.jobs.options import (
    CpuOnly,
    DurationUnit,
    JobLogOptions,
    ZeroDurations,
)
from diploee.workload.importers.jobs.raw_log import RawLog
from diploee.workload.importers.jobs.rules import apply_rules
from diploee.workload.importers.jobs.text_file import TextFile, read_text
from diploee.workload.job_log import STATES, JobLog

JOB_LOG_FORMATS: Mapping[str, JobLogFormat] = {
    module.FORMAT.name: module.FORMAT
    for module in (swf, slurm, acme, philly, alibaba_2020, openb, plain_csv)
}
"""The formats by name; of several that recognise a file the first is taken."""


def read_job_log(
    path: Path | str,
    log_format: str | None = None,
    *,
    gpus_per_node: int | None = None,
    pool_gpus_per_node: int | None = None,
    utc_offset: str | None = None,
    columns: Mapping[str, str] | None = None,
    time_format: str | None = None,
    duration_unit: DurationUnit = "s",
    zero_durations: ZeroDurations = "drop",
    cpu_only: CpuOnly = "keep",
    states: Collection[str] = STATES,
) -> JobLog:
    """Read a job log, plain or packed with gzip.

    Which rows are jobs, and what becomes of missing, negative, zero and repeated values, stands in
    `diploee.workload.importers.jobs.rules`; what a format adds to it, in its module there. All that
    was dropped or repaired is counted by cause in `JobLog.counts`.

    Parameters
    ----------
    path : pathlib.Path
        The log.
    log_format : str, optional
        ``"swf"``, ``"slurm"``, ``"acme"``, ``"philly"``, ``"alibaba-2020"``, ``"openb"`` or
        ``"csv"``; told by the content where not given.
    gpus_per_node : int, optional
        GPUs of a node: a job's nodes are its GPUs over this, rounded up. Where it is not given, or
        a job's GPUs are not known, the log's own node count is taken.
    pool_gpus_per_node : int, optional
        GPUs of a node of the pool that the jobs are for: taken where `gpus_per_node` is not given
        and the log does not tell what a node is, as a header of SWF does.
    utc_offset : str, optional
        Zone of the log's local time: a fixed offset such as ``"+08:00"``, or a name such as
        ``"Europe/Berlin"`` with its daylight saving. Stamps without an offset are read in it.
    columns : mapping of str to str, optional
        For ``"csv"``: names of the file's columns by ``submit``, ``start``, ``end``, ``duration``,
        ``nodes``, ``gpus``, ``type``, ``state``, ``id``, ``energy``.
    time_format : str, optional
        For ``"csv"``: ``"unix-s"``, ``"unix-ms"``, ``"s"``, ``"ms"``, or a format as of
        ``strptime``; ISO 8601 where not given.
    duration_unit : {"s", "ms", "min", "h"}
        For ``"csv"``: unit of the column ``duration``.
    zero_durations : {"drop", "one-second"}
        What becomes of jobs whose run time is zero.
    cpu_only : {"keep", "drop"}
        What becomes of jobs without GPUs.
    states : collection of str
        Which of `STATES` to keep.

    Returns
    -------
    JobLog
        With the jobs in the order of their submission; without one if every row was dropped.

    Raises
    ------
    LogFormatError
        If the file can't be read, is not recognised, or a line is wrong; the text begins with
        the file and the line.
    InputError
        If an option is not allowed, or does not fit the format.
    """
    path = Path(path)
    options = JobLogOptions(
        gpus_per_node=gpus_per_node,
        pool_gpus_per_node=pool_gpus_per_node,
        utc_offset=utc_offset,
        columns=columns,
        time_format=time_format,
        duration_unit=duration_unit,
        zero_durations=zero_durations,
        cpu_only=cpu_only,
        states=states,
    )
    options.check(path)
    if log_format is not None and log_format not in JOB_LOG_FORMATS:
        raise InputError(
            f"{path}: unknown job log format {shown(log_format)} (have: {one_of(JOB_LOG_FORMATS)})"
            f"{did_you_mean(str(log_format), JOB_LOG_FORMATS)}"
        )
    chosen, raw = _read(path, log_format, options)
    if raw.utc_offset_min is None and utc_offset is not None:
        raise InputError(
            f"{path}: utc_offset is {shown(utc_offset)}, but the times of this log count from an "
            "origin that is not known; leave utc_offset out"
        )
    return apply_rules(path, chosen.name, raw, options)


def _read(
    path: Path, log_format: str | None, options: JobLogOptions
) -> tuple[JobLogFormat, RawLog]:
    """Return the format of a file and its rows; the text is given up on return, as it is large."""
    file = read_text(path)
    chosen = JOB_LOG_FORMATS[log_format] if log_format else _recognised(file, options)
    _check_csv_options(path, chosen, options)
    try:
        raw = chosen.read(file, options)
    except InputError as error:
        if log_format is None or chosen.recognises(file):
            raise
        other = next((name for name, f in JOB_LOG_FORMATS.items() if f.recognises(file)), None)
        if other is None:
            raise
        raise type(error)(
            f"{error}; the content is that of format '{other}', not '{log_format}'"
        ) from error
    pa.default_memory_pool().release_unused()
    return chosen, raw


def _recognised(file: TextFile, options: JobLogOptions) -> JobLogFormat:
    if options.columns is not None:
        return JOB_LOG_FORMATS["csv"]
    for known in JOB_LOG_FORMATS.values():
        if known.recognises(file):
            return known
    first_line = file.head.partition("\n")[0]
    file.fail(
        file.line_at(file.start),
        f"not a job log of a known format, the first line is {shown(first_line)}; "
        f"give log_format (--format; {one_of(JOB_LOG_FORMATS)}), or columns "
        "(--column MEANING=NAME) for a table of other columns",
    )


_OPTION_OF = {
    "columns": "--column",
    "time_format": "--time-format",
    "duration_unit": "--duration-unit",
}


def _check_csv_options(path: Path, chosen: JobLogFormat, options: JobLogOptions) -> None:
    given = {
        "columns": options.columns is not None,
        "time_format": options.time_format is not None,
        "duration_unit": options.duration_unit != "s",
    }
    for name, is_given in given.items():
        if is_given and chosen.name != "csv":
            option = _OPTION_OF[name]
            raise InputError(
                f"{path}: {name} is only for log_format 'csv', this log is of '{chosen.name}'; "
                f"leave {name} ({option}) out"
            )
