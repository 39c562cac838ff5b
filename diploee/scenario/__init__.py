"""Scenarios: pydantic models, YAML loading with file and line in every error, content hash."""

from diploee.scenario.calendar import Calendar, WeekToWeek
from diploee.scenario.class_rules import ClassRule
from diploee.scenario.durations import DurationModel
from diploee.scenario.flexibility import (
    DemandResponseEvent,
    Event,
    EventTarget,
    Flexibility,
    FollowSignal,
    JobFlexibility,
    SignalFile,
)
from diploee.scenario.input_files import content_hash, input_files
from diploee.scenario.job_streams import (
    BatchInference,
    JobArrays,
    JobClass,
    JobMix,
    JobStream,
    ProfileVariants,
)
from diploee.scenario.loading import (
    find_scenario,
    load_scenario,
    scenario_from_dict,
    shipped_scenarios,
    target_values,
)
from diploee.scenario.log_reading import JobState, LogReading
from diploee.scenario.models import Facility, NodeType, Pool, Scenario
from diploee.scenario.overloads import OVERLOADS, OverloadSpec
from diploee.scenario.phases import Phase, StandingNodes
from diploee.scenario.recurring import RecurringTraining
from diploee.scenario.replay import JobReplay, RequestReplay
from diploee.scenario.schedulers import SCHEDULERS, SchedulerSpec
from diploee.scenario.serving import Fluctuation, LatencyCap, LatencyMetric, RequestStream, Service
from diploee.scenario.serving_model import LogisticService

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
