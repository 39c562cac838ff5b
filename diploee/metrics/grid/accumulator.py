"""`GridMetrics`: the load as the grid sees it, accumulated over consecutive power blocks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import numpy as np

from diploee.metric import Metric
from diploee.metrics.distribution import Distribution
from diploee.metrics.event import Event, Key
from diploee.metrics.grid.bandwidth import Readings, profile_support
from diploee.metrics.grid.clock import Clock
from diploee.metrics.grid.demand import DEMAND_MIN, ClockSums, Peaks, demand_block
from diploee.metrics.grid.quanta import Stretch, to_mw, to_quanta
from diploee.metrics.grid.rainflow import Rainflow
from diploee.metrics.grid.ramps import RAMP_MS, Ramps, ramps_block
from diploee.metrics.grid.spectrum import Spectrum, absent_bands, reported_bands, why_no_spectrum
from diploee.metrics.grid.swings import SWING_MS, RollingSwings
from diploee.tables import Float64Array
from diploee.units import MS_PER_H, MS_PER_MIN, W_PER_MW

DEFAULT_THRESHOLD = 0.01
"""Hysteresis of the swing count where none is given, as a part of the rated power."""

UNRATED_THRESHOLD_W = 1e3

DURATION_PERCENTS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, *(float(n) for n in range(1, 101)))
"""Points of the load duration curve, denser where few hours decide [% of the time]."""

TRANSIENT_METRICS = (
    Metric(
        "grid.transient_h", "h", "time in which the run filled up", "{:.1f}",
        "left out of peaks, demand, ramps, swings, spectrum and event windows",
    ),
)  # fmt: skip


class GridMetrics:
    """Accumulates the grid metrics of a power series.

    Results do not depend on how the series is cut into blocks; memory is bounded by the block, the
    longest ramp (two hours of values) and what is kept per demand interval and 10-minute window.

    Parameters
    ----------
    step_ms : int
        Interval of the series [ms].
    start : datetime.datetime
        Start of the run with its fixed UTC offset.
    rated_power_w : float
        Rated power of the devices [W], for the default hysteresis; 0 if unknown.
    readings : iterable of Provenance
        Provenance of the profiles that the run used; it decides what is reported.
    swing_threshold_w : float, optional
        Hysteresis of the rainflow count [W]; 1 % of the rated power by default, 1 kW without one.
    headroom_to_w : float, optional
        Rated power where the power is taken [W]; that of the devices if absent, 0 if unknown.

    Raises
    ------
    ValueError
        If the threshold is not positive.
    """

    def __init__(
        self,
        step_ms: int,
        start: datetime,
        *,
        rated_power_w: float,
        readings: Iterable[Readings] = (),
        swing_threshold_w: float | None = None,
        headroom_to_w: float | None = None,
    ) -> None:
        self._clock = Clock(start, step_ms)
        self._headroom_to_w = rated_power_w if headroom_to_w is None else headroom_to_w
        self._support = profile_support(readings).at_resolution(step_ms)
        if swing_threshold_w is None:
            swing_threshold_w = DEFAULT_THRESHOLD * rated_power_w or UNRATED_THRESHOLD_W

        clock = self._clock
        self._ramps = [Ramps(n_ms, step_ms) for n_ms in RAMP_MS if not clock.why_not_held(n_ms)]
        windows_ms = [window_ms for window_ms in SWING_MS if not clock.why_not_held(window_ms, 2)]
        self._rolling = RollingSwings(windows_ms, step_ms)
        bands_hz = reported_bands(self._support)
        self._no_spectrum = why_no_spectrum(clock)
        wanted = bands_hz and not self._no_spectrum
        self._spectrum = Spectrum(step_ms, bands_hz) if wanted else None
        self._rainflow = Rainflow(swing_threshold_w)
        self._demand = [
            ClockSums(clock, minutes * MS_PER_MIN)
            for minutes in DEMAND_MIN
            if not clock.why_not_aligned(minutes * MS_PER_MIN)
        ]
        self._peaks = Peaks(self._clock)
        self._sum = 0
        self._count = 0
        self._n_left_out = 0
        self._begin_ms: int | None = None
        self._tail = np.empty(0, dtype=np.int64)

    def add(
        self,
        t0_ms: int,
        power_w: Float64Array,
        pools_w: Mapping[str, Float64Array] | None = None,
        transient_ms: int = 0,
    ) -> None:
        """Add the next block.

        Parameters
        ----------
        t0_ms : int
            Start of the first interval [ms since the run's start]; it must follow on the last.
        power_w : numpy.ndarray, shape (B,)
            Mean power of the facility over each interval [W].
        pools_w : mapping of str to numpy.ndarray, shape (B,), optional
            The same of each pool, for the coincidence factor.
        transient_ms : int
            Time at which the run has filled up [ms]; what lies before counts in the mean alone.

        Raises
        ------
        ValueError
            If the block does not follow on the last one, or power is not finite.
        """
        if not power_w.size:
            return
        self._check_begin(t0_ms)
        quanta = to_quanta(power_w)
        self._sum += int(quanta.sum())
        self._count += quanta.size
        n_left_out = min(max(-((t0_ms - transient_ms) // self._clock.step_ms), 0), quanta.size)
        if n_left_out:
            self._n_left_out += n_left_out
            quanta, power_w = quanta[n_left_out:], power_w[n_left_out:]
            pools_w = {name: of[n_left_out:] for name, of in (pools_w or {}).items()}
            t0_ms += n_left_out * self._clock.step_ms
            if not quanta.size:
                return
        self._peaks.add(power_w, t0_ms)
        if pools_w:
            self._peaks.add_pools(dict(pools_w), t0_ms)
        self._rainflow.add(quanta, t0_ms, self._clock.step_ms)
        for sums in self._demand:
            sums.add(quanta, t0_ms)
        joined = np.concatenate([self._tail, quanta])
        for metric in self._sliding:
            metric.see(Stretch(joined, quanta.size, self.end_ms, self._clock.step_ms))
        self._tail = joined[max(joined.size - self._n_kept, 0) :].copy()

    def block(self, power_w: Distribution | None = None) -> dict[str, Any]:
        """Return the `grid` block of the metrics.

        Parameters
        ----------
        power_w : Distribution, optional
            Distribution of the same series [W], for the load duration curve.

        Raises
        ------
        ValueError
            If nothing was added.
        """
        if self._begin_ms is None:
            raise ValueError("no power was added")
        clock, support = self._clock, self._support
        mean_mw = to_mw(self._sum, self._count)
        return {
            "resolution_s": clock.step_s,
            "transient_h": self._n_left_out * clock.step_ms / MS_PER_H,
            "bandwidth": support.block(),
            **self._peaks.blocks(mean_mw, self._headroom_to_w),
            "maximum_demand": demand_block(self._demand, mean_mw, clock),
            "load_duration_curve": self._duration_curve(power_w),
            "ramps": ramps_block(self._ramps, clock, support),
            "rolling_range": self._rolling.block(clock, support),
            "rainflow": self._rainflow.block(
                clock, (self._count - self._n_left_out) * clock.step_ms
            ),
            "spectrum": self._spectrum_block(),
        }

    def events(self) -> dict[Key, Event]:
        """Return the worst events so far: the peak, ramps and swings."""
        found: dict[Key, Event] = {}
        if self._peaks.of_month:
            at_ms = self._peaks.annual.at_ms
            found["peak", self._clock.step_s, ""] = Event(
                None, (at_ms, at_ms + self._clock.step_ms)
            )
        for ramps in self._ramps:
            found |= ramps.events()
        return found | self._rolling.events()

    @property
    def end_ms(self) -> int:
        """End of the last interval added [ms since the run's start]."""
        return (self._begin_ms or 0) + self._count * self._clock.step_ms

    @property
    def spectrum(self) -> Spectrum | None:
        """The spectra of the 10-minute windows; None where the resolution holds none."""
        return self._spectrum

    @property
    def _sliding(self) -> list[Ramps | RollingSwings | Spectrum]:
        spectrum = [] if self._spectrum is None else [self._spectrum]
        return [*self._ramps, self._rolling, *spectrum]

    @property
    def _n_kept(self) -> int:
        return max(metric.n_window for metric in self._sliding) - 1

    def _check_begin(self, t0_ms: int) -> None:
        if self._begin_ms is None:
            if t0_ms % self._clock.step_ms:
                raise ValueError(f"the first interval starts off the run's intervals: {t0_ms} ms")
            self._begin_ms = t0_ms
        elif t0_ms != self.end_ms:
            raise ValueError(
                f"expected the block that starts at {self.end_ms} ms, found {t0_ms} ms"
            )

    def _duration_curve(self, power_w: Distribution | None) -> dict[str, Any] | None:
        """Return the power that is exceeded for shares of the time, falling."""
        if power_w is None:
            return None
        falling_w = power_w.percentiles(*(100 - percent for percent in DURATION_PERCENTS))
        return {
            "resolution_s": self._clock.step_s,
            "percent_of_time": list(DURATION_PERCENTS),
            "exceeded_mw": [value / W_PER_MW for value in falling_w],
        }

    def _spectrum_block(self) -> dict[str, Any]:
        if self._spectrum is not None:
            return self._spectrum.block(self._clock, self._support)
        return {
            "resolution_s": self._clock.step_s,
            "bands": [],
            "absent": absent_bands(self._support, self._no_spectrum),
            "lines": [],
        }
