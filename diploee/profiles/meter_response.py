"""Meters of power: what they make of power, which they are, what they can show.

A reading over a window w has the gain G(f) = abs(sinc(f w)) at f, and one taken every
dt folds into f what is at k/dt - f, by A(f) = max over k >= 1 of abs(sinc((k/dt - f)
w)) / G(f). Levels are trusted up to G = 0.9 and A = 0.1, and flagged up to G = 0.71 and
A = 1/3, ASSUMPTION for both bounds of A.

Windows are fitted to the edges of open traces [C]: 65 to 72 edges a GPU of the H100 and
H200, 19 falls of the A100 (grantwilkins/training_profile,
Leo-hxu/training-power-trace-explorer, eve123xy/power-traces-browser). They agree with
arXiv:2312.02741 [S].

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

_Size = Annotated[float, Field(ge=0, le=MAX_SIZE, strict=True)]


@dataclass(frozen=True)
class MeterModel(Brief):
    """How the readings of a profile came about."""

    field: str = "other"  # such as `power.draw`, `power.draw.instant`, `energy`
    # GPU whose meter it is; None where it is unknown, or no GPU's
    gpu: str | None = None
    # Means over a window, values at instants, or differences of an energy counter
    kind: Literal["boxcar", "instant", "counter", "unknown"] = "unknown"
    # Of the means [s]; of an unknown kind the one that is assumed
    window_s: _Size | None = None
    window_uncertainty: _Size | None = None  # as a part of the window
    refresh_s: _Size | None = None  # interval at which there is a new value [s]
    polled_s: _Size | None = None  # interval at which it was read [s]
    lti: bool = False  # linear, and the same at all times: its gain can be divided out
    source: str = "unknown"  # of these facts

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(
        extra="ignore", allow_inf_nan=False
    )

    def read(
        self, power_w: Float64Array, step_s: float
    ) -> tuple[Float64Array, Float64Array]:
        """Return what the meter makes of a course of power.

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
            When it is polled [s from the start], from the first whole window on.
        readings_w : numpy.ndarray, shape (..., m)
            What it shows then [W]: the value of its last refresh.

        Raises
        ------
        ProfileError
            If the meter's kind, window or polling is unknown, or the course is too
            short for it.
        """
        power_w = np.asarray(power_w, dtype=np.float64)
        window_s = self.polled_s if self.kind == "counter" else self.window_s
        if self.kind == "unknown" or window_s is None or not self.polled_s:
            raise ProfileError(
                f"meter {self.words}: expected its kind, window and polling to be "
                "known; give a known meter"
            )
        end_s = power_w.shape[-1] * step_s
        first_s = -self._refreshed(np.array([-window_s]))[0]
        t_s = np.arange(first_s, end_s + 1e-9 * end_s, self.polled_s)
        if not t_s.size:
            raise ProfileError(
                f"meter: power of {end_s:g} s, expected {first_s:g} s at least"
            )
        shown_s = self._refreshed(t_s)
        if not window_s:
            at = np.minimum(
                (shown_s / step_s + 1e-6).astype(np.int64), power_w.shape[-1] - 1
            )
            return t_s, power_w[..., at]
        is_counter = self.kind == "counter"
        since_s = self._refreshed(t_s - window_s) if is_counter else shown_s - window_s
        energy_j = _energy_j(power_w, step_s, shown_s) - _energy_j(
            power_w, step_s, since_s
        )
        return t_s, energy_j / window_s

    @property
    def words(self) -> str:
        """The meter in one line."""
        of = f" of {self.gpu}" if self.gpu else ""
        error = f" +-{self.window_uncertainty:.0%}" if self.window_uncertainty else ""
        window = "" if self.window_s is None else f", window {self.window_s:g} s{error}"
        return f"{self.field}{of}: {self.kind}{window} ({self.source})"

    @property
    def interval_s(self) -> float:
        """Time between two new readings [s]."""
        return max(self.polled_s or 0.0, self.refresh_s or 0.0)

    @property
    def reach(self) -> ResolvableRange | None:
        """Reach of its readings; None where its window is unknown."""
        return None if self.window_s is None else reach(self.window_s, self.interval_s)

    @property
    def restored_hz(self) -> float:
        """Frequency up to which its gain can be divided out [Hz].

        Refused where it can't be.
        """
        window_s, interval_s = self.window_s or np.inf, self.interval_s
        last_hz = float(f"{RESTORED_WINDOWS[1] / window_s:.2g}")
        is_mean = self.kind == "boxcar" and self.lti and last_hz > 0
        is_known = is_mean and 0 < (self.window_uncertainty or 0) <= MAX_UNCERTAIN
        if not is_known or _fold(np.array([last_hz]), window_s, interval_s)[0] > 0.1:
            raise ProfileError(
                f"meter {self.words}, a reading each {interval_s:g} s: can't be "
                "restored, expected means over a window that is the same at all times "
                f"and known to {MAX_UNCERTAIN:.0%}, and readings that fold little; "
                "import it without --restore, or name its GPU (--gpu)"
            )
        return last_hz

    def restore(self, power_w: Float64Array, step_s: float) -> Float64Array:
        """Return readings over even steps without the meter's gain, shape (n,) [W].

        It is divided out where it is known to a few percent. Above, each value is free
        to be within the readings of the three windows about it, as edges would
        overshoot otherwise. The mean is kept, and no power is negative.

        Raises
        ------
        ProfileError
            If the meter does not allow it.
        """
        from scipy.fft import dct, idct
        from scipy.ndimage import maximum_filter1d, minimum_filter1d

        assert self.restored_hz and self.window_s
        at = np.arange(power_w.size) * (self.window_s / (2 * power_w.size * step_s))
        first, _, last = RESTORED_WINDOWS
        part = (1 + np.cos(np.pi * np.clip((at - first) / (last - first), 0, 1))) / 2
        known = dct(power_w) * part / np.sinc(np.minimum(at, last))
        n_near = 2 * round(1.5 * self.window_s / step_s) + 1
        least_w, most_w = (
            minimum_filter1d(power_w, n_near),
            maximum_filter1d(power_w, n_near),
        )
        found_w = idct(known)
        for _ in range(_PASSES):
            found_w = idct(known + (1 - part) * dct(np.clip(found_w, least_w, most_w)))
        found_w = np.maximum(found_w, 0.0)
        restored_w: Float64Array = found_w * (
            power_w.mean() / max(found_w.mean(), 1e-9)
        )
        return restored_w

    def _refreshed(self, t_s: Float64Array) -> Float64Array:
        """Return the last time before each at which there was a new value [s]."""
        if not self.refresh_s:
            return t_s
        return np.asarray(np.floor(t_s / self.refresh_s + 1e-6) * self.refresh_s)


def _energy_j(power_w: Float64Array, step_s: float, t_s: Float64Array) -> Float64Array:
    """Return the energy up to each time [J], shape (..., m)."""
    whole = np.clip((t_s / step_s + 1e-6).astype(np.int64), 0, power_w.shape[-1] - 1)
    before_j = np.cumsum(power_w, axis=-1) * step_s
    before_j = np.concatenate([np.zeros_like(before_j[..., :1]), before_j], axis=-1)
    return np.asarray(
        before_j[..., whole] + power_w[..., whole] * (t_s - whole * step_s)
    )


TRUSTED_WINDOWS = 0.25
"""Frequency times window up to which levels are trusted: a gain of 0.9 or more."""
FLAGGED_WINDOWS = 0.44
"""Frequency times window up to which they are flagged: a gain of 0.71, half of the
power."""
RESTORED_WINDOWS = (0.606, 0.707, 0.808)
"""Frequency times window to where restored levels are trusted, flagged, and nothing is
left [C].

At 0.7 Hz the gain of 1.01 s is 0.35; 2 % of the window are 6 % of the level there.
"""
RESTORED_TRUSTED = RESTORED_WINDOWS[0] / RESTORED_WINDOWS[1]
MAX_UNCERTAIN = 0.05
_PASSES = 20
_MAX_FOLDED = (0.1, 1 / 3)
_POINTS, _MULTIPLES = 2_001, 50


class ResolvableRange(NamedTuple):
    """The frequencies and steps that readings show."""

    trusted_hz: float
    # Up to where levels are given with a flag; 0 where all of them fold
    flagged_hz: float
    min_step_s: float  # a step over less is a lower bound
    is_sampled: bool  # the sampling decides, not the window


@lru_cache
def reach(window_s: float, interval_s: float) -> ResolvableRange:
    """Return what means over a window, one every interval, show.

    0 is none of either.
    """
    gains_hz = folds_hz = [np.inf, np.inf]
    if window_s:
        gains_hz = [TRUSTED_WINDOWS / window_s, FLAGGED_WINDOWS / window_s]
    if interval_s:
        at_hz = np.linspace(0, min(gains_hz[1], 0.5 / interval_s), _POINTS)
        fold = _fold(at_hz, window_s, interval_s)
        beyond = [np.flatnonzero(fold > most) for most in _MAX_FOLDED]
        folds_hz = [at_hz[max(of[0] - 1, 0)] if of.size else np.inf for of in beyond]
    trusted_hz, flagged_hz = map(min, gains_hz, folds_hz)
    is_sampled = folds_hz[0] < gains_hz[0]
    if interval_s:  # no window of a meter is known better
        trusted_hz, flagged_hz = (
            float(f"{value:.2g}") for value in (trusted_hz, flagged_hz)
        )
    min_step_s = float(f"{2 * max(window_s, interval_s):.2g}")
    return ResolvableRange(trusted_hz, flagged_hz, min_step_s, is_sampled)


def _fold(at_hz: Float64Array, window_s: float, interval_s: float) -> Float64Array:
    """Return the largest part of another frequency that readings fold into each."""
    others_hz = np.arange(1, _MULTIPLES)[:, None] / interval_s - at_hz
    most = np.abs(np.sinc(others_hz * window_s)).max(axis=0)
    return np.asarray(most / np.abs(np.sinc(at_hz * window_s)))


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
    # ASSUMPTION [A]: a counter is refreshed at least as often as it is read
    r" energy$": MeterModel(
        kind="counter", lti=True, source="differences of an energy counter [A]"
    ),
}
"""Meters by a pattern of the GPU's name and the field."""

UNKNOWN_WINDOW_S = 1.0
"""ASSUMPTION: an unknown meter averages over 1 s, as those of the H100 and H200 do."""


def known_meter(
    field: str, gpu: str | None, polled_s: float, window_s: float | None = None
) -> MeterModel:
    """Return the meter of a field of a GPU.

    Parameters
    ----------
    field : str
        ``"power.draw"``, ``"power.draw.average"``, ``"power.draw.instant"`` or
        ``"energy"``; anything else is unknown.
    gpu : str, optional
        Name of the GPU, such as ``"A100"`` or ``"NVIDIA H100 80GB HBM3"``.
    polled_s : float
        Interval at which it was read [s].
    window_s : float, optional
        Averaging window where it is known otherwise [s]; 0 for none.
    """
    name = f"{(gpu or '').upper()} {field}"
    known = (meter for pattern, meter in _KNOWN.items() if re.search(pattern, name))
    result = replace(next(known, MeterModel()), field=field, gpu=gpu, polled_s=polled_s)
    if window_s is not None:
        result = replace(
            result, window_s=window_s, window_uncertainty=None, source="window as given"
        )
        kind: Any = "boxcar" if window_s else "instant"
        return replace(result, kind=kind) if result.kind == "unknown" else result
    if result.kind == "unknown":
        return replace(result, window_s=max(UNKNOWN_WINDOW_S, polled_s))
    return replace(result, window_s=polled_s) if result.kind == "counter" else result
