"""Alibaba 2023 (openb): pods of a shared GPU cluster.

- Times are seconds from an origin that is not told. The start is `scheduled_time`, the end
  `deletion_time`; a pod that was never scheduled never started.
- `gpu_milli` is the share of one GPU in thousandths where `num_gpu` is 1; a pod with more has whole
  ones.
- A pod runs on one node; `gpus_per_node` makes nodes of its GPUs instead.
- The kind of a job is `qos`. ``Running`` is the phase of a pod that was deleted while it served:
  how it ended is not told.

References
----------
.. [1] Q. Weng et al., Beware of Fragmentation, USENIX ATC'23;
   https://github.com/alibaba/clusterdata/tree/master/cluster-trace-gpu-v2023
"""

from __future__ import annotations

import numpy as np

from diploee.tables import Float64Array
from diploee.workload.importers.jobs.base import JobLogFormat, header_words
from diploee.workload.importers.jobs.options import JobLogOptions
from diploee.workload.importers.jobs.raw_log import RawJobs, RawLog
from diploee.workload.importers.jobs.text_file import TextFile
from diploee.workload.importers.jobs.text_table import (
    TRUNCATED,
    TextTable,
    header_dialect,
    read_table,
    require_columns,
)
from diploee.workload.importers.jobs.values import job_ids, labels, numbers, state_ids, times_ms
from diploee.workload.job_log import MISSING_MS

TIMES = ("creation_time", "scheduled_time", "deletion_time")
REQUIRED = ("name", "num_gpu", "gpu_milli", "pod_phase", *TIMES)


def recognises(file: TextFile) -> bool:
    """Return whether the first line names the columns of a pod list."""
    return {"num_gpu", "gpu_milli", "creation_time"} <= header_words(file)


def read(file: TextFile, options: JobLogOptions) -> RawLog:  # noqa: ARG001  # a pod list needs none
    """Read a pod list of Alibaba's trace of 2023.

    Raises
    ------
    LogFormatError
        If a column is missing, a line has another number of fields, or a value does not parse.
    """
    dialect = header_dialect(file, ",")
    require_columns(file, dialect.names, REQUIRED, "a pod list of Alibaba's 2023 trace")
    table = read_table(file, dialect, (*REQUIRED, "qos"))
    submit_ms, start_ms, end_ms = (times_ms(table, name) for name in TIMES)
    type_id, types = labels(table, "qos")
    rows = RawJobs(
        submit_ms=submit_ms,
        start_ms=start_ms,
        end_ms=end_ms,
        run_ms=np.full(len(table), MISSING_MS),
        n_nodes=np.ones(len(table)),
        n_gpus=_gpus(table),
        state_id=state_ids(*labels(table, "pod_phase")),
        type_id=type_id,
        energy_j=np.full(len(table), np.nan),
    )
    return RawLog(
        rows=rows,
        types=types,
        job_ids=job_ids(table, "name"),
        utc_offset_min=None,
        dropped={TRUNCATED: table.n_truncated},
    )


FORMAT = JobLogFormat("openb", "Alibaba 2023 (openb) pod list", recognises, read)


def _gpus(table: TextTable) -> Float64Array:
    whole, share = numbers(table, "num_gpu"), numbers(table, "gpu_milli") / 1000
    return np.where((whole == 1) & (share > 0), share, whole)
