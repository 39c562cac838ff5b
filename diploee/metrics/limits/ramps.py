"""Limits on ramps: of adjacent means or of end points, up, down or either, all or a percentile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
from pydantic import Field, model_validator

from diploee.metrics.grid.histogram import SignedHistogram
from diploee.metrics.grid.quanta import QUANTA_PER_MW, Stretch
from diploee.metrics.grid.ramps import RAMP, ramp_sums
from diploee.metrics.limits.check import (
    Amount,
    Check,
    LimitSpec,
    Percent,
    Shown,
    Values,
    single,
)
from diploee.scenario.spans import ResolutionMs
from diploee.tables import Int64Array
from diploee.units import MS_PER_MIN, MS_PER_S

_WAYS = ("up", "down", "")
_UNITS = (("s", MS_PER_S), ("min", MS_PER_MIN))


class RampLimit(LimitSpec):
    """Largest ramp over an interval, by either of two definitions.

    ``adjacent_means``: ``(mean(P over [t, t + L)) - mean(P over [t - L, t))) / L``, as the metrics
    have it; ``end_points``: ``(P(t + L) - P(t)) / L`` of the run's own interval means. The first is
    never above the largest of the second; both slide by the run's resolution.
    """

    interval: ResolutionMs = Field(description="Length of the ramp, such as '1 min'.")
    between: Literal["adjacent_means", "end_points"] = Field(
        default="adjacent_means", description="What is compared: means over the interval, or ends."
    )
    percentile: Percent | None = Field(
        default=None,
        description="Percentile of the sizes of all ramps that is limited, in place of the "
        "largest; with mw_per_s or mw_per_min.",
    )
    up_mw_per_s: Amount | None = Field(default=None, description="Largest rise [MW/s].")
    down_mw_per_s: Amount | None = Field(default=None, description="Largest fall [MW/s].")
    mw_per_s: Amount | None = Field(default=None, description="Largest change either way [MW/s].")
    up_mw_per_min: Amount | None = Field(default=None, description="Largest rise [MW/min].")
    down_mw_per_min: Amount | None = Field(default=None, description="Largest fall [MW/min].")
    mw_per_min: Amount | None = Field(
        default=None, description="Largest change either way [MW/min]."
    )

    @model_validator(mode="after")
    def _some_rate(self) -> RampLimit:
        rates = list(self.rates())
        if not rates:
            raise ValueError(
                "give a rate: up_mw_per_s, down_mw_per_s, mw_per_s, or the same in _per_min"
            )
        if self.percentile is not None and any(way for way, *_ in rates):
            raise ValueError("a percentile is of ramps either way: give mw_per_s or mw_per_min")
        return self

    def rates(self) -> Iterator[tuple[str, Amount, str, int]]:
        """Yield direction, rate, unit and the unit's time [ms] of every limit that is set."""
        for per, per_ms in _UNITS:
            for way in _WAYS:
                amount = getattr(self, f"{way}_mw_per_{per}".removeprefix("_"))
                if amount is not None:
                    yield way, amount, f"MW/{per}", per_ms

    @property
    def what(self) -> str:
        """What is limited."""
        return f"ramp over {self.interval / MS_PER_S:g} s"

    def changes_mw(self) -> Iterator[tuple[Amount, float]]:
        """Yield each rate with how often its time goes into the interval."""
        for _, amount, _, per_ms in self.rates():
            yield amount, self.interval / per_ms

    def checks(self, shown: Shown) -> Iterator[Check]:
        """Yield one check for each rate."""
        shown.held(self.interval)
        n, step_ms = self.interval // shown.clock.step_ms, shown.clock.step_ms
        means = self.between == "adjacent_means"
        for way, amount, unit, per_ms in self.rates():
            limit, of = amount.of(shown)
            ramps = _Ramps(self, n, way, per_ms)
            text = RAMP.format(way or "either way", f"{self.interval / MS_PER_S:g} s")
            text += "" if means else ", end points"
            check = Check(
                f"{text}{of}", limit, unit, self.interval, step_ms, ramps.measure,
                n_window=2 * n if means else n + 1,
                note=shown.step_note(self.interval, between_points=not means),
                event=("ramps", self.interval / MS_PER_S, way) if means and way else None,
                in_windows=self.percentile is None,
            )  # fmt: skip
            if self.percentile is not None:
                ramps.horizon_ms = check.exceedance.stride_ms = shown.horizon_ms
                check.text = f"P{self.percentile:g} of {text}{of}"
                check.measure, check.at_end = ramps.collect, ramps.percentile
                check.of_run = True
            yield check


class _Ramps:
    """Ramps of one length and direction."""

    def __init__(self, limit: RampLimit, n: int, way: str, per_ms: int) -> None:
        self._n, self._way, self._percent = n, way, limit.percentile
        self._means = limit.between == "adjacent_means"
        self._per_quantum = (
            1 / QUANTA_PER_MW / (n if self._means else 1) / (limit.interval / per_ms)
        )
        self._sizes = SignedHistogram()
        self.horizon_ms = 0

    def _quanta(self, stretch: Stretch) -> tuple[Int64Array, int]:
        n = self._n
        if self._means:
            found, first_ms = ramp_sums(stretch, n)
            first_ms -= n * stretch.step_ms  # a ramp's time is the start of its window
        else:
            part = stretch.windows_of(n + 1)
            found, first_ms = part.values[n:] - part.values[:-n], part.begin_ms
        return (found if self._way == "up" else -found if self._way else np.abs(found)), first_ms

    def measure(self, stretch: Stretch, _: Int64Array | None) -> Values:
        quanta, first_ms = self._quanta(stretch)
        return Values(quanta.astype(np.float64) * self._per_quantum, first_ms)

    def collect(self, stretch: Stretch, _: Int64Array | None) -> None:
        self._sizes.add(*self._quanta(stretch), stretch.step_ms)

    def percentile(self) -> Values | None:
        if not self._sizes.count or self._percent is None:
            return None
        value = self._sizes.percentile(self._percent) * self._per_quantum
        return single(value, 0, self.horizon_ms)
