"""Limits on demand: peak, energy of a day, load factor, minimum take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from diploee.metrics.grid.demand import ClockSums
from diploee.metrics.grid.quanta import QUANTA_PER_MW, Stretch
from diploee.metrics.limits.check import (
    Amount,
    Check,
    LimitSpec,
    NotAssessable,
    Shown,
    Values,
    single,
)
from diploee.scenario.spans import ResolutionMs
from diploee.tables import Int64Array
from diploee.units import MS_PER_DAY, MS_PER_H, MS_PER_MIN, MS_PER_S

QUARTER_MS = 15 * MS_PER_MIN


def _length(interval_ms: int) -> str:
    minutes, rest_ms = divmod(interval_ms, MS_PER_MIN)
    return f"{interval_ms / MS_PER_S:g} s" if rest_ms or not minutes else f"{minutes} min"


class _Clocked:
    """Sums over clock intervals; those seen in part are left out."""

    def __init__(self, shown: Shown, interval_ms: int) -> None:
        shown.aligned(interval_ms)
        self._sums, self._clock = ClockSums(shown.clock, interval_ms), shown.clock

    def collect(self, stretch: Stretch, _: Int64Array | None) -> None:
        self._sums.add(stretch.new, stretch.end_ms - stretch.n_new * stretch.step_ms)

    def means_mw(self) -> Values | None:
        """Return the means of the intervals [MW]."""
        sums, starts_ms, counts = self._sums.complete()
        if not starts_ms.size:
            return None
        edges_ms = np.append(starts_ms, starts_ms[-1] + counts[-1] * self._clock.step_ms)
        return Values(sums / counts / QUANTA_PER_MW, int(starts_ms[0]), edges_ms)

    def energies_mwh(self) -> Values | None:
        """Return the energies of the intervals [MWh]."""
        means = self.means_mw()
        if means is None or means.edges_ms is None:
            return None
        hours = np.diff(means.edges_ms) / MS_PER_H
        return means._replace(values=means.values * hours)

    def monthly_mw(self) -> Values | None:
        """Return the largest mean of each local month that lies wholly in the run [MW]."""
        means = self.means_mw()
        if means is None or means.edges_ms is None:
            return None
        begin_ms, end_ms, edges_ms = means.first_ms, int(means.edges_ms[-1]), [means.first_ms]
        if self._clock.month(begin_ms - 1) == self._clock.month(begin_ms):
            edges_ms = [self._clock.next_month_ms(begin_ms)]
        while (next_ms := self._clock.next_month_ms(edges_ms[-1])) <= end_ms:
            edges_ms.append(next_ms)
        if len(edges_ms) < 2:
            return None
        rows = np.searchsorted(means.edges_ms, edges_ms)
        largest = np.maximum.reduceat(means.values[: rows[-1]], rows[:-1])
        return Values(largest, edges_ms[0], np.array(edges_ms))


class PeakLimit(LimitSpec):
    """Largest power: of a mean over clock intervals, or of the run's own interval means."""

    max_mw: Amount = Field(description="Largest power [MW].")
    interval: ResolutionMs | None = Field(
        default=None, description="Clock interval of the mean; the run's resolution if absent."
    )

    @property
    def what(self) -> str:
        """What is limited."""
        return f"power, {_length(self.interval)} clock means" if self.interval else "power"

    def checks(self, shown: Shown) -> Iterator[Check]:
        """Yield the check."""
        limit, of = self.max_mw.of(shown)
        if self.interval is not None:
            clocked, span_ms = _Clocked(shown, self.interval), self.interval
            yield Check(
                f"{self.what}{of}", limit, "MW", span_ms, span_ms, clocked.collect,
                at_end=clocked.means_mw, whole=True,
            )  # fmt: skip
            return
        step_ms, step_s = shown.clock.step_ms, shown.clock.step_s

        def power(stretch: Stretch, _: Int64Array | None) -> Values:
            begin_ms = stretch.end_ms - stretch.n_new * stretch.step_ms
            return Values(stretch.new / QUANTA_PER_MW, begin_ms)

        yield Check(
            f"power, {step_s:g} s means{of}", limit, "MW", step_ms, step_ms, power,
            event=("peak", step_s, ""), whole=True,
        )  # fmt: skip


class DailyEnergyLimit(LimitSpec):
    """Largest energy of a local calendar day."""

    max_mwh: float

    @property
    def what(self) -> str:
        """What is limited."""
        return "energy of a local day"

    def checks(self, shown: Shown) -> Iterator[Check]:
        """Yield the check."""
        clocked = _Clocked(shown, MS_PER_DAY)
        yield Check(
            self.what, self.max_mwh, "MWh", MS_PER_DAY, MS_PER_DAY, clocked.collect,
            at_end=clocked.energies_mwh, whole=True,
        )  # fmt: skip


class LoadFactorLimit(LimitSpec):
    """Least load factor of the run: mean power over its maximum demand, or over nominal power."""

    min: Annotated[float, Field(gt=0, le=1)] = Field(description="Least load factor [1].")
    of: Literal["peak", "nominal"] = Field(
        default="peak", description="Own maximum demand, or nominal power."
    )
    interval: ResolutionMs = Field(
        default=QUARTER_MS, description="Clock interval of the maximum demand, '15 min' if absent."
    )

    @property
    def what(self) -> str:
        """What is limited."""
        peak = f"maximum demand over {_length(self.interval)}"
        return f"load factor, mean over {peak if self.of == 'peak' else 'nominal power'}"

    def checks(self, shown: Shown) -> Iterator[Check]:
        """Yield the check."""
        clocked = _Clocked(shown, self.interval)
        if self.of == "nominal" and not shown.nominal_mw:
            raise NotAssessable("the run tells no nominal power")

        def factor() -> Values | None:
            means = clocked.means_mw()
            if means is None:
                return None
            if not means.values.max() > 0:
                check.why_none = "there is no load"
                return None
            whole_mw = means.values.max() if self.of == "peak" else shown.nominal_mw
            return single(float(means.values.mean()) / whole_mw, 0, shown.horizon_ms)

        check = Check(
            self.what, self.min, "", self.interval, shown.horizon_ms, clocked.collect,
            at_end=factor, least=True, of_run=True,
        )  # fmt: skip
        yield check


class MinimumTakeLimit(LimitSpec):
    """Least maximum demand of each whole local month, as of tariffs with a minimum take."""

    min_mw: Amount = Field(description="Least demand [MW], such as {percent_of_nominal: 85}.")
    interval: ResolutionMs = Field(
        default=QUARTER_MS, description="Clock interval of the maximum demand, '15 min' if absent."
    )

    @property
    def what(self) -> str:
        """What is limited."""
        return f"maximum demand of a month over {_length(self.interval)}"

    def checks(self, shown: Shown) -> Iterator[Check]:
        """Yield the check."""
        limit, of = self.min_mw.of(shown)
        clocked = _Clocked(shown, self.interval)
        yield Check(
            f"{self.what}{of}", limit, "MW", self.interval, self.interval, clocked.collect,
            at_end=clocked.monthly_mw, least=True,
        )  # fmt: skip
