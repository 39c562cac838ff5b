"""Scenarios: pydantic models, YAML loading with file and line in every error, content hash."""

from diploee.scenario.calendar import Calendar
from diploee.scenario.loading import (
    find_scenario,
    load_scenario,
    scenario_from_dict,
    shipped_scenarios,
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

__all__ = [
    "Calendar",
    "Facility",
    "JobClass",
    "JobMix",
    "JobStream",
    "NodeType",
    "Pool",
    "Scenario",
    "find_scenario",
    "load_scenario",
    "scenario_from_dict",
    "shipped_scenarios",
]
