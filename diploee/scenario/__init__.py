"""Scenarios: pydantic models, YAML loading with file and line in every error, content hash."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from diploee.base.errors import ScenarioError as ScenarioError
    from diploee.base.files.places import shipped as shipped
    from diploee.scenario.durations import DurationModel as DurationModel
    from diploee.scenario.durations import LognormalPart as LognormalPart
    from diploee.scenario.flexibility import DemandResponseEvent as DemandResponseEvent
    from diploee.scenario.flexibility import EventTarget as EventTarget
    from diploee.scenario.flexibility import Flexibility as Flexibility
    from diploee.scenario.flexibility import FollowSignal as FollowSignal
    from diploee.scenario.flexibility import JobFlexibility as JobFlexibility
    from diploee.scenario.flexibility import SignalFile as SignalFile
    from diploee.scenario.flexibility import Signals as Signals
    from diploee.scenario.job_streams import BatchInference as BatchInference
    from diploee.scenario.job_streams import JobArrays as JobArrays
    from diploee.scenario.job_streams import JobClass as JobClass
    from diploee.scenario.job_streams import JobMix as JobMix
    from diploee.scenario.job_streams import JobStream as JobStream
    from diploee.scenario.job_streams import PowerSmoothing as PowerSmoothing
    from diploee.scenario.job_streams import ProfileVariants as ProfileVariants
    from diploee.scenario.layout import Layout as Layout
    from diploee.scenario.loading import content_hash as content_hash
    from diploee.scenario.loading import load_scenario as load_scenario
    from diploee.scenario.loading import scenario_from_dict as scenario_from_dict
    from diploee.scenario.loading import target_values as target_values
    from diploee.scenario.log_replay import ClassRule as ClassRule
    from diploee.scenario.log_replay import JobReplay as JobReplay
    from diploee.scenario.log_replay import LogReading as LogReading
    from diploee.scenario.log_replay import RequestReplay as RequestReplay
    from diploee.scenario.models import Facility as Facility
    from diploee.scenario.models import Scenario as Scenario
    from diploee.scenario.models import Size as Size
    from diploee.scenario.overloads import OVERLOADS as OVERLOADS
    from diploee.scenario.overloads import OverloadSpec as OverloadSpec
    from diploee.scenario.pools import SCHEDULERS as SCHEDULERS
    from diploee.scenario.pools import NodeType as NodeType
    from diploee.scenario.pools import Phase as Phase
    from diploee.scenario.pools import Pool as Pool
    from diploee.scenario.pools import SchedulerSpec as SchedulerSpec
    from diploee.scenario.recurring import BATCH_SIZE_OPTIMIZERS as BATCH_SIZE_OPTIMIZERS
    from diploee.scenario.recurring import POWER_LIMIT_OPTIMIZERS as POWER_LIMIT_OPTIMIZERS
    from diploee.scenario.recurring import BatchSizeOptimizer as BatchSizeOptimizer
    from diploee.scenario.recurring import PowerLimitOptimizer as PowerLimitOptimizer
    from diploee.scenario.recurring import RecurringTraining as RecurringTraining
    from diploee.scenario.replica_streams import BATCH_CONTROLLERS as BATCH_CONTROLLERS
    from diploee.scenario.replica_streams import REPLICA_SIGNALS as REPLICA_SIGNALS
    from diploee.scenario.replica_streams import BatchControllerSpec as BatchControllerSpec
    from diploee.scenario.replica_streams import ReplicaModel as ReplicaModel
    from diploee.scenario.replica_streams import ReplicaRamp as ReplicaRamp
    from diploee.scenario.replica_streams import ReplicaSignalSpec as ReplicaSignalSpec
    from diploee.scenario.replica_streams import ReplicaStream as ReplicaStream
    from diploee.scenario.ride_through import RideThrough as RideThrough
    from diploee.scenario.serving import Fluctuation as Fluctuation
    from diploee.scenario.serving import LatencyCap as LatencyCap
    from diploee.scenario.serving import LogisticService as LogisticService
    from diploee.scenario.serving import RequestStream as RequestStream
    from diploee.scenario.serving import Service as Service
    from diploee.scenario.serving import ServiceFlexibility as ServiceFlexibility
    from diploee.scenario.synchronous import SecondDip as SecondDip
    from diploee.scenario.synchronous import SynchronousJob as SynchronousJob
    from diploee.scenario.synchronous import SynchronousTraining as SynchronousTraining
    from diploee.scenario.times import Calendar as Calendar
    from diploee.scenario.times import WeekToWeek as WeekToWeek
else:
    from diploee.base.fronts import front

    __all__, __getattr__, __dir__ = front(__name__)
