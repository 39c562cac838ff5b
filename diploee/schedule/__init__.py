"""When each job starts: a queue discipline in SimPy, or its twin in the compiled loop."""

from diploee.schedule.actions import Action, Preempt, Resize, Resume, SetLevel, Start
from diploee.schedule.policies.fifo import StrictFifo
from diploee.schedule.policy import ClusterView, Policy
from diploee.schedule.runs import ActedSchedule, Runs
from diploee.schedule.schedule import (
    NEVER_MS,
    QUEUE_COLUMNS,
    Cluster,
    Engine,
    Schedule,
    chosen_policies,
    in_order_of_submission,
    levels_of,
    simulated_utilization,
)
from diploee.schedule.surroundings import JobFlexibility, JobPower, Surroundings
from diploee.schedule.transient import Transient

__all__ = [
    "NEVER_MS",
    "QUEUE_COLUMNS",
    "ActedSchedule",
    "Action",
    "Cluster",
    "ClusterView",
    "Engine",
    "JobFlexibility",
    "JobPower",
    "Policy",
    "Preempt",
    "Resize",
    "Resume",
    "Runs",
    "Schedule",
    "SetLevel",
    "Start",
    "StrictFifo",
    "Surroundings",
    "Transient",
    "chosen_policies",
    "in_order_of_submission",
    "levels_of",
    "simulated_utilization",
]
