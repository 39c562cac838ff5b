"""Limits on changes of power: ramps, steps, swings, frequency bands, spectral lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from diploee.base.jit import njit
from diploee.base.measures.ramps_and_swings import (
    SignalHistogram,
    differences_over,
    ramps,
    ranges,
)
from diploee.base.measures.spectrum import (
    RESOLUTION_HZ,
    STRIDE_MS,
    WINDOW_MS,
    band_rms,
    line_amplitude,
)
from diploee.base.measures.streaming import (
    QUANTA_PER_MW,
    Chunk,
    Signal,
    SignalChunk,
    to_mw,
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
from diploee.metrics.load_changes import RAMP, SWING
from diploee.metrics.spectral_bands import BAND, no_spectrum_reason
from diploee.scenario.times import ResolutionMs

_WAYS = ("up", "down", "")
_UNITS = (("s", MS_PER_S), ("min", MS_PER_MIN))
_IS_REAL = 1e-12
"""Imaginary part of a pole below which the pole is real [1]."""

SETTLED = 1e-3
"""Decay of a filter's slowest mode after which it has started up [1].

ASSUMPTION (judgement).
"""


class RampLimit(LimitSpec):
    """Largest ramp over an interval, by either of two definitions.

    With power P, time t and interval L, the ramp is:

    - ``adjacent_means`` (as in the metrics): ``(mean(P over [t, t + L)) -
      mean(P over [t - L, t))) / L``
    - ``end_points``: ``(P(t + L) - P(t)) / L``

    The time t advances by the run's step. The largest ramp of adjacent means never
    exceeds the largest ramp of end points.
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
        if self.percentile is not None and any(direction for direction, *_ in rates):
            raise ValueError(
                "a percentile is of ramps either way: give mw_per_s or mw_per_min"
            )
        return self

    def rates(self) -> Iterator[tuple[str, PowerBound, str, int]]:
        """Yield direction, bound, unit and the unit's time [ms] of each rate."""
        for per, per_ms in _UNITS:
            for direction in _WAYS:
                amount = getattr(self, f"{direction}_mw_per_{per}".removeprefix("_"))
                if amount is not None:
                    yield direction, amount, f"MW/{per}", per_ms

    @property
    def quantity(self) -> str:
        """Text of the limited quantity, such as `ramp over 60 s`."""
        return f"ramp over {self.interval / MS_PER_S:g} s"

    def changes_mw(self) -> Iterator[tuple[str, PowerBound, float, float]]:
        """Yield the largest change over the interval for each rate."""
        for direction, amount, _, per_ms in self.rates():
            yield direction, amount, self.interval / per_ms, self.interval

    def chart_lines(self, step_ms: int) -> Iterator[tuple[str, PowerBound, float, int]]:  # noqa: ARG002
        """Yield a chart line for each rate; none for a percentile."""
        for direction, amount, factor, _ in (
            self.changes_mw() if self.percentile is None else ()
        ):
            yield f"ramps {direction}".rstrip(), amount, factor, self.interval

    def checks(self, context: SeriesContext) -> Iterator[Check]:
        """Yield a check for each rate, on its largest value or its percentile."""
        context.require_steps_per_window(self.interval)
        n, step_ms = self.interval // context.clock.step_ms, context.clock.step_ms
        means = self.between == "adjacent_means"
        n_window, per_mean = (2 * n, n) if means else (n + 1, 1)
        signal = ramps(n) if means else differences_over(n)
        for direction, amount, unit, per_ms in self.rates():
            limit, reference = amount.resolve(context)
            text = RAMP.format(
                direction or "either way", f"{self.interval / MS_PER_S:g} s"
            )
            text += f", {'adjacent means' if means else 'end points'}{reference}"
            caveats = context.step_caveats(self.interval, between_points=not means)
            scale = 1 / QUANTA_PER_MW / per_mean / (self.interval / per_ms)
            if self.percentile is None:
                yield Check(
                    text,
                    limit,
                    unit,
                    self.interval,
                    step_ms,
                    _change_sizes(signal, direction, scale),
                    n_window,
                    event=("ramps", self.interval / MS_PER_S, direction)
                    if means and direction
                    else None,
                    **caveats._asdict(),
                )
                continue
            sizes = SignalHistogram(_change_sizes(signal, direction), n_window)
            yield check_of_run(
                f"P{self.percentile:g} of {text}",
                limit,
                unit,
                context,
                sizes,
                partial(_percentile, sizes, self.percentile, scale),
                span_ms=self.interval,
                **caveats._asdict(),
            )


def _change_sizes(signal: Signal, direction: str, scale: float = 1) -> Signal:
    """Return a signal: sizes of the changes in a direction, multiplied by `scale`."""

    def changes(chunk: Chunk) -> SignalChunk | None:
        if (result := signal(chunk)) is None:
            return None
        values = (
            result.values
            if direction == "up"
            else -result.values
            if direction
            else np.abs(result.values)
        )
        return result._replace(values=values if scale == 1 else values * scale)

    return changes


def _percentile(sizes: SignalHistogram, percent: float, scale: float) -> float | None:
    """Return a percentile of sizes of changes, times `scale`; None without changes."""
    histogram = sizes.result()
    return histogram.percentile(percent) * scale if histogram.count else None


class ChangeLimit(LimitSpec):
    """Largest rate of changes above a size; smaller changes may be faster.

    With size x [MW] and rate r [MW/s], a change of size x at rate r takes x / r [s]. If
    power changes by more than x within a window of this length, it is faster than r.
    ASSUMPTION (judgement): values further apart do not belong to the same change.
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
    def quantity(self) -> str:
        """Text of the limited quantity: size, rate and window."""
        return (
            f"changes above {self.above_mw:g} MW at most {self.max_mw_per_s:g} MW/s: "
            f"{SWING.format(f'{self._window_s:.4g} s')}"
        )

    def changes_mw(self) -> Iterator[tuple[str, PowerBound, float, float]]:
        """Yield the size above which a change is limited."""
        yield "", PowerBound(mw=self.above_mw), 1.0, self._window_s * MS_PER_S

    def checks(self, context: SeriesContext) -> Iterator[Check]:
        """Yield the check on maximum minus minimum within the window of a change."""
        step_ms = context.clock.step_ms
        # The last value of a window of n values starts n - 1 intervals after the first.
        n = int(self._window_s * MS_PER_S + 1e-6) // step_ms
        context.require_steps_per_window(n * step_ms)
        yield _swing_check(context, self.quantity, self.above_mw, n * step_ms, n + 1)


def _swing_check(
    context: SeriesContext, text: str, limit_mw: float, span_ms: int, n: int
) -> Check:
    """Return a check on maximum minus minimum of `n` consecutive values."""
    caveats = context.step_caveats(span_ms, between_points=True)._asdict()
    step_ms, signal = context.clock.step_ms, ranges(n)
    return Check(
        text, limit_mw, "MW", span_ms, step_ms, signal, n, QUANTA_PER_MW, **caveats
    )


class BandFilter(Band):
    """Causal Butterworth band-pass; a high-pass if `high_hz` is above Nyquist.

    The published rules specify only the band. ASSUMPTION (judgement): order and
    causality are those of a public implementation. Users can change the order by its
    key; the result states all parameters of the filter.
    """

    low_hz: Annotated[float, Field(ge=0.001)] = Field(
        description="Lower edge, 3 dB down [Hz]."
    )
    order: Annotated[int, Field(ge=1, le=8)] = default(
        4, "Order of the filter at each edge, 20 dB per decade each."
    )

    def sections(self, step_ms: int) -> Float64Array:
        """Return the coefficients of second-order sections, shape (sections, 6)."""
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
        for row, poles, section_zeros in zip(
            sections, pairs, zeros.reshape(n, 2), strict=False
        ):
            a, b = np.poly(poles).real, np.poly(section_zeros[: len(poles)])
            gain = np.abs(np.polyval(b, unity) / np.polyval(a, unity))
            row[: b.size], row[3 : 3 + a.size] = b / gain, a
        return sections


class SwingLimit(LimitSpec):
    """Largest swing: maximum minus minimum within a sliding window."""

    key = "swings"
    is_sized_for = True

    window: ResolutionMs = Field(description="Length of the window, such as '10 s'.")
    max_mw: PowerBound = Field(description="Maximum range [MW].")
    filter: BandFilter | None = unset("Band-pass filter of the power; none if absent.")

    @property
    def quantity(self) -> str:
        """Text of the limited quantity, such as `swing within 5 s`."""
        text = SWING.format(f"{self.window / MS_PER_S:g} s")
        band = self.filter
        return f"{text}, filtered to {band.band}" if band else text

    def changes_mw(self) -> Iterator[tuple[str, PowerBound, float, float]]:
        """Yield the largest swing; none with a filter, as its output may overshoot."""
        if self.filter is None:
            yield "", self.max_mw, 1.0, self.window

    def chart_lines(self, step_ms: int) -> Iterator[tuple[str, PowerBound, float, int]]:  # noqa: ARG002
        """Yield a chart line for the largest swing; nothing with a filter."""
        if self.filter is None:
            yield "swings", self.max_mw, 1.0, self.window

    def checks(self, context: SeriesContext) -> Iterator[Check]:
        """Yield the check on the swing within the window, after the filter if any."""
        context.require_steps_per_window(self.window, 2)
        limit, reference = self.max_mw.resolve(context)
        step_ms, n = context.clock.step_ms, self.window // context.clock.step_ms
        check = _swing_check(
            context, f"{self.quantity}{reference}", limit, self.window, n
        )
        check.event = ("rolling_range", self.window / MS_PER_S, "")
        if self.filter is not None:
            _, band_caveats = context.visible_band(self.filter)
            if self.filter.low_hz >= 0.5 * MS_PER_S / step_ms:
                raise NotAssessable(
                    f"the run's step of {context.clock.step_s:g} s holds none",
                    Need.FINER,
                )
            running = RunningFilter(self.filter.sections(step_ms), n)
            signal = check.signal
            check.signal = lambda chunk: signal(running.filter(chunk))
            check.measure = unfiltered = SignalHistogram(signal, n)
            check.extra_text = lambda: (
                f"without the filter {to_mw(max(unfiltered.result().max, 0)):.4g} MW"
            )
            check.note = "; ".join(filter(None, (band_caveats.note, check.note)))
            check.scope = "; ".join(filter(None, (band_caveats.scope, check.scope)))
            check.event = None
            check.text += (
                f" (causal Butterworth of order {self.filter.order}, started at rest "
                "at the first value, its first "
                f"{running.n_settling * step_ms / MS_PER_S:.4g} s left out)"
            )
        yield check


class RunningFilter:
    """Filter of a series in chunks: its state continues from one chunk to the next.

    The filter starts in steady state at the first value; its output during the start-up
    is left out. `sections` are coefficients of second-order sections, shape (n, 6).
    Before each filtered chunk, earlier values are repeated as windows of `n_kept`
    values need them.
    """

    def __init__(self, sections: Float64Array, n_kept: int) -> None:
        self._sections, self._n_kept = sections, n_kept
        poles = np.concatenate([np.roots(row[3:]) for row in sections])
        self.n_settling = int(np.ceil(np.log(SETTLED) / np.log(np.abs(poles).max())))
        # For a constant input of 1 the band-pass gives 0, so the first section's state
        # cancels its input.
        self._rest = np.zeros((len(sections), 2))
        self._rest[0] = -sections[0, 0], sections[0, 2]
        self._end_ms: int | None = None
        self._n_left_out = 0

    def filter(self, chunk: Chunk) -> Chunk:
        """Return the filtered chunk, with the preceding values that windows need."""
        new = chunk.new.astype(np.float64)
        if not new.size:
            return Chunk(chunk.new, 0, chunk.end_ms, chunk.step_ms)
        # The first chunk, or a gap before it
        if self._end_ms != chunk.end_ms - new.size * chunk.step_ms:
            self._state, self._n_left_out = self._rest * new[0], self.n_settling
            self._tail = chunk.new[:0]
        self._end_ms = chunk.end_ms
        _filter(new, self._sections, self._state)
        skipped = min(self._n_left_out, new.size)
        self._n_left_out -= skipped
        values = np.concatenate([self._tail, np.rint(new[skipped:]).astype(np.int64)])
        self._tail = values[max(values.size - self._n_kept + 1, 0) :].copy()
        return Chunk(values, new.size - skipped, chunk.end_ms, chunk.step_ms)


@njit()
def _filter(values: Float64Array, sections: Float64Array, state: Float64Array) -> None:
    """Filter values in place, by the transposed direct form II."""
    for row in range(sections.shape[0]):
        b0, b1, b2, _, a1, a2 = sections[row]
        first, second = state[row]
        for k in range(values.size):
            value = values[k]
            values[k] = b0 * value + first
            first = b1 * value - a1 * values[k] + second
            second = b2 * value - a2 * values[k]
        state[row, 0], state[row, 1] = first, second


class _SpectralWindowLimit(Band, LimitSpec):
    """Limit on a quantity of 10-minute spectral windows, one every 5 minutes."""

    is_sized_for = True

    def _check(
        self,
        context: SeriesContext,
        amount: PowerBound,
        make_signal: Callable[[tuple[float, float]], Signal],
    ) -> Check:
        if reason := no_spectrum_reason(context.clock.step_ms):
            raise NotAssessable(reason, Need.FINER)
        seen_hz, caveats = context.visible_band(self)
        first = max(np.ceil(self.low_hz / RESOLUTION_HZ - 1e-6), 1)
        if first >= seen_hz / RESOLUTION_HZ - 1e-6:
            none = "holds no bin of a 10-minute window (multiples of 1/600 Hz)"
            if caveats.note:
                raise NotAssessable(
                    f"seen up to {seen_hz:.3g} Hz, it {none}", Need.FINER
                )
            raise NotAssessable(
                f"it {none}, whatever the run; give it a width of 1/600 Hz or more"
            )
        limit, reference = amount.resolve(context)
        return Check(
            f"{self.quantity}{reference}",
            limit,
            "MW",
            WINDOW_MS,
            STRIDE_MS,
            make_signal((self.low_hz, seen_hz)),
            WINDOW_MS // context.clock.step_ms,
            **caveats._asdict(),
        )


class BandLimit(_SpectralWindowLimit):
    """Largest rms of the load in a frequency band, over 10-minute windows."""

    key = "band_rms"

    max_rms_mw: PowerBound = Field(description="Maximum rms [MW].")

    @property
    def quantity(self) -> str:
        """Text of the limited quantity: rms in a frequency band."""
        return BAND.format(self.band)

    def changes_mw(self) -> Iterator[tuple[str, PowerBound, float, float]]:
        """Yield the rms, which is at most half of the load's range."""
        yield "", self.max_rms_mw, 1.0, 0

    def checks(self, context: SeriesContext) -> Iterator[Check]:
        """Yield the check on the rms of each spectral window."""
        yield self._check(context, self.max_rms_mw, band_rms)


class LineLimit(_SpectralWindowLimit):
    """Largest amplitude, half of peak to peak, of a spectral line in a band.

    A spectral line is a peak above the noise floor of its 10-minute window, as defined
    for the metrics. Its amplitude is √2 times its rms, as for a sine. In a window
    without a line, the amplitude is 0.
    """

    key = "lines"

    max_amplitude_mw: PowerBound = Field(description="Maximum amplitude, ± [MW].")

    @property
    def quantity(self) -> str:
        """Text of the limited quantity: amplitude of a spectral line in a band."""
        return f"amplitude of a line in {self.band}"

    def checks(self, context: SeriesContext) -> Iterator[Check]:
        """Yield the check on the strongest line of each spectral window."""
        yield self._check(context, self.max_amplitude_mw, line_amplitude)
