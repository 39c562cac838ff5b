"""Importer of AcmeTrace: job traces of Seren, Kalos, and Helios (same columns).

- Each timestamp has an offset: ``+08:00`` for Seren, ``+00:00`` for Kalos. Both
  clusters are in China. The option `utc_offset` ``+08:00`` converts Kalos' times to
  local hours; without it, they are correct UTC times.
- The run time is end minus start. The column `duration` is not used, because it
  includes the waiting time for Kalos.
- Nodes and GPUs are as logged; the job type is `type`, such as ``Pretrain``.

References
----------
.. [1] Q. Hu et al., Characterization of Large Language Model Development in the
   Datacenter, NSDI'24; https://github.com/InternLM/AcmeTrace
"""

from __future__ import annotations

from diploee.importers.job_logs.raw_log import (
    JobLogFormat,
    JobLogOptions,
    RawLog,
    raw_log,
    read_job_columns,
    timestamps_ms,
)
from diploee.importers.registry import detects_columns
from diploee.importers.text.delimited_tables import read_header
from diploee.importers.text.text_lines import TextLines

COLUMNS = {
    **{"id": "job_id", "nodes": "node_num", "gpus": "gpu_num", "state": "state"},
    **{"submit": "submit_time", "start": "start_time", "end": "end_time"},
}
OPTIONAL = {"type": "type"}


def read(text: TextLines, options: JobLogOptions) -> RawLog:
    """Read the rows of an AcmeTrace job trace (clusters Seren and Kalos, or Helios)."""
    table = read_job_columns(
        read_header(text), COLUMNS, OPTIONAL, "an AcmeTrace job trace"
    )
    ms, clock = timestamps_ms(table, ("submit", "start", "end"), options)
    return raw_log(table, ms, **clock)


FORMAT = JobLogFormat(
    "acme",
    "AcmeTrace job trace",
    detects_columns("node_num", "gpu_num", "submit_time"),
    read,
)
