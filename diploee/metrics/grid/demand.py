"""What a utility bills and plans by: maximum demand, load factor, peaks, coincidence, headroom.

The n-minute maximum demand is the largest mean over any whole clock interval of n minutes, in the
facility's local time. Demand intervals are kept (35,040 sums a year at 15 minutes), values are not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from diploee.clock import Stretch
from diploee.metric import Metric
from diploee.metrics.facility import load_factor
from diploee.metrics.grid.clock import Clock
from diploee.metrics.grid.quanta import to_mw
from diploee.tables import Float64Array, Int64Array
from diploee.units import MS_PER_MIN, MS_PER_S, W_PER_MW

DEMAND_MIN = (15, 30, 60)
"""Clock intervals of the maximum demand [min]."""

_DEMAND = "grid.maximum_demand.intervals.<interval>"

DEMAND_METRICS = (
    Metric("grid.mean_mw", "MW", "mean power"),
    Metric("grid.peak.max_mw", "MW", "peak"),
    Metric("grid.minimum.min_mw", "MW", "minimum", text="once the facility has filled up"),
    Metric(f"{_DEMAND}.max_mw", "MW", "maximum demand over <interval>"),
    Metric("grid.load_factor", "1", "load factor", text="mean power over the peak"),
    Metric(f"{_DEMAND}.load_factor", "1", "load factor, <interval> demand"),
    Metric("grid.headroom.rated_mw", "MW", "rated power"),
    Metric("grid.headroom.mw", "MW", "headroom", text="rated power less the peak"),
    Metric("grid.headroom.fraction", "%", "headroom, of the rated power", "{:.1f}", factor=100),
    Metric("grid.coincidence.factor", "1", "coincidence factor of the pools"),
)
PEAK_METRICS = (
    Metric("grid.monthly_peaks.<month>.max_mw", "MW", "peak of <month>"),
    Metric(f"{_DEMAND}.monthly.<month>.max_mw", "MW", "maximum demand over <interval> in <month>"),
    Metric("grid.coincidence.together.max_mw", "MW", "peak of the pools together"),
    Metric("grid.coincidence.pools.<name>.max_mw", "MW", "peak of pool <name>"),
    Metric(
        "grid.load_duration_curve.<share>.exceeded_mw", "MW", "power exceeded <share> of the time"
    ),
)
"""Parts of the former, not in the table of the demand."""


class ClockSums:
    """Sums of a series over clock intervals.

    Where the clock is changed, an interval that holds the change is as long as it takes: a day has
    23 or 25 hours. One that is no longer than the hour put back is counted both times.

    Parameters
    ----------
    clock : Clock
        Start and resolution.
    interval_ms : int
        Length of the clock intervals [ms]; `Clock.why_not_aligned` must be empty for it.
    """

    def __init__(self, clock: Clock, interval_ms: int) -> None:
        self._clock = clock
        self.interval_ms = interval_ms
        self.n_values = interval_ms // clock.step_ms
        self._last = Stretch(0, 0, 0)
        self._index = -1
        self._parts: list[Int64Array] = []

    def add(self, quanta: Int64Array, t0_ms: int) -> None:
        """Add consecutive values [quanta] from `t0_ms` on."""
        step_ms, n = self._clock.step_ms, self.n_values
        for stretch in self._clock.stretches(t0_ms, t0_ms + quanta.size * step_ms):
            rows = slice(*(-(-(t - t0_ms) // step_ms) for t in (stretch.begin_ms, stretch.end_ms)))
            if rows.start == rows.stop:
                continue
            offset = (t0_ms + rows.start * step_ms + stretch.shift_ms) // step_ms
            first, last = offset // n, (offset + rows.stop - rows.start - 1) // n
            edges = np.arange(first, last + 1) * n - offset
            starts_ms = t0_ms + (rows.start + edges) * step_ms
            edges[0] = 0
            counts = np.diff(edges, append=rows.stop - rows.start)
            sums = np.add.reduceat(quanta[rows], edges)
            self._append(
                np.stack([starts_ms, sums, counts, np.full(counts.size, n)]), stretch, offset
            )
            self._index = int(last)
            self._last = stretch

    def _append(self, part: Int64Array, stretch: Stretch, offset: int) -> None:
        """Join what follows on the last interval; `part` has start, sum, count and whole count."""
        n, step_ms = self.n_values, self._clock.step_ms
        goes_on = self._index == offset // n
        if self._parts and self._last.shift_ms != stretch.shift_ms:  # the clock was changed
            put_back_ms = self._last.shift_ms - stretch.shift_ms
            goes_on &= self.interval_ms > put_back_ms
            if goes_on:
                self._parts[-1][3, -1] += put_back_ms // step_ms
            else:
                self._parts[-1][3, -1] -= -(offset + put_back_ms // step_ms) % n
                part[0, 0] += offset % n * step_ms
                part[3, 0] -= offset % n
        if self._parts and goes_on:
            self._parts[-1][1:3, -1] += part[1:3, 0]
            part = part[:, 1:]
        if part.size:
            self._parts.append(part.copy())
        if len(self._parts) > 1024:
            self._parts = [np.concatenate(self._parts, axis=1)]

    def complete(self) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Return sum [quanta], start [ms since the run's start] and values of whole intervals."""
        if not self._parts:
            return (np.empty(0, dtype=np.int64),) * 3
        starts_ms, sums, counts, n_whole = np.concatenate(self._parts, axis=1)
        whole = counts == n_whole
        return sums[whole], starts_ms[whole], counts[whole]


@dataclass
class Peak:
    """Largest value and the start of its first interval."""

    power_w: float = -np.inf
    at_ms: int = 0

    def see(self, power_w: float, at_ms: int) -> None:
        """Take a value if it is larger."""
        if power_w > self.power_w:
            self.power_w, self.at_ms = power_w, at_ms


@dataclass
class Peaks:
    """Largest value of every local month, of every pool and of the pools together; the least."""

    clock: Clock
    negated_least: Peak = field(default_factory=Peak)
    of_month: dict[str, Peak] = field(default_factory=dict)
    of_pool: dict[str, Peak] = field(default_factory=dict)
    of_pools_together: Peak = field(default_factory=Peak)

    def add(self, power_w: Float64Array, t0_ms: int) -> None:
        """Add consecutive interval means [W] from `t0_ms` on."""
        for month, at_ms, rows in self.clock.months_of(t0_ms, power_w.size):
            part = power_w[rows]
            k = int(np.argmax(part))
            peak = self.of_month.setdefault(month, Peak())
            peak.see(float(part[k]), at_ms + k * self.clock.step_ms)
            k = int(np.argmin(part))
            self.negated_least.see(-float(part[k]), at_ms + k * self.clock.step_ms)

    def add_pools(self, pools_w: dict[str, Float64Array], t0_ms: int) -> None:
        """Add the interval means of every pool [W]."""
        together = np.sum(list(pools_w.values()), axis=0)
        pairs = [(self.of_pools_together, together)]
        pairs += [(self.of_pool.setdefault(name, Peak()), w) for name, w in pools_w.items()]
        for peak, power_w in pairs:
            if power_w.size:
                k = int(np.argmax(power_w))
                peak.see(float(power_w[k]), t0_ms + k * self.clock.step_ms)

    @property
    def annual(self) -> Peak:
        """Largest value of all months."""
        whole = Peak()
        for peak in self.of_month.values():
            whole.see(peak.power_w, peak.at_ms)
        return whole

    def entry(self, peak: Peak) -> dict[str, Any]:
        """Return a peak as it is reported."""
        return {"max_mw": peak.power_w / W_PER_MW, "time": self.clock.iso(peak.at_ms)}

    def blocks(self, mean_mw: float, rated_power_w: float) -> dict[str, Any]:
        """Return load factor, peaks and headroom, all of the run's interval means."""
        annual = self.annual
        peak_mw, rated_mw = annual.power_w / W_PER_MW, rated_power_w / W_PER_MW
        return {
            "mean_mw": mean_mw,
            "load_factor": load_factor(mean_mw, peak_mw),
            "peak": self.entry(annual),
            "minimum": {
                "min_mw": -self.negated_least.power_w / W_PER_MW,
                "time": self.clock.iso(self.negated_least.at_ms),
            },
            "monthly_peaks": {month: self.entry(peak) for month, peak in self.of_month.items()},
            "headroom": {
                "rated_mw": rated_mw,
                "mw": rated_mw - peak_mw,
                "fraction": 1 - peak_mw / rated_mw,
            }
            if rated_mw
            else None,
            "coincidence": self.coincidence_block(),
        }

    def coincidence_block(self) -> dict[str, Any] | None:
        """Return the coincidence factor: peak of the pools together over the sum of their peaks."""
        if not self.of_pool:
            return None
        apart_w = sum(peak.power_w for peak in self.of_pool.values())
        return {
            "factor": self.of_pools_together.power_w / apart_w if apart_w > 0 else None,
            "resolution_s": self.clock.step_s,
            "together": self.entry(self.of_pools_together),
            "pools": {name: self.entry(peak) for name, peak in self.of_pool.items()},
        }


def demand_block(sums: list[ClockSums], mean_mw: float, clock: Clock) -> dict[str, Any]:
    """Return the `maximum_demand` block: an entry for every interval, or why there is none."""
    entries = []
    reasons = {minutes: clock.why_not_aligned(minutes * MS_PER_MIN) for minutes in DEMAND_MIN}
    for of_interval in sums:
        quanta, starts_ms, counts = of_interval.complete()
        minutes = of_interval.interval_ms // MS_PER_MIN
        if not quanta.size:
            reasons[minutes] = "the run holds no whole interval"
            continue
        k = int(np.argmax(quanta / counts))
        largest_mw = to_mw(quanta[k], int(counts[k]))
        entries.append(
            {
                "interval_min": minutes,
                "max_mw": largest_mw,
                "time": clock.iso(int(starts_ms[k])),
                "load_factor": load_factor(mean_mw, largest_mw),
                "monthly": _monthly(quanta, starts_ms, counts, clock),
            }
        )
    return {
        "definition": "largest mean over a whole clock interval in local time; time is its start",
        "resolution_s": clock.step_ms / MS_PER_S,
        "intervals": entries,
        "absent": [
            {"interval_min": minutes, "reason": reason}
            for minutes, reason in reasons.items()
            if reason
        ],
    }


def _monthly(
    quanta: Int64Array, starts_ms: Int64Array, counts: Int64Array, clock: Clock
) -> dict[str, Any]:
    """Return the maximum demand of every local month."""
    months: dict[str, Any] = {}
    begin = 0
    while begin < quanta.size:
        month_end_ms = clock.next_month_ms(int(starts_ms[begin]))
        end = int(np.searchsorted(starts_ms, month_end_ms))
        k = begin + int(np.argmax(quanta[begin:end] / counts[begin:end]))
        months[clock.month(int(starts_ms[begin]))] = {
            "max_mw": to_mw(quanta[k], int(counts[k])),
            "time": clock.iso(int(starts_ms[k])),
        }
        begin = end
    return months
