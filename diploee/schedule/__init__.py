"""When each job starts: a queue discipline in SimPy, or its twin in the compiled loop."""

from diploee.schedule.actions import Action, Preempt, Resize, Resume, SetLevel, Start
from diploee.schedule.policies.fifo import StrictFifo
from diploee.schedule.policy import ClusterView, Policy
from diploee.schedule.runs import ActedSchedule, Runs
from diploee.schedule.schedule import (
    NEVER_MS,
    QUEUE_COLUMNS,
    Engine,
    Schedule,
    Transient,
)

__all__ = [
    "NEVER_MS",
    "QUEUE_COLUMNS",
    "ActedSchedule",
    "Action",
    "ClusterView",
    "Engine",
    "Policy",
    "Preempt",
    "Resize",
    "Resume",
    "Runs",
    "Schedule",
    "SetLevel",
    "Start",
    "StrictFifo",
    "Transient",
]
