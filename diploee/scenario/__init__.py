"""Scenarios: pydantic models, YAML loading with file and line in every error, content hash."""

from diploee.scenario.durations import DurationModel
from diploee.scenario.events import DemandResponseEvent, Event, EventTarget
from diploee.scenario.flexibility import (
    Flexibility,
    FollowSignal,
    JobFlexibility,
    SignalFile,
)
from diploee.scenario.job_streams import (
    BatchInference,
    JobArrays,
    JobClass,
    JobMix,
    JobStream,
    ProfileVariants,
)
from diploee.scenario.loading import (
    content_hash,
    find_scenario,
    input_files,
    load_scenario,
    scenario_from_dict,
    shipped_scenarios,
    target_values,
)
from diploee.scenario.log_replay import ClassRule, JobReplay, JobState, LogReading, RequestReplay
from diploee.scenario.models import Facility, NodeType, Scenario
from diploee.scenario.overloads import OVERLOADS, OverloadSpec
from diploee.scenario.pools import SCHEDULERS, Phase, Pool, SchedulerSpec, StandingNodes
from diploee.scenario.recurring import RecurringTraining
from diploee.scenario.serving import Fluctuation, LatencyCap, LatencyMetric, RequestStream, Service
from diploee.scenario.serving_model import LogisticService
from diploee.scenario.times import Calendar, WeekToWeek

__all__ = [
    "OVERLOADS",
    "SCHEDULERS",
    "BatchInference",
    "Calendar",
    "ClassRule",
    "DemandResponseEvent",
    "DurationModel",
    "Event",
    "EventTarget",
    "Facility",
    "Flexibility",
    "Fluctuation",
    "FollowSignal",
    "JobArrays",
    "JobClass",
    "JobFlexibility",
    "JobMix",
    "JobReplay",
    "JobState",
    "JobStream",
    "LatencyCap",
    "LatencyMetric",
    "LogReading",
    "LogisticService",
    "NodeType",
    "OverloadSpec",
    "Phase",
    "Pool",
    "ProfileVariants",
    "RecurringTraining",
    "RequestReplay",
    "RequestStream",
    "Scenario",
    "SchedulerSpec",
    "Service",
    "SignalFile",
    "StandingNodes",
    "WeekToWeek",
    "content_hash",
    "find_scenario",
    "input_files",
    "load_scenario",
    "scenario_from_dict",
    "shipped_scenarios",
    "target_values",
]
