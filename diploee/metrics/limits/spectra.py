"""Limits on frequencies: the rms of a band, the amplitude of a line, in 10-minute windows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from pydantic import Field

from diploee.metrics.grid.bandwidth import Support
from diploee.metrics.grid.lines import strongest_lines
from diploee.metrics.grid.quanta import Stretch
from diploee.metrics.grid.spectrum import (
    BAND,
    RESOLUTION_HZ,
    STRIDE_MS,
    WINDOW_MS,
    Spectrum,
    frequencies_hz,
    spectra_of,
    why_no_spectrum,
)
from diploee.metrics.limits.check import (
    Amount,
    Band,
    Check,
    LimitSpec,
    Measure,
    NotAssessable,
    Shown,
    Values,
)
from diploee.tables import Int64Array


class _Windows(Band, LimitSpec):
    """A band, looked at in 10-minute windows, one every 5 minutes."""

    def _check(
        self, shown: Shown, amount: Amount, measure: Measure, seen_hz: float, note: str
    ) -> Check:
        if reason := why_no_spectrum(shown.clock):
            raise NotAssessable(reason)
        first = max(np.ceil(self.low_hz / RESOLUTION_HZ - 1e-6), 1)
        if first >= seen_hz / RESOLUTION_HZ - 1e-6:
            seen = f"seen up to {seen_hz:.3g} Hz, it " if seen_hz < self.high_hz else ""
            raise NotAssessable(f"{seen}holds no bin of a 10-minute window (multiples of 1/600 Hz)")
        limit, of = amount.of(shown)
        return Check(
            f"{self.what}{of}", limit, "MW", WINDOW_MS, STRIDE_MS, measure,
            n_window=WINDOW_MS // shown.clock.step_ms, note=note,
        )  # fmt: skip


class BandLimit(_Windows):
    """Largest rms of the load in a frequency band, over 10-minute windows."""

    max_rms_mw: Amount = Field(description="Largest rms [MW].")

    @property
    def what(self) -> str:
        """What is limited."""
        return BAND.format(self.band)

    def changes_mw(self) -> Iterator[tuple[Amount, float]]:
        """Yield the rms, which is at most half of the range."""
        yield self.max_rms_mw, 1.0

    def checks(self, shown: Shown) -> Iterator[Check]:
        """Yield the check."""
        seen_hz, unseen = shown.seen(self)

        def rms(stretch: Stretch, _: Int64Array | None) -> Values | None:
            spectrum = Spectrum(stretch.step_ms, ((self.low_hz, seen_hz),))
            spectrum.see(stretch)
            starts_ms, rms_mw = spectrum.band_rms_mw()
            return Values(rms_mw[:, 0], int(starts_ms[0])) if starts_ms.size else None

        yield self._check(shown, self.max_rms_mw, rms, seen_hz, unseen)


class LineLimit(_Windows):
    """Largest amplitude, half of peak to peak, of a spectral line in a band.

    The line stands out of the floor of its 10-minute window as in the metrics; its amplitude is
    that of a sine, √2 times its rms. A window without such a line counts as 0.
    """

    max_amplitude_mw: Amount = Field(description="Largest amplitude, ± [MW].")

    @property
    def what(self) -> str:
        """What is limited."""
        return f"amplitude of a line in {self.band}"

    def checks(self, shown: Shown) -> Iterator[Check]:
        """Yield the check."""
        seen_hz, unseen = shown.seen(self)
        support = replace(shown.support, flagged_hz=seen_hz)

        def amplitude(stretch: Stretch, _: Int64Array | None) -> Values | None:
            bins_hz = frequencies_hz(WINDOW_MS // stretch.step_ms, stretch.step_ms)
            end = int(np.searchsorted(bins_hz, seen_hz)) + 20  # the floor reaches 15 bins beyond
            found = [
                (int(at_ms), self._amplitude_mw(bins_hz[:end], psd[:end], support))
                for starts_ms, psds in spectra_of(stretch)
                for at_ms, psd in zip(starts_ms, psds, strict=True)
            ]
            return Values(np.array([mw for _, mw in found]), found[0][0]) if found else None

        yield self._check(shown, self.max_amplitude_mw, amplitude, seen_hz, unseen)

    def _amplitude_mw(self, bins_hz: np.ndarray, psd: np.ndarray, support: Support) -> float:
        lines = strongest_lines(bins_hz, psd, 1, support, self.low_hz)
        return float(np.sqrt(2) * lines[0]["rms_mw"]) if lines else 0.0
