"""Jobs: calendar rates, job draws and the bisection against a target utilization."""

from diploee.loads.jobs.source import StreamClass, StreamMatch, Utilization

__all__ = ["StreamClass", "StreamMatch", "Utilization"]
