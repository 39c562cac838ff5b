"""Replaying a request trace: which file, and how it is scaled and placed in a run."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat

from diploee.scenario.base import Model

TraceFormatName = Literal["azure-llm", "burstgpt", "mooncake", "servegen", "csv"]

Factor = Annotated[float, Field(gt=0, le=1e9)]


class RequestReplay(Model):
    """Requests of a trace, sent again to the planned services."""

    trace: Annotated[str, Field(min_length=1)] = Field(
        description="The trace, a file or folder relative to the scenario file; may be gzipped."
    )
    format: TraceFormatName | None = Field(
        default=None, description="Format of the trace; told from its content if absent."
    )
    columns: dict[str, str] | None = Field(
        default=None, description="For csv: the trace's column of each meaning."
    )
    service: str | None = Field(
        default=None, description="One service or model of the trace; all together if absent."
    )
    tile: Literal["repeat", "week", "none"] = Field(
        default="repeat",
        description="repeat plays the whole trace again and again from the start of the run, week "
        "repeats its whole weeks at their weekday and hour, none plays it once.",
    )
    rate_factor: Factor = Field(default=1.0, description="Factor on the number of requests.")
    time_factor: Factor = Field(
        default=1.0, description="Length of the trace as replayed over its length as logged."
    )
    zero_hour_of_week: NonNegativeFloat = Field(
        default=0.0,
        description="For tile: week where the trace has no dates: hour of the week of its time 0, "
        "0 for Monday 00:00.",
    )
