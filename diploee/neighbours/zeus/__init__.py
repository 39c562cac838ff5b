"""Recurring training jobs and their energy knobs, batch size and GPU power limit (Zeus).

Zeus (You, Chung, Chowdhury, NSDI 2023) recorded how many epochs training takes at each batch size,
and how long an epoch takes and what power it draws at each batch size and power limit. This package
reads these traces, says what the knobs can save, simulates how optimizers find the best ones
while a job recurs, and gives the recurrences as jobs of a facility.
"""

from diploee.neighbours.zeus.cost import Saving, Savings, best_savings
from diploee.neighbours.zeus.groups import GroupTrace, read_groups, simulate_groups
from diploee.neighbours.zeus.results import Recurrences, write_recurrences
from diploee.neighbours.zeus.simulator import simulate_sequence
from diploee.neighbours.zeus.spec import ZeusSpec
from diploee.neighbours.zeus.summary import WorkloadSummary, summarize
from diploee.neighbours.zeus.traces import TrainingTraces, chosen_workloads, read_traces
from diploee.neighbours.zeus.workload import KNOWN_WORKLOADS, TrainingWorkload, WorkloadSpec

__all__ = [
    "KNOWN_WORKLOADS",
    "GroupTrace",
    "Recurrences",
    "Saving",
    "Savings",
    "TrainingTraces",
    "TrainingWorkload",
    "WorkloadSpec",
    "WorkloadSummary",
    "ZeusSpec",
    "best_savings",
    "chosen_workloads",
    "read_groups",
    "read_traces",
    "simulate_groups",
    "simulate_sequence",
    "summarize",
    "write_recurrences",
]
