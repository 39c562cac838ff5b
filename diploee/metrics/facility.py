"""The `power` and `utilization` blocks of the metrics, streamed over power blocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from diploee.metric import Metric, View
from diploee.metrics.distribution import Distribution
from diploee.scenario import Facility
from diploee.tables import Float64Array
from diploee.units import J_PER_MWH, MS_PER_S, W_PER_MW

POWER_METRICS = (
    Metric("power.mean_mw", "MW", "mean power", view="main"),
    Metric("power.std_mw", "MW", "standard deviation of power", view="table"),
    Metric("power.median_mw", "MW", "median power", view="table"),
    Metric("power.p90_mw", "MW", "90th percentile of power", view="table"),
    Metric("power.min_mw", "MW", "minimum power", text="the time in which a run that begins empty "
           "fills up included; without it: grid.minimum.min_mw", view="table"),
    Metric("power.max_mw", "MW", "maximum power", view="main", of_means=True),
    Metric(
        "power.peak_to_average_ratio", "1", "peak-to-average ratio",
        text="maximum over mean power", view="main",
        of_means=True,
    ),
    Metric("power.load_factor", "1", "load factor", text="mean over maximum power", view="table"),
    Metric(
        "power.rated_mw", "MW", "rated power",
        text="where the power is taken: of the devices rated_power_mw or their ratings; behind AC "
        "supplies and stages what they draw with all nodes at their ratings, in the hour of the "
        "weather's year in which that is most, without sources, stores and held back load",
    ),
    Metric(
        "power.max_over_rated", "%", "maximum over rated power", "{:.1f}", view="table", factor=100
    ),
    Metric("power.energy_mwh", "MWh", "energy", "{:,.1f}", view="main"),
    Metric("power.percentile_error_mw", "MW", "largest error of a percentile", "{:.2g}"),
    Metric("<block>.resolution_s", "s", "resolution", "{:g}", "interval of the means in the block"),
)  # fmt: skip


def _occupancy(key: str, name: str, view: View = "table") -> Metric:
    label, text = f"{name} node occupancy", "busy nodes over all nodes"
    return Metric(f"utilization.{key}", "%", label, "{:.2f}", text, view, 100)


UTILIZATION_METRICS = (
    _occupancy("mean", "mean", "main"),
    _occupancy("std", "standard deviation of"),
    _occupancy("median", "median"),
    _occupancy("p90", "90th percentile of"),
    _occupancy("max", "maximum"),
)


def rated_of(metrics: Mapping[str, Any], facility: Facility) -> tuple[float, str]:
    """Return the rated power where a run's power is taken [MW], and what it is.

    It is 0 where a run of an older version does not say it.
    """
    found = (metrics.get("power") or {}).get("rated_mw")
    if facility.stages or facility.has_ac_power:
        return found or 0.0, "rated power at the meter"
    rated_mw = found or facility.rated_power_w / W_PER_MW
    of = "the nodes'" if facility.rated_power_mw is None else "rated_power_mw"
    return rated_mw, f"device rating ({of})"


def load_factor(mean: float, peak: float) -> float | None:
    """Return mean over peak power; None without a load, and where more is exported than drawn."""
    return mean / peak if peak > 0 <= mean else None


def power_metrics(power_w: Distribution, step_ms: int, rated_power_w: float) -> dict[str, Any]:
    """Return the `power` block.

    Parameters
    ----------
    power_w : Distribution
        Mean power over each interval [W].
    step_ms : int
        Interval [ms]; peak, peak-to-average ratio and load factor hold for it.
    rated_power_w : float
        Rated power of the facility or pool [W].
    """
    median_w, p90_w = power_w.percentiles(50, 90)
    block = {
        "mean_mw": power_w.mean / W_PER_MW,
        "std_mw": power_w.std / W_PER_MW,
        "median_mw": median_w / W_PER_MW,
        "p90_mw": p90_w / W_PER_MW,
        "min_mw": power_w.min / W_PER_MW,
        "max_mw": power_w.max / W_PER_MW,
        "peak_to_average_ratio": power_w.max / power_w.mean if power_w.mean > 0 else None,
        "load_factor": load_factor(power_w.mean, power_w.max),
        "rated_mw": rated_power_w / W_PER_MW if rated_power_w else None,
        "max_over_rated": power_w.max / rated_power_w if rated_power_w else None,
        "energy_mwh": power_w.mean * power_w.count * step_ms / MS_PER_S / J_PER_MWH,
        "resolution_s": step_ms / MS_PER_S,
    }
    if power_w.percentile_error:
        block["percentile_error_mw"] = power_w.percentile_error / W_PER_MW
    return block


def utilization_metrics(utilization: Distribution) -> dict[str, Any]:
    """Return the `utilization` block: node occupancy (Eq. 1), 0-1, over the interval means."""
    median, p90 = utilization.percentiles(50, 90)
    return {
        "mean": utilization.mean,
        "std": utilization.std,
        "median": median,
        "p90": p90,
        "max": utilization.max,
    }


class FacilityMetrics:
    """Accumulates power and node occupancy of the whole or of one pool.

    Parameters
    ----------
    rated_power_w : float
        Rated power of the whole or of the pool [W].
    step_ms : int
        Interval [ms].
    """

    def __init__(self, rated_power_w: float, step_ms: int) -> None:
        self._rated_power_w = rated_power_w
        self._step_ms = step_ms
        self.power_w = Distribution()
        self.utilization = Distribution()

    def add(self, power_w: Float64Array, utilization: Float64Array) -> None:
        """Add intervals: their mean power [W] and node occupancy, 0-1, both of shape (B,)."""
        self.power_w.add(power_w)
        self.utilization.add(utilization)

    def blocks(self) -> dict[str, Any]:
        """Return the `power` and `utilization` blocks."""
        return {
            "power": power_metrics(self.power_w, self._step_ms, self._rated_power_w),
            "utilization": utilization_metrics(self.utilization),
        }
