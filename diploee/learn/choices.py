"""Options of fits of logs and of traces: span, calendar, level of the limits."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from diploee.learn.week_shape import CalendarChoice
from diploee.model import Choices


class FitChoices(Choices):
    """Options of a fit."""

    start: datetime | None = Field(default=None, description="Trim: start, local time.")
    end: datetime | None = Field(default=None, description="Trim: end, local time.")
    calendar: CalendarChoice = Field(
        default="auto",
        description="Weights of the week; auto takes what predicts held-out weeks best.",
    )
    months: bool | None = Field(
        default=None,
        description="Weights of the months; where the span covers all twelve if absent.",
    )
    confidence: Annotated[float, Field(gt=0, lt=1)] = Field(
        default=0.95, description="Level of the limits."
    )
