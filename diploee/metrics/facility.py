"""The `power` and `utilization` blocks of the metrics, streamed over power blocks."""

from __future__ import annotations

from typing import Any

from diploee.metrics.distribution import Distribution
from diploee.tables import Float64Array
from diploee.units import J_PER_MWH, MS_PER_S, W_PER_MW


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
        "peak_to_average_ratio": power_w.max / power_w.mean if power_w.mean else None,
        "load_factor": power_w.mean / power_w.max if power_w.max else None,
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
    n_nodes : int
        Nodes of the whole or of the pool.
    rated_power_w : float
        Their rated power [W].
    step_ms : int
        Interval [ms].
    """

    def __init__(self, n_nodes: int, rated_power_w: float, step_ms: int) -> None:
        self._n_nodes = n_nodes
        self._rated_power_w = rated_power_w
        self._step_ms = step_ms
        self.power_w = Distribution()
        self.utilization = Distribution()

    def add(self, power_w: Float64Array, mean_busy_nodes: Float64Array) -> None:
        """Add intervals: their mean power [W] and mean busy nodes, both of shape (B,)."""
        self.power_w.add(power_w)
        self.utilization.add(mean_busy_nodes / self._n_nodes)

    def blocks(self) -> dict[str, Any]:
        """Return the `power` and `utilization` blocks."""
        return {
            "power": power_metrics(self.power_w, self._step_ms, self._rated_power_w),
            "utilization": utilization_metrics(self.utilization),
        }
