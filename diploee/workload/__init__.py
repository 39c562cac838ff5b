"""Workload: calendar rates, job draws and the bisection against a target utilization."""

from diploee.workload.generate import JobStreams
from diploee.workload.jobs import JobTable, StreamClass
from diploee.workload.match import StreamMatch, Utilization
from diploee.workload.rates import HourlyRates, hourly_rates
from diploee.workload.synchronous import CourseRows, SynchronousJobs

__all__ = [
    "CourseRows",
    "HourlyRates",
    "JobStreams",
    "JobTable",
    "StreamClass",
    "StreamMatch",
    "SynchronousJobs",
    "Utilization",
    "hourly_rates",
]
