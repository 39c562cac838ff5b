"""The run's clock for metrics: milliseconds since the start as ISO times and calendar edges."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from diploee.units import MS_PER_DAY, MS_PER_S


@dataclass(frozen=True)
class Clock:
    """Start and interval of a power series.

    Parameters
    ----------
    start : datetime.datetime
        Start of the run with its fixed UTC offset; clock intervals and months follow its local
        time.
    step_ms : int
        Interval of the series [ms].
    """

    start: datetime
    step_ms: int

    @property
    def step_s(self) -> float:
        """Interval of the series [s]."""
        return self.step_ms / MS_PER_S

    @property
    def since_midnight_ms(self) -> int:
        """Local time of day of the start [ms]."""
        midnight = self.start.replace(hour=0, minute=0, second=0, microsecond=0)
        return (self.start - midnight) // timedelta(milliseconds=1)

    def at(self, time_ms: int) -> datetime:
        """Return the local time `time_ms` after the start."""
        return self.start + timedelta(milliseconds=int(time_ms))

    def iso(self, time_ms: int) -> str:
        """Return the local time `time_ms` after the start in ISO 8601."""
        moment = self.at(time_ms)
        return moment.isoformat(timespec="milliseconds" if moment.microsecond else "seconds")

    def month(self, time_ms: int) -> str:
        """Return the local month, such as ``"2018-01"``."""
        return f"{self.at(time_ms):%Y-%m}"

    def next_month_ms(self, time_ms: int) -> int:
        """Return where the local month that holds a time ends [ms since the start]."""
        day = self.at(time_ms).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        following = (day + timedelta(days=32)).replace(day=1)
        return (following - self.start) // timedelta(milliseconds=1)

    def why_not_held(self, length_ms: int, n_least: int = 1) -> str:
        """Return why the series holds no window of a length, or an empty string."""
        if length_ms < n_least * self.step_ms:
            few = "shorter than" if n_least == 1 else f"fewer than {n_least} values at"
            return f"{few} the run's resolution of {self.step_s:g} s"
        if length_ms % self.step_ms:
            return f"no multiple of the run's resolution of {self.step_s:g} s"
        return ""

    def why_not_aligned(self, interval_ms: int) -> str:
        """Return why clock intervals of a length can't be summed exactly, or an empty string."""
        if reason := self.why_not_held(interval_ms):
            return reason
        if MS_PER_DAY % interval_ms:
            return "does not divide a day"
        if self.since_midnight_ms % self.step_ms:
            return f"the run starts at {self.start:%H:%M:%S}, off its own clock intervals"
        return ""
