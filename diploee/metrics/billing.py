"""Demand billing by month: billing determinants and tariff rules.

The tariff rules calculate billed demand from the user's parameters, without prices (see
docs/meter.md).

See also: docs/models/metrics.md
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import hypot
from typing import Any

import numpy as np

from diploee.base.clock import WallClock
from diploee.base.errors import InputError, one_of
from diploee.base.measures.streaming import QUANTA_PER_MW, ClockSums, Intervals
from diploee.base.units import MS_PER_H, MS_PER_MIN
from diploee.facility.point_of_interconnection import Billing
from diploee.metrics.demand import absent_demand, demand_sums, load_factor

RATCHET_MONTHS = 11
"""Number of earlier months that a ratchet demand considers."""


def power_factor(active: float, reactive: float) -> float | None:
    """Return the power factor P / sqrt(P^2 + Q^2) of two powers or two energies.

    The result is None if both are 0.
    """
    apparent = hypot(active, reactive)
    return active / apparent if apparent else None


def mwh_from_quanta(quanta: int, step_ms: int) -> float:
    """Convert a sum of fixed-point power over `step_ms` intervals to [MWh or Mvarh]."""
    return quanta / QUANTA_PER_MW * step_ms / MS_PER_H


def adjust_for_power_factor(
    demand: float, power_factor: float | None, min_power_factor: float
) -> float:
    """Return a demand raised for a power factor below the minimum.

    The demand is multiplied by the ratio of minimum to actual power factor.
    """
    return (
        demand * min_power_factor / power_factor
        if power_factor and power_factor < min_power_factor
        else demand
    )


def excess_reactive_demand(
    reactive_demand: float, demand: float, free_fraction: float
) -> float:
    """Return the reactive demand (import positive) above a free fraction.

    `free_fraction` is that of the active demand.
    """
    return max(0.0, reactive_demand - free_fraction * max(demand, 0.0))


def ratchets(demands: Sequence[float], fraction: float) -> list[tuple[float, bool]]:
    """Return each month's ratchet demand, and True if it may be higher.

    The ratchet demand is `fraction` (0-1) times the highest demand of up to 11 earlier
    months, and 0 in the first month. It may be higher if the run has fewer than 11
    earlier months.
    """
    earlier_demands = (
        demands[max(k - RATCHET_MONTHS, 0) : k] for k in range(len(demands))
    )
    return [
        (fraction * max(earlier, default=0.0), len(earlier) < RATCHET_MONTHS)
        for earlier in earlier_demands
    ]


@dataclass
class MonthSums:
    """Sums of one local month in fixed-point units (1/64 W, 1/64 var)."""

    begin_ms: int  # a time in the month
    n: int = 0  # number of intervals
    # Sum of power by column with a role
    quanta: Counter[str] = field(default_factory=Counter)
    total: int = 0  # net power at the meter
    gross: int = 0  # net power plus the output of sources and batteries
    exported: int = 0  # net power below 0
    drawn: int = 0  # reactive power of intervals in which it is drawn
    supplied: int = 0  # reactive power of intervals in which it is supplied

    def add(self, other: MonthSums) -> None:
        """Add the sums of another month."""
        for name in ("n", "total", "gross", "exported", "drawn", "supplied"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.quanta.update(other.quanta)

    def reactive(self, step_ms: int) -> dict[str, float | None]:
        """Return reactive energy by direction [Mvarh], and each power factor.

        Power factors are calculated from imported energy; exported energy is not
        subtracted.
        """
        imported = self.total + self.exported
        return {
            "drawn_mvarh": mwh_from_quanta(self.drawn, step_ms),
            "supplied_mvarh": mwh_from_quanta(self.supplied, step_ms),
            "lagging_power_factor": power_factor(imported, self.drawn),
            "leading_power_factor": power_factor(imported, self.supplied),
        }


class BillingDemand:
    """Accumulator of demand at 15, 30 and 60 minutes, for the `billing` block.

    Raises `InputError` if the tariff rules use a demand interval that the run's step
    does not divide.
    """

    def __init__(self, clock: WallClock, rules: Billing | None = None) -> None:
        self._clock, self._rules = clock, rules
        self._active, self._reactive = (
            demand_sums(clock),
            demand_sums(clock, reactive=True),
        )
        if rules and (
            reason := clock.alignment_problem(rules.interval_min * MS_PER_MIN)
        ):
            raise InputError(
                "facility.stages, point_of_interconnection: billing.interval_min: "
                f"{rules.interval_min} min is {reason}; have: "
                f"{one_of(list(self._active))}"
            )

    @property
    def measures(self) -> Iterable[ClockSums]:
        """Accumulators of active and reactive power."""
        return *self._active.values(), *self._reactive.values()

    def block(self, months: Mapping[str, MonthSums]) -> dict[str, Any]:
        """Return the `billing` block with an entry per local month of the run."""
        active = {minutes: sums.result() for minutes, sums in self._active.items()}
        demand_by_month = {
            minutes: self._by_month(minutes, value, self._reactive[minutes].result())
            for minutes, value in active.items()
        }
        entries = []
        for month, sums in months.items():
            entry = self._month_entry(month, sums)
            month_demands = (
                value[month] for value in demand_by_month.values() if month in value
            )
            mean_mw = entry["energy_mwh"] / entry["hours"]
            entry["demand"] = [
                demand | {"load_factor": load_factor(mean_mw, demand["max_mw"])}
                for demand in month_demands
            ]
            entries.append(entry)
        if self._rules is not None:
            _add_billed_demand(entries, self._rules)
        return {
            "resolution_s": self._clock.step_s,
            "months": entries,
            "absent": absent_demand(self._clock, active),
        }

    def _by_month(
        self, minutes: int, active: Intervals, reactive: Intervals
    ) -> dict[str, dict[str, Any]]:
        """Return the maximum demands of each local month with a whole interval.

        As in meters, an interval's apparent power is calculated from its mean active
        and its mean reactive power. It is at most the mean of the apparent power.
        """
        p_mw, q_mvar = active.mean_mw, reactive.mean_mw
        s_mva = np.hypot(p_mw, q_mvar)
        result: dict[str, dict[str, Any]] = {}
        for month, rows in self._clock.month_slices(active.starts_ms):
            rows_of_maximum = [
                rows.start + int(np.argmax(v[rows]))
                for v in (p_mw, s_mva, q_mvar, -q_mvar)
            ]
            times = [self._clock.iso(int(active.starts_ms[k])) for k in rows_of_maximum]
            result[month] = {
                "interval_min": minutes,
                "max_mw": float(p_mw[rows_of_maximum[0]]),
                "time": times[0],
                "power_factor": power_factor(
                    float(p_mw[rows_of_maximum[0]]), float(q_mvar[rows_of_maximum[0]])
                ),
                "max_mva": float(s_mva[rows_of_maximum[1]]),
                "max_mva_time": times[1],
                "max_mvar": float(q_mvar[rows_of_maximum[2]]),
                "max_mvar_time": times[2],
                "min_mvar": float(q_mvar[rows_of_maximum[3]]),
                "min_mvar_time": times[3],
            }
        return result

    def _month_entry(self, month: str, sums: MonthSums) -> dict[str, Any]:
        """Return the entry of a month without demands."""
        clock = self._clock
        end_ms = clock.next_month_ms(sums.begin_ms)
        first = clock.at(sums.begin_ms).replace(
            day=1, hour=0, minute=0, second=0, microsecond=0
        )
        hours = sums.n * clock.step_ms / MS_PER_H
        return {
            "month": month,
            "complete": sums.n * clock.step_ms == end_ms - clock.time_ms(first),
            "hours": hours,
            "energy_mwh": mwh_from_quanta(sums.total, clock.step_ms),
            "exported_mwh": mwh_from_quanta(sums.exported, clock.step_ms),
            **sums.reactive(clock.step_ms),
        }


def _add_billed_demand(entries: list[dict[str, Any]], rules: Billing) -> None:
    """Add the billed demand of the tariff rules to each month's entry.

    Assumed (judgement): the rules are applied in the order power factor, ratchet,
    minimum; and the power factor is the month's average, without exported reactive
    energy.
    """
    billed, is_complete = [], []
    for entry in entries:
        demand = next(
            (d for d in entry["demand"] if d["interval_min"] == rules.interval_min),
            None,
        )
        if demand is None:
            continue
        # A month that only exports has no demand to bill.
        result = {
            "interval_min": rules.interval_min,
            "max_mw": max(demand["max_mw"], 0.0),
        }
        if rules.power_factor_min is not None:
            result["max_mw"] = result["for_power_factor_mw"] = adjust_for_power_factor(
                result["max_mw"], entry["lagging_power_factor"], rules.power_factor_min
            )
        if rules.kvar_free_share is not None:
            result["reactive_mvar"] = excess_reactive_demand(
                demand["max_mvar"], demand["max_mw"], rules.kvar_free_share
            )
        entry["billed"] = result
        billed.append(result)
        is_complete.append(entry["complete"])
    if rules.ratchet is not None:
        ratchet_demands = ratchets(
            [result["max_mw"] for result in billed], rules.ratchet
        )
        for k, (result, (ratchet_mw, lower_bound)) in enumerate(
            zip(billed, ratchet_demands, strict=True)
        ):
            # The demand of an incomplete month may have been higher.
            lower_bound |= not all(is_complete[max(k - RATCHET_MONTHS, 0) : k])
            result |= {"ratchet_mw": ratchet_mw, "lower_bound": lower_bound}
            result["max_mw"] = max(result["max_mw"], ratchet_mw)
    if rules.contract_minimum_mw is not None:
        for result in billed:
            result["max_mw"] = max(result["max_mw"], rules.contract_minimum_mw)
