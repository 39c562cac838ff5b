"""AcmeTrace: job traces of the clusters Seren and Kalos (and Helios, which has these columns).

- Each stamp has its own offset: Seren's ``+08:00``, Kalos' ``+00:00``. Both clusters stand in
  China: `utc_offset` ``+08:00`` gives Kalos' local hours; its instants are right without.
- The run time is end less start. The column `duration` is not read: Kalos counts the wait in it.
- Nodes and GPUs are as logged; the kind of a job is `type`, such as ``Pretrain``.

References
----------
.. [1] Q. Hu et al., Characterization of Large Language Model Development in the Datacenter,
   NSDI'24; https://github.com/InternLM/AcmeTrace
"""

from __future__ import annotations

import numpy as np

from diploee.workload.importers.jobs.base import JobLogFormat, header_words
from diploee.workload.importers.jobs.options import JobLogOptions
from diploee.workload.importers.jobs.raw_log import RawJobs, RawLog
from diploee.workload.importers.jobs.stamps import stamps
from diploee.workload.importers.jobs.text_file import TextFile
from diploee.workload.importers.jobs.text_table import (
    TRUNCATED,
    header_dialect,
    read_table,
    require_columns,
)
from diploee.workload.importers.jobs.values import job_ids, labels, numbers, state_ids
from diploee.workload.job_log import MISSING_MS

TIMES = ("submit_time", "start_time", "end_time")
REQUIRED = ("job_id", "node_num", "gpu_num", "state", *TIMES)


def recognises(file: TextFile) -> bool:
    """Return whether the first line names AcmeTrace's columns."""
    return {"node_num", "gpu_num", "submit_time"} <= header_words(file)


def read(file: TextFile, options: JobLogOptions) -> RawLog:
    """Read a job trace of AcmeTrace.

    Raises
    ------
    LogFormatError
        If a column is missing, a line has another number of fields, or a value does not parse.
    """
    dialect = header_dialect(file, ",")
    require_columns(file, dialect.names, REQUIRED, "an AcmeTrace job trace")
    table = read_table(file, dialect, (*REQUIRED, "type"))
    times = stamps(table, TIMES, options.zone)
    type_id, types = labels(table, "type")
    rows = RawJobs(
        submit_ms=times.ms["submit_time"],
        start_ms=times.ms["start_time"],
        end_ms=times.ms["end_time"],
        run_ms=np.full(len(table), MISSING_MS),
        n_nodes=numbers(table, "node_num"),
        n_gpus=numbers(table, "gpu_num"),
        state_id=state_ids(*labels(table, "state")),
        type_id=type_id,
        energy_j=np.full(len(table), np.nan),
    )
    return RawLog(
        rows=rows,
        types=types,
        job_ids=job_ids(table, "job_id"),
        utc_offset_min=times.utc_offset_min,
        dropped={TRUNCATED: table.n_truncated},
        noted=times.noted,
    )


FORMAT = JobLogFormat("acme", "AcmeTrace job trace", recognises, read)
