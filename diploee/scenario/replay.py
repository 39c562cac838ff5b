"""Replaying a job log: which file, how its jobs map to profiles, and how it is scaled to a run."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PositiveInt, model_validator

from diploee.scenario.base import Model
from diploee.scenario.class_rules import ClassRule

LogFormatName = Literal["swf", "slurm", "acme", "philly", "alibaba-2020", "openb", "csv"]

Factor = Annotated[float, Field(gt=0, le=1_000)]


class JobReplay(Model):
    """Jobs of a log, submitted again on the planned pool."""

    log: Annotated[str, Field(min_length=1)] = Field(
        description="The log, a file relative to the scenario file; may be gzipped."
    )
    format: LogFormatName | None = Field(
        default=None, description="Format of the log; told from its content if absent."
    )
    columns: dict[str, str] | None = Field(
        default=None,
        description="For csv: the log's column of each meaning, such as {submit: submitted_at, "
        "duration: run_s, nodes: n}.",
    )
    gpus_per_node: PositiveInt | None = Field(
        default=None,
        description="GPUs (of swf, processors) per node where the log counts those; if absent what "
        "a swf header's MaxNodes tells, else those of the pool's nodes.",
    )
    utc_offset: str | None = Field(
        default=None,
        description="Zone of the log's stamps where the log does not tell it: '+08:00', or a named "
        "zone such as Europe/Berlin.",
    )
    time_format: str | None = Field(
        default=None,
        description="For csv: s or ms since the log's start, unix-s, unix-ms, or a strptime "
        "format; ISO stamps if absent.",
    )
    duration_unit: Literal["ms", "s", "min", "h"] = Field(
        default="s", description="For csv: unit of the duration column."
    )
    zero_durations: Literal["drop", "one-second"] = Field(
        default="drop", description="Jobs that ran for no time are dropped, or last a second."
    )
    cpu_only: Literal["keep", "drop"] = Field(
        default="keep", description="Whether jobs without GPUs are replayed."
    )
    states: tuple[Literal["completed", "failed", "cancelled", "timeout", "other"], ...] = Field(
        default=("completed", "failed", "cancelled", "timeout", "other"),
        min_length=1,
        description="Which jobs are replayed, by how they ended.",
    )
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
        "hour of the week, or at its own date.",
    )
    repeat: bool = Field(
        default=True,
        description="Repeat the log before and after itself until the run is full: by its whole "
        "weeks where it is aligned by weekday, by its span (in whole hours) otherwise.",
    )
    time_factor: Factor = Field(default=1.0, description="Factor on the times between submissions.")
    duration_factor: Factor = Field(default=1.0, description="Factor on the run times.")
    rate_factor: Factor = Field(
        default=1.0,
        description="Jobs per logged job: 0.5 keeps a random half, 2.5 submits each twice and a "
        "random half of them a third time, the copies within an hour of the original.",
    )
    node_factor: Factor = Field(
        default=1.0, description="Factor on the node counts, rounded to whole nodes, at least 1."
    )
    unmatched: Literal["error", "drop"] = Field(
        default="error", description="What to do with jobs that no rule fits."
    )
    too_wide: Literal["error", "drop", "clip"] = Field(
        default="error",
        description="What to do with jobs wider than the pool: clip gives them the whole pool.",
    )

    @model_validator(mode="after")
    def _parts_fit(self) -> JobReplay:
        if self.columns is not None and self.format not in (None, "csv"):
            raise ValueError(f"columns are for format: csv, found format: {self.format}")
        if self.align == "date" and self.repeat and "repeat" in self.model_fields_set:
            raise ValueError("align: date plays the log at its own date, once; remove repeat")
        if self.time_factor != 1 and self.align != "start":
            raise ValueError(
                "time_factor moves jobs off their weekdays and dates; set align: start"
            )
        return self

    @property
    def repeats(self) -> bool:
        """Whether the log is repeated until the run ends."""
        return self.repeat and self.align != "date"
