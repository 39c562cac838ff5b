"""Metrics: pure functions and accumulators over power blocks and schedules."""

from diploee.measures.distribution import Distribution
from diploee.metrics.attribution import Attribution
from diploee.metrics.causes import Causes
from diploee.metrics.facility import FacilityMetrics, power_metrics, utilization_metrics
from diploee.metrics.queue import QueueLength, QueueMetrics
from diploee.metrics.run_metrics import RunMetrics
from diploee.metrics.service import request_metrics, service_metrics
from diploee.metrics.synchronous import SynchronousMetrics

__all__ = [
    "Attribution",
    "Causes",
    "Distribution",
    "FacilityMetrics",
    "QueueLength",
    "QueueMetrics",
    "RunMetrics",
    "SynchronousMetrics",
    "power_metrics",
    "request_metrics",
    "service_metrics",
    "utilization_metrics",
]
