"""Names and formulas of the main metrics of a run and of its data sheet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Label(NamedTuple):
    """The displayed name of a value, and its formula."""

    name: str
    formula: str


_QUARTERS = "the means of P over complete clock intervals of 15 min"
_OVER_ENERGY = "energy / √(energy² + (sum of {} times interval)²), of the whole run"

LABELS: Mapping[str, Label] = {
    "poi.headroom.use": Label(
        "Use of the contract", "max P / contract_mw, or max √(P² + Q²) / contract_mva"
    ),
    "power.max_mw": Label("Peak", "max P, whole run"),
    "grid.maximum_demand.intervals.15min.max_mw": Label(
        "Demand, 15 min", f"max of {_QUARTERS}"
    ),
    "grid.changes.windows.600s.up.max_mw": Label(
        "Largest rise within 10 min", "max of P(s) - P(t), 0 < s - t <= 10 min"
    ),
    "grid.changes.windows.600s.down.max_mw": Label(
        "Largest fall within 10 min", "max of P(t) - P(s), 0 < s - t <= 10 min"
    ),
    "grid.at_step.changes.600s.up.max_mw": Label(
        "Largest rise within 10 min, of the steps",
        "the same, with P at the steps of the run",
    ),
    "grid.at_step.changes.600s.down.max_mw": Label(
        "Largest fall within 10 min, of the steps",
        "the same, with P at the steps of the run",
    ),
    "power.energy_mwh": Label("Energy", "sum of P times interval, whole run"),
    "power.load_factor": Label("Load factor of the peak", "mean P / max P, whole run"),
    "power.peak_to_average_ratio": Label(
        "Peak-to-average ratio", "max P / mean P, whole run"
    ),
    "jobs.mean_queue_time_queued_h": Label(
        "Mean queue time of jobs that queued",
        "mean of start - submission over jobs with a positive value",
    ),
    "requests.per_node_rps": Label(
        "Served requests per node in use",
        "served requests / time / mean nodes of active instances",
    ),
    "requests.incomplete_rps": Label("Unserved requests", "requests not served / time"),
    "grid.minimum.min_mw": Label("Minimum", "min P"),
    "power.mean_mw": Label("Mean", "mean P of the whole run"),
    "power.median_mw": Label("Median", "median P of the whole run"),
    "grid.maximum_demand.intervals.15min.load_factor": Label(
        "Load factor of the 15 min demand",
        f"mean P of the whole run / max of {_QUARTERS}",
    ),
    "rated.load_factor": Label(
        "Load factor of the rated power", "mean P of the whole run / that power"
    ),
    "contract.load_factor": Label(
        "Load factor of the contract", "mean P of the whole run / that power"
    ),
    "demand.percentile": Label(
        "15 min demand, P{:g}", f"interpolated percentile of {_QUARTERS}"
    ),
    "poi.exported_mwh": Label(
        "Energy exported", "sum of -P times interval where P < 0"
    ),
    "poi.peak.reactive_mvar": Label("Reactive power at the peak", "Q at max P"),
    "poi.reactive.max_mvar": Label(
        "Maximum reactive power", "max Q, positive if drawn"
    ),
    "poi.reactive.min_mvar": Label(
        "Minimum reactive power", "min Q, negative if supplied"
    ),
    "poi.reactive.mean_mvar": Label("Mean reactive power", "mean Q of the whole run"),
    "poi.power_factor": Label("Power factor", "the lowest of the next three values"),
    "poi.peak.power_factor": Label(
        "Power factor at the peak", "|P| / √(P² + Q²) at max P"
    ),
    "poi.lagging_power_factor": Label(
        "Power factor, lagging", _OVER_ENERGY.format("Q > 0")
    ),
    "poi.leading_power_factor": Label(
        "Power factor, leading", _OVER_ENERGY.format("-Q > 0")
    ),
    "poi.apparent.max_mva": Label("Maximum apparent power", "max √(P² + Q²)"),
    "averaging.peak": Label(
        "Peak [MW]", "max of consecutive means of P over that length"
    ),
    "averaging.up": Label(
        "Largest ramp up [MW/min]",
        (
            "max of (mean of P over that length - mean over the same length before) / "
            "length"
        ),
    ),
    "averaging.down": Label("Largest ramp down [MW/min]", "the same for falls"),
    "month.peak": Label("peak", "max P of the month"),
    "month.demand": Label("15 min demand", "max of the month's 15 min means"),
    "month.load_factor": Label(
        "load factor of the 15 min demand",
        (
            "mean of the month's 15 min means (with the initial filling) / their max "
            "(without it)"
        ),
    ),
    "month.reactive": Label("15 min reactive", "max of the month's 15 min means of Q"),
}
"""Labels by metric key, or by an own key for values that are no metric.

P is the power of an interval of `facility.parquet` [MW], Q its reactive power [Mvar],
both after the warm-up unless stated otherwise.
"""
