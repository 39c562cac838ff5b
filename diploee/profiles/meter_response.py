"""Response of power meters: averaging gain, aliasing, known meters, resolvable range.

A reading averaged over a window w has the gain ``G(f) = |sinc(f w)|`` at frequency f. A
reading taken every dt aliases frequencies k/dt - f to f, relative to the gain, by
``A(f) = max over k >= 1 of |sinc((k/dt - f) w)| / G(f)``.

Symbols: f frequency [Hz], w averaging window [s], dt interval of readings [s], sinc(x)
= sin(pi x) / (pi x). Levels are trusted up to G = 0.9 and A = 0.1, and flagged up to G
= 0.71 and A = 1/3 (ASSUMPTION for both bounds of A).

Windows are fitted to the edges of open traces: 65 to 72 edges per GPU of the H100 and
H200, 19 falling edges of the A100 (grantwilkins/training_profile,
Leo-hxu/training-power-trace-explorer, eve123xy/power-traces-browser). They agree with
arXiv:2312.02741.

See also: docs/models/metrics.md
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import ConfigDict, Field

from diploee.base.errors import Brief, ProfileError
from diploee.base.tables import MAX_SIZE, Float64Array

_NonNegative = Annotated[float, Field(ge=0, le=MAX_SIZE, strict=True)]


@dataclass(frozen=True)
class MeterModel(Brief):
    """A model of the meter that produced a profile's readings."""

    field: str = "other"  # such as `power.draw`, `power.draw.instant`, `energy`
    # GPU that the meter belongs to; None if unknown, or not a GPU's
    gpu: str | None = None
    # Means over a window, instantaneous values, or differences of an energy counter
    kind: Literal["boxcar", "instant", "counter", "unknown"] = "unknown"
    # Averaging window [s]; assumed if the kind is unknown
    window_s: _NonNegative | None = None
    window_uncertainty: _NonNegative | None = None  # fraction of the window
    refresh_s: _NonNegative | None = None  # interval between new values [s]
    polled_s: _NonNegative | None = None  # interval between readings [s]
    lti: bool = False  # linear and time-invariant: the gain can be divided out
    source: str = "unknown"  # source of these facts

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(
        extra="ignore", allow_inf_nan=False
    )

    def read(
        self, power_w: Float64Array, step_s: float
    ) -> tuple[Float64Array, Float64Array]:
        """Simulate the meter's readings of a power series.

        Parameters
        ----------
        power_w : numpy.ndarray, shape (..., n)
            Mean power over even steps [W], which should be finer than the meter's
            window.
        step_s : float
            The step [s].

        Returns
        -------
        t_s : numpy.ndarray, shape (m,)
            Times of the readings [s since the start], from the first complete window
            on.
        readings_w : numpy.ndarray, shape (..., m)
            Readings [W]: the value of the last refresh.

        Raises
        ------
        ProfileError
            If the meter's kind, window or polling is unknown, or the series is too
            short.
        """
        power_w = np.asarray(power_w, dtype=np.float64)
        window_s = self.polled_s if self.kind == "counter" else self.window_s
        if self.kind == "unknown" or window_s is None or not self.polled_s:
            raise ProfileError(
                f"meter {self.description}: expected its kind, window and polling to "
                "be known; give a known meter"
            )
        end_s = power_w.shape[-1] * step_s
        first_s = -self._last_refresh_s(np.array([-window_s]))[0]
        t_s = np.arange(first_s, end_s + 1e-9 * end_s, self.polled_s)
        if not t_s.size:
            raise ProfileError(
                f"meter: power of {end_s:g} s, expected {first_s:g} s at least"
            )
        refreshed_s = self._last_refresh_s(t_s)
        if not window_s:
            index = np.minimum(
                (refreshed_s / step_s + 1e-6).astype(np.int64), power_w.shape[-1] - 1
            )
            return t_s, power_w[..., index]
        is_counter = self.kind == "counter"
        window_start_s = (
            self._last_refresh_s(t_s - window_s)
            if is_counter
            else refreshed_s - window_s
        )
        energy_j = _energy_j(power_w, step_s, refreshed_s) - _energy_j(
            power_w, step_s, window_start_s
        )
        return t_s, energy_j / window_s

    @property
    def description(self) -> str:
        """One-line description of the meter: field, GPU, kind, window, source."""
        gpu_text = f" of {self.gpu}" if self.gpu else ""
        error = f" +-{self.window_uncertainty:.0%}" if self.window_uncertainty else ""
        window = "" if self.window_s is None else f", window {self.window_s:g} s{error}"
        return f"{self.field}{gpu_text}: {self.kind}{window} ({self.source})"

    @property
    def interval_s(self) -> float:
        """Interval between new readings [s]."""
        return max(self.polled_s or 0.0, self.refresh_s or 0.0)

    @property
    def resolvable_range(self) -> ResolvableRange | None:
        """Resolvable range of the readings; None if the window is unknown."""
        return (
            None
            if self.window_s is None
            else resolvable_range(self.window_s, self.interval_s)
        )

    @property
    def restored_hz(self) -> float:
        """Frequency up to which the meter's gain can be divided out [Hz].

        Raises `ProfileError` if the meter does not allow it.
        """
        window_s, interval_s = self.window_s or np.inf, self.interval_s
        last_hz = float(f"{RESTORED_WINDOWS[1] / window_s:.2g}")
        is_linear_mean = self.kind == "boxcar" and self.lti and last_hz > 0
        is_restorable = (
            is_linear_mean and 0 < (self.window_uncertainty or 0) <= MAX_UNCERTAIN
        )
        if (
            not is_restorable
            or _max_aliasing(np.array([last_hz]), window_s, interval_s)[0] > 0.1
        ):
            raise ProfileError(
                f"meter {self.description}, a reading each {interval_s:g} s: can't be "
                "restored, expected means over a window that is the same at all times "
                f"and known to {MAX_UNCERTAIN:.0%}, and readings that fold little; "
                "import it without --restore, or name its GPU (--gpu)"
            )
        return last_hz

    def restore(self, power_w: Float64Array, step_s: float) -> Float64Array:
        """Return readings over even steps with the gain divided out, shape (n,) [W].

        The gain is divided out up to the frequency where it is known to a few percent.
        Each value is then limited to the range of the readings in the three windows
        around it, as edges would overshoot otherwise. The mean is unchanged, and no
        power is negative.

        Raises
        ------
        ProfileError
            If the meter does not allow it.
        """
        from scipy.fft import dct, idct
        from scipy.ndimage import maximum_filter1d, minimum_filter1d

        assert self.restored_hz and self.window_s
        frequency = np.arange(power_w.size) * (
            self.window_s / (2 * power_w.size * step_s)
        )
        first, _, last = RESTORED_WINDOWS
        weight = (
            1 + np.cos(np.pi * np.clip((frequency - first) / (last - first), 0, 1))
        ) / 2
        known_spectrum = dct(power_w) * weight / np.sinc(np.minimum(frequency, last))
        n_near = 2 * round(1.5 * self.window_s / step_s) + 1
        min_w, max_w = (
            minimum_filter1d(power_w, n_near),
            maximum_filter1d(power_w, n_near),
        )
        estimate_w = idct(known_spectrum)
        for _ in range(_PASSES):
            estimate_w = idct(
                known_spectrum + (1 - weight) * dct(np.clip(estimate_w, min_w, max_w))
            )
        estimate_w = np.maximum(estimate_w, 0.0)
        restored_w: Float64Array = estimate_w * (
            power_w.mean() / max(estimate_w.mean(), 1e-9)
        )
        return restored_w

    def _last_refresh_s(self, t_s: Float64Array) -> Float64Array:
        """Return the time of the last refresh before each time [s]."""
        if not self.refresh_s:
            return t_s
        return np.asarray(np.floor(t_s / self.refresh_s + 1e-6) * self.refresh_s)


def _energy_j(power_w: Float64Array, step_s: float, t_s: Float64Array) -> Float64Array:
    """Return the cumulative energy at each time [J], shape (..., m)."""
    whole = np.clip((t_s / step_s + 1e-6).astype(np.int64), 0, power_w.shape[-1] - 1)
    before_j = np.cumsum(power_w, axis=-1) * step_s
    before_j = np.concatenate([np.zeros_like(before_j[..., :1]), before_j], axis=-1)
    return np.asarray(
        before_j[..., whole] + power_w[..., whole] * (t_s - whole * step_s)
    )


TRUSTED_WINDOWS = 0.25
"""Maximum frequency times window of trusted levels: a gain of 0.9."""
FLAGGED_WINDOWS = 0.44
"""Maximum frequency times window of flagged levels: a gain of 0.71, half the power."""
RESTORED_WINDOWS = (0.606, 0.707, 0.808)
"""Frequency times window up to which restored levels are trusted, flagged, and nonzero.

At 0.7 Hz the gain of a 1.01 s window is 0.35; an error of 2 % of the window causes an
error of 6 % of the level.
"""
RESTORED_TRUSTED = RESTORED_WINDOWS[0] / RESTORED_WINDOWS[1]
MAX_UNCERTAIN = 0.05
_PASSES = 20
_MAX_FOLDED = (0.1, 1 / 3)
_POINTS, _MULTIPLES = 2_001, 50


class ResolvableRange(NamedTuple):
    """The frequencies and steps that readings can resolve."""

    trusted_hz: float
    # Maximum frequency of levels reported with a flag; 0 if all are aliased
    flagged_hz: float
    min_step_s: float  # shortest resolved step; faster steps are lower bounds [s]
    is_sampled: bool  # True if sampling limits the range, False if the window does


@lru_cache
def resolvable_range(window_s: float, interval_s: float) -> ResolvableRange:
    """Return the resolvable range of readings averaged over a window, one per interval.

    A window of 0 means no averaging; an interval of 0 means continuous readings.
    """
    gains_hz = folds_hz = [np.inf, np.inf]
    if window_s:
        gains_hz = [TRUSTED_WINDOWS / window_s, FLAGGED_WINDOWS / window_s]
    if interval_s:
        at_hz = np.linspace(0, min(gains_hz[1], 0.5 / interval_s), _POINTS)
        fold = _max_aliasing(at_hz, window_s, interval_s)
        exceeding = [np.flatnonzero(fold > max_alias) for max_alias in _MAX_FOLDED]
        folds_hz = [
            at_hz[max(points[0] - 1, 0)] if points.size else np.inf
            for points in exceeding
        ]
    trusted_hz, flagged_hz = map(min, gains_hz, folds_hz)
    is_sampled = folds_hz[0] < gains_hz[0]
    if interval_s:  # no window of a meter is known better
        trusted_hz, flagged_hz = (
            float(f"{value:.2g}") for value in (trusted_hz, flagged_hz)
        )
    min_step_s = float(f"{2 * max(window_s, interval_s):.2g}")
    return ResolvableRange(trusted_hz, flagged_hz, min_step_s, is_sampled)


def _max_aliasing(
    at_hz: Float64Array, window_s: float, interval_s: float
) -> Float64Array:
    """Return the maximum aliasing at each frequency, relative to the gain: A(f)."""
    others_hz = np.arange(1, _MULTIPLES)[:, None] / interval_s - at_hz
    max_alias = np.abs(np.sinc(others_hz * window_s)).max(axis=0)
    return np.asarray(max_alias / np.abs(np.sinc(at_hz * window_s)))


_EDGES = "edges, open traces [C], arXiv:2312.02741 [S]"
_MEAN = r"\b.* power\.draw(\.average)?$"
_KNOWN = {
    r"\bH[12]00" + _MEAN: MeterModel(
        "", "", "boxcar", 1.01, 0.02, 0.1, None, True, f"65-72 {_EDGES}"
    ),
    r"\bA100.* power\.draw$": MeterModel(
        "", "", "boxcar", 0.025, 0.4, 0.1, None, True, f"19 {_EDGES}"
    ),
    r"\bL40S" + _MEAN: MeterModel(
        source="138 edges in open traces [C]: rises and falls differ"
    ),
    r"\bB300" + _MEAN: MeterModel(
        source="reads 38 % low on a swing at 2.5 Hz, window unknown [S]"
    ),
    r" power\.draw\.instant$": MeterModel(
        kind="instant", window_s=0.0, source="NVML API reference [S]"
    ),
    # ASSUMPTION: a counter is refreshed at least as often as it is read
    r" energy$": MeterModel(
        kind="counter", lti=True, source="differences of an energy counter [A]"
    ),
}
"""Known meters by a pattern of the GPU's name and the field."""

UNKNOWN_WINDOW_S = 1.0
"""Averaging window of an unknown meter [s] (ASSUMPTION: as of the H100 and H200)."""


def known_meter(
    field: str, gpu: str | None, polled_s: float, window_s: float | None = None
) -> MeterModel:
    """Return the meter model of a field of a GPU.

    Parameters
    ----------
    field : str
        ``"power.draw"``, ``"power.draw.average"``, ``"power.draw.instant"`` or
        ``"energy"``; anything else is unknown.
    gpu : str, optional
        Name of the GPU, such as ``"A100"`` or ``"NVIDIA H100 80GB HBM3"``.
    polled_s : float
        Interval between readings [s].
    window_s : float, optional
        Averaging window, if known from elsewhere [s]; 0 for none.
    """
    name = f"{(gpu or '').upper()} {field}"
    candidates = (
        meter for pattern, meter in _KNOWN.items() if re.search(pattern, name)
    )
    result = replace(
        next(candidates, MeterModel()), field=field, gpu=gpu, polled_s=polled_s
    )
    if window_s is not None:
        result = replace(
            result, window_s=window_s, window_uncertainty=None, source="window as given"
        )
        kind: Any = "boxcar" if window_s else "instant"
        return replace(result, kind=kind) if result.kind == "unknown" else result
    if result.kind == "unknown":
        return replace(result, window_s=max(UNKNOWN_WINDOW_S, polled_s))
    return replace(result, window_s=polled_s) if result.kind == "counter" else result
