"""Limits on frequencies: the rms of a band, the amplitude of a line, in 10-minute windows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from pydantic import Field

from diploee.measures.series import Signal
from diploee.measures.spectrum import (
    RESOLUTION_HZ,
    STRIDE_MS,
    WINDOW_MS,
    band_rms,
    line_amplitude,
)
from diploee.metrics.bands import BAND, why_no_spectrum
from diploee.metrics.limits.check import Amount, Band, Check, LimitSpec, NotAssessable, Shown


class _Windows(Band, LimitSpec):
    """A band, looked at in 10-minute windows, one every 5 minutes."""

    is_sized_for = True

    @property
    def is_of_frequencies(self) -> bool:
        """Always."""
        return True

    def _check(
        self, shown: Shown, amount: Amount, signal: Signal, seen_hz: float, note: str
    ) -> Check:
        if reason := why_no_spectrum(shown.clock.step_ms):
            raise NotAssessable(reason)
        first = max(np.ceil(self.low_hz / RESOLUTION_HZ - 1e-6), 1)
        if first >= seen_hz / RESOLUTION_HZ - 1e-6:
            seen = f"seen up to {seen_hz:.3g} Hz, it " if seen_hz < self.high_hz else ""
            raise NotAssessable(f"{seen}holds no bin of a 10-minute window (multiples of 1/600 Hz)")
        limit, of = amount.of(shown)
        return Check(
            f"{self.what}{of}", limit, "MW", WINDOW_MS, STRIDE_MS, signal,
            WINDOW_MS // shown.clock.step_ms, note=note,
        )  # fmt: skip


class BandLimit(_Windows):
    """Largest rms of the load in a frequency band, over 10-minute windows."""

    key = "band_rms"

    max_rms_mw: Amount = Field(description="Largest rms [MW].")

    @property
    def what(self) -> str:
        """The limited quantity."""
        return BAND.format(self.band)

    def changes_mw(self) -> Iterator[tuple[str, Amount, float, float]]:
        """Yield the rms, which is at most half of the range, at any speed."""
        yield "", self.max_rms_mw, 1.0, 0

    def checks(self, shown: Shown) -> Iterator[Check]:
        """Yield the check."""
        seen_hz, unseen = shown.seen(self)
        yield self._check(shown, self.max_rms_mw, band_rms((self.low_hz, seen_hz)), seen_hz, unseen)


class LineLimit(_Windows):
    """Largest amplitude, half of peak to peak, of a spectral line in a band.

    The line stands out of the floor of its 10-minute window as in the metrics; its amplitude is
    that of a sine, √2 times its rms. A window without such a line counts as 0.
    """

    key = "lines"

    max_amplitude_mw: Amount = Field(description="Largest amplitude, ± [MW].")

    @property
    def what(self) -> str:
        """The limited quantity."""
        return f"amplitude of a line in {self.band}"

    def checks(self, shown: Shown) -> Iterator[Check]:
        """Yield the check."""
        seen_hz, unseen = shown.seen(self)
        signal = line_amplitude((self.low_hz, seen_hz))
        yield self._check(shown, self.max_amplitude_mw, signal, seen_hz, unseen)
