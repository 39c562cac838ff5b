"""Limits on swings: the range within a sliding window, of the power or of a band of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import numpy as np
import scipy
from pydantic import Field, model_validator

from diploee.measures.series import QUANTA_PER_MW, Stretch, to_mw
from diploee.measures.sliding import Sizes, ranges
from diploee.metrics.grid.changes import SWING
from diploee.metrics.limits.check import (
    Amount,
    Band,
    Check,
    LimitSpec,
    NotAssessable,
    Positive,
    Shown,
)
from diploee.scenario.spans import ResolutionMs
from diploee.tables import Float64Array
from diploee.units import MS_PER_S, PROFILE_STEP_MS, S_PER_H

SETTLED = 1e-3
"""ASSUMPTION [J]: a filter has started up when its slowest mode has decayed to this."""


class BandFilter(Band):
    """Causal Butterworth band-pass, a high-pass where the run's rate does not hold the upper edge.

    ASSUMPTION [J]: the rules name a band alone; order and causality are as in a public
    implementation. The order can be set, and all of it is named in the result.
    """

    low_hz: Annotated[float, Field(ge=0.001)] = Field(description="Lower edge, 3 dB down [Hz].")
    order: Annotated[int, Field(ge=1, le=8)] = Field(
        default=4, description="Order at each edge: 20 dB a decade for each."
    )

    def sections(self, step_ms: int) -> Float64Array:
        """Return the filter in second-order sections, shape (s, 6)."""
        rate_hz = MS_PER_S / step_ms
        is_band = self.high_hz < rate_hz / 2
        edges, kind = ((self.low_hz, self.high_hz), "bandpass") if is_band else (
            self.low_hz, "highpass"
        )  # fmt: skip
        sos: Float64Array = scipy.signal.butter(self.order, edges, kind, fs=rate_hz, output="sos")
        return sos


class SwingLimit(LimitSpec):
    """Largest range, the largest less the smallest value, within a sliding window."""

    window: ResolutionMs = Field(description="Length of the window, such as '10 s'.")
    max_mw: Amount = Field(description="Largest range [MW].")
    filter: BandFilter | None = Field(
        default=None, description="Band that the power passes before; the whole of it if absent."
    )

    @property
    def what(self) -> str:
        """What is limited."""
        text = SWING.format(f"{self.window / MS_PER_S:g} s")
        band = self.filter
        return f"{text}, filtered to {band.band}" if band else text

    def changes_mw(self) -> Iterator[tuple[Amount, float]]:
        """Yield the range; a filter may overshoot, so that none holds behind one."""
        if self.filter is None:
            yield self.max_mw, 1.0

    def checks(self, shown: Shown) -> Iterator[Check]:
        """Yield the check."""
        shown.held(self.window, 2)
        limit, of = self.max_mw.of(shown)
        step_ms, n = shown.clock.step_ms, self.window // shown.clock.step_ms
        signal, note = ranges(n), shown.step_note(self.window)
        check = Check(
            f"{self.what}{of}", limit, "MW", self.window, step_ms, signal, n, QUANTA_PER_MW,
            note=note, event=("rolling_range", self.window / MS_PER_S, ""), in_windows=True,
        )  # fmt: skip
        if self.filter is not None:
            _, unseen = shown.seen(self.filter)
            if self.filter.low_hz >= 0.5 * MS_PER_S / step_ms:
                raise NotAssessable(f"the run's resolution of {shown.clock.step_s:g} s holds none")
            running = RunningFilter(self.filter.sections(step_ms), n)
            check.signal = lambda stretch: signal(running.see(stretch))
            check.measure = unfiltered = Sizes(signal, n)
            check.aside = lambda: (
                f"without the filter {to_mw(max(unfiltered.result().max, 0)):.4g} MW"
            )
            check.note = "; ".join(filter(None, (unseen, note)))
            check.event = None
            check.text += (
                f" (causal Butterworth of order {self.filter.order}, started at rest at the first "
                f"value, its first {running.n_settling * step_ms / MS_PER_S:.4g} s left out)"
            )
        yield check


class ChangeLimit(LimitSpec):
    """Changes above a size must take their time: a conditional ramp.

    A change of x takes x / r at the rate r: a range above x within a window of that length is
    faster. ASSUMPTION [J]: what lies further apart is not one change.
    """

    above_mw: Positive = Field(description="Size of a change from which on it is limited [MW].")
    max_mw_per_s: Positive = Field(description="Largest rate of such a change [MW/s].")

    @model_validator(mode="after")
    def _within_an_hour(self) -> ChangeLimit:
        window_s = self.above_mw / self.max_mw_per_s
        if not PROFILE_STEP_MS / MS_PER_S <= window_s <= S_PER_H:
            raise ValueError(
                "above_mw over max_mw_per_s, the time of a change, must be 0.1 s to 1 h, "
                f"found {window_s:.4g} s"
            )
        return self

    @property
    def what(self) -> str:
        """What is limited."""
        window_s = self.above_mw / self.max_mw_per_s
        return (
            f"changes above {self.above_mw:g} MW at most {self.max_mw_per_s:g} MW/s: "
            f"{SWING.format(f'{window_s:.4g} s')}"
        )

    def changes_mw(self) -> Iterator[tuple[Amount, float]]:
        """Yield the size from which on a change is limited."""
        yield Amount(mw=self.above_mw), 1.0

    def checks(self, shown: Shown) -> Iterator[Check]:
        """Yield the check."""
        step_ms = shown.clock.step_ms
        # The last value of a window of n values starts n - 1 intervals after the first.
        n = int(self.above_mw / self.max_mw_per_s * MS_PER_S + 1e-6) // step_ms + 1
        shown.held((n - 1) * step_ms)
        span_ms = (n - 1) * step_ms
        yield Check(
            self.what, self.above_mw, "MW", span_ms, step_ms, ranges(n), n, QUANTA_PER_MW,
            note=shown.step_note(span_ms, between_points=True), in_windows=True,
        )  # fmt: skip


class RunningFilter:
    """A filter whose state goes on from stretch to stretch, started at rest at the first value.

    It gives filtered values as far as windows of `n_kept` reach back; `sections` has shape (s, 6).
    """

    def __init__(self, sections: Float64Array, n_kept: int) -> None:
        self._sections, self._n_kept = sections, n_kept
        poles = np.concatenate([np.roots(row[3:]) for row in sections])
        self.n_settling = int(np.ceil(np.log(SETTLED) / np.log(np.abs(poles).max())))
        self._rest = scipy.signal.sosfilt_zi(sections)
        self._end_ms: int | None = None
        self._n_left_out = 0

    def see(self, stretch: Stretch) -> Stretch:
        """Return the filtered new part, less what is left out, with what windows reach back."""
        new = stretch.new.astype(np.float64)
        if not new.size:
            return Stretch(stretch.new, 0, stretch.end_ms, stretch.step_ms)
        if self._end_ms != stretch.end_ms - new.size * stretch.step_ms:  # a first one, or a gap
            self._state, self._n_left_out = self._rest * new[0], self.n_settling
            self._tail = stretch.new[:0]
        self._end_ms = stretch.end_ms
        values, self._state = scipy.signal.sosfilt(self._sections, new, zi=self._state)
        skipped = min(self._n_left_out, new.size)
        self._n_left_out -= skipped
        joined = np.concatenate([self._tail, np.rint(values[skipped:]).astype(np.int64)])
        self._tail = joined[max(joined.size - self._n_kept + 1, 0) :].copy()
        return Stretch(joined, new.size - skipped, stretch.end_ms, stretch.step_ms)
