"""The user's options for reading a job log, checked once for all formats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from pydantic import Field

from diploee.clock import Zone, zone_of
from diploee.scenario.log_replay import GpusPerNode, JobColumn, LogReading
from diploee.units import MS_PER_H, MS_PER_MIN, MS_PER_S

COLUMN_KEYS: tuple[str, ...] = get_args(JobColumn)
"""Meanings of the columns of a plain CSV file."""

NUMERIC_TIMES: Mapping[str, tuple[int, bool]] = {
    "s": (MS_PER_S, True),
    "ms": (1, True),
    "unix-s": (MS_PER_S, False),
    "unix-ms": (1, False),
}
"""Formats of times that are numbers: their unit [ms], and whether their origin is unknown."""

UNIT_MS: Mapping[str, int] = {"ms": 1, "s": MS_PER_S, "min": MS_PER_MIN, "h": MS_PER_H}


class JobLogOptions(LogReading):
    """How to read a job log; see `diploee.importers.read_job_log`."""

    pool_gpus_per_node: GpusPerNode | None = Field(
        default=None,
        description="GPUs of a node of the pool that the jobs are for: taken where gpus_per_node "
        "is absent and the log does not tell what a node is, as a header of swf does.",
    )

    @property
    def zone(self) -> Zone | None:
        """The zone that the user gave."""
        return None if self.utc_offset is None else zone_of(self.utc_offset, "utc_offset")
