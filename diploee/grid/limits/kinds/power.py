"""Limits on power, demand and reactive power, each a YAML key of a limits file.

They are peak, energy of a day, load factor, minimum demand of a month, power factor,
and reactive power.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, model_validator

from diploee.base.measures.streaming import (
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
    power_check,
    unit_question,
)
from diploee.runs.formatting import interval
from diploee.scenario.times import ResolutionMs

QUARTER_MS = 15 * MS_PER_MIN


def _means_mw(sums: ClockSums) -> SignalChunk | None:
    """Return the mean power of all complete clock intervals [MW]."""
    result = sums.result()
    if not result.counts.size:
        return None
    starts_ms = result.starts_ms
    end_ms = starts_ms[-1] + result.counts[-1] * sums.clock.step_ms
    return SignalChunk(result.mean_mw, int(starts_ms[0]), np.append(starts_ms, end_ms))


def _energies_mwh(sums: ClockSums) -> SignalChunk | None:
    """Return the energy of all complete clock intervals [MWh]."""
    means = _means_mw(sums)
    if means is None or means.edges_ms is None:
        return None
    return means._replace(values=means.values * (np.diff(means.edges_ms) / MS_PER_H))


def _monthly_mw(sums: ClockSums) -> SignalChunk | None:
    """Return the largest interval mean of each complete local month [MW]."""
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
    """Limit on means or energies of complete clock intervals."""

    def _interval_check(
        self,
        context: SeriesContext,
        interval_ms: int,
        limit: tuple[float, str],
        values_from: Callable[[ClockSums], SignalChunk | None],
        unit: str = "MW",
        **options: Any,
    ) -> Check:
        """Return a check on values that `values_from` computes from interval sums.

        `limit` is the largest or smallest allowed value, and text on its reference.
        """
        context.require_alignment(interval_ms)
        sums, (size, reference) = ClockSums(context.clock, interval_ms), limit
        scopes = (
            context.mean_scope(interval_ms),
            unit_question(size, context) if unit == "MW" else "",
        )
        return Check(
            f"{self.quantity}{reference}",
            size,
            unit,
            interval_ms,
            interval_ms,
            measure=sums,
            at_end=partial(values_from, sums),
            scope="; ".join(filter(None, scopes)),
            **options,
        )


class PeakLimit(_ClockLimit):
    """Largest power, as a mean over clock intervals or over the run's steps."""

    key = "peaks"

    max_mw: PowerBound = Field(description="Maximum power [MW].")
    interval: ResolutionMs | None = unset(
        "Clock interval of the mean; the run's resolution if absent."
    )

    @property
    def quantity(self) -> str:
        """Text of the limited quantity: power, and the interval of its mean."""
        means = f", {interval(self.interval)} clock means" if self.interval else ""
        return f"power{means}"

    def checks(self, context: SeriesContext) -> Iterator[Check]:
        """Yield the check on the power or its interval means."""
        limit, reference = self.max_mw.resolve(context)
        if self.interval is not None:
            yield self._interval_check(
                context, self.interval, (limit, reference), _means_mw, with_warm_up=True
            )
            return
        step_s = context.clock.step_s
        check = power_check(
            f"power, {step_s:g} s means{reference}",
            limit,
            context,
            ("peak", step_s, ""),
        )
        check.scope = "; ".join(
            filter(None, (check.scope, unit_question(limit, context)))
        )
        yield check

    def chart_lines(self, step_ms: int) -> Iterator[tuple[str, PowerBound, float, int]]:
        """Yield a chart line for the largest power."""
        yield "power", self.max_mw, 1.0, self.interval or step_ms


class _DailyEnergyLimit(_ClockLimit):
    """Largest energy of a local calendar day [MWh]."""

    key, number = "daily_energy_mwh", "max_mwh"

    max_mwh: Positive

    @property
    def quantity(self) -> str:
        """Text of the limited quantity: energy of a local day."""
        return "energy of a local day"

    def checks(self, context: SeriesContext) -> Iterator[Check]:
        """Yield the check on the energy of each complete local day."""
        limit = self.max_mwh, ""
        yield self._interval_check(
            context, MS_PER_DAY, limit, _energies_mwh, unit="MWh", with_warm_up=True
        )


class LoadFactorLimit(_ClockLimit):
    """Least load factor: mean power over maximum demand, or over nominal power."""

    key = "load_factor"

    min: PositiveShare = Field(description="Minimum load factor [1].")
    of: Literal["peak", "nominal"] = default(
        "peak", "Reference: the run's maximum demand, or nominal power."
    )
    interval: ResolutionMs = default(
        QUARTER_MS, "Clock interval of the maximum demand, '15 min' if absent."
    )

    @property
    def quantity(self) -> str:
        """Text of the limited quantity: load factor and its reference."""
        peak = f"maximum demand over {interval(self.interval)}"
        return (
            f"load factor, mean over {peak if self.of == 'peak' else 'nominal power'}"
        )

    def checks(self, context: SeriesContext) -> Iterator[Check]:
        """Yield the check on the load factor of the whole run."""
        context.require_alignment(self.interval)
        if self.of == "nominal" and not context.nominal_mw:
            raise NotAssessable(NO_NOMINAL)

        sums = ClockSums(context.clock, self.interval)

        def factor() -> float | None:
            means_mw = sums.result().mean_mw
            if not means_mw.size or not means_mw.max() > 0:
                if means_mw.size:
                    check.why_none = NotAssessable(
                        "there is no load; run a site with jobs or services"
                    )
                return None
            base_mw = means_mw.max() if self.of == "peak" else context.nominal_mw
            return float(means_mw.mean()) / base_mw

        check = check_of_run(
            self.quantity,
            self.min,
            "",
            context,
            sums,
            factor,
            span_ms=self.interval,
            least=True,
            with_warm_up=True,
        )
        yield check


class MinimumTakeLimit(_ClockLimit):
    """Least maximum demand of each complete local month, as in some tariffs."""

    key = "minimum_take"

    min_mw: PowerBound = Field(
        description="Minimum demand [MW], such as {percent_of_nominal: 85}."
    )
    interval: ResolutionMs = default(
        QUARTER_MS, "Clock interval of the maximum demand, '15 min' if absent."
    )

    @property
    def quantity(self) -> str:
        """Text of the limited quantity: maximum demand of a month."""
        return f"maximum demand of a month over {interval(self.interval)}"

    def checks(self, context: SeriesContext) -> Iterator[Check]:
        """Yield the check on the maximum demand of each complete month."""
        yield self._interval_check(
            context,
            self.interval,
            self.min_mw.resolve(context),
            _monthly_mw,
            least=True,
        )

    def chart_lines(self, step_ms: int) -> Iterator[tuple[str, PowerBound, float, int]]:  # noqa: ARG002
        """Yield a chart line for the least demand."""
        yield "power", self.min_mw, 1.0, self.interval


Factor = Annotated[float | None, Field(gt=0, le=1)]


class _ReactiveLimit(LimitSpec):
    """Limit on a quantity that needs the run's reactive power."""

    needs_reactive = True

    def _check(
        self,
        context: SeriesContext,
        text: str,
        limit: float,
        unit: str,
        signal: Signal,
        least: bool,
    ) -> Check:
        """Return a check on a signal of the means over the run's steps."""
        if not context.has_reactive:
            raise NotAssessable(
                "the run has no reactive power; give its node types 'ac_power' and "
                "run it again"
            )
        step_ms = context.clock.step_ms
        return Check(
            text, limit, unit, step_ms, step_ms, signal, least=least, with_warm_up=True
        )


class PowerFactorLimit(_ReactiveLimit):
    """Least power factor, |P| / √(P² + Q²), with Q absorbed or supplied."""

    key = "power_factor"

    min_lagging: Factor = unset("Minimum while reactive power is drawn [1].")
    min_leading: Factor = unset("Minimum while reactive power is supplied [1].")

    @model_validator(mode="after")
    def _some(self) -> PowerFactorLimit:
        if self.min_lagging is None and self.min_leading is None:
            raise ValueError("give min_lagging or min_leading")
        return self

    @property
    def quantity(self) -> str:
        """Text of the limited quantity: power factor."""
        return "power factor"

    def checks(self, context: SeriesContext) -> Iterator[Check]:
        """Yield a check on the power factor for each specified sign of Q."""
        for side, sign in (("lagging", 1), ("leading", -1)):
            limit = getattr(self, f"min_{side}")
            if limit is not None:
                text = f"{self.quantity}, {side}"
                yield self._check(
                    context, text, limit, "", _power_factor(sign), least=True
                )


def _power_factor(sign: int) -> Signal:
    """Return a signal: the power factor, with Q of the other sign counted as 0."""

    def factors(chunk: Chunk) -> SignalChunk | None:
        if chunk.reactive is None:
            return None
        p, q = (
            np.abs(chunk.new).astype(np.float64),
            np.maximum(sign * chunk.reactive, 0.0),
        )
        apparent = np.hypot(p, q)
        factor: Float64Array = np.divide(
            p, apparent, out=np.ones_like(p), where=apparent > 0
        )
        return SignalChunk(factor, chunk.new_ms)

    return factors


class ReactivePowerLimit(_ReactiveLimit):
    """Range of reactive power, positive if absorbed."""

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
    def quantity(self) -> str:
        """Text of the limited quantity: reactive power."""
        return "reactive power"

    def checks(self, context: SeriesContext) -> Iterator[Check]:
        """Yield a check on reactive power for each specified end of its range."""
        for end, least in (("max", False), ("min", True)):
            limit = getattr(self, f"{end}_mvar")
            if limit is not None:
                text = f"{'least' if least else 'largest'} {self.quantity}"
                yield self._check(context, text, limit, "Mvar", _reactive_power, least)


def _reactive_power(chunk: Chunk) -> SignalChunk | None:
    """Return the reactive power of a chunk [Mvar]; None without it."""
    if chunk.reactive is None:
        return None
    return SignalChunk(chunk.reactive / QUANTA_PER_MW, chunk.new_ms)
