"""When each job starts: SimPy with a queue discipline, and the compiled twin of strict FIFO."""

from diploee.schedule.policies.fifo import StrictFifo
from diploee.schedule.policy import ClusterView, Policy
from diploee.schedule.schedule import (
    NEVER_MS,
    QUEUE_COLUMNS,
    Cluster,
    Engine,
    PoolEngine,
    PoolSchedule,
    Schedule,
    in_order_of_submission,
    simulated_utilization,
)
from diploee.schedule.transient import Transient

__all__ = [
    "NEVER_MS",
    "QUEUE_COLUMNS",
    "Cluster",
    "ClusterView",
    "Engine",
    "Policy",
    "PoolEngine",
    "PoolSchedule",
    "Schedule",
    "StrictFifo",
    "Transient",
    "in_order_of_submission",
    "simulated_utilization",
]
