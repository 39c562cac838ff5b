"""The `poi` and `billing` blocks.

Power that passes the point of interconnection, and the part of each stage (see
docs/meter.md). Energies are of all intervals; what depends on extremes leaves out the
time in which the facility fills up, as the grid's do.
"""

from __future__ import annotations

from collections import Counter
from math import hypot
from typing import Any

import numpy as np

from diploee.base.clock import WallClock
from diploee.base.columns import TAKEN_OFF, Columns, Role
from diploee.base.measures.distribution import HoursAbove, Largest
from diploee.base.measures.series import MeasureRunner, sum_quanta, to_quanta
from diploee.base.metric import Metric
from diploee.base.units import W_PER_MW
from diploee.facility.base import Block
from diploee.facility.point_of_interconnection import Billing
from diploee.metrics.billing import Demands, MonthSums, mwh, power_factor

ACTIVE, REACTIVE = "poi_power_w", "poi_reactive_var"

_OWN = (
    Metric(
        "poi.energy.device_mwh", "MWh", "energy of the devices", "{:,.1f}", view="table"
    ),
    Metric(
        "poi.energy.node_overhead_mwh",
        "MWh",
        "energy of the nodes beside their devices",
        "{:,.1f}",
        view="table",
    ),
    Metric(
        "poi.energy.total_mwh",
        "MWh",
        "energy at the point of interconnection",
        "{:,.1f}",
        "the sum of all parts",
        "table",
    ),
)
"""Energies that no stage measures itself."""

_RATIOS = {
    "pue": (
        "PUE",
        "gross energy over the nodes' AC energy, which holds their fans and power "
        "supplies",
    ),
    "ppue_cooling": (
        "cooling-only PUE",
        "1 plus the energy of the cooling over the nodes' AC energy",
    ),
    "tue_device": ("gross energy over that of the devices", "GPUs and CPU packages"),
}


def _of_months(metric: Metric) -> Metric:
    key = metric.key.replace("poi.", "poi.monthly.<month>.", 1)
    return Metric(
        key, metric.unit, f"{metric.label} in <month>", metric.format, metric.text
    )


_SUMMED = (
    *_OWN,
    Metric(
        "poi.energy.<part>_mwh",
        "MWh",
        "energy of the part <part>",
        "{:,.1f}",
        (
            "pdu, ups, transformers, constant_loss, cooling, auxiliary, and what your "
            "stages name; other without a name; below 0 what sources, stores and held "
            "back load give"
        ),
    ),
    Metric(
        "poi.gross_mwh",
        "MWh",
        "gross energy",
        "{:,.1f}",
        (
            "what nodes, losses, cooling and loads draw, from wherever: energy at the "
            "point of interconnection, the output of sources, the net discharge of "
            "stores, and what is held back of the load"
        ),
    ),
    Metric(
        "poi.exported_mwh",
        "MWh",
        "energy exported to the grid",
        "{:,.1f}",
        "of intervals with power below 0 at the point of interconnection",
    ),
    *(
        Metric(
            f"poi.{key}",
            "1",
            label,
            "{:.4f}",
            text,
            "main" if key == "pue" else "table",
        )
        for key, (label, text) in _RATIOS.items()
    ),
)

POI_METRICS = (
    *_SUMMED,
    Metric(
        "poi.drawn_mvarh", "Mvarh", "reactive energy drawn", "{:,.1f}", view="table"
    ),
    Metric(
        "poi.supplied_mvarh",
        "Mvarh",
        "reactive energy supplied",
        "{:,.1f}",
        view="table",
    ),
    Metric(
        "poi.lagging_power_factor",
        "1",
        "average lagging power factor",
        "{:.2f}",
        "energy over the root of its square and that of the drawn reactive energy",
        "table",
    ),
    Metric(
        "poi.leading_power_factor",
        "1",
        "average leading power factor",
        "{:.2f}",
        "the same with the supplied reactive energy",
        "table",
    ),
    Metric("poi.peak.max_mw", "MW", "peak at the point of interconnection"),
    Metric(
        "poi.peak.reactive_mvar",
        "Mvar",
        "reactive power at the peak",
        text="drawn positive",
    ),
    Metric(
        "poi.peak.power_factor",
        "1",
        "power factor at the peak",
        "{:.2f}",
        view="table",
        of_means=True,
    ),
    Metric(
        "poi.reactive.max_mvar",
        "Mvar",
        "maximum reactive power",
        text="drawn positive",
        view="table",
        of_means=True,
    ),
    Metric(
        "poi.reactive.min_mvar",
        "Mvar",
        "minimum reactive power",
        text="below 0 where it is supplied",
        view="table",
        of_means=True,
    ),
    Metric(
        "poi.reactive.leading_h",
        "h",
        "hours in which reactive power is supplied (leading)",
        "{:,.1f}",
        view="table",
    ),
    Metric(
        "poi.reactive.lagging_h",
        "h",
        "hours in which reactive power is drawn (lagging)",
        "{:,.1f}",
        view="table",
    ),
    Metric("poi.exported_h", "h", "hours in which power is exported", "{:,.1f}"),
    Metric(
        "poi.apparent.max_mva",
        "MVA",
        "maximum apparent power",
        view="table",
        of_means=True,
    ),
    Metric(
        "poi.headroom.use",
        "%",
        "use of the contract",
        "{:.1f}",
        "the peak over contract_mw, or the largest apparent power over contract_mva",
        "main",
        100,
    ),
    Metric("poi.headroom.contract_mw", "MW", "contracted active power"),
    Metric(
        "poi.headroom.mw",
        "MW",
        "headroom",
        text="contracted active power less the peak",
    ),
    Metric("poi.headroom.contract_mva", "MVA", "contracted power"),
    Metric(
        "poi.headroom.mva",
        "MVA",
        "headroom",
        text="contracted power less the maximum apparent power",
        view="table",
        of_means=True,
    ),
    Metric(
        "poi.headroom.fraction",
        "%",
        "headroom, of the contracted power",
        "{:.1f}",
        factor=100,
    ),
    Metric("poi.headroom.over_h", "h", "hours above the contracted power", "{:,.1f}"),
    *map(_of_months, _SUMMED),
)


class PoiMetrics:
    """Accumulates what passes the point of interconnection; block cuts change no value.

    `columns` are the run's: those with a role add up to the power.
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
        self._taken_off = {
            column.name for column in self._with_role if column.role in TAKEN_OFF
        }
        self._months: dict[str, MonthSums] = {}
        self._demands = Demands(clock, billing)
        self._series = MeasureRunner(clock.step_ms, self._demands.measures)
        self._peak, self._apparent, self._drawn, self._supplied = (
            Largest() for _ in range(4)
        )
        self._over = HoursAbove(
            ((contract_mva or contract_mw or np.inf) * W_PER_MW) ** 2
        )
        self._leading, self._lagging, self._exporting = (
            HoursAbove(0.0) for _ in range(3)
        )

    def add(self, block: Block, transient_ms: int = 0) -> None:
        """Add the next block behind all stages.

        Until `transient_ms` it counts in sums alone.
        """
        names = [
            column.name for column in self._with_role if column.name in block.columns
        ]
        for month, rows in self._clock.months_in(block.starts_ms):
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
            taken_off = [
                block.columns[name][rows] for name in names if name in self._taken_off
            ]
            # Summed as it is, interval by interval: what is given changes it by no
            # rounding.
            sums.gross += sum_quanta(sum(taken_off, power_w))[0] if taken_off else net
            netted, drawn = sum_quanta(block.columns[REACTIVE][rows])
            sums.drawn += drawn
            sums.supplied += drawn - netted
        self._exporting.add(-block.columns[ACTIVE], block.dt_ms)
        active, reactive = (
            to_quanta(block.columns[name]) for name in (ACTIVE, REACTIVE)
        )
        n_steady = self._series.add(block.t0_ms, active, transient_ms, reactive)
        if n_steady:
            self._see(block.part(block.end_ms - n_steady * block.dt_ms, block.end_ms))

    def _see(self, block: Block) -> None:
        p, q, t0_ms, dt_ms = (
            *(block.columns[of] for of in (ACTIVE, REACTIVE)),
            block.t0_ms,
            block.dt_ms,
        )
        square = p * p + q * q
        self._peak.add(p, t0_ms, dt_ms, q)
        self._apparent.add(square, t0_ms, dt_ms, p, q)
        self._drawn.add(q, t0_ms, dt_ms)
        self._supplied.add(-q, t0_ms, dt_ms)
        drawn = np.maximum(p, 0.0)
        self._over.add(square if self._contract_mw is None else drawn * drawn, dt_ms)
        self._lagging.add(q, dt_ms)
        self._leading.add(-q, dt_ms)

    def blocks(self) -> dict[str, Any]:
        """Return the `poi` and `billing` blocks of the metrics."""
        billing = self._demands.block(self._months)
        months = {month: self._energies(sums) for month, sums in self._months.items()}
        whole = MonthSums(0)
        for sums in self._months.values():
            whole.add(sums)
        return {
            "poi": {
                "resolution_s": self._clock.step_s,
                **self._energies(whole),
                **whole.reactive(self._clock.step_ms),
                **self._extremes(),
                "monthly": months,
            },
            "billing": billing,
        }

    def _energies(self, sums: MonthSums) -> dict[str, Any]:
        """Return the energy by part and the ratios of it.

        None where there is no ratio, and why.
        """
        quanta, step_ms = sums.quanta, self._clock.step_ms
        of_role, parts = Counter[Role | None](), Counter[str]()
        for column in self._with_role:
            if column.name in quanta:
                parts[column.part or "other"] += column.sign * quanta[column.name]
                of_role[column.role] += column.sign * quanta[column.name]
        device, ac = of_role["device"], of_role["overhead"]
        # Summed as stored, so that the difference is of whole quanta
        if "overhead" in of_role:
            parts["node_overhead"] -= device
        gross, cooling = sums.gross, of_role.get("cooling")
        ratios = {
            "pue": gross / ac if ac else None,
            "ppue_cooling": 1 + cooling / ac if ac and cooling is not None else None,
            "tue_device": gross / device if device else None,
        }
        why_not = {
            "pue": "the nodes draw no energy",
            "ppue_cooling": "the nodes draw no energy"
            if not ac
            else "there is no cooling stage",
            "tue_device": "the devices draw no energy",
        }
        absent = [
            {"name": key, "reason": why_not[key]}
            for key, of in ratios.items()
            if of is None
        ]
        return {
            "energy": {
                **{f"{part}_mwh": mwh(of, step_ms) for part, of in parts.items()},
                "total_mwh": mwh(sums.total, step_ms),
            },
            "gross_mwh": mwh(gross, step_ms),
            "exported_mwh": mwh(sums.exported, step_ms),
            **ratios,
            **({"absent": absent} if absent else {}),
        }

    def _extremes(self) -> dict[str, Any]:
        if not self._peak.beside:  # the run never filled up
            return {}
        iso, peak, (peak_var,) = self._clock.iso, self._peak, self._peak.beside
        max_mva = hypot(*self._apparent.beside) / W_PER_MW
        found: dict[str, Any] = {
            "peak": {
                "max_mw": peak.value / W_PER_MW,
                "time": iso(peak.at_ms),
                "reactive_mvar": peak_var / W_PER_MW,
                "power_factor": power_factor(peak.value, peak_var),
            },
            "reactive": {
                "max_mvar": self._drawn.value / W_PER_MW,
                "max_mvar_time": iso(self._drawn.at_ms),
                "min_mvar": -self._supplied.value / W_PER_MW,
                "min_mvar_time": iso(self._supplied.at_ms),
                "leading_h": self._leading.result(),
                "lagging_h": self._lagging.result(),
            },
            "exported_h": self._exporting.result(),
            "apparent": {"max_mva": max_mva, "time": iso(self._apparent.at_ms)},
        }
        if self._contract_mw is not None:
            found["headroom"] = self._headroom(
                "mw", self._contract_mw, peak.value / W_PER_MW
            )
        elif self._contract_mva is not None:
            found["headroom"] = self._headroom("mva", self._contract_mva, max_mva)
        return found

    def _headroom(self, unit: str, contract: float, most: float) -> dict[str, Any]:
        left = contract - most
        return {
            f"contract_{unit}": contract,
            unit: left,
            "fraction": left / contract,
            "use": most / contract,
            "over_h": self._over.result(),
        }
