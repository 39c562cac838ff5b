"""Recurring training jobs and their energy knobs, batch size and GPU power limit (Zeus).

Zeus (You, Chung, Chowdhury, NSDI 2023) recorded how many epochs training takes at each batch size,
and how long an epoch takes and what power it draws at each batch size and power limit. This package
reads these traces, says what the knobs can save, simulates how optimizers find the best ones
while a job recurs, and gives the recurrences as jobs of a facility.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from diploee.integrations.zeus.simulator import simulate_groups as simulate_groups
    from diploee.integrations.zeus.simulator import simulate_sequence as simulate_sequence
    from diploee.integrations.zeus.traces import TrainingTraces as TrainingTraces
    from diploee.integrations.zeus.traces import chosen_workloads as chosen_workloads
    from diploee.integrations.zeus.traces import read_groups as read_groups
    from diploee.integrations.zeus.traces import read_traces as read_traces
    from diploee.integrations.zeus.workload import KNOWN_WORKLOADS as KNOWN_WORKLOADS
    from diploee.integrations.zeus.workload import Saving as Saving
    from diploee.integrations.zeus.workload import Savings as Savings
    from diploee.integrations.zeus.workload import TrainingWorkload as TrainingWorkload
    from diploee.integrations.zeus.workload import WorkloadSpec as WorkloadSpec
    from diploee.integrations.zeus.workload import best_savings as best_savings
    from diploee.scenario.recurring import ZeusSpec as ZeusSpec
else:
    from diploee.base.fronts import front

    __all__, __getattr__, __dir__ = front(__name__)
