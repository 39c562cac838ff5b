"""Workload: calendar rates, job draws and the bisection against a target utilization."""

from diploee.workload.generate import Workload, generate_jobs, open_classes, stream_classes
from diploee.workload.jobs import JobTable, StreamClass
from diploee.workload.match import StreamMatch, listed_utilization
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
    "open_classes",
    "stream_classes",
]
