"""The run's clock for metrics: milliseconds since the start as ISO times and calendar edges."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from diploee.clock import WallClock
from diploee.units import MS_PER_S


@dataclass(frozen=True)
class Clock(WallClock):
    """Start and interval of a power series.

    Parameters
    ----------
    start : datetime.datetime
        Start of the run with its zone; clock intervals and months follow its local time.
    step_ms : int
        Interval of the series [ms].
    """

    start: datetime
    step_ms: int

    @property
    def step_s(self) -> float:
        """Interval of the series [s]."""
        return self.step_ms / MS_PER_S

    def month(self, time_ms: int) -> str:
        """Return the local month, such as ``"2018-01"``."""
        return f"{self.at(time_ms):%Y-%m}"

    def next_month_ms(self, time_ms: int) -> int:
        """Return where the local month that holds a time ends [ms since the start]."""
        day = self.at(time_ms).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        following = (day + timedelta(days=32)).replace(day=1)
        return self.time_ms(following)

    def months_of(self, t0_ms: int, n_values: int) -> Iterator[tuple[str, int, slice]]:
        """Yield local month, start [ms] and rows of each part of consecutive values."""
        begin = 0
        while begin < n_values:
            at_ms = t0_ms + begin * self.step_ms
            left = -(-(self.next_month_ms(at_ms) - at_ms) // self.step_ms)
            end = min(begin + left, n_values)
            yield self.month(at_ms), at_ms, slice(begin, end)
            begin = end

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
        return self.why_not_summed(self.step_ms, interval_ms)
