"""Replay of a job log or a request trace: file, class mapping and scaling."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    NaiveDatetime,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    model_validator,
)

from diploee.base.errors import InputError
from diploee.base.model import SCALES, Model, Name, NameIn, default, optional, unset
from diploee.base.units import TimeUnit

JobState = Literal["completed", "failed", "cancelled", "timeout", "other"]
"""End state of a job; ``"other"`` if the log does not report it."""

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
"""Meanings of the columns of a plain table of jobs."""

LogFormatName = Annotated[str, NameIn("job_logs")]
MAX_GPUS_PER_NODE = 1_000_000

GpusPerNode = Annotated[int, Field(ge=1, le=MAX_GPUS_PER_NODE)]


def _known_zone(text: str) -> str:
    from diploee.base.clock import parse_zone

    try:
        parse_zone(text, "")
    except InputError as error:
        raise ValueError(str(error).removeprefix(": ")) from error
    return text


LogZone = Annotated[str, AfterValidator(_known_zone)]


class LogReading(Model):
    """Settings for converting the rows of a job log to jobs."""

    columns: dict[JobColumn, str] | None = unset(
        "For csv: the log's column for each meaning, such as {submit: submitted_at, "
        "duration: run_s, nodes: n}; an empty name skips a meaning."
    )
    gpus_per_node: GpusPerNode | None = unset(
        "GPUs per node (for swf, processors per node), if the log counts GPUs or "
        "processors; if absent, from MaxNodes of the swf header, else from the pool's "
        "nodes."
    )
    utc_offset: LogZone | None = unset(
        "Zone of timestamps without one, such as '+08:00' or Europe/Berlin; if absent, "
        "the offset of most timestamps or of the header, else UTC."
    )
    time_format: str | None = unset(
        "For csv, slurm, acme and philly: s or ms since the log's start, unix-s, "
        "unix-ms, or a strptime format; ISO timestamps or numbers if absent."
    )
    time_unit: TimeUnit | None = unset(
        "For csv, slurm, acme and philly: unit of numeric times; if absent, inferred "
        "from their size, column name, span and spacing."
    )
    duration_unit: TimeUnit | None = unset(
        "For csv: unit of the columns duration and requested_time; if absent, inferred "
        "from the column name (run_ms) or from starts and ends, else s."
    )
    zero_durations: Literal["drop", "one-second"] = default(
        "drop", "Treatment of jobs with run time zero: dropped, or run for one second."
    )
    cpu_only: Literal["keep", "drop"] = default(
        "keep", "Whether jobs without GPUs are kept."
    )
    states: tuple[JobState, ...] = default(
        ("completed", "failed", "cancelled", "timeout", "other"),
        "End states of the jobs that are kept.",
        min_length=1,
    )


class ClassRule(Model):
    """Rule that assigns a workload to matching jobs of a log.

    The first matching rule applies.
    """

    workload: Name = Field(
        description="Workload of the profiles, such as llama2_70b_lora."
    )
    scale_from_n_nodes: PositiveInt | None = unset(
        "Node count of the profiles from which power is scaled linearly to the job's "
        "node count; the nearest measured one if absent."
    )
    type: str | None = unset("Job type in the log; any if absent.")
    user: str | None = optional(
        "Pattern of the user, '*' for any characters; any user if absent."
    )
    account: str | None = optional(
        "Pattern of the billed account; any account if absent."
    )
    name: str | None = optional(
        "Pattern of the job's name, such as 'llama*'; any name if absent."
    )
    min_nodes: PositiveInt = default(1, "Minimum nodes of a job.")
    max_nodes: PositiveInt | None = unset("Maximum nodes of a job; no limit if absent.")
    min_duration_s: NonNegativeFloat = default(
        0.0, "Minimum run time of a job [s], inclusive."
    )
    max_duration_s: PositiveFloat | None = unset(
        "Maximum run time of a job [s], exclusive; no limit if absent."
    )

    @model_validator(mode="after")
    def _bounds_are_in_order(self) -> ClassRule:
        if self.max_nodes is not None and self.max_nodes < self.min_nodes:
            raise ValueError(
                f"max_nodes {self.max_nodes} is below min_nodes {self.min_nodes}; "
                "no job could fit the rule"
            )
        if (
            self.max_duration_s is not None
            and self.max_duration_s <= self.min_duration_s
        ):
            raise ValueError(
                f"max_duration_s {self.max_duration_s:g} must be above min_duration_s "
                f"{self.min_duration_s:g}; no job could fit the rule"
            )
        return self


Factor = Annotated[float, Field(gt=0, le=1_000)]
JobId = Annotated[
    str, BeforeValidator(lambda key: str(key) if type(key) is int else key)
]
"""A job's id in its log; YAML reads most of them as numbers."""


class _LogFile(Model):
    """Job log or request trace by file and format."""

    log: Annotated[str, Field(min_length=1)] = Field(
        description="The log, a file relative to the scenario file; may be packed."
    )
    format: LogFormatName | None = unset(
        "Format of the log; detected from its content if absent."
    )


class JobReplay(LogReading, _LogFile):
    """Replay of the jobs of a log on the planned pool."""

    rules: tuple[ClassRule, ...] = Field(
        min_length=1,
        description=(
            "Rules that assign workloads to jobs; the first matching rule applies."
        ),
    )
    starts: Literal["queued", "logged"] = default(
        "queued",
        (
            "Submission times of the jobs: queued takes those of the log, so that jobs "
            "queue in the simulation; logged takes the logged start times, so that "
            "jobs queue only if the pool is smaller."
        ),
    )
    align: Literal["start", "weekday", "date"] = default(
        "weekday",
        (
            "Alignment of the log: its first job at the start of the run (start), at "
            "the first equal hour of the week in local time (weekday), or at its date "
            "(date), where timestamps without a zone are in the facility's local time."
        ),
    )
    repeat: bool | Literal["shuffled"] = default(
        True,
        (
            "Whether the log is repeated before and after itself to fill the run: in "
            "whole weeks if aligned by weekday, otherwise by its length in whole "
            "hours. shuffled replays its weeks in random order, all equally often, and "
            "near their season if the log has a year or more: years differ, while "
            "bursts, nights and run times are those of the log."
        ),
    )
    start: NaiveDatetime | None = optional(
        "Time of the first job to replay, in the log's local time; all jobs if absent."
    )
    end: NaiveDatetime | None = optional(
        "Time before which jobs are replayed, in the log's local time; all jobs if "
        "absent."
    )
    time_factor: Factor = default(1.0, "Factor on the times between submissions.")
    duration_factor: Factor = default(1.0, "Factor on the run times.")
    rate_factor: Annotated[Factor, SCALES] = default(
        1.0,
        (
            "Simulated jobs per logged job: 0.5 keeps a random half; 2.5 submits each "
            "job twice and a random half a third time, copies within an hour of the "
            "original."
        ),
    )
    node_factor: Factor = default(
        1.0, "Factor on the node counts, rounded to whole nodes, at least 1."
    )
    profiles: dict[JobId, str] = default(
        {},
        (
            "Profile of individual jobs by their ids in the log, such as {4711: "
            "tune-2n-1}, for jobs with measured power; takes precedence over all rules."
        ),
    )
    cpu_jobs: Literal["idle", "error", "rules"] = default(
        "idle",
        (
            "Power of jobs without GPUs in the log on nodes with GPUs: idle power "
            "(idle), by the rules (rules), or not allowed (error). Such jobs are "
            "omitted with cpu_only: drop, and in a pool that allocates GPUs."
        ),
    )
    unmatched: Literal["error", "drop"] = default(
        "error", "Treatment of jobs that match no rule."
    )
    too_wide: Literal["error", "drop", "clip"] = default(
        "error",
        "Treatment of jobs with more nodes than the pool; clip reduces them to the "
        "whole pool.",
    )

    @model_validator(mode="before")
    @classmethod
    def _default_repeat(cls, data: Any) -> Any:
        """Set the default of `repeat` to false for a log that is aligned by date."""
        by_date = isinstance(data, dict) and data.get("align") == "date"
        return {"repeat": False, **data} if by_date else data

    @model_validator(mode="after")
    def _parts_fit(self) -> JobReplay:
        if self.columns is not None and self.format not in (None, "csv"):
            raise ValueError(
                f"columns are for format: csv, found format: {self.format}"
            )
        if self.align == "date" and self.repeat:
            raise ValueError(
                "align: date plays the log at its own date, once; remove repeat"
            )
        if self.repeat == "shuffled" and self.align != "weekday":
            raise ValueError(
                f"repeat: shuffled needs align: weekday, found {self.align}"
            )
        if self.time_factor != 1 and self.align != "start":
            raise ValueError(
                "time_factor moves jobs off their weekdays and dates; set align: start"
            )
        return self


TraceFormatName = Annotated[str, NameIn("request_traces")]

RateFactor = Annotated[float, Field(gt=0, le=1e9)]


class RequestReplay(Model):
    """Replay of the requests of a trace to the planned services."""

    trace: Annotated[str, Field(min_length=1)] = Field(
        description=(
            "The trace, a file or folder relative to the scenario file; may be packed."
        )
    )
    format: TraceFormatName | None = unset(
        "Format of the trace; detected from its content if absent."
    )
    columns: dict[str, str] | None = unset(
        "For csv: the trace's column for each meaning."
    )
    time_unit: TimeUnit | None = unset(
        "Unit of numeric times; if absent, inferred from their size, column name, span "
        "and spacing."
    )
    utc_offset: LogZone | None = unset(
        "Zone of timestamps without one, such as '+08:00' or Europe/Berlin; if absent, "
        "the offset of the first timestamp, else UTC."
    )
    service: str | None = unset(
        "Service or model of the trace to replay; all together if absent."
    )
    tile: Literal["repeat", "week", "none"] = default(
        "repeat",
        (
            "Repetition of the trace: repeat replays the whole trace again and again "
            "from the start of the run, week repeats its whole weeks at their weekday "
            "and hour, none replays it once."
        ),
    )
    rate_factor: Annotated[RateFactor, SCALES] = default(
        1.0, "Factor on the number of requests."
    )
    time_factor: RateFactor = default(
        1.0, "Replayed length of the trace per logged length."
    )
    zero_hour_of_week: NonNegativeFloat = default(
        0.0,
        (
            "Hour of the week of time 0 in a trace without dates, for tile: week; 0 is "
            "Monday 00:00."
        ),
    )
