"""Grid metrics: demand, ramps, swings and spectrum of the load, and a user's limits on them."""

from diploee.metrics.grid.accumulator import GridMetrics
from diploee.metrics.grid.bandwidth import Support, profile_support

__all__ = ["GridMetrics", "Support", "profile_support"]
