"""Billing of demand, month by month: determinants of the demand, and rules on them.

Rules are functions with the user's parameters; there are no prices (see
docs/meter.md).
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
from diploee.base.measures.series import QUANTA_PER_MW, ClockSums, Intervals
from diploee.base.metric import Metric
from diploee.base.units import MS_PER_H, MS_PER_MIN
from diploee.facility.point_of_interconnection import Billing
from diploee.metrics.demand import absent_demand, demand_sums, load_factor

RATCHET_MONTHS = 11
"""Months before its own that a ratchet looks back."""

_MONTH = "billing.months.<month>"
_DEMAND = f"{_MONTH}.demand.<interval>"

BILLING_METRICS = (
    Metric(f"{_MONTH}.hours", "h", "hours of <month> that the run covers", "{:,.1f}"),
    Metric(
        f"{_MONTH}.energy_mwh",
        "MWh",
        "energy in <month>",
        "{:,.1f}",
        "drawn less exported",
    ),
    Metric(
        f"{_MONTH}.exported_mwh",
        "MWh",
        "energy exported to the grid in <month>",
        "{:,.1f}",
    ),
    Metric(
        f"{_MONTH}.drawn_mvarh",
        "Mvarh",
        "reactive energy drawn in <month>",
        "{:,.1f}",
        "sum over the intervals that draw it; what others supply is not taken off",
    ),
    Metric(
        f"{_MONTH}.supplied_mvarh",
        "Mvarh",
        "reactive energy supplied in <month>",
        "{:,.1f}",
    ),
    Metric(
        f"{_MONTH}.lagging_power_factor",
        "1",
        "average lagging power factor in <month>",
        "{:.2f}",
        text="energy over the root of its square and that of the drawn reactive energy",
    ),
    Metric(
        f"{_MONTH}.leading_power_factor",
        "1",
        "average leading power factor in <month>",
        "{:.2f}",
        text="the same with the supplied reactive energy",
    ),
    Metric(
        f"{_DEMAND}.max_mw",
        "MW",
        "maximum demand over <interval> in <month>",
        text="at the point of interconnection",
    ),
    Metric(f"{_DEMAND}.load_factor", "1", "load factor in <month>, <interval> demand"),
    Metric(
        f"{_DEMAND}.power_factor",
        "1",
        "power factor at the maximum demand, <interval>, <month>",
        "{:.2f}",
    ),
    Metric(
        f"{_DEMAND}.max_mva",
        "MVA",
        "maximum apparent demand over <interval> in <month>",
        text="of the interval's mean active and reactive power",
    ),
    Metric(
        f"{_DEMAND}.max_mvar",
        "Mvar",
        "maximum reactive demand over <interval> in <month>",
        text="drawn positive",
    ),
    Metric(
        f"{_DEMAND}.min_mvar",
        "Mvar",
        "minimum reactive demand over <interval> in <month>",
        text="below 0 where it is supplied",
    ),
    Metric(
        f"{_MONTH}.billed.interval_min",
        "min",
        "demand interval of the rules, <month>",
        "{:.0f}",
    ),
    Metric(
        f"{_MONTH}.billed.for_power_factor_mw",
        "MW",
        "demand after the rule of the power factor, <month>",
    ),
    Metric(
        f"{_MONTH}.billed.ratchet_mw",
        "MW",
        "demand that the ratchet asks for, <month>",
        text="of up to 11 months before; a lower bound where the run has fewer",
    ),
    Metric(f"{_MONTH}.billed.max_mw", "MW", "billed demand, <month>"),
    Metric(
        f"{_MONTH}.billed.reactive_mvar",
        "Mvar",
        "reactive demand beyond its free share, <month>",
    ),
)


def power_factor(active: float, reactive: float) -> float | None:
    """Return P / sqrt(P^2 + Q^2), of powers or energies in any unit.

    None where both are 0.
    """
    apparent = hypot(active, reactive)
    return active / apparent if apparent else None


def mwh(quanta: int, step_ms: int) -> float:
    """Return a sum of quanta over intervals of `step_ms` as energy [MWh or Mvarh]."""
    return quanta / QUANTA_PER_MW * step_ms / MS_PER_H


def for_power_factor(demand: float, found: float | None, least: float) -> float:
    """Return a demand raised by a power factor below the least."""
    return demand * least / found if found and found < least else demand


def beyond_free_share(reactive_demand: float, demand: float, share: float) -> float:
    """Return the reactive demand, drawn positive, above a free share of the demand."""
    return max(0.0, reactive_demand - share * max(demand, 0.0))


def ratchets(demands: Sequence[float], share: float) -> list[tuple[float, bool]]:
    """Return what a ratchet asks for in consecutive months, and if more is possible.

    That is `share`, 0-1, times the highest of up to 11 months before, 0 in the first
    month; more is possible where fewer than 11 months before are known.
    """
    before = (demands[max(k - RATCHET_MONTHS, 0) : k] for k in range(len(demands)))
    return [
        (share * max(past, default=0.0), len(past) < RATCHET_MONTHS) for past in before
    ]


@dataclass
class MonthSums:
    """Sums of one local month in quanta (1/64 W, var)."""

    begin_ms: int  # a time in the month
    n: int = 0  # intervals
    quanta: Counter[str] = field(default_factory=Counter)  # by column with a role
    total: int = 0  # of the power at the meter
    gross: int = 0  # of it with what sources and stores give
    exported: int = 0  # of what is below 0
    drawn: int = 0  # of the reactive power of intervals that draw it
    supplied: int = 0  # of that of intervals that supply it

    def add(self, other: MonthSums) -> None:
        """Add what another month adds up to."""
        for name in ("n", "total", "gross", "exported", "drawn", "supplied"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.quanta.update(other.quanta)

    def reactive(self, step_ms: int) -> dict[str, float | None]:
        """Return the reactive energy [Mvarh] by direction, and a power factor of each.

        Power factors are of the energy that is drawn: what is exported is not netted
        either.
        """
        imported = self.total + self.exported
        return {
            "drawn_mvarh": mwh(self.drawn, step_ms),
            "supplied_mvarh": mwh(self.supplied, step_ms),
            "lagging_power_factor": power_factor(imported, self.drawn),
            "leading_power_factor": power_factor(imported, self.supplied),
        }


class Demands:
    """Demand at 15, 30 and 60 minutes, and the `billing` block with a tariff's rules.

    Raises `InputError` if the rules take the demand of an interval that the run can't
    hold.
    """

    def __init__(self, clock: WallClock, rules: Billing | None = None) -> None:
        self._clock, self._rules = clock, rules
        self._active, self._reactive = (
            demand_sums(clock),
            demand_sums(clock, reactive=True),
        )
        if rules and (why := clock.why_not_aligned(rules.interval_min * MS_PER_MIN)):
            raise InputError(
                "facility.stages, point_of_interconnection: billing.interval_min: "
                f"{rules.interval_min} min is {why}; have: {one_of(list(self._active))}"
            )

    @property
    def measures(self) -> Iterable[ClockSums]:
        """Accumulators of active and reactive power."""
        return *self._active.values(), *self._reactive.values()

    def block(self, months: Mapping[str, MonthSums]) -> dict[str, Any]:
        """Return the block: an entry for every local month of the run."""
        active = {minutes: sums.result() for minutes, sums in self._active.items()}
        found = {
            minutes: self._by_month(minutes, of, self._reactive[minutes].result())
            for minutes, of in active.items()
        }
        entries = []
        for month, sums in months.items():
            entry = self._month(month, sums)
            of_month = (of[month] for of in found.values() if month in of)
            mean_mw = entry["energy_mwh"] / entry["hours"]
            entry["demand"] = [
                demand | {"load_factor": load_factor(mean_mw, demand["max_mw"])}
                for demand in of_month
            ]
            entries.append(entry)
        if self._rules is not None:
            _add_billed(entries, self._rules)
        return {
            "resolution_s": self._clock.step_s,
            "months": entries,
            "absent": absent_demand(self._clock, active),
        }

    def _by_month(
        self, minutes: int, active: Intervals, reactive: Intervals
    ) -> dict[str, dict[str, Any]]:
        """Return the largest demands of every local month that holds a whole interval.

        Apparent power is that of an interval's mean active and reactive power, as
        meters form it; it is no more than the mean of the apparent power.
        """
        p_mw, q_mvar = active.mean_mw, reactive.mean_mw
        s_mva = np.hypot(p_mw, q_mvar)
        found: dict[str, dict[str, Any]] = {}
        for month, rows in self._clock.months_in(active.starts_ms):
            at = [
                rows.start + int(np.argmax(v[rows]))
                for v in (p_mw, s_mva, q_mvar, -q_mvar)
            ]
            times = [self._clock.iso(int(active.starts_ms[k])) for k in at]
            found[month] = {
                "interval_min": minutes,
                "max_mw": float(p_mw[at[0]]),
                "time": times[0],
                "power_factor": power_factor(float(p_mw[at[0]]), float(q_mvar[at[0]])),
                "max_mva": float(s_mva[at[1]]),
                "max_mva_time": times[1],
                "max_mvar": float(q_mvar[at[2]]),
                "max_mvar_time": times[2],
                "min_mvar": float(q_mvar[at[3]]),
                "min_mvar_time": times[3],
            }
        return found

    def _month(self, month: str, sums: MonthSums) -> dict[str, Any]:
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
            "energy_mwh": mwh(sums.total, clock.step_ms),
            "exported_mwh": mwh(sums.exported, clock.step_ms),
            **sums.reactive(clock.step_ms),
        }


def _add_billed(entries: list[dict[str, Any]], rules: Billing) -> None:
    """Put what the rules make of each month's demand into its entry.

    ASSUMPTION: the rules follow one another as power factor, ratchet, minimum, and the
    power factor is the month's lagging average [J]; tariffs differ, the determinants
    stay.
    """
    billed, whole = [], []
    for entry in entries:
        demand = next(
            (d for d in entry["demand"] if d["interval_min"] == rules.interval_min),
            None,
        )
        if demand is None:
            continue
        # A month that only exports has no demand to bill.
        found = {
            "interval_min": rules.interval_min,
            "max_mw": max(demand["max_mw"], 0.0),
        }
        if rules.power_factor_min is not None:
            found["max_mw"] = found["for_power_factor_mw"] = for_power_factor(
                found["max_mw"], entry["lagging_power_factor"], rules.power_factor_min
            )
        if rules.kvar_free_share is not None:
            found["reactive_mvar"] = beyond_free_share(
                demand["max_mvar"], demand["max_mw"], rules.kvar_free_share
            )
        entry["billed"] = found
        billed.append(found)
        whole.append(entry["complete"])
    if rules.ratchet is not None:
        asked = ratchets([found["max_mw"] for found in billed], rules.ratchet)
        for k, (found, (ratchet_mw, lower_bound)) in enumerate(
            zip(billed, asked, strict=True)
        ):
            # What a month holds outside of the run may have been more.
            lower_bound |= not all(whole[max(k - RATCHET_MONTHS, 0) : k])
            found |= {"ratchet_mw": ratchet_mw, "lower_bound": lower_bound}
            found["max_mw"] = max(found["max_mw"], ratchet_mw)
    if rules.contract_minimum_mw is not None:
        for found in billed:
            found["max_mw"] = max(found["max_mw"], rules.contract_minimum_mw)
