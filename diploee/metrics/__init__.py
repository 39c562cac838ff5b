"""Metrics: pure functions and mergeable accumulators over power blocks and schedules."""

from diploee.metrics.distribution import Distribution
from diploee.metrics.facility import FacilityMetrics, power_metrics, utilization_metrics
from diploee.metrics.queue import queue_metrics
from diploee.metrics.service import request_metrics, service_metrics

__all__ = [
    "Distribution",
    "FacilityMetrics",
    "power_metrics",
    "queue_metrics",
    "request_metrics",
    "service_metrics",
    "utilization_metrics",
]
