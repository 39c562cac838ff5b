"""How a job log is to be read: one declaration for scenarios, the command line and Python."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from diploee.errors import InputError
from diploee.model import Model
from diploee.registry import NameIn

JobState = Literal["completed", "failed", "cancelled", "timeout", "other"]
"""How a job ended; ``"other"`` where the log does not tell."""

JobColumn = Literal[
    "submit",
    "start",
    "end",
    "duration",
    "nodes",
    "gpus",
    "type",
    "state",
    "id",
    "energy",
    "requested_time",
    "user",
    "account",
    "name",
]
"""What a column of a plain table of jobs can be."""

LogFormatName = Annotated[str, NameIn("diploee.importers.job_logs", "JOB_LOG_FORMATS")]
LARGEST_GPUS_PER_NODE = 1_000_000

GpusPerNode = Annotated[int, Field(ge=1, le=LARGEST_GPUS_PER_NODE)]


def _known_zone(text: str) -> str:
    from diploee.zone import zone_of

    try:
        zone_of(text, "")
    except InputError as error:
        raise ValueError(str(error).removeprefix(": ")) from error
    return text


UtcOffset = Annotated[str, AfterValidator(_known_zone)]


class LogReading(Model):
    """How the rows of a job log become jobs."""

    columns: dict[JobColumn, str] | None = Field(
        default=None,
        description="For csv: the log's column of each meaning, such as {submit: submitted_at, "
        "duration: run_s, nodes: n}.",
    )
    gpus_per_node: GpusPerNode | None = Field(
        default=None,
        description="GPUs (of swf, processors) per node where the log counts those; if absent what "
        "a swf header's MaxNodes tells, else those of the pool's nodes.",
    )
    utc_offset: UtcOffset | None = Field(
        default=None,
        description="Zone of the log's local time, '+08:00' or Europe/Berlin: stamps that name "
        "none are in it; the offset of most stamps or of the header if absent, else UTC.",
    )
    time_format: str | None = Field(
        default=None,
        description="For csv: s or ms since the log's start, unix-s, unix-ms, or a strptime "
        "format; ISO stamps if absent.",
    )
    duration_unit: Literal["ms", "s", "min", "h"] = Field(
        default="s", description="For csv: unit of the columns duration and requested_time."
    )
    zero_durations: Literal["drop", "one-second"] = Field(
        default="drop", description="Jobs that ran for no time are dropped, or last a second."
    )
    cpu_only: Literal["keep", "drop"] = Field(
        default="keep", description="Whether jobs without GPUs are kept."
    )
    states: tuple[JobState, ...] = Field(
        default=("completed", "failed", "cancelled", "timeout", "other"),
        min_length=1,
        description="Which jobs are kept, by how they ended.",
    )
