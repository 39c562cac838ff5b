"""Power statistics: mean, peaks, maximum demand, utilization, and headroom.

The n-minute maximum demand is the largest mean over a whole clock interval of n
minutes, in the facility's local time. Only the interval sums are retained (35,040 a
year at 15 minutes).

See also: docs/models/metrics.md
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from diploee.base.clock import WallClock
from diploee.base.measures.distribution import Distribution, FirstMaximum
from diploee.base.measures.streaming import ClockSums, Intervals
from diploee.base.tables import Float64Array
from diploee.base.units import J_PER_MWH, MS_PER_MIN, MS_PER_S, W_PER_MW
from diploee.metrics.load_changes import absent
from diploee.scenario.models import Facility


def rated_power(metrics: Mapping[str, Any], facility: Facility) -> tuple[float, str]:
    """Return the rated power at the point of power measurement [MW], and its label.

    Runs of older versions without it have 0.
    """
    reported_mw = (metrics.get("power") or {}).get("rated_mw")
    if facility.stages or facility.has_ac_power:
        return reported_mw or 0.0, "rated power at the meter"
    rated_mw = reported_mw or facility.rated_power_w / W_PER_MW
    source = "the nodes'" if facility.rated_power_mw is None else "as given"
    return rated_mw, f"device rating ({source})"


def load_factor(mean: float, peak: float) -> float | None:
    """Return the load factor, mean power over peak power.

    Returns None if there is no load, or if more energy is exported than imported.
    """
    return mean / peak if peak > 0 <= mean else None


def power_metrics(
    power_w: Distribution, step_ms: int, rated_power_w: float
) -> dict[str, Any]:
    """Return the `power` block from means over intervals of `step_ms` [W]."""
    median_w, p90_w = power_w.percentiles(50, 90)
    block = {
        "mean_mw": power_w.mean / W_PER_MW,
        "std_mw": power_w.std / W_PER_MW,
        "median_mw": median_w / W_PER_MW,
        "p90_mw": p90_w / W_PER_MW,
        "min_mw": power_w.min / W_PER_MW,
        "max_mw": power_w.max / W_PER_MW,
        "peak_to_average_ratio": power_w.max / power_w.mean
        if power_w.mean > 0
        else None,
        "load_factor": load_factor(power_w.mean, power_w.max),
        "rated_mw": rated_power_w / W_PER_MW if rated_power_w else None,
        "max_over_rated": power_w.max / rated_power_w if rated_power_w else None,
        "energy_mwh": power_w.mean * power_w.count * step_ms / MS_PER_S / J_PER_MWH,
        "resolution_s": step_ms / MS_PER_S,
    }
    if power_w.percentile_error:
        block["percentile_error_mw"] = power_w.percentile_error / W_PER_MW
    return block


def _utilization_metrics(utilization: Distribution) -> dict[str, Any]:
    """Return the `utilization` block.

    Values are node occupancies (Eq. 1), 0-1, over the interval means.
    """
    if not utilization.count:  # no node is ever installed
        return dict.fromkeys(("mean", "std", "median", "p90", "max"))
    median, p90 = utilization.percentiles(50, 90)
    return {
        "mean": utilization.mean,
        "std": utilization.std,
        "median": median,
        "p90": p90,
        "max": utilization.max,
    }


class FacilityMetrics:
    """Accumulator of power and node occupancy of a facility or a pool."""

    def __init__(self, rated_power_w: float, step_ms: int) -> None:
        self._rated_power_w = rated_power_w
        self._step_ms = step_ms
        self.power_w = Distribution()
        self.utilization = Distribution()
        self._busy = self._installed = 0.0  # sums over intervals

    def add(
        self,
        power_w: Float64Array,
        utilization: Float64Array,
        installed_nodes: Float64Array | None = None,
    ) -> None:
        """Add intervals with mean power [W] and node occupancy, shape (B,).

        While no nodes are installed, occupancy is undefined.
        """
        self.power_w.add(power_w)
        if installed_nodes is not None:
            self._busy += float(utilization @ installed_nodes)
            self._installed += float(installed_nodes.sum())
            utilization = utilization[installed_nodes > 0]
        self.utilization.add(utilization)

    def blocks(self) -> dict[str, Any]:
        """Return the `power` and `utilization` blocks."""
        utilization = _utilization_metrics(self.utilization)
        if self._installed:
            utilization["mean"] = self._busy / self._installed
        return {
            "power": power_metrics(self.power_w, self._step_ms, self._rated_power_w),
            "utilization": utilization,
        }


DEMAND_MIN = (15, 30, 60)
"""Clock intervals of the maximum demand [min]."""

# Reason that a demand interval is not reported
NO_COMPLETE_INTERVAL = "the run holds no whole interval"


class Peaks:
    """Peak power by local month, peak of each pool and of all pools, minimum power."""

    def __init__(self, clock: WallClock) -> None:
        self._clock, self._negative_minimum, self._sum_of_pools = (
            clock,
            FirstMaximum(),
            FirstMaximum(),
        )
        self._by_month: dict[str, FirstMaximum] = {}
        self._by_pool: dict[str, FirstMaximum] = {}

    def add(
        self, power_w: Float64Array, t0_ms: int, pools_w: Mapping[str, Float64Array]
    ) -> None:
        """Add consecutive interval means from `t0_ms` [W], also of each pool."""
        step_ms = self._clock.step_ms
        starts_ms = t0_ms + np.arange(power_w.size) * step_ms
        for month, rows in self._clock.month_slices(starts_ms):
            month_peak = self._by_month.setdefault(month, FirstMaximum())
            month_peak.add(power_w[rows], int(starts_ms[rows.start]), step_ms)
        self._negative_minimum.add(-power_w, t0_ms, step_ms)
        for name, pool_w in pools_w.items():
            self._by_pool.setdefault(name, FirstMaximum()).add(pool_w, t0_ms, step_ms)
        if pools_w:
            self._sum_of_pools.add(
                np.sum(list(pools_w.values()), axis=0), t0_ms, step_ms
            )

    @property
    def peak(self) -> FirstMaximum | None:
        """Largest value, the first if several are equal."""
        return max(self._by_month.values(), key=lambda peak: peak.value, default=None)

    def _peak_entry(self, peak: FirstMaximum) -> dict[str, Any]:
        """Return the metrics entry of a peak."""
        return {"max_mw": peak.value / W_PER_MW, "time": self._clock.iso(peak.at_ms)}

    def blocks(self, mean_mw: float, rated_power_w: float) -> dict[str, Any]:
        """Return load factor, peaks and headroom, from the run's interval means."""
        peak = self.peak or FirstMaximum()
        peak_mw, rated_mw = peak.value / W_PER_MW, rated_power_w / W_PER_MW
        headroom_mw = {"rated_mw": rated_mw, "mw": rated_mw - peak_mw}
        return {
            "mean_mw": mean_mw,
            "load_factor": load_factor(mean_mw, peak_mw),
            "peak": self._peak_entry(peak),
            "minimum": {
                "min_mw": -self._negative_minimum.value / W_PER_MW,
                "time": self._clock.iso(self._negative_minimum.at_ms),
            },
            "monthly_peaks": {
                month: self._peak_entry(month_peak)
                for month, month_peak in self._by_month.items()
            },
            "headroom": headroom_mw | {"fraction": 1 - peak_mw / rated_mw}
            if rated_mw
            else None,
            "coincidence": self._coincidence_factor(),
        }

    def _coincidence_factor(self) -> dict[str, Any] | None:
        """Return the coincidence factor of the pools.

        The factor is the peak of the sum of all pools, divided by the sum of the pools'
        peaks.
        """
        if not self._by_pool:
            return None
        sum_of_peaks_w = sum(peak.value for peak in self._by_pool.values())
        return {
            "factor": self._sum_of_pools.value / sum_of_peaks_w
            if sum_of_peaks_w > 0
            else None,
            "resolution_s": self._clock.step_s,
            "together": self._peak_entry(self._sum_of_pools),
            "pools": {
                name: self._peak_entry(peak) for name, peak in self._by_pool.items()
            },
        }


def demand_sums(clock: WallClock, reactive: bool = False) -> dict[int, ClockSums]:
    """Return a clock-interval accumulator per demand interval [min]."""
    lengths = {minutes: minutes * MS_PER_MIN for minutes in DEMAND_MIN}
    return {
        minutes: ClockSums(clock, length_ms, reactive)
        for minutes, length_ms in lengths.items()
        if not clock.alignment_problem(length_ms)
    }


def absent_demand(
    clock: WallClock, intervals: Mapping[int, Intervals]
) -> list[dict[str, Any]]:
    """Return the unreported demand intervals [min], each with a reason."""
    reasons = {
        minutes: clock.alignment_problem(minutes * MS_PER_MIN) for minutes in DEMAND_MIN
    }
    reasons |= {
        minutes: NO_COMPLETE_INTERVAL
        for minutes, sums in intervals.items()
        if not sums.counts.size
    }
    return absent("interval_min", reasons)


def demand_block(
    sums: Mapping[int, ClockSums], mean_mw: float, clock: WallClock
) -> dict[str, Any]:
    """Return the `maximum_demand` block.

    It has an entry for every reported interval and a reason for every other.
    """
    intervals_by_length = {
        minutes: intervals.result() for minutes, intervals in sums.items()
    }
    entries = []
    for minutes, intervals in intervals_by_length.items():
        if not intervals.counts.size:
            continue
        largest = _largest_mean_entry(intervals, clock, slice(None))
        entry = {"interval_min": minutes, **largest}
        entry["load_factor"] = load_factor(mean_mw, largest["max_mw"])
        month_rows = clock.month_slices(intervals.starts_ms)
        entry["monthly"] = {
            month: _largest_mean_entry(intervals, clock, rows)
            for month, rows in month_rows
        }
        entries.append(entry)
    return {
        "definition": (
            "largest mean over a whole clock interval in local time; time is its start"
        ),
        "resolution_s": clock.step_s,
        "intervals": entries,
        "absent": absent_demand(clock, intervals_by_length),
    }


def _largest_mean_entry(
    intervals: Intervals, clock: WallClock, rows: slice
) -> dict[str, Any]:
    """Return the largest mean of some clock intervals, and its time."""
    means_mw = intervals.mean_mw[rows]
    row = int(np.argmax(means_mw))
    return {
        "max_mw": float(means_mw[row]),
        "time": clock.iso(int(intervals.starts_ms[rows][row])),
    }
