"""Workload: calendar rates, job draws and the bisection against a target utilization."""

from diploee.workload.generate import StreamMatch, Workload, generate_jobs, listed_utilization
from diploee.workload.jobs import JobTable, StreamClass, stream_classes
from diploee.workload.rates import HourlyRates, hourly_rates

__all__ = [
    "HourlyRates",
    "JobTable",
    "StreamClass",
    "StreamMatch",
    "Workload",
    "generate_jobs",
    "hourly_rates",
    "listed_utilization",
    "stream_classes",
]
