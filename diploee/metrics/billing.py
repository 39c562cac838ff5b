"""What a utility bills by, month by month: determinants of the demand, and rules on them.

Rules are functions with the user's parameters; there are no prices. Reference sheet
``point_of_interconnection.md``, section 6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import hypot
from typing import Any

import numpy as np

from diploee.errors import InputError, one_of
from diploee.facility.billing import Billing
from diploee.metric import Metric
from diploee.metrics.facility import load_factor
from diploee.metrics.grid.clock import Clock
from diploee.metrics.grid.demand import DEMAND_MIN, ClockSums
from diploee.metrics.grid.quanta import QUANTA_PER_MW
from diploee.tables import Int64Array
from diploee.units import MS_PER_H, MS_PER_MIN

RATCHET_MONTHS = 11
"""Months before its own that a ratchet looks back."""

_MONTH = "billing.months.<month>"
_DEMAND = f"{_MONTH}.demand.<interval>"

BILLING_METRICS = (
    Metric(f"{_MONTH}.hours", "h", "hours of <month> that the run covers", "{:,.1f}"),
    Metric(f"{_MONTH}.energy_mwh", "MWh", "energy in <month>", "{:,.1f}",
           "drawn less exported"),
    Metric(f"{_MONTH}.exported_mwh", "MWh", "energy exported to the grid in <month>", "{:,.1f}"),
    Metric(f"{_MONTH}.drawn_mvarh", "Mvarh", "reactive energy drawn in <month>", "{:,.1f}",
           "sum over the intervals that draw it; what others supply is not taken off"),
    Metric(f"{_MONTH}.supplied_mvarh", "Mvarh", "reactive energy supplied in <month>", "{:,.1f}"),
    Metric(f"{_MONTH}.lagging_power_factor", "1", "average lagging power factor in <month>",
           text="energy over the root of its square and that of the drawn reactive energy"),
    Metric(f"{_MONTH}.leading_power_factor", "1", "average leading power factor in <month>",
           text="the same with the supplied reactive energy"),
    Metric(f"{_DEMAND}.max_mw", "MW", "maximum demand over <interval> in <month>",
           text="at the point of interconnection"),
    Metric(f"{_DEMAND}.load_factor", "1", "load factor in <month>, <interval> demand"),
    Metric(f"{_DEMAND}.power_factor", "1", "power factor at the maximum demand, <interval>, "
           "<month>"),
    Metric(f"{_DEMAND}.max_mva", "MVA", "maximum apparent demand over <interval> in <month>",
           text="of the interval's mean active and reactive power"),
    Metric(f"{_DEMAND}.max_mvar", "Mvar", "maximum reactive demand over <interval> in <month>",
           text="drawn positive"),
    Metric(f"{_DEMAND}.min_mvar", "Mvar", "minimum reactive demand over <interval> in <month>",
           text="below 0 where it is supplied"),
    Metric(f"{_MONTH}.billed.interval_min", "min", "demand interval of the rules, <month>",
           "{:.0f}"),
    Metric(f"{_MONTH}.billed.for_power_factor_mw", "MW",
           "demand after the rule of the power factor, <month>"),
    Metric(f"{_MONTH}.billed.ratchet_mw", "MW", "demand that the ratchet asks for, <month>",
           text="of up to 11 months before; a lower bound where the run has fewer"),
    Metric(f"{_MONTH}.billed.max_mw", "MW", "billed demand, <month>"),
    Metric(f"{_MONTH}.billed.reactive_mvar", "Mvar", "reactive demand beyond its free share, "
           "<month>"),
)  # fmt: skip


def power_factor(active: float, reactive: float) -> float | None:
    """Return P / sqrt(P^2 + Q^2), of powers or energies in any unit; None where both are 0."""
    apparent = hypot(active, reactive)
    return active / apparent if apparent else None


def mwh(quanta: int, step_ms: int) -> float:
    """Return a sum of quanta over intervals of `step_ms` as energy [MWh or Mvarh]."""
    return quanta / QUANTA_PER_MW * step_ms / MS_PER_H


def for_power_factor(demand: float, found: float | None, least: float) -> float:
    """Return a demand times the least power factor over the one found, where that is lower."""
    return demand * least / found if found and found < least else demand


def beyond_free_share(reactive_demand: float, demand: float, share: float) -> float:
    """Return the reactive demand, drawn positive, above a free share of the demand."""
    return max(0.0, reactive_demand - share * max(demand, 0.0))


def ratchets(demands: Sequence[float], share: float) -> list[tuple[float, bool]]:
    """Return what a ratchet asks for in each of consecutive months, and whether more is possible.

    Parameters
    ----------
    demands : sequence of float, shape (n,)
        Demand of each month.
    share : float
        Part of the highest of the 11 months before that counts, 0-1.

    Returns
    -------
    list of (float, bool), shape (n,)
        ``share`` times the highest known, 0 in the first month; True where fewer than 11 months
        before are known, so that it is a lower bound.
    """
    before = (demands[max(k - RATCHET_MONTHS, 0) : k] for k in range(len(demands)))
    return [(share * max(past, default=0.0), len(past) < RATCHET_MONTHS) for past in before]


@dataclass
class MonthSums:
    """What one local month adds up to; `quanta` are 1/64 W and var over `n` intervals.

    Parameters
    ----------
    begin_ms : int
        A time in the month [ms since the run's start].
    n : int
        Intervals of the run in it.
    quanta : dict of str to int
        Sum of each column that has a role.
    total, gross, exported : int
        Sum of the power at the meter, of that with what sources and stores give, and of what is
        exported.
    drawn, supplied : int
        Sum of the reactive power of intervals that draw it, and of those that supply it.
    """

    begin_ms: int
    n: int = 0
    quanta: dict[str, int] = field(default_factory=dict)
    total: int = 0
    gross: int = 0
    exported: int = 0
    drawn: int = 0
    supplied: int = 0

    def add(self, other: MonthSums) -> None:
        """Add what another month adds up to."""
        for name in ("n", "total", "gross", "exported", "drawn", "supplied"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name, quanta in other.quanta.items():
            self.quanta[name] = self.quanta.get(name, 0) + quanta

    def reactive(self, step_ms: int) -> dict[str, float | None]:
        """Return the reactive energy [Mvarh] by direction, and a power factor of each.

        Power factors are of the energy that is drawn: what is exported is not netted either.
        """
        imported = self.total + self.exported
        return {
            "drawn_mvarh": mwh(self.drawn, step_ms),
            "supplied_mvarh": mwh(self.supplied, step_ms),
            "lagging_power_factor": power_factor(imported, self.drawn),
            "leading_power_factor": power_factor(imported, self.supplied),
        }


class Demand:
    """Active and reactive power over the clock intervals of one length.

    Parameters
    ----------
    clock : Clock
        Start and resolution.
    interval_ms : int
        Length of the clock intervals [ms].
    """

    def __init__(self, clock: Clock, interval_ms: int) -> None:
        self._clock = clock
        self.minutes = interval_ms // MS_PER_MIN
        self._active, self._reactive = ClockSums(clock, interval_ms), ClockSums(clock, interval_ms)

    def add(self, active: Int64Array, reactive: Int64Array, t0_ms: int) -> None:
        """Add consecutive values [quanta] from `t0_ms` on."""
        self._active.add(active, t0_ms)
        self._reactive.add(reactive, t0_ms)

    def by_month(self) -> dict[str, dict[str, Any]]:
        """Return the largest demands of every local month that holds a whole interval.

        Apparent power is that of an interval's mean active and reactive power, as meters form it;
        it is no more than the mean of the apparent power.
        """
        sums, starts_ms, counts = self._active.complete()
        p_mw = sums / (QUANTA_PER_MW * counts)
        q_mvar = self._reactive.complete()[0] / (QUANTA_PER_MW * counts)
        s_mva = np.hypot(p_mw, q_mvar)
        found: dict[str, dict[str, Any]] = {}
        begin = 0
        while begin < starts_ms.size:
            month = self._clock.month(int(starts_ms[begin]))
            end = int(np.searchsorted(starts_ms, self._clock.next_month_ms(int(starts_ms[begin]))))
            at = [begin + int(np.argmax(v[begin:end])) for v in (p_mw, s_mva, q_mvar, -q_mvar)]
            times = [self._clock.iso(int(starts_ms[k])) for k in at]
            found[month] = {
                "interval_min": self.minutes,
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
            begin = end
        return found


class Demands:
    """Demand at 15, 30 and 60 minutes, and the `billing` block of the metrics.

    Parameters
    ----------
    clock : Clock
        Start and resolution.
    rules : Billing, optional
        What a tariff says of the demand.

    Raises
    ------
    InputError
        If the rules take the demand of an interval that the run can't hold.
    """

    def __init__(self, clock: Clock, rules: Billing | None = None) -> None:
        self._clock = clock
        self._absent = {m: clock.why_not_aligned(m * MS_PER_MIN) for m in DEMAND_MIN}
        self._rules = rules
        if self._rules and (why := self._absent[self._rules.interval_min]):
            held = [m for m, why_not in self._absent.items() if not why_not]
            raise InputError(
                "facility.stages, point_of_interconnection: billing.interval_min: "
                f"{self._rules.interval_min} min is {why}; have: {one_of(held)}"
            )
        self._demands = [
            Demand(clock, m * MS_PER_MIN) for m, why in self._absent.items() if not why
        ]

    def add(self, active: Int64Array, reactive: Int64Array, t0_ms: int) -> None:
        """Add consecutive values [quanta] from `t0_ms` on."""
        for demand in self._demands:
            demand.add(active, reactive, t0_ms)

    def block(self, months: Mapping[str, MonthSums]) -> dict[str, Any]:
        """Return the block: an entry for every local month of the run."""
        found = {demand.minutes: demand.by_month() for demand in self._demands}
        absent = dict(self._absent) | {
            minutes: "the run holds no whole interval" for minutes, of in found.items() if not of
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
            "absent": [{"interval_min": m, "reason": why} for m, why in absent.items() if why],
        }

    def _month(self, month: str, sums: MonthSums) -> dict[str, Any]:
        clock = self._clock
        end_ms = clock.next_month_ms(sums.begin_ms)
        first = clock.at(sums.begin_ms).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
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
    """Put what the rules make of each month's demand into its entry, where it has that demand.

    ASSUMPTION: the rules follow one another as power factor, ratchet, minimum, and the power factor
    is the month's lagging average [J]; tariffs differ, the determinants stay.
    """
    billed, whole = [], []
    for entry in entries:
        demand = next((d for d in entry["demand"] if d["interval_min"] == rules.interval_min), None)
        if demand is None:
            continue
        # A month that only exports has no demand to bill.
        found = {"interval_min": rules.interval_min, "max_mw": max(demand["max_mw"], 0.0)}
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
        for k, (found, (ratchet_mw, lower_bound)) in enumerate(zip(billed, asked, strict=True)):
            # What a month holds outside of the run may have been more.
            lower_bound |= not all(whole[max(k - RATCHET_MONTHS, 0) : k])
            found |= {"ratchet_mw": ratchet_mw, "lower_bound": lower_bound}
            found["max_mw"] = max(found["max_mw"], ratchet_mw)
    if rules.contract_minimum_mw is not None:
        for found in billed:
            found["max_mw"] = max(found["max_mw"], rules.contract_minimum_mw)
