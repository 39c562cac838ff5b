"""Scenarios: pydantic models, YAML loading with file and line in every error, content hash."""

from diploee.scenario.calendar import Calendar
from diploee.scenario.loading import (
    find_scenario,
    load_scenario,
    scenario_from_dict,
    shipped_scenarios,
    target_values,
)
from diploee.scenario.models import (
    Facility,
    JobClass,
    JobMix,
    JobStream,
    NodeType,
    Pool,
    Scenario,
)
from diploee.scenario.serving import LatencyCap, LatencyMetric, RequestStream, Service

__all__ = [
    "Calendar",
    "Facility",
    "JobClass",
    "JobMix",
    "JobStream",
    "LatencyCap",
    "LatencyMetric",
    "NodeType",
    "Pool",
    "RequestStream",
    "Scenario",
    "Service",
    "find_scenario",
    "load_scenario",
    "scenario_from_dict",
    "shipped_scenarios",
    "target_values",
]
