"""Limits on ramps: of adjacent means or of end points, up, down or either, all or a percentile."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Literal

import numpy as np
from pydantic import Field, model_validator

from diploee.measures.series import QUANTA_PER_MW, Signal, Stretch, Values
from diploee.measures.sliding import Sizes, differences, ramps
from diploee.metrics.grid.changes import RAMP
from diploee.metrics.limits.check import Amount, Check, LimitSpec, Percent, Shown, single
from diploee.scenario.spans import ResolutionMs
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
        n_window, per_mean = (2 * n, n) if means else (n + 1, 1)
        signal = ramps(n) if means else differences(n)
        for way, amount, unit, per_ms in self.rates():
            limit, of = amount.of(shown)
            text = RAMP.format(way or "either way", f"{self.interval / MS_PER_S:g} s")
            text += f"{'' if means else ', end points'}{of}"
            note = shown.step_note(self.interval, between_points=not means)
            scale = 1 / QUANTA_PER_MW / per_mean / (self.interval / per_ms)
            if self.percentile is None:
                yield Check(
                    text, limit, unit, self.interval, step_ms, _sizes(signal, way, scale), n_window,
                    note=note, event=("ramps", self.interval / MS_PER_S, way)
                    if means and way else None, in_windows=True,
                )  # fmt: skip
                continue
            sizes = Sizes(_sizes(signal, way), n_window)
            yield Check(
                f"P{self.percentile:g} of {text}", limit, unit, self.interval, shown.horizon_ms,
                n_window=n_window, measure=sizes, note=note, of_run=True,
                at_end=partial(_percentile, sizes, self.percentile, scale, shown.horizon_ms),
            )  # fmt: skip


def _sizes(signal: Signal, way: str, scale: float = 1) -> Signal:
    """Return the sizes of changes up, down, or either way, scaled."""

    def of(stretch: Stretch) -> Values | None:
        if (found := signal(stretch)) is None:
            return None
        values = found.values if way == "up" else -found.values if way else np.abs(found.values)
        return found._replace(values=values if scale == 1 else values * scale)

    return of


def _percentile(sizes: Sizes, percent: float, scale: float, horizon_ms: int) -> Values | None:
    seen = sizes.result()
    return single(seen.percentile(percent) * scale, 0, horizon_ms) if seen.count else None
