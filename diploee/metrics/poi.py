"""Metrics at the point of interconnection: the `poi` and `billing` blocks.

They cover the power at the point of interconnection and the contribution of each stage
(see docs/meter.md). Energies include all intervals. Metrics of extremes exclude the
warm-up, as the grid metrics do.

See also: docs/models/metrics.md
"""

from __future__ import annotations

from collections import Counter
from math import hypot
from typing import Any

import numpy as np

from diploee.base.clock import WallClock
from diploee.base.column_specs import TAKEN_OFF, Columns, Role
from diploee.base.measures.distribution import FirstMaximum, HoursAbove
from diploee.base.measures.streaming import MeasureRunner, sum_quanta, to_quanta
from diploee.base.units import W_PER_MW
from diploee.facility.base import Block
from diploee.facility.point_of_interconnection import Billing
from diploee.metrics.billing import (
    BillingDemand,
    MonthSums,
    mwh_from_quanta,
    power_factor,
)

# Names of the columns of active and reactive power at the meter
ACTIVE, REACTIVE = "poi_power_w", "poi_reactive_var"


class PoiMetrics:
    """Accumulator of power at the point of interconnection.

    Results do not depend on how the run is cut into blocks. `columns` are the run's
    columns; those with a role add up to the power.
    """

    def __init__(
        self,
        clock: WallClock,
        columns: Columns,
        contract_mva: float | None = None,
        billing: Billing | None = None,
        contract_mw: float | None = None,
    ) -> None:
        self._clock, self._contract_mva, self._contract_mw = (
            clock,
            contract_mva,
            contract_mw,
        )
        self._with_role = [column for column in columns if column.role is not None]
        self._source_columns = {
            column.name for column in self._with_role if column.role in TAKEN_OFF
        }
        self._months: dict[str, MonthSums] = {}
        self._demands = BillingDemand(clock, billing)
        self._series = MeasureRunner(clock.step_ms, self._demands.measures)
        self._peak, self._apparent, self._max_drawn, self._max_supplied = (
            FirstMaximum() for _ in range(4)
        )
        self._above_contract = HoursAbove(
            ((contract_mva or contract_mw or np.inf) * W_PER_MW) ** 2
        )
        self._leading, self._lagging, self._exporting = (
            HoursAbove(0.0) for _ in range(3)
        )

    def add(self, block: Block, transient_ms: int = 0) -> None:
        """Add the next block of power after all stages.

        Power before `transient_ms` is included in the sums only.
        """
        names = [
            column.name for column in self._with_role if column.name in block.columns
        ]
        for month, rows in self._clock.month_slices(block.starts_ms):
            sums = self._months.setdefault(
                month, MonthSums(int(block.starts_ms[rows.start]))
            )
            sums.n += rows.stop - rows.start
            for name in names:
                sums.quanta[name] += sum_quanta(block.columns[name][rows])[0]
            power_w = block.columns[ACTIVE][rows]
            net, imported = sum_quanta(power_w)
            sums.total += net
            sums.exported += imported - net
            source_powers_w = [
                block.columns[name][rows]
                for name in names
                if name in self._source_columns
            ]
            # Summed per interval, so that output of sources causes no rounding error
            sums.gross += (
                sum_quanta(sum(source_powers_w, power_w))[0] if source_powers_w else net
            )
            netted, drawn = sum_quanta(block.columns[REACTIVE][rows])
            sums.drawn += drawn
            sums.supplied += drawn - netted
        self._exporting.add(-block.columns[ACTIVE], block.dt_ms)
        active, reactive = (
            to_quanta(block.columns[name]) for name in (ACTIVE, REACTIVE)
        )
        n_steady = self._series.add(block.t0_ms, active, transient_ms, reactive)
        if n_steady:
            self._update_extremes(
                block.part(block.end_ms - n_steady * block.dt_ms, block.end_ms)
            )

    def _update_extremes(self, block: Block) -> None:
        """Update the extremes with a block."""
        p, q, t0_ms, dt_ms = (
            *(block.columns[name] for name in (ACTIVE, REACTIVE)),
            block.t0_ms,
            block.dt_ms,
        )
        apparent_square = p * p + q * q
        self._peak.add(p, t0_ms, dt_ms, q)
        self._apparent.add(apparent_square, t0_ms, dt_ms, p, q)
        self._max_drawn.add(q, t0_ms, dt_ms)
        self._max_supplied.add(-q, t0_ms, dt_ms)
        drawn = np.maximum(p, 0.0)
        self._above_contract.add(
            apparent_square if self._contract_mw is None else drawn * drawn, dt_ms
        )
        self._lagging.add(q, dt_ms)
        self._leading.add(-q, dt_ms)

    def blocks(self) -> dict[str, Any]:
        """Return the `poi` and `billing` blocks of the metrics."""
        billing = self._demands.block(self._months)
        months = {
            month: self._energy_metrics(sums) for month, sums in self._months.items()
        }
        total = MonthSums(0)
        for sums in self._months.values():
            total.add(sums)
        return {
            "poi": {
                "resolution_s": self._clock.step_s,
                **self._energy_metrics(total),
                **total.reactive(self._clock.step_ms),
                **self._extreme_metrics(),
                "monthly": months,
            },
            "billing": billing,
        }

    def _energy_metrics(self, sums: MonthSums) -> dict[str, Any]:
        """Return the energy by component, and ratios of energies.

        A ratio without a value is None, with a reason.
        """
        quanta, step_ms = sums.quanta, self._clock.step_ms
        by_role, by_component = Counter[Role | None](), Counter[str]()
        for column in self._with_role:
            if column.name in quanta:
                by_component[column.part or "other"] += (
                    column.sign * quanta[column.name]
                )
                by_role[column.role] += column.sign * quanta[column.name]
        device, ac = by_role["device"], by_role["overhead"]
        # In fixed-point units, so that the difference is exact
        if "overhead" in by_role:
            by_component["node_overhead"] -= device
        gross, cooling = sums.gross, by_role.get("cooling")
        ratios = {
            "pue": gross / ac if ac else None,
            "ppue_cooling": 1 + cooling / ac if ac and cooling is not None else None,
            "tue_device": gross / device if device else None,
        }
        reasons = {
            "pue": "the nodes draw no energy",
            "ppue_cooling": "the nodes draw no energy"
            if not ac
            else "there is no cooling stage",
            "tue_device": "the devices draw no energy",
        }
        absent = [
            {"name": key, "reason": reasons[key]}
            for key, value in ratios.items()
            if value is None
        ]
        return {
            "energy": {
                **{
                    f"{part}_mwh": mwh_from_quanta(value, step_ms)
                    for part, value in by_component.items()
                },
                "total_mwh": mwh_from_quanta(sums.total, step_ms),
            },
            "gross_mwh": mwh_from_quanta(gross, step_ms),
            "exported_mwh": mwh_from_quanta(sums.exported, step_ms),
            **ratios,
            **({"absent": absent} if absent else {}),
        }

    def _extreme_metrics(self) -> dict[str, Any]:
        """Return the extremes and hours at the point of interconnection."""
        if not self._peak.companions:  # the run never filled up
            return {}
        iso, peak, (peak_var,) = self._clock.iso, self._peak, self._peak.companions
        max_mva = hypot(*self._apparent.companions) / W_PER_MW
        result: dict[str, Any] = {
            "peak": {
                "max_mw": peak.value / W_PER_MW,
                "time": iso(peak.at_ms),
                "reactive_mvar": peak_var / W_PER_MW,
                "power_factor": power_factor(peak.value, peak_var),
            },
            "reactive": {
                "max_mvar": self._max_drawn.value / W_PER_MW,
                "max_mvar_time": iso(self._max_drawn.at_ms),
                "min_mvar": -self._max_supplied.value / W_PER_MW,
                "min_mvar_time": iso(self._max_supplied.at_ms),
                "leading_h": self._leading.result(),
                "lagging_h": self._lagging.result(),
            },
            "exported_h": self._exporting.result(),
            "apparent": {"max_mva": max_mva, "time": iso(self._apparent.at_ms)},
        }
        if self._contract_mw is not None:
            result["headroom"] = self._contract_headroom(
                "mw", self._contract_mw, peak.value / W_PER_MW
            )
        elif self._contract_mva is not None:
            result["headroom"] = self._contract_headroom(
                "mva", self._contract_mva, max_mva
            )
        return result

    def _contract_headroom(
        self, unit: str, contract: float, maximum: float
    ) -> dict[str, Any]:
        """Return the headroom below the contract power."""
        headroom = contract - maximum
        return {
            f"contract_{unit}": contract,
            unit: headroom,
            "fraction": headroom / contract,
            "use": maximum / contract,
            "over_h": self._above_contract.result(),
        }
