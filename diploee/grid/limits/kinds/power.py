"""Limits on power: peak, daily energy, load factor and minimum take.

Power factor, Q range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, model_validator

from diploee.base.measures.series import (
    QUANTA_PER_MW,
    Chunk,
    ClockSums,
    Signal,
    SignalChunk,
)
from diploee.base.model import PositiveShare, default, unset
from diploee.base.tables import Float64Array
from diploee.base.units import MS_PER_DAY, MS_PER_H, MS_PER_MIN
from diploee.grid.limits.check import (
    NO_NOMINAL,
    Check,
    LimitSpec,
    NotAssessable,
    Positive,
    PowerBound,
    SeriesContext,
    check_of_run,
    in_kw,
    power_check,
)
from diploee.runs.formatting import interval
from diploee.scenario.times import ResolutionMs

QUARTER_MS = 15 * MS_PER_MIN


def _means_mw(sums: ClockSums) -> SignalChunk | None:
    """Return the means of the whole clock intervals [MW]."""
    result = sums.result()
    if not result.counts.size:
        return None
    starts_ms = result.starts_ms
    end_ms = starts_ms[-1] + result.counts[-1] * sums.clock.step_ms
    return SignalChunk(result.mean_mw, int(starts_ms[0]), np.append(starts_ms, end_ms))


def _energies_mwh(sums: ClockSums) -> SignalChunk | None:
    means = _means_mw(sums)
    if means is None or means.edges_ms is None:
        return None
    return means._replace(values=means.values * (np.diff(means.edges_ms) / MS_PER_H))


def _monthly_mw(sums: ClockSums) -> SignalChunk | None:
    """Return the largest mean of each local month that lies wholly in the run [MW]."""
    means, clock = _means_mw(sums), sums.clock
    if means is None or means.edges_ms is None:
        return None
    starts_ms = means.edges_ms[:-1]
    months = [
        (int(starts_ms[rows.start]), float(means.values[rows].max()))
        for month, rows in clock.month_slices(starts_ms)
        if clock.month(int(starts_ms[rows.start]) - 1) != month
        and clock.next_month_ms(int(starts_ms[rows.start])) <= means.edges_ms[-1]
    ]
    if not months:
        return None
    begins_ms, largest = zip(*months, strict=True)
    edges_ms = np.array([*begins_ms, clock.next_month_ms(begins_ms[-1])])
    return SignalChunk(np.array(largest), begins_ms[0], edges_ms)


class _ClockLimit(LimitSpec):
    """Limit on sums over clock intervals, excluding incomplete intervals."""

    def _clocked(
        self,
        shown: SeriesContext,
        interval_ms: int,
        limit: tuple[float, str],
        of: Callable[[ClockSums], SignalChunk | None],
        unit: str = "MW",
        **options: Any,
    ) -> Check:
        """Return a check of what `of` makes of the sums.

        `limit` with how it came about.
        """
        shown.aligned(interval_ms)
        sums, (size, how) = ClockSums(shown.clock, interval_ms), limit
        said = shown.of_mean(interval_ms), in_kw(size, shown) if unit == "MW" else ""
        return Check(
            f"{self.what}{how}",
            size,
            unit,
            interval_ms,
            interval_ms,
            measure=sums,
            at_end=partial(of, sums),
            scope="; ".join(filter(None, said)),
            **options,
        )


class PeakLimit(_ClockLimit):
    """Largest power, of a mean over clock intervals or the run's own means."""

    key = "peaks"

    max_mw: PowerBound = Field(description="Maximum power [MW].")
    interval: ResolutionMs | None = unset(
        "Clock interval of the mean; the run's resolution if absent."
    )

    @property
    def what(self) -> str:
        """The limited quantity."""
        means = f", {interval(self.interval)} clock means" if self.interval else ""
        return f"power{means}"

    def checks(self, shown: SeriesContext) -> Iterator[Check]:
        """Yield the check."""
        limit, of = self.max_mw.of(shown)
        if self.interval is not None:
            yield self._clocked(
                shown, self.interval, (limit, of), _means_mw, whole=True
            )
            return
        step_s = shown.clock.step_s
        check = power_check(
            f"power, {step_s:g} s means{of}", limit, shown, ("peak", step_s, "")
        )
        check.scope = "; ".join(filter(None, (check.scope, in_kw(limit, shown))))
        yield check

    def drawn(self, step_ms: int) -> Iterator[tuple[str, PowerBound, float, int]]:
        """Yield a chart line for the power."""
        yield "power", self.max_mw, 1.0, self.interval or step_ms


class _DailyEnergyLimit(_ClockLimit):
    """Largest energy of a local calendar day [MWh]."""

    key, number = "daily_energy_mwh", "max_mwh"

    max_mwh: Positive

    @property
    def what(self) -> str:
        """The limited quantity."""
        return "energy of a local day"

    def checks(self, shown: SeriesContext) -> Iterator[Check]:
        """Yield the check."""
        limit = self.max_mwh, ""
        yield self._clocked(
            shown, MS_PER_DAY, limit, _energies_mwh, unit="MWh", whole=True
        )


class LoadFactorLimit(_ClockLimit):
    """Least load factor of the run.

    Mean power over its maximum demand, or over nominal power.
    """

    key = "load_factor"

    min: PositiveShare = Field(description="Minimum load factor [1].")
    of: Literal["peak", "nominal"] = default(
        "peak", "Reference: the run's maximum demand, or nominal power."
    )
    interval: ResolutionMs = default(
        QUARTER_MS, "Clock interval of the maximum demand, '15 min' if absent."
    )

    @property
    def what(self) -> str:
        """The limited quantity."""
        peak = f"maximum demand over {interval(self.interval)}"
        return (
            f"load factor, mean over {peak if self.of == 'peak' else 'nominal power'}"
        )

    def checks(self, shown: SeriesContext) -> Iterator[Check]:
        """Yield the check."""
        shown.aligned(self.interval)
        if self.of == "nominal" and not shown.nominal_mw:
            raise NotAssessable(NO_NOMINAL)

        sums = ClockSums(shown.clock, self.interval)

        def factor() -> float | None:
            means_mw = sums.result().mean_mw
            if not means_mw.size or not means_mw.max() > 0:
                if means_mw.size:
                    check.why_none = NotAssessable(
                        "there is no load; run a site with jobs or services"
                    )
                return None
            whole_mw = means_mw.max() if self.of == "peak" else shown.nominal_mw
            return float(means_mw.mean()) / whole_mw

        check = check_of_run(
            self.what,
            self.min,
            "",
            shown,
            sums,
            factor,
            span_ms=self.interval,
            least=True,
            whole=True,
        )
        yield check


class MinimumTakeLimit(_ClockLimit):
    """Least maximum demand of each whole local month, as in some tariffs."""

    key = "minimum_take"

    min_mw: PowerBound = Field(
        description="Minimum demand [MW], such as {percent_of_nominal: 85}."
    )
    interval: ResolutionMs = default(
        QUARTER_MS, "Clock interval of the maximum demand, '15 min' if absent."
    )

    @property
    def what(self) -> str:
        """The limited quantity."""
        return f"maximum demand of a month over {interval(self.interval)}"

    def checks(self, shown: SeriesContext) -> Iterator[Check]:
        """Yield the check."""
        yield self._clocked(
            shown, self.interval, self.min_mw.of(shown), _monthly_mw, least=True
        )

    def drawn(self, step_ms: int) -> Iterator[tuple[str, PowerBound, float, int]]:  # noqa: ARG002
        """Yield a chart line for the demand."""
        yield "power", self.min_mw, 1.0, self.interval


Factor = Annotated[float | None, Field(gt=0, le=1)]


class _Reactive(LimitSpec):
    """Limit on the active and reactive power of an interval."""

    needs_reactive = True

    def _check(
        self,
        shown: SeriesContext,
        text: str,
        limit: float,
        unit: str,
        signal: Signal,
        least: bool,
    ) -> Check:
        if not shown.has_reactive:
            raise NotAssessable(
                "the run has no reactive power; give its node types 'ac_power' and "
                "run it again"
            )
        step_ms = shown.clock.step_ms
        return Check(
            text, limit, unit, step_ms, step_ms, signal, least=least, whole=True
        )


class PowerFactorLimit(_Reactive):
    """Least power factor, |P| / √(P² + Q²), with Q drawn or given."""

    key = "power_factor"

    min_lagging: Factor = unset("Minimum while reactive power is drawn [1].")
    min_leading: Factor = unset("Minimum while reactive power is supplied [1].")

    @model_validator(mode="after")
    def _some(self) -> PowerFactorLimit:
        if self.min_lagging is None and self.min_leading is None:
            raise ValueError("give min_lagging or min_leading")
        return self

    @property
    def what(self) -> str:
        """The limited quantity."""
        return "power factor"

    def checks(self, shown: SeriesContext) -> Iterator[Check]:
        """Yield a check for each side."""
        for side, sign in (("lagging", 1), ("leading", -1)):
            limit = getattr(self, f"min_{side}")
            if limit is not None:
                text = f"{self.what}, {side}"
                yield self._check(
                    shown, text, limit, "", _power_factor(sign), least=True
                )


def _power_factor(sign: int) -> Signal:
    def of(stretch: Chunk) -> SignalChunk | None:
        if stretch.reactive is None:
            return None
        p, q = (
            np.abs(stretch.new).astype(np.float64),
            np.maximum(sign * stretch.reactive, 0.0),
        )
        apparent = np.hypot(p, q)
        factor: Float64Array = np.divide(
            p, apparent, out=np.ones_like(p), where=apparent > 0
        )
        return SignalChunk(factor, stretch.new_ms)

    return of


class ReactivePowerLimit(_Reactive):
    """Range of reactive power, drawn counted positive."""

    key = "reactive_power"

    min_mvar: float | None = unset(
        "Minimum reactive power, negative if supplied [Mvar]."
    )
    max_mvar: float | None = unset("Maximum reactive power [Mvar].")

    @model_validator(mode="after")
    def _some(self) -> ReactivePowerLimit:
        low, high = self.min_mvar, self.max_mvar
        if low is None and high is None:
            raise ValueError("give min_mvar or max_mvar")
        if low is not None and high is not None and low >= high:
            raise ValueError(
                f"max_mvar must be above min_mvar, found {low:g} to {high:g}"
            )
        return self

    @property
    def what(self) -> str:
        """The limited quantity."""
        return "reactive power"

    def checks(self, shown: SeriesContext) -> Iterator[Check]:
        """Yield a check for each end."""
        for end, least in (("max", False), ("min", True)):
            limit = getattr(self, f"{end}_mvar")
            if limit is not None:
                text = f"{'least' if least else 'largest'} {self.what}"
                yield self._check(shown, text, limit, "Mvar", _reactive_power, least)


def _reactive_power(stretch: Chunk) -> SignalChunk | None:
    if stretch.reactive is None:
        return None
    return SignalChunk(stretch.reactive / QUANTA_PER_MW, stretch.new_ms)
