"""Jobs: calendar rates, job draws and the bisection against a target utilization."""

from diploee.loads.jobs.rates import HourlyRates, hourly_rates
from diploee.loads.jobs.source import StreamClass, StreamMatch, Utilization
from diploee.loads.jobs.streams import JobStreams
from diploee.loads.jobs.synchronous import SynchronousJobs

__all__ = [
    "HourlyRates",
    "JobStreams",
    "StreamClass",
    "StreamMatch",
    "SynchronousJobs",
    "Utilization",
    "hourly_rates",
]
