"""Replaying a log of jobs or a trace of requests: which file, how it is mapped and scaled."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, NonNegativeFloat, model_validator

from diploee.model import SCALES, Model
from diploee.registry import NameIn
from diploee.scenario.class_rules import ClassRule
from diploee.scenario.log_reading import LogFormatName, LogReading, UtcOffset

Factor = Annotated[float, Field(gt=0, le=1_000)]
JobId = Annotated[str, BeforeValidator(lambda key: str(key) if type(key) is int else key)]
"""A job's id in its log; YAML reads most of them as numbers."""


class _LogFile(Model):
    """Which log."""

    log: Annotated[str, Field(min_length=1)] = Field(
        description="The log, a file relative to the scenario file; may be packed."
    )
    format: LogFormatName | None = Field(
        default=None, description="Format of the log; told from its content if absent."
    )


class JobReplay(LogReading, _LogFile):
    """Jobs of a log, submitted again on the planned pool."""

    rules: tuple[ClassRule, ...] = Field(
        min_length=1,
        description="Which jobs take their power from which workload; the first rule that fits.",
    )
    starts: Literal["queued", "logged"] = Field(
        default="queued",
        description="queued submits the jobs when the log did and lets them queue here; logged "
        "submits them at their logged starts, so that they queue only where the pool is smaller.",
    )
    align: Literal["start", "weekday", "date"] = Field(
        default="weekday",
        description="Where the log goes: its first job at the start of the run, at the first same "
        "hour of the week of its own local time, or at its own date: stamps whose zone is known at "
        "their instant, others at the facility's local time.",
    )
    repeat: bool = Field(
        default=True,
        description="Repeat the log before and after itself until the run is full: by its whole "
        "weeks where it is aligned by weekday, by its span (in whole hours) otherwise.",
    )
    time_factor: Factor = Field(default=1.0, description="Factor on the times between submissions.")
    duration_factor: Factor = Field(default=1.0, description="Factor on the run times.")
    rate_factor: Annotated[Factor, SCALES] = Field(
        default=1.0,
        description="Jobs per logged job: 0.5 keeps a random half, 2.5 submits each twice and a "
        "random half of them a third time, the copies within an hour of the original.",
    )
    node_factor: Factor = Field(
        default=1.0, description="Factor on the node counts, rounded to whole nodes, at least 1."
    )
    profiles: dict[JobId, str] = Field(
        default={},
        description="Profile of single jobs by their ids in the log, such as {4711: tune-2n-1}, "
        "before all rules: measured jobs with their own power.",
    )
    cpu_jobs: Literal["idle", "error", "rules"] = Field(
        default="idle",
        description="What jobs draw that the log says to have no GPUs, on nodes that have some: "
        "idle power, or what the rules say; error refuses them. cpu_only: drop leaves them out, "
        "and so does a pool that allocates GPUs.",
    )
    unmatched: Literal["error", "drop"] = Field(
        default="error", description="What to do with jobs that no rule fits."
    )
    too_wide: Literal["error", "drop", "clip"] = Field(
        default="error",
        description="What to do with jobs wider than the pool: clip gives them the whole pool.",
    )

    @model_validator(mode="before")
    @classmethod
    def _by_date_once(cls, data: Any) -> Any:
        """Write out what align: date means, so that a resolved scenario can be read again."""
        by_date = isinstance(data, dict) and data.get("align") == "date"
        return {"repeat": False, **data} if by_date else data

    @model_validator(mode="after")
    def _parts_fit(self) -> JobReplay:
        if self.columns is not None and self.format not in (None, "csv"):
            raise ValueError(f"columns are for format: csv, found format: {self.format}")
        if self.align == "date" and self.repeat:
            raise ValueError("align: date plays the log at its own date, once; remove repeat")
        if self.time_factor != 1 and self.align != "start":
            raise ValueError(
                "time_factor moves jobs off their weekdays and dates; set align: start"
            )
        return self

    @property
    def repeats(self) -> bool:
        """Whether the log is repeated until the run ends."""
        return self.repeat


TraceFormatName = Annotated[str, NameIn("diploee.importers.request_traces", "TRACE_FORMATS")]

RateFactor = Annotated[float, Field(gt=0, le=1e9)]


class RequestReplay(Model):
    """Requests of a trace, sent again to the planned services."""

    trace: Annotated[str, Field(min_length=1)] = Field(
        description="The trace, a file or folder relative to the scenario file; may be packed."
    )
    format: TraceFormatName | None = Field(
        default=None, description="Format of the trace; told from its content if absent."
    )
    columns: dict[str, str] | None = Field(
        default=None, description="For csv: the trace's column of each meaning."
    )
    utc_offset: UtcOffset | None = Field(
        default=None,
        description="Zone of the trace's local time, '+08:00' or Europe/Berlin: stamps that name "
        "none are in it; the offset of the first stamp if absent, else UTC.",
    )
    service: str | None = Field(
        default=None, description="One service or model of the trace; all together if absent."
    )
    tile: Literal["repeat", "week", "none"] = Field(
        default="repeat",
        description="repeat plays the whole trace again and again from the start of the run, week "
        "repeats its whole weeks at their weekday and hour, none plays it once.",
    )
    rate_factor: Annotated[RateFactor, SCALES] = Field(
        default=1.0, description="Factor on the number of requests."
    )
    time_factor: RateFactor = Field(
        default=1.0, description="Length of the trace as replayed over its length as logged."
    )
    zero_hour_of_week: NonNegativeFloat = Field(
        default=0.0,
        description="For tile: week where the trace has no dates: hour of the week of its time 0, "
        "0 for Monday 00:00.",
    )
