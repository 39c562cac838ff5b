"""When each job starts: SimPy with a queue discipline, and the compiled twin of strict FIFO."""

from diploee.schedule.policy import POLICIES, ClusterView, Policy, StrictFifo
from diploee.schedule.schedule import Engine, Schedule, schedule_jobs, schedule_pool

__all__ = [
    "POLICIES",
    "ClusterView",
    "Engine",
    "Policy",
    "Schedule",
    "StrictFifo",
    "schedule_jobs",
    "schedule_pool",
]
