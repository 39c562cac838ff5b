"""The `poi` and `billing` blocks: what passes the point of interconnection, and by which part.

Reference sheet ``point_of_interconnection.md``, sections 0, 4 and 6. Energies are of all intervals;
what depends on extremes leaves out the time in which the facility fills up, as the grid's do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import hypot
from typing import Any

import numpy as np

from diploee.columns import TAKEN_OFF, Columns, energy_parts
from diploee.facility.base import Block, StageSpec
from diploee.facility.billing import Billing
from diploee.facility.point_of_interconnection import PointOfInterconnectionSpec
from diploee.jit import njit
from diploee.metric import Metric
from diploee.metrics.billing import Demands, MonthSums, mwh, power_factor
from diploee.metrics.grid.clock import Clock
from diploee.metrics.grid.quanta import sum_quanta, to_quanta
from diploee.power import AC_COLUMNS, POWER_COLUMNS
from diploee.tables import Float64Array
from diploee.units import MS_PER_H, W_PER_MW

ACTIVE, REACTIVE = "poi_power_w", "poi_reactive_var"

_OWN = (
    Metric("poi.energy.device_mwh", "MWh", "energy of the devices", "{:,.1f}", view="table"),
    Metric("poi.energy.node_overhead_mwh", "MWh", "energy of the nodes beside their devices",
           "{:,.1f}", view="table"),
    Metric("poi.energy.total_mwh", "MWh", "energy at the point of interconnection", "{:,.1f}",
           "the sum of all parts", "table"),
)  # fmt: skip
"""Energies that no stage measures itself."""

_RATIOS = {
    "pue": ("PUE", "gross energy over the nodes' AC energy, which holds their fans and power "
            "supplies"),
    "ppue_cooling": ("cooling-only PUE", "1 plus the energy of the cooling over the nodes' AC "
                     "energy"),
    "tue_device": ("gross energy over that of the devices", "GPUs and CPU packages"),
}  # fmt: skip


def _of_months(metric: Metric) -> Metric:
    key = metric.key.replace("poi.", "poi.monthly.<month>.", 1)
    return Metric(key, metric.unit, f"{metric.label} in <month>", metric.format, metric.text)


_SUMMED = (
    *_OWN,
    Metric("poi.energy.<part>_mwh", "MWh", "energy of the part <part>", "{:,.1f}",
           "pdu, ups, transformers, constant_loss, cooling, auxiliary, and what your stages name; "
           "other without a name; below 0 what sources, stores and held back load give"),
    Metric("poi.gross_mwh", "MWh", "gross energy", "{:,.1f}",
           "what nodes, losses, cooling and loads draw, from wherever: energy at the point of "
           "interconnection, the output of sources, the net discharge of stores, and what is held "
           "back of the load"),
    Metric("poi.exported_mwh", "MWh", "energy exported to the grid", "{:,.1f}",
           "of intervals with power below 0 at the point of interconnection"),
    *(
        Metric(f"poi.{key}", "1", label, "{:.4f}", text, "main" if key == "pue" else "table")
        for key, (label, text) in _RATIOS.items()
    ),
)  # fmt: skip

_FILLED = (
    "a run that begins empty fills up at first: that time (grid.transient_h) is in energies alone"
)

POI_METRICS = (
    *_SUMMED,
    Metric("poi.drawn_mvarh", "Mvarh", "reactive energy drawn", "{:,.1f}", view="table"),
    Metric("poi.supplied_mvarh", "Mvarh", "reactive energy supplied", "{:,.1f}", view="table"),
    Metric("poi.lagging_power_factor", "1", "average lagging power factor", "{:.5f}",
           "energy over the root of its square and that of the drawn reactive energy", "table"),
    Metric("poi.leading_power_factor", "1", "average leading power factor", "{:.5f}",
           "the same with the supplied reactive energy", "table"),
    Metric("poi.peak.max_mw", "MW", "peak at the point of interconnection"),
    Metric("poi.peak.reactive_mvar", "Mvar", "reactive power at the peak", text="drawn positive"),
    Metric("poi.peak.power_factor", "1", "power factor at the peak", "{:.5f}", view="table",
           of_means=True),
    Metric("poi.reactive.max_mvar", "Mvar", "maximum reactive power", text="drawn positive",
           view="table", of_means=True),
    Metric("poi.reactive.min_mvar", "Mvar", "minimum reactive power",
           text="below 0 where it is supplied", view="table", of_means=True),
    Metric("poi.reactive.leading_h", "h", "hours in which reactive power is supplied (leading), "
           "once filled up", "{:,.1f}", _FILLED, "table"),
    Metric("poi.reactive.lagging_h", "h", "hours in which reactive power is drawn (lagging), "
           "once filled up", "{:,.1f}", _FILLED, "table"),
    Metric("poi.exported_h", "h", "hours in which power is exported, once filled up", "{:,.1f}",
           _FILLED),
    Metric("poi.apparent.max_mva", "MVA", "maximum apparent power", view="table", of_means=True),
    Metric("poi.headroom.contract_mva", "MVA", "contracted power"),
    Metric("poi.headroom.mva", "MVA", "headroom", text="contracted power less the maximum apparent "
           "power", view="table", of_means=True),
    Metric("poi.headroom.fraction", "%", "headroom, of the contracted power", "{:.1f}", factor=100),
    Metric("poi.headroom.over_h", "h", "hours above the contracted power", "{:,.1f}", _FILLED),
    *map(_of_months, _SUMMED),
)  # fmt: skip


_RANKS: tuple[Callable[[float, float], float], ...] = (
    lambda p, _: p,
    lambda p, q: p * p + q * q,
    lambda _, q: q,
    lambda _, q: -q,
)
"""What is largest at each of the extremes: the peak, apparent power, and reactive power drawn and
supplied; of active and reactive power."""


@dataclass
class _Extreme:
    """An interval: its active and reactive power [W, var], and its start [ms]."""

    active_w: float
    reactive_var: float
    at_ms: int


@njit()
def _scan(
    active_w: Float64Array, reactive_var: Float64Array, contract_va: float
) -> tuple[tuple[int, int, int, int], tuple[int, int, int, int]]:
    """Return where the extremes are, and how often Q < 0, Q > 0, S > limit and P < 0.

    Of equals it is the first.
    """
    peak = apparent = drawn = supplied = 0
    n_leading = n_lagging = n_over = n_exporting = 0
    largest = -1.0
    for k in range(active_w.size):
        p, q = active_w[k], reactive_var[k]
        square = p * p + q * q
        if p > active_w[peak]:
            peak = k
        if square > largest:
            apparent, largest = k, square
        if q > reactive_var[drawn]:
            drawn = k
        if q < reactive_var[supplied]:
            supplied = k
        n_leading += q < 0
        n_lagging += q > 0
        n_over += square > contract_va * contract_va
        n_exporting += p < 0
    return (peak, apparent, drawn, supplied), (n_leading, n_lagging, n_over, n_exporting)


class PoiMetrics:
    """Accumulates what passes the point of interconnection; block cuts change no value.

    Parameters
    ----------
    clock : Clock
        Start and resolution.
    columns : tuple of Column
        The run's; those with a role add up to the power.
    contract_mva : float, optional
        Contracted apparent power [MVA].
    billing : Billing, optional
        What a tariff says of the demand.
    """

    def __init__(
        self,
        clock: Clock,
        columns: Columns,
        contract_mva: float | None = None,
        billing: Billing | None = None,
    ) -> None:
        self._clock, self._contract_mva = clock, contract_mva
        self._parts = energy_parts(columns)
        self._with_role = tuple(column for of_part in self._parts.values() for column in of_part)
        self._taken_off = {column.name for column in self._with_role if column.role in TAKEN_OFF}
        self._months: dict[str, MonthSums] = {}
        self._demands = Demands(clock, billing)
        self._found: list[_Extreme] = []
        self._counts = np.zeros(4, dtype=np.int64)

    def add(self, block: Block, transient_ms: int = 0) -> None:
        """Add the next block behind all stages.

        Parameters
        ----------
        block : Block
            Columns of the parts that the facility has, and those of the point of interconnection.
        transient_ms : int
            Time at which the run has filled up [ms]; what lies before is in sums alone.
        """
        names = [column.name for column in self._with_role if column.name in block.columns]
        for month, at_ms, rows in self._clock.months_of(block.t0_ms, len(block)):
            sums = self._months.setdefault(month, MonthSums(at_ms))
            sums.n += rows.stop - rows.start
            for name in names:
                of_rows = sum_quanta(block.columns[name][rows])[0]
                sums.quanta[name] = sums.quanta.get(name, 0) + of_rows
            power_w = block.columns[ACTIVE][rows]
            net, imported = sum_quanta(power_w)
            sums.total += net
            sums.exported += imported - net
            taken_off = [block.columns[name][rows] for name in names if name in self._taken_off]
            # Summed as it is, interval by interval: what is given changes it by no rounding.
            sums.gross += sum_quanta(sum(taken_off, power_w))[0] if taken_off else net
            netted, drawn = sum_quanta(block.columns[REACTIVE][rows])
            sums.drawn += drawn
            sums.supplied += drawn - netted
        steady = block.part(
            min(max(_up(transient_ms, block), block.t0_ms), block.end_ms), block.end_ms
        )
        if len(steady):
            active, reactive = (to_quanta(steady.columns[name]) for name in (ACTIVE, REACTIVE))
            self._demands.add(active, reactive, steady.t0_ms)
            self._see(steady)

    def _see(self, block: Block) -> None:
        active_w, reactive_var = block.columns[ACTIVE], block.columns[REACTIVE]
        contract_va = (self._contract_mva or np.inf) * W_PER_MW
        at, counts = _scan(active_w, reactive_var, contract_va)
        own = [
            _Extreme(float(active_w[k]), float(reactive_var[k]), block.t0_ms + k * block.dt_ms)
            for k in at
        ]
        self._found = [
            max(pair, key=lambda e: rank(e.active_w, e.reactive_var))
            for rank, *pair in zip(_RANKS, self._found or own, own, strict=True)
        ]
        self._counts += np.array(counts)

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
        """Return the energy by part and the ratios of it; None where there is no ratio, and why."""
        quanta, step_ms = sums.quanta, self._clock.step_ms
        of_role: dict[str, int] = {}
        parts: dict[str, int] = {}
        for part, columns in self._parts.items():
            for column in columns:
                if column.name in quanta:
                    signed = column.sign * quanta[column.name]
                    parts[part] = parts.get(part, 0) + signed
                    of_role[str(column.role)] = of_role.get(str(column.role), 0) + signed
        device, ac = of_role["device"], of_role.get("overhead", 0)
        if "overhead" in of_role:  # summed as stored, so that the difference is of whole quanta
            parts["node_overhead"] -= device
        gross, cooling = sums.gross, of_role.get("cooling")
        ratios = {
            "pue": gross / ac if ac else None,
            "ppue_cooling": 1 + cooling / ac if ac and cooling is not None else None,
            "tue_device": gross / device if device else None,
        }
        why_not = {
            "pue": "the nodes draw no energy",
            "ppue_cooling": "the nodes draw no energy" if not ac else "there is no cooling stage",
            "tue_device": "the devices draw no energy",
        }
        absent = [{"name": key, "reason": why_not[key]} for key, of in ratios.items() if of is None]
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
        if not self._found:  # the run never filled up
            return {}
        peak, apparent, drawn, supplied = self._found
        leading_h, lagging_h, over_h, exported_h = (
            n * self._clock.step_ms / MS_PER_H for n in self._counts.tolist()
        )
        max_mva, iso = hypot(apparent.active_w, apparent.reactive_var) / W_PER_MW, self._clock.iso
        found: dict[str, Any] = {
            "peak": {
                "max_mw": peak.active_w / W_PER_MW,
                "time": iso(peak.at_ms),
                "reactive_mvar": peak.reactive_var / W_PER_MW,
                "power_factor": power_factor(peak.active_w, peak.reactive_var),
            },
            "reactive": {
                "max_mvar": drawn.reactive_var / W_PER_MW,
                "max_mvar_time": iso(drawn.at_ms),
                "min_mvar": supplied.reactive_var / W_PER_MW,
                "min_mvar_time": iso(supplied.at_ms),
                "leading_h": leading_h,
                "lagging_h": lagging_h,
            },
            "exported_h": exported_h,
            "apparent": {"max_mva": max_mva, "time": iso(apparent.at_ms)},
        }
        if self._contract_mva is not None:
            left_mva = self._contract_mva - max_mva
            found["headroom"] = {
                "contract_mva": self._contract_mva,
                "mva": left_mva,
                "fraction": left_mva / self._contract_mva,
                "over_h": over_h,
            }
        return found


def poi_metrics(stages: Iterable[StageSpec], clock: Clock) -> PoiMetrics | None:
    """Return the meter of the point of interconnection; None for a facility without one.

    Parameters
    ----------
    stages : iterable of StageSpec
        The facility's.
    clock : Clock
        Start and resolution.

    Raises
    ------
    InputError
        If its billing rules take the demand of an interval that the run can't hold.
    """
    stages = list(stages)
    of_stages = (column for spec in stages for column in spec.columns)
    for spec in stages:
        if isinstance(spec, PointOfInterconnectionSpec):
            columns = (*POWER_COLUMNS, *AC_COLUMNS, *of_stages)
            return PoiMetrics(clock, columns, spec.contract_mva, spec.billing)
    return None


def _up(time_ms: int, block: Block) -> int:
    """Return a time rounded up to the start of an interval [ms]."""
    return block.t0_ms - (block.t0_ms - time_ms) // block.dt_ms * block.dt_ms
