"""What the user may say about a job log, checked once for all formats."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from diploee.errors import InputError, did_you_mean, one_of, shown
from diploee.units import MS_PER_H, MS_PER_MIN, MS_PER_S
from diploee.workload.importers.jobs.clock import Zone, zone_of
from diploee.workload.job_log import STATES

ZeroDurations = Literal["drop", "one-second"]
CpuOnly = Literal["keep", "drop"]
DurationUnit = Literal["ms", "s", "min", "h"]

COLUMN_KEYS = (
    *("submit", "start", "end", "duration", "nodes", "gpus"),
    *("type", "state", "id", "energy"),
)
"""What a column of a plain CSV file can be."""

NUMERIC_TIMES: Mapping[str, tuple[int, bool]] = {
    "s": (MS_PER_S, True),
    "ms": (1, True),
    "unix-s": (MS_PER_S, False),
    "unix-ms": (1, False),
}
"""Formats of times that are numbers: their unit [ms], and whether their origin is unknown."""

UNIT_MS: Mapping[str, int] = {"ms": 1, "s": MS_PER_S, "min": MS_PER_MIN, "h": MS_PER_H}
LARGEST_GPUS_PER_NODE = 1_000_000


@dataclass(frozen=True)
class JobLogOptions:
    """How to read a job log; see `diploee.workload.importers.read_job_log`.

    Raises
    ------
    InputError
        If a value is not allowed.
    """

    gpus_per_node: int | None = None
    pool_gpus_per_node: int | None = None
    utc_offset: str | None = None
    columns: Mapping[str, str] | None = None
    time_format: str | None = None
    duration_unit: str = "s"
    zero_durations: str = "drop"
    cpu_only: str = "keep"
    states: Collection[str] = STATES

    def check(self, place: object) -> None:
        """Check the values; errors begin with the place, such as the file's name."""
        for name in ("gpus_per_node", "pool_gpus_per_node"):
            gpus = getattr(self, name)
            if gpus is not None and not (
                isinstance(gpus, int)
                and not isinstance(gpus, bool)
                and 1 <= gpus <= LARGEST_GPUS_PER_NODE
            ):
                raise InputError(
                    f"{place}: {name} is {shown(gpus)}, expected a whole number from 1 to "
                    f"{LARGEST_GPUS_PER_NODE:,}"
                )
        _check_word(place, "duration_unit", self.duration_unit, get_args(DurationUnit))
        _check_word(place, "zero_durations", self.zero_durations, get_args(ZeroDurations))
        _check_word(place, "cpu_only", self.cpu_only, get_args(CpuOnly))
        if isinstance(self.states, str) or not self.states:
            raise InputError(
                f"{place}: states is {shown(self.states)}, expected one or more of {one_of(STATES)}"
            )
        for state in self.states:
            _check_word(place, "states", state, STATES)
        for key in self.columns or ():
            _check_word(place, "columns", key, COLUMN_KEYS)
        if self.utc_offset is not None:
            zone_of(self.utc_offset, f"{place}: utc_offset")

    @property
    def zone(self) -> Zone | None:
        """The zone that the user gave."""
        return None if self.utc_offset is None else zone_of(self.utc_offset, "utc_offset")


def _check_word(place: object, name: str, found: object, allowed: Collection[str]) -> None:
    if found not in allowed:
        raise InputError(
            f"{place}: {name} is {shown(found)}, expected {one_of(allowed)}"
            f"{did_you_mean(str(found), allowed)}"
        )
