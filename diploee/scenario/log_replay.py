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
        "For csv: the log's column of each meaning, such as {submit: submitted_at, "
        "duration: run_s, nodes: n}; an empty name leaves the meaning out."
    )
    gpus_per_node: GpusPerNode | None = unset(
        "GPUs (of swf, processors) per node where the log counts those; if absent "
        "what a swf header's MaxNodes says, else those of the pool's nodes."
    )
    utc_offset: LogZone | None = unset(
        "Zone of the log's local time, '+08:00' or Europe/Berlin: stamps that name "
        "none are in it; the offset of most stamps or of the header if absent, else "
        "UTC."
    )
    time_format: str | None = unset(
        "For csv, slurm, acme and philly: s or ms since the log's start, unix-s, "
        "unix-ms, or a strptime format; ISO stamps or numbers if absent."
    )
    time_unit: TimeUnit | None = unset(
        "For the same: unit of times that are numbers; found by their size, column "
        "name, span and spacing if absent."
    )
    duration_unit: TimeUnit | None = unset(
        "For csv: unit of the columns duration and requested_time; if absent that of "
        "their name (run_ms), or as the starts and ends have it, else s."
    )
    zero_durations: Literal["drop", "one-second"] = default(
        "drop", "Jobs that ran for no time are dropped, or last a second."
    )
    cpu_only: Literal["keep", "drop"] = default(
        "keep", "Whether jobs without GPUs are kept."
    )
    states: tuple[JobState, ...] = default(
        ("completed", "failed", "cancelled", "timeout", "other"),
        "Which jobs are kept, by how they ended.",
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
        "Node count of the profiles that the jobs take their power from, scaled "
        "linearly to their own; the nearest measured node count if absent."
    )
    type: str | None = unset("Kind of job as the log names it; any if absent.")
    user: str | None = optional(
        "Pattern of the user, '*' for any characters; any user if absent."
    )
    account: str | None = optional(
        "Pattern of the account that pays; any account if absent."
    )
    name: str | None = optional(
        "Pattern of the job's name, such as 'llama*'; any name if absent."
    )
    min_nodes: PositiveInt = default(1, "Fewest nodes of a job.")
    max_nodes: PositiveInt | None = unset("Most nodes of a job; no limit if absent.")
    min_duration_s: NonNegativeFloat = default(
        0.0, "Shortest run time of a job [s], inclusive."
    )
    max_duration_s: PositiveFloat | None = unset(
        "Longest run time of a job [s], exclusive; no limit if absent."
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
        "Format of the log; recognised by its content if absent."
    )


class JobReplay(LogReading, _LogFile):
    """Replay of the jobs of a log on the planned pool."""

    rules: tuple[ClassRule, ...] = Field(
        min_length=1,
        description=(
            "Which jobs take their power from which workload; the first rule that fits."
        ),
    )
    starts: Literal["queued", "logged"] = default(
        "queued",
        (
            "queued submits the jobs when the log did and lets them queue here; "
            "logged submits them at their logged starts, so that they queue only "
            "where the pool is smaller."
        ),
    )
    align: Literal["start", "weekday", "date"] = default(
        "weekday",
        (
            "Where the log goes: its first job at the start of the run, at the first "
            "same hour of the week of its own local time, or at its own date: stamps "
            "whose zone is known at their instant, others at the facility's local "
            "time."
        ),
    )
    repeat: bool | Literal["shuffled"] = default(
        True,
        (
            "Repeat the log before and after itself until the run is full: by its "
            "whole weeks where it is aligned by weekday, by its span (in whole hours) "
            "otherwise. shuffled plays its weeks in random order, each as often as "
            "the others, those of a log of a year or more near their season: bursts, "
            "nights and the tail are the log's, years differ."
        ),
    )
    start: NaiveDatetime | None = optional(
        "Jobs from this time on, in the log's local time; all if absent."
    )
    end: NaiveDatetime | None = optional(
        "Jobs before this time, likewise; all if absent."
    )
    time_factor: Factor = default(1.0, "Factor on the times between submissions.")
    duration_factor: Factor = default(1.0, "Factor on the run times.")
    rate_factor: Annotated[Factor, SCALES] = default(
        1.0,
        (
            "Jobs per logged job: 0.5 keeps a random half, 2.5 submits each twice and "
            "a random half of them a third time, the copies within an hour of the "
            "original."
        ),
    )
    node_factor: Factor = default(
        1.0, "Factor on the node counts, rounded to whole nodes, at least 1."
    )
    profiles: dict[JobId, str] = default(
        {},
        (
            "Profile of single jobs by their ids in the log, such as {4711: "
            "tune-2n-1}, before all rules: measured jobs with their own power."
        ),
    )
    cpu_jobs: Literal["idle", "error", "rules"] = default(
        "idle",
        (
            "Power of jobs that have no GPUs by the log, on nodes that have some: "
            "idle power, or what the rules say; error refuses them. cpu_only: drop "
            "leaves them out, and so does a pool that allocates GPUs."
        ),
    )
    unmatched: Literal["error", "drop"] = default(
        "error", "Treatment of jobs that no rule fits."
    )
    too_wide: Literal["error", "drop", "clip"] = default(
        "error",
        "Treatment of jobs wider than the pool: clip gives them the whole pool.",
    )

    @model_validator(mode="before")
    @classmethod
    def _by_date_once(cls, data: Any) -> Any:
        """Replace the alignment by its date, so that resolving twice is safe."""
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
        "Format of the trace; recognised by its content if absent."
    )
    columns: dict[str, str] | None = unset(
        "For csv: the trace's column of each meaning."
    )
    time_unit: TimeUnit | None = unset(
        "Unit of times that are numbers; found by size, column name, span and spacing "
        "if absent."
    )
    utc_offset: LogZone | None = unset(
        "Zone of the trace's local time, '+08:00' or Europe/Berlin: stamps that name "
        "none are in it; the offset of the first stamp if absent, else UTC."
    )
    service: str | None = unset(
        "One service or model of the trace; all together if absent."
    )
    tile: Literal["repeat", "week", "none"] = default(
        "repeat",
        (
            "repeat plays the whole trace again and again from the start of the run, "
            "week repeats its whole weeks at their weekday and hour, none plays it "
            "once."
        ),
    )
    rate_factor: Annotated[RateFactor, SCALES] = default(
        1.0, "Factor on the number of requests."
    )
    time_factor: RateFactor = default(
        1.0, "Length of the trace as replayed over its length as logged."
    )
    zero_hour_of_week: NonNegativeFloat = default(
        0.0,
        (
            "For tile: week where the trace has no dates: hour of the week of its "
            "time 0, 0 for Monday 00:00."
        ),
    )
