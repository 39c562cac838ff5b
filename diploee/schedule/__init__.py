"""When each job starts: a queue discipline in SimPy, or its twin in the compiled loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from diploee.base.errors import PolicyError as PolicyError
    from diploee.schedule.actions import Action as Action
    from diploee.schedule.actions import Preempt as Preempt
    from diploee.schedule.actions import Resize as Resize
    from diploee.schedule.actions import Resume as Resume
    from diploee.schedule.actions import SetLevel as SetLevel
    from diploee.schedule.actions import Start as Start
    from diploee.schedule.context import Controller as Controller
    from diploee.schedule.context import JobTable as JobTable
    from diploee.schedule.policies.conservative import ConservativeBackfill as ConservativeBackfill
    from diploee.schedule.policies.easy import EasyBackfill as EasyBackfill
    from diploee.schedule.policies.easy import ShortestJobFirst as ShortestJobFirst
    from diploee.schedule.policies.easy import StrictFifo as StrictFifo
    from diploee.schedule.policies.power_capped import PowerCapped as PowerCapped
    from diploee.schedule.policies.priority import MultifactorPriority as MultifactorPriority
    from diploee.schedule.policy import ClusterView as ClusterView
    from diploee.schedule.policy import Estimate as Estimate
    from diploee.schedule.policy import EstimateByClasses as EstimateByClasses
    from diploee.schedule.policy import EstimateByFactor as EstimateByFactor
    from diploee.schedule.policy import Policy as Policy
    from diploee.schedule.policy import has_twin as has_twin
    from diploee.schedule.runs import ActedSchedule as ActedSchedule
    from diploee.schedule.runs import Runs as Runs
    from diploee.schedule.schedule import Schedule as Schedule
else:
    from diploee.base.fronts import front

    __all__, __getattr__, __dir__ = front(__name__)
