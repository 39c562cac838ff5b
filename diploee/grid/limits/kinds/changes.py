"""Limits on power changes: ramps, steps, swings, frequency bands and lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from diploee.base.jit import njit
from diploee.base.measures.ramps import SignalHistogram, differences, ramps, ranges
from diploee.base.measures.series import (
    QUANTA_PER_MW,
    Chunk,
    Signal,
    SignalChunk,
    to_mw,
)
from diploee.base.measures.spectrum import (
    RESOLUTION_HZ,
    STRIDE_MS,
    WINDOW_MS,
    band_rms,
    line_amplitude,
)
from diploee.base.model import default, unset
from diploee.base.tables import Float64Array
from diploee.base.units import MS_PER_MIN, MS_PER_S, PROFILE_STEP_MS, S_PER_H
from diploee.grid.limits.check import (
    Band,
    Check,
    LimitSpec,
    Need,
    NotAssessable,
    Percent,
    Positive,
    PowerBound,
    SeriesContext,
    check_of_run,
)
from diploee.metrics.changes import RAMP, SWING
from diploee.metrics.spectral_bands import BAND, no_spectrum_reason
from diploee.scenario.times import ResolutionMs

_WAYS = ("up", "down", "")
_UNITS = (("s", MS_PER_S), ("min", MS_PER_MIN))
_IS_REAL = 1e-12
"""Imaginary part of a pole that is rounding."""

SETTLED = 1e-3
"""ASSUMPTION [J]: a filter has started up when its slowest mode has decayed to this."""


class RampLimit(LimitSpec):
    """Largest ramp over an interval, by either of two definitions.

    ``adjacent_means``: ``(mean(P over [t, t + L)) - mean(P over [t - L, t))) / L``, as
    the metrics have it; ``end_points``: ``(P(t + L) - P(t)) / L`` of the run's own
    interval means. The first is never above the largest of the second; both slide by
    the run's resolution.
    """

    key = "ramps"
    is_sized_for = True

    interval: ResolutionMs = Field(description="Length of the ramp, such as '1 min'.")
    between: Literal["adjacent_means", "end_points"] = default(
        "adjacent_means",
        "Values that are compared: means over adjacent intervals, or values at "
        "the ends of an interval.",
    )
    percentile: Percent | None = unset(
        "Limited percentile of the sizes of all ramps, instead of the maximum; with "
        "mw_per_s or mw_per_min."
    )
    up_mw_per_s: PowerBound | None = unset("Maximum rise [MW/s].")
    down_mw_per_s: PowerBound | None = unset("Maximum fall [MW/s].")
    mw_per_s: PowerBound | None = unset("Maximum rise and fall [MW/s].")
    up_mw_per_min: PowerBound | None = unset("Maximum rise [MW/min].")
    down_mw_per_min: PowerBound | None = unset("Maximum fall [MW/min].")
    mw_per_min: PowerBound | None = unset("Maximum rise and fall [MW/min].")

    @model_validator(mode="after")
    def _some_rate(self) -> RampLimit:
        rates = list(self.rates())
        if not rates:
            raise ValueError(
                "give a rate: up_mw_per_s, down_mw_per_s, mw_per_s, or the same in "
                "_per_min"
            )
        if self.percentile is not None and any(way for way, *_ in rates):
            raise ValueError(
                "a percentile is of ramps either way: give mw_per_s or mw_per_min"
            )
        return self

    def rates(self) -> Iterator[tuple[str, PowerBound, str, int]]:
        """Yield direction, rate, unit and unit's time [ms] of every limit set."""
        for per, per_ms in _UNITS:
            for way in _WAYS:
                amount = getattr(self, f"{way}_mw_per_{per}".removeprefix("_"))
                if amount is not None:
                    yield way, amount, f"MW/{per}", per_ms

    @property
    def what(self) -> str:
        """Name of the limited quantity."""
        return f"ramp over {self.interval / MS_PER_S:g} s"

    def changes_mw(self) -> Iterator[tuple[str, PowerBound, float, float]]:
        """Yield each rate with how often its time goes into the interval."""
        for way, amount, _, per_ms in self.rates():
            yield way, amount, self.interval / per_ms, self.interval

    def drawn(self, step_ms: int) -> Iterator[tuple[str, PowerBound, float, int]]:  # noqa: ARG002
        """Yield a chart line for each ramp limit."""
        for way, amount, factor, _ in (
            self.changes_mw() if self.percentile is None else ()
        ):
            yield f"ramps {way}".rstrip(), amount, factor, self.interval

    def checks(self, shown: SeriesContext) -> Iterator[Check]:
        """Yield one check for each rate."""
        shown.held(self.interval)
        n, step_ms = self.interval // shown.clock.step_ms, shown.clock.step_ms
        means = self.between == "adjacent_means"
        n_window, per_mean = (2 * n, n) if means else (n + 1, 1)
        signal = ramps(n) if means else differences(n)
        for way, amount, unit, per_ms in self.rates():
            limit, of = amount.of(shown)
            text = RAMP.format(way or "either way", f"{self.interval / MS_PER_S:g} s")
            text += f", {'adjacent means' if means else 'end points'}{of}"
            said = shown.steps(self.interval, between_points=not means)
            scale = 1 / QUANTA_PER_MW / per_mean / (self.interval / per_ms)
            if self.percentile is None:
                yield Check(
                    text,
                    limit,
                    unit,
                    self.interval,
                    step_ms,
                    _sizes(signal, way, scale),
                    n_window,
                    event=("ramps", self.interval / MS_PER_S, way)
                    if means and way
                    else None,
                    **said._asdict(),
                )
                continue
            sizes = SignalHistogram(_sizes(signal, way), n_window)
            yield check_of_run(
                f"P{self.percentile:g} of {text}",
                limit,
                unit,
                shown,
                sizes,
                partial(_percentile, sizes, self.percentile, scale),
                span_ms=self.interval,
                **said._asdict(),
            )


def _sizes(signal: Signal, way: str, scale: float = 1) -> Signal:
    """Return the sizes of changes [scaled]: up, down, or either way."""

    def of(stretch: Chunk) -> SignalChunk | None:
        if (result := signal(stretch)) is None:
            return None
        values = (
            result.values
            if way == "up"
            else -result.values
            if way
            else np.abs(result.values)
        )
        return result._replace(values=values if scale == 1 else values * scale)

    return of


def _percentile(sizes: SignalHistogram, percent: float, scale: float) -> float | None:
    seen = sizes.result()
    return seen.percentile(percent) * scale if seen.count else None


class ChangeLimit(LimitSpec):
    """Changes above a size must take their time: a conditional ramp.

    A change of x takes x / r at the rate r: a range above x within a window of that
    length is faster. ASSUMPTION [J]: what lies further apart is not one change.
    """

    key = "changes"
    is_sized_for = True

    above_mw: Positive = Field(
        description="Size of a change above which its rate is limited [MW]."
    )
    max_mw_per_s: Positive = Field(description="Maximum rate of such a change [MW/s].")

    @property
    def _window_s(self) -> float:
        return self.above_mw / self.max_mw_per_s

    @model_validator(mode="after")
    def _within_an_hour(self) -> ChangeLimit:
        window_s = self._window_s
        if not PROFILE_STEP_MS / MS_PER_S <= window_s <= S_PER_H:
            raise ValueError(
                "above_mw over max_mw_per_s, the time of a change, must be 0.1 s to "
                f"1 h, found {window_s:.4g} s"
            )
        return self

    @property
    def what(self) -> str:
        """Name of the limited quantity."""
        return (
            f"changes above {self.above_mw:g} MW at most {self.max_mw_per_s:g} MW/s: "
            f"{SWING.format(f'{self._window_s:.4g} s')}"
        )

    def changes_mw(self) -> Iterator[tuple[str, PowerBound, float, float]]:
        """Yield the size from which on a change is limited."""
        yield "", PowerBound(mw=self.above_mw), 1.0, self._window_s * MS_PER_S

    def checks(self, shown: SeriesContext) -> Iterator[Check]:
        """Yield the check."""
        step_ms = shown.clock.step_ms
        # The last value of a window of n values starts n - 1 intervals after the first.
        n = int(self._window_s * MS_PER_S + 1e-6) // step_ms
        shown.held(n * step_ms)
        yield _swing(shown, self.what, self.above_mw, n * step_ms, n + 1)


def _swing(
    shown: SeriesContext, text: str, limit_mw: float, span_ms: int, n: int
) -> Check:
    """Return a check of the range of n values."""
    said = shown.steps(span_ms, between_points=True)._asdict()
    step_ms, signal = shown.clock.step_ms, ranges(n)
    return Check(
        text, limit_mw, "MW", span_ms, step_ms, signal, n, QUANTA_PER_MW, **said
    )


class BandFilter(Band):
    """Causal Butterworth band-pass, or high-pass where the run's rate is too low.

    ASSUMPTION [J]: the rules name a band alone; order and causality are as in a public
    implementation. The order can be set, and all of it is named in the result.
    """

    low_hz: Annotated[float, Field(ge=0.001)] = Field(
        description="Lower edge, 3 dB down [Hz]."
    )
    order: Annotated[int, Field(ge=1, le=8)] = default(
        4, "Order of the filter at each edge, 20 dB per decade each."
    )

    def sections(self, step_ms: int) -> Float64Array:
        """Return the filter in second-order sections, shape (s, 6)."""
        # As scipy.signal.butter, which takes seconds to import on a fresh machine. The
        # bilinear transform z = (1 + s) / (1 - s) warps the edges.
        rate_hz, n = MS_PER_S / step_ms, self.order
        low, high = np.tan(np.pi * np.array([self.low_hz, self.high_hz]) / rate_hz)
        s = -np.exp(0.5j * np.pi * np.arange(1 - n, n, 2) / n)  # of the low-pass
        zeros, unity = np.ones(2 * n), -1.0 + 0j  # where the gain is 1
        if self.high_hz < rate_hz / 2:
            half = s * (high - low) / 2
            root = np.sqrt(half**2 - low * high)
            s, zeros[n:] = np.concatenate([half + root, half - root]), -1
            unity = np.exp(2j * np.arctan(np.sqrt(low * high)))
        else:
            s = low / s
        z = (1 + s) / (1 - s)
        pairs = [[pole, pole.conj()] for pole in z[z.imag > _IS_REAL]]
        pairs += filter(len, [[*z[np.abs(z.imag) <= _IS_REAL]]])
        pairs.sort(key=lambda poles: -sum(poles).real)  # slow ones at the zeros of 0 Hz
        sections = np.zeros((len(pairs), 6))
        for row, poles, at in zip(sections, pairs, zeros.reshape(n, 2), strict=False):
            a, b = np.poly(poles).real, np.poly(at[: len(poles)])
            gain = np.abs(np.polyval(b, unity) / np.polyval(a, unity))
            row[: b.size], row[3 : 3 + a.size] = b / gain, a
        return sections


class SwingLimit(LimitSpec):
    """Largest range, the largest less the smallest value, within a sliding window."""

    key = "swings"
    is_sized_for = True

    window: ResolutionMs = Field(description="Length of the window, such as '10 s'.")
    max_mw: PowerBound = Field(description="Maximum range [MW].")
    filter: BandFilter | None = unset("Band-pass filter of the power; none if absent.")

    @property
    def what(self) -> str:
        """Name of the limited quantity."""
        text = SWING.format(f"{self.window / MS_PER_S:g} s")
        band = self.filter
        return f"{text}, filtered to {band.band}" if band else text

    def changes_mw(self) -> Iterator[tuple[str, PowerBound, float, float]]:
        """Yield the range; a filter may overshoot, so that none holds behind one."""
        if self.filter is None:
            yield "", self.max_mw, 1.0, self.window

    def drawn(self, step_ms: int) -> Iterator[tuple[str, PowerBound, float, int]]:  # noqa: ARG002
        """Yield a chart line for the largest range."""
        if self.filter is None:
            yield "swings", self.max_mw, 1.0, self.window

    def checks(self, shown: SeriesContext) -> Iterator[Check]:
        """Yield the check."""
        shown.held(self.window, 2)
        limit, of = self.max_mw.of(shown)
        step_ms, n = shown.clock.step_ms, self.window // shown.clock.step_ms
        check = _swing(shown, f"{self.what}{of}", limit, self.window, n)
        check.event = ("rolling_range", self.window / MS_PER_S, "")
        if self.filter is not None:
            _, of_band = shown.seen(self.filter)
            if self.filter.low_hz >= 0.5 * MS_PER_S / step_ms:
                raise NotAssessable(
                    f"the run's step of {shown.clock.step_s:g} s holds none", Need.FINER
                )
            running = RunningFilter(self.filter.sections(step_ms), n)
            signal = check.signal
            check.signal = lambda stretch: signal(running.see(stretch))
            check.measure = unfiltered = SignalHistogram(signal, n)
            check.aside = lambda: (
                f"without the filter {to_mw(max(unfiltered.result().max, 0)):.4g} MW"
            )
            check.note = "; ".join(filter(None, (of_band.note, check.note)))
            check.scope = "; ".join(filter(None, (of_band.scope, check.scope)))
            check.event = None
            check.text += (
                f" (causal Butterworth of order {self.filter.order}, started at rest "
                "at the first value, its first "
                f"{running.n_settling * step_ms / MS_PER_S:.4g} s left out)"
            )
        yield check


class RunningFilter:
    """Streaming filter that keeps its state between chunks and starts at rest.

    It gives filtered values as far as windows of `n_kept` reach back; `sections` has
    shape (s, 6).
    """

    def __init__(self, sections: Float64Array, n_kept: int) -> None:
        self._sections, self._n_kept = sections, n_kept
        poles = np.concatenate([np.roots(row[3:]) for row in sections])
        self.n_settling = int(np.ceil(np.log(SETTLED) / np.log(np.abs(poles).max())))
        # At a constant 1 all of it is held back by the first section.
        self._rest = np.zeros((len(sections), 2))
        self._rest[0] = -sections[0, 0], sections[0, 2]
        self._end_ms: int | None = None
        self._n_left_out = 0

    def see(self, stretch: Chunk) -> Chunk:
        """Filter a new chunk and return the part that windows reach back to."""
        new = stretch.new.astype(np.float64)
        if not new.size:
            return Chunk(stretch.new, 0, stretch.end_ms, stretch.step_ms)
        # A first one, or a gap
        if self._end_ms != stretch.end_ms - new.size * stretch.step_ms:
            self._state, self._n_left_out = self._rest * new[0], self.n_settling
            self._tail = stretch.new[:0]
        self._end_ms = stretch.end_ms
        _filter(new, self._sections, self._state)
        skipped = min(self._n_left_out, new.size)
        self._n_left_out -= skipped
        joined = np.concatenate([self._tail, np.rint(new[skipped:]).astype(np.int64)])
        self._tail = joined[max(joined.size - self._n_kept + 1, 0) :].copy()
        return Chunk(joined, new.size - skipped, stretch.end_ms, stretch.step_ms)


@njit()
def _filter(values: Float64Array, sections: Float64Array, state: Float64Array) -> None:
    """Filter values in place, by the direct form II, transposed."""
    for row in range(sections.shape[0]):
        b0, b1, b2, _, a1, a2 = sections[row]
        first, second = state[row]
        for k in range(values.size):
            given = values[k]
            values[k] = b0 * given + first
            first = b1 * given - a1 * values[k] + second
            second = b2 * given - a2 * values[k]
        state[row, 0], state[row, 1] = first, second


class _Windows(Band, LimitSpec):
    """Ten-minute windows of a frequency band, one every 5 minutes."""

    is_sized_for = True

    def _check(
        self,
        shown: SeriesContext,
        amount: PowerBound,
        of: Callable[[tuple[float, float]], Signal],
    ) -> Check:
        if reason := no_spectrum_reason(shown.clock.step_ms):
            raise NotAssessable(reason, Need.FINER)
        seen_hz, said = shown.seen(self)
        first = max(np.ceil(self.low_hz / RESOLUTION_HZ - 1e-6), 1)
        if first >= seen_hz / RESOLUTION_HZ - 1e-6:
            none = "holds no bin of a 10-minute window (multiples of 1/600 Hz)"
            if said.note:
                raise NotAssessable(
                    f"seen up to {seen_hz:.3g} Hz, it {none}", Need.FINER
                )
            raise NotAssessable(
                f"it {none}, whatever the run; give it a width of 1/600 Hz or more"
            )
        limit, how = amount.of(shown)
        return Check(
            f"{self.what}{how}",
            limit,
            "MW",
            WINDOW_MS,
            STRIDE_MS,
            of((self.low_hz, seen_hz)),
            WINDOW_MS // shown.clock.step_ms,
            **said._asdict(),
        )


class BandLimit(_Windows):
    """Largest rms of the load in a frequency band, over 10-minute windows."""

    key = "band_rms"

    max_rms_mw: PowerBound = Field(description="Maximum rms [MW].")

    @property
    def what(self) -> str:
        """The limited quantity."""
        return BAND.format(self.band)

    def changes_mw(self) -> Iterator[tuple[str, PowerBound, float, float]]:
        """Yield the rms, which is at most half of the range, at any speed."""
        yield "", self.max_rms_mw, 1.0, 0

    def checks(self, shown: SeriesContext) -> Iterator[Check]:
        """Yield the check."""
        yield self._check(shown, self.max_rms_mw, band_rms)


class LineLimit(_Windows):
    """Largest amplitude, half of peak to peak, of a spectral line in a band.

    The line stands out of the floor of its 10-minute window as in the metrics; its
    amplitude is that of a sine, √2 times its rms. A window without such a line counts
    as 0.
    """

    key = "lines"

    max_amplitude_mw: PowerBound = Field(description="Maximum amplitude, ± [MW].")

    @property
    def what(self) -> str:
        """The limited quantity."""
        return f"amplitude of a line in {self.band}"

    def checks(self, shown: SeriesContext) -> Iterator[Check]:
        """Yield the check."""
        yield self._check(shown, self.max_amplitude_mw, line_amplitude)
