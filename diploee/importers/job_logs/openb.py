"""Importer of Alibaba 2023 (openb): pods of a shared GPU cluster.

- Times are seconds from an unknown origin. The start is `scheduled_time`, the end
  `deletion_time`; a pod that was never scheduled never started.
- If `num_gpu` is 1, `gpu_milli` is the used fraction of this GPU in thousandths. Pods
  with several GPUs use all of them fully.
- A pod runs on one node, unless the user specifies `gpus_per_node`: then its number of
  nodes is computed from its GPUs.
- The job type is `qos`. A pod in the phase ``Running`` was deleted while it served: its
  end state is unknown.

References
----------
.. [1] Q. Weng et al., Beware of Fragmentation, USENIX ATC'23;
   https://github.com/alibaba/clusterdata/tree/master/cluster-trace-gpu-v2023
"""

from __future__ import annotations

import numpy as np

from diploee.importers.job_logs.raw_log import (
    COUNT,
    JobLogFormat,
    JobLogOptions,
    RawLog,
    raw_log,
    read_job_columns,
    times_ms,
)
from diploee.importers.registry import detects_columns
from diploee.importers.text.delimited_tables import read_header
from diploee.importers.text.numbers_and_labels import numbers
from diploee.importers.text.text_lines import TextLines

COLUMNS = {
    **{"id": "name", "gpus": "num_gpu", "share": "gpu_milli", "state": "pod_phase"},
    **{"submit": "creation_time", "start": "scheduled_time", "end": "deletion_time"},
}
OPTIONAL = {"type": "qos"}


# A pod list needs no options
def read(text: TextLines, options: JobLogOptions) -> RawLog:  # noqa: ARG001
    """Read a pod list of Alibaba's trace of 2023 (openb), one job per pod."""
    what = "a pod list of Alibaba's 2023 trace"
    table = read_job_columns(read_header(text), COLUMNS, OPTIONAL, what)
    ms = {key: times_ms(table, key) for key in ("submit", "start", "end")}
    whole, part = numbers(table, "gpus", COUNT), numbers(table, "share", COUNT) / 1000
    n_gpus = np.where((whole == 1) & (part > 0), part, whole)
    return raw_log(
        table, ms, columns={"n_gpus": n_gpus, "n_nodes": np.ones(len(table))}
    )


FORMAT = JobLogFormat(
    "openb",
    "Alibaba 2023 (openb) pod list",
    detects_columns("num_gpu", "gpu_milli", "creation_time"),
    read,
)
