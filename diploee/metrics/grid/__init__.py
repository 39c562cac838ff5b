"""Grid metrics: demand, ramps, swings and spectrum of the load, and a user's limits on them."""

from diploee.metrics.grid.accumulator import MEASURES, GridMetrics, RunMeasure
from diploee.metrics.grid.bandwidth import Support, profile_support

__all__ = ["MEASURES", "GridMetrics", "RunMeasure", "Support", "profile_support"]
