"""Jobs: calendar rates, job draws and the bisection against a target utilization."""

from diploee.loads.jobs.source import StreamClass as StreamClass
from diploee.loads.jobs.source import StreamMatch as StreamMatch
from diploee.loads.jobs.source import Utilization as Utilization
