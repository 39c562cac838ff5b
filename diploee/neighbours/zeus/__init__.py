"""Recurring training jobs and their energy knobs, batch size and GPU power limit (Zeus).

Zeus (You, Chung, Chowdhury, NSDI 2023) recorded how many epochs training takes at each batch size,
and how long an epoch takes and what power it draws at each batch size and power limit. This package
reads these traces, tells what the knobs can save, simulates how optimizers find the best ones
while a job recurs, and gives the recurrences as jobs of a facility.
"""

from diploee.neighbours.zeus.choice import chosen_workloads
from diploee.neighbours.zeus.cost import (
    Pair,
    Saving,
    Savings,
    best_savings,
    default_pair,
    expected_cost_j,
    oracle_pair,
)
from diploee.neighbours.zeus.groups import GroupTrace, read_groups, simulate_groups
from diploee.neighbours.zeus.job_series import (
    JobSeries,
    SharedRecurrences,
    recurrences_at,
    recurrences_of_groups,
)
from diploee.neighbours.zeus.protocols import BatchSizeOptimizer, PowerLimitOptimizer
from diploee.neighbours.zeus.results import (
    Recurrences,
    RecurrenceTable,
    read_recurrences,
    write_recurrences,
)
from diploee.neighbours.zeus.simulator import Simulation, Submissions, simulate, simulate_sequence
from diploee.neighbours.zeus.spec import ZeusSpec
from diploee.neighbours.zeus.summary import WorkloadSummary, settled_cost_ratio, summarize
from diploee.neighbours.zeus.synthetic import synthetic_traces, write_synthetic_traces
from diploee.neighbours.zeus.traces import TrainingTraces, join_traces, read_traces
from diploee.neighbours.zeus.workload import (
    KNOWN_WORKLOADS,
    SYNTHETIC_WORKLOADS,
    ZEUS_WORKLOADS,
    TrainingWorkload,
    WorkloadSpec,
)

__all__ = [
    "KNOWN_WORKLOADS",
    "SYNTHETIC_WORKLOADS",
    "ZEUS_WORKLOADS",
    "BatchSizeOptimizer",
    "GroupTrace",
    "JobSeries",
    "Pair",
    "PowerLimitOptimizer",
    "RecurrenceTable",
    "Recurrences",
    "Saving",
    "Savings",
    "SharedRecurrences",
    "Simulation",
    "Submissions",
    "TrainingTraces",
    "TrainingWorkload",
    "WorkloadSpec",
    "WorkloadSummary",
    "ZeusSpec",
    "best_savings",
    "chosen_workloads",
    "default_pair",
    "expected_cost_j",
    "join_traces",
    "oracle_pair",
    "read_groups",
    "read_recurrences",
    "read_traces",
    "recurrences_at",
    "recurrences_of_groups",
    "settled_cost_ratio",
    "simulate",
    "simulate_groups",
    "simulate_sequence",
    "summarize",
    "synthetic_traces",
    "write_recurrences",
    "write_synthetic_traces",
]
