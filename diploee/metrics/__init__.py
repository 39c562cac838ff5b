"""Metrics: pure functions and accumulators over power blocks and schedules."""

from diploee.measures.distribution import Distribution
from diploee.metrics.attribution import Attribution
from diploee.metrics.catalogue import MEASURES, RunMeasure
from diploee.metrics.causes import Causes
from diploee.metrics.demand import FacilityMetrics, power_metrics, utilization_metrics
from diploee.metrics.run_metrics import RunMetrics

__all__ = [
    "MEASURES",
    "Attribution",
    "Causes",
    "Distribution",
    "FacilityMetrics",
    "RunMeasure",
    "RunMetrics",
    "power_metrics",
    "utilization_metrics",
]
