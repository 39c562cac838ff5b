"""Local hours in which a stage acts, by hour, kind of day, and date."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from diploee.base.clock import WallClock
from diploee.base.model import Model, default, optional
from diploee.base.tables import Int64Array
from diploee.base.units import HOURS_PER_DAY, MS_PER_DAY, MS_PER_H

DAYS_PER_WEEK, THURSDAY = 7, 3
"""Weekday of 1970-01-01, counted from Monday as 0."""

Hour = Annotated[float, Field(ge=0, le=HOURS_PER_DAY)]


class LocalHours(Model):
    """Hours of the day on some days; an interval belongs to the hour of its start."""

    from_h: Hour = default(0.0, "Local hour of the start [h].")
    to_h: Hour = default(
        24.0, "Local hour of the end [h]; below from_h the range passes midnight."
    )
    days: Literal["all", "weekdays", "weekends"] = default(
        "all", "Days of the week, by the date of each hour."
    )
    first: dt.date | None = optional("First local date, such as 2018-06-01.")
    last: dt.date | None = optional("Last local date, included.")

    @model_validator(mode="after")
    def _check_not_empty(self) -> LocalHours:
        """Refuse an empty range of hours or dates."""
        if self.from_h == self.to_h:
            raise ValueError(f"from_h and to_h are both {self.to_h:g}; let them differ")
        if self.first is not None and self.last is not None and self.last < self.first:
            raise ValueError(
                f"last {self.last} is before first {self.first}; swap them"
            )
        return self

    def contains(self, local_ms: Int64Array) -> npt.NDArray[np.bool_]:
        """Return True for each local time [ms since 1970-01-01 00:00] in the hours."""
        day, hour = local_ms // MS_PER_DAY, local_ms % MS_PER_DAY / MS_PER_H
        is_after, is_before = hour >= self.from_h, hour < self.to_h
        is_inside = (
            is_after & is_before if self.from_h < self.to_h else is_after | is_before
        )
        if self.days != "all":
            is_inside &= ((day + THURSDAY) % DAYS_PER_WEEK < 5) == (
                self.days == "weekdays"
            )
        for date, sign in ((self.first, 1), (self.last, -1)):
            if date is not None:
                is_inside &= sign * (day - (date - dt.date(1970, 1, 1)).days) >= 0
        return np.asarray(is_inside)


def in_any_hours(
    hours: Iterable[LocalHours], wall: WallClock, times_ms: Int64Array
) -> npt.NDArray[np.bool_]:
    """Return True for each time of a run [ms] within any of the hours."""
    local_ms = wall.local_ms(times_ms)
    return np.asarray(np.any([each.contains(local_ms) for each in hours], axis=0))
