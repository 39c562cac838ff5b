"""Hours of local time in which a stage does something.

By hour, kind of day and date.
"""

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
"""1970-01-01 was a Thursday, counted from Monday at 0."""

Hour = Annotated[float, Field(ge=0, le=HOURS_PER_DAY)]


class LocalHours(Model):
    """Hours of some days; an interval is in them where its start is."""

    from_h: Hour = default(0.0, "Local hour from which on [h].")
    to_h: Hour = default(
        24.0, "Local hour until which [h]; below from_h it goes past midnight."
    )
    days: Literal["all", "weekdays", "weekends"] = default(
        "all", "Days of the week; each hour by its own date."
    )
    first: dt.date | None = optional("First local date, such as 2018-06-01.")
    last: dt.date | None = optional("Last local date, included.")

    @model_validator(mode="after")
    def _not_empty(self) -> LocalHours:
        if self.from_h == self.to_h:
            raise ValueError(f"from_h and to_h are both {self.to_h:g}; let them differ")
        if self.first is not None and self.last is not None and self.last < self.first:
            raise ValueError(
                f"last {self.last} is before first {self.first}; swap them"
            )
        return self

    def hold_at(self, local_ms: Int64Array) -> npt.NDArray[np.bool_]:
        """Return of local times [ms since 1970-01-01 00:00] whether they are in it."""
        day, hour = local_ms // MS_PER_DAY, local_ms % MS_PER_DAY / MS_PER_H
        after, before = hour >= self.from_h, hour < self.to_h
        inside = after & before if self.from_h < self.to_h else after | before
        if self.days != "all":
            inside &= ((day + THURSDAY) % DAYS_PER_WEEK < 5) == (
                self.days == "weekdays"
            )
        for date, sign in ((self.first, 1), (self.last, -1)):
            if date is not None:
                inside &= sign * (day - (date - dt.date(1970, 1, 1)).days) >= 0
        return np.asarray(inside)


def any_hold(
    hours: Iterable[LocalHours], wall: WallClock, times_ms: Int64Array
) -> npt.NDArray[np.bool_]:
    """Return of times of a run [ms] whether they are in any of some hours."""
    local_ms = wall.local_ms(times_ms)
    return np.asarray(np.any([of.hold_at(local_ms) for of in hours], axis=0))
