"""Jobs: calendar rates, random jobs and bisection on a target utilization."""

from diploee.loads.jobs.source import StreamClass as StreamClass
from diploee.loads.jobs.source import StreamMatch as StreamMatch
from diploee.loads.jobs.source import Utilization as Utilization
