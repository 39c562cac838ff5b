"""Limits as checks on a stream of power: each turns stretches of power into comparable values."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from diploee.metrics.event import Key
from diploee.metrics.grid.bandwidth import Support
from diploee.metrics.grid.clock import Clock
from diploee.metrics.grid.demand import ClockSums
from diploee.metrics.grid.exceedance import Exceedance
from diploee.metrics.grid.limits import BandLimit, Limits, PeakLimit, RampLimit, SwingLimit
from diploee.metrics.grid.quanta import QUANTA_PER_MW, Stretch
from diploee.metrics.grid.ramps import RAMP, ramp_sums
from diploee.metrics.grid.spectrum import BAND, RESOLUTION_HZ, STRIDE_MS, Spectrum, why_no_spectrum
from diploee.metrics.grid.swings import SWING, rolling_ranges
from diploee.tables import Float64Array
from diploee.units import MS_PER_DAY, MS_PER_H, MS_PER_S


class Check(Protocol):
    """One limit, evaluated on a stream."""

    key: str
    text: str
    unit: str
    note: str
    span_ms: int
    n_window: int
    exceedance: Exceedance
    event: Key | None
    """The event of the metrics that its largest value is, if there is one."""

    def see(self, stretch: Stretch) -> None:
        """Evaluate what ends in the new part of a stretch."""

    def finish(self) -> None:
        """Evaluate what is left at the end."""


class _Check:
    """What all checks have: their key, text, unit, note, and the span that a value stands for."""

    def __init__(
        self, key: str, text: str, limit: float, unit: str, span_ms: int, stride_ms: int, note: str
    ) -> None:
        self.key, self.text, self.unit, self.note = key, text, unit, note
        self.span_ms = span_ms
        self.n_window = 1
        self.exceedance = Exceedance(limit, stride_ms)
        self.event: Key | None = None

    def finish(self) -> None:
        """Nothing is left."""


class RampCheck(_Check):
    """A ramp rate in one direction; a value stands at the edge between its two intervals."""

    def __init__(
        self,
        key: str,
        limit: RampLimit,
        rate: tuple[str, float, str, int],
        step_ms: int,
        note: str,
    ) -> None:
        way, largest, unit, per_ms = rate
        text = RAMP.format(way, f"{limit.interval / MS_PER_S:g} s")
        super().__init__(key, text, largest, unit, limit.interval, step_ms, note)
        self.event = ("ramps", limit.interval / MS_PER_S, way)
        self._n = limit.interval // step_ms
        self.n_window = 2 * self._n
        sign = 1 if way == "up" else -1
        self._factor = sign / (self._n * QUANTA_PER_MW) / (limit.interval / per_ms)

    def see(self, stretch: Stretch) -> None:
        """Evaluate the ramps that end in the new part."""
        sums, first_ms = ramp_sums(stretch, self._n)
        rates: Float64Array = sums.astype(np.float64) * self._factor
        self.exceedance.add(rates, first_ms)


class SwingCheck(_Check):
    """A range within a sliding window; a value stands at the window's start."""

    def __init__(self, key: str, limit: SwingLimit, step_ms: int, note: str) -> None:
        text = SWING.format(f"{limit.window / MS_PER_S:g} s")
        super().__init__(key, text, limit.max_mw, "MW", limit.window, step_ms, note)
        self.event = ("rolling_range", limit.window / MS_PER_S, "")
        self.n_window = limit.window // step_ms

    def see(self, stretch: Stretch) -> None:
        """Evaluate the windows that end in the new part."""
        part = stretch.windows_of(self.n_window)
        ranges = rolling_ranges(part, [self.n_window])[0]
        self.exceedance.add(ranges / QUANTA_PER_MW, part.begin_ms)


class BandCheck(_Check):
    """A band's rms in 10-minute windows, one every 5 minutes."""

    def __init__(self, key: str, limit: BandLimit, step_ms: int, note: str) -> None:
        text = BAND.format(f"{limit.low_hz:g}-{limit.high_hz:g} Hz")
        super().__init__(key, text, limit.max_rms_mw, "MW", 2 * STRIDE_MS, STRIDE_MS, note)
        self._band = (limit.low_hz, limit.high_hz)
        self._step_ms = step_ms
        self.n_window = Spectrum(step_ms, ()).n_window

    def see(self, stretch: Stretch) -> None:
        """Evaluate the windows that end in the new part."""
        spectrum = Spectrum(self._step_ms, (self._band,))
        spectrum.see(stretch)
        starts_ms, rms_mw = spectrum.band_rms_mw()
        if starts_ms.size:
            self.exceedance.add(rms_mw[:, 0], int(starts_ms[0]))


class PeakCheck(_Check):
    """The run's own interval means."""

    def __init__(self, key: str, limit: PeakLimit, step_ms: int) -> None:
        text = f"power, {step_ms / MS_PER_S:g} s means"
        super().__init__(key, text, limit.max_mw, "MW", step_ms, step_ms, "")
        self.event = ("peak", step_ms / MS_PER_S, "")

    def see(self, stretch: Stretch) -> None:
        """Evaluate the new values."""
        begin_ms = stretch.end_ms - stretch.n_new * stretch.step_ms
        self.exceedance.add(stretch.new / QUANTA_PER_MW, begin_ms)


class ClockCheck(_Check):
    """Sums over clock intervals, compared at the end; those seen in part are left out."""

    def __init__(
        self, key: str, text: str, limit: float, unit: str, interval_ms: int, clock: Clock
    ) -> None:
        super().__init__(key, text, limit, unit, interval_ms, interval_ms, "")
        self._sums = ClockSums(clock, interval_ms)
        self._step_ms = clock.step_ms
        self._hours = clock.step_ms / MS_PER_H if unit == "MWh" else None

    def see(self, stretch: Stretch) -> None:
        """Sum the new values."""
        self._sums.add(stretch.new, stretch.end_ms - stretch.n_new * stretch.step_ms)

    def finish(self) -> None:
        """Evaluate the intervals."""
        sums, starts_ms, counts = self._sums.complete()
        if starts_ms.size:
            levels = np.asarray(sums * self._hours if self._hours else sums / counts, np.float64)
            edges_ms = np.append(starts_ms, starts_ms[-1] + counts[-1] * self._step_ms)
            self.exceedance.add(levels / QUANTA_PER_MW, int(starts_ms[0]), edges_ms)


Checks = list[Check]
Unchecked = list[tuple[str, str, str]]
"""Key, text and reason of limits that a run can't be held against."""


def build_checks(limits: Limits, clock: Clock, support: Support) -> tuple[Checks, Unchecked]:
    """Return the checks that a run allows, and the limits that it does not.

    Parameters
    ----------
    limits : Limits
        What to hold the run against.
    clock : Clock
        Start and resolution of the run.
    support : Support
        What the run's profiles and its resolution support.
    """
    checks: Checks = []
    unchecked: Unchecked = []
    step_ms = clock.step_ms
    for i, ramp in enumerate(limits.ramps):
        key, text = f"ramps.{i}", f"ramp over {ramp.interval / MS_PER_S:g} s"
        if reason := clock.why_not_held(ramp.interval):
            unchecked.append((key, text, reason))
            continue
        note = _step_note(support, ramp.interval)
        checks += [RampCheck(key, ramp, rate, step_ms, note) for rate in ramp.rates()]
    for i, swing in enumerate(limits.swings):
        key, text = f"swings.{i}", SWING.format(f"{swing.window / MS_PER_S:g} s")
        if reason := clock.why_not_held(swing.window, 2):
            unchecked.append((key, text, reason))
            continue
        checks.append(SwingCheck(key, swing, step_ms, _step_note(support, swing.window)))
    for i, band in enumerate(limits.band_rms):
        key, text = f"band_rms.{i}", BAND.format(f"{band.low_hz:g}-{band.high_hz:g} Hz")
        status, note = support.band(band.high_hz)
        reason = why_no_spectrum(clock) or _too_narrow(band)
        if status == "absent" or reason:
            unchecked.append((key, text, note if status == "absent" else reason))
            continue
        checks.append(BandCheck(key, band, step_ms, note))
    for i, peak in enumerate(limits.peaks):
        _add_peak(f"peaks.{i}", peak, clock, checks, unchecked)
    if limits.daily_energy_mwh is not None:
        key, text = "daily_energy_mwh", "energy of a local day"
        if reason := clock.why_not_aligned(MS_PER_DAY):
            unchecked.append((key, text, reason))
        else:
            limit_mwh = limits.daily_energy_mwh
            checks.append(ClockCheck(key, text, limit_mwh, "MWh", MS_PER_DAY, clock))
    return checks, unchecked


def _add_peak(
    key: str, peak: PeakLimit, clock: Clock, checks: Checks, unchecked: Unchecked
) -> None:
    if peak.interval is None:
        checks.append(PeakCheck(key, peak, clock.step_ms))
        return
    minutes, rest_ms = divmod(peak.interval, 60 * MS_PER_S)
    length = f"{peak.interval / MS_PER_S:g} s" if rest_ms or not minutes else f"{minutes} min"
    text = f"power, {length} clock means"
    if reason := clock.why_not_aligned(peak.interval):
        unchecked.append((key, text, reason))
    else:
        checks.append(ClockCheck(key, text, peak.max_mw, "MW", peak.interval, clock))


def _step_note(support: Support, span_ms: int) -> str:
    if not support.is_lower_bound(span_ms / MS_PER_S):
        return ""
    return f"lower bound: the profiles smear steps under {support.min_step_s:g} s"


def _too_narrow(band: BandLimit) -> str:
    first = np.ceil(band.low_hz / RESOLUTION_HZ - 1e-6)
    if max(first, 1) < band.high_hz / RESOLUTION_HZ - 1e-6:
        return ""
    return "holds no bin of a 10-minute window (multiples of 1/600 Hz)"
