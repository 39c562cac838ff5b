"""Scenarios: pydantic models, YAML loading with file and line in every error, content hash."""

from diploee.scenario.calendar import Calendar
from diploee.scenario.class_rules import ClassRule
from diploee.scenario.durations import DurationModel
from diploee.scenario.input_files import input_hashes
from diploee.scenario.job_streams import JobClass, JobMix, JobStream, ProfileVariants
from diploee.scenario.loading import (
    find_scenario,
    load_scenario,
    scenario_from_dict,
    shipped_scenarios,
    target_values,
)
from diploee.scenario.models import Facility, NodeType, Pool, Scenario
from diploee.scenario.recurring import RecurringTraining
from diploee.scenario.replay import JobReplay
from diploee.scenario.request_replay import RequestReplay
from diploee.scenario.serving import LatencyCap, LatencyMetric, RequestStream, Service
from diploee.scenario.serving_model import LogisticService

__all__ = [
    "Calendar",
    "ClassRule",
    "DurationModel",
    "Facility",
    "JobClass",
    "JobMix",
    "JobReplay",
    "JobStream",
    "LatencyCap",
    "LatencyMetric",
    "LogisticService",
    "NodeType",
    "Pool",
    "ProfileVariants",
    "RecurringTraining",
    "RequestReplay",
    "RequestStream",
    "Scenario",
    "Service",
    "find_scenario",
    "input_hashes",
    "load_scenario",
    "scenario_from_dict",
    "shipped_scenarios",
    "target_values",
]
