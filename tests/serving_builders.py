"""Small request streams for tests: ``from serving_builders import serving_scenario``."""  # noqa: E501

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml
from builders import TINY, changed

from diploee.importers.input_reader import load_inputs
from diploee.loads.inputs import Inputs
from diploee.loads.services.curves import Curves
from diploee.loads.services.load import ServicesLoad
from diploee.loads.services.request_rates import RequestRates
from diploee.loads.services.request_rates import request_rates as rates_of
from diploee.loads.services.service_plan import ServicePlan
from diploee.profiles import ProfileLibrary
from diploee.scenario import Scenario, scenario_from_dict

SERVING: dict[str, Any] = {
    **{key: value for key, value in TINY.items() if key != "streams"},
    "name": "serving",
    "duration": "1 d",
    "request_streams": {
        "chat": {
            "pool": "main",
            "request_rate_rps": 400,
            "calendar": {"hour_of_day": [1, 1, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9] * 2},
            "services": {
                "coding": {
                    "probability": 0.4,
                    "max_request_rate_rps": 100,
                    "power_curve": "llama3_70b_coding_power",
                    "latency_curve": "llama3_70b_coding_latency",
                },
                "conversation": {
                    "probability": 0.6,
                    "max_request_rate_rps": 50,
                    "power_curve": "llama3_70b_conversation_power",
                    "latency_curve": "llama3_70b_conversation_latency",
                },
            },
        }
    },
}
"""One day of requests to two services on a pool of 12 nodes."""

CODING = "request_streams.chat.services.coding"
CONVERSATION = "request_streams.chat.services.conversation"


def serving_data(changes: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return a copy of `SERVING` with values set (or, where None, removed) by dotted
    key."""
    return changed(SERVING, changes)


def serving_scenario(changes: Mapping[str, Any] | None = None) -> Scenario:
    """Return the small request scenario with values changed by dotted key."""
    return scenario_from_dict(serving_data(changes))


def write_serving(path: Path, changes: Mapping[str, Any] | None = None) -> Path:
    """Write the small request scenario as a file and return its path."""
    path.write_text(
        yaml.safe_dump(serving_data(changes), sort_keys=False), encoding="utf-8"
    )
    return path


def one_service(**keys: Any) -> dict[str, Any]:
    """Return changes that leave one service, with keys of it changed."""
    service = deepcopy(SERVING["request_streams"]["chat"]["services"]["coding"])
    service["probability"] = 1.0
    service.update(keys)
    kept = {key: value for key, value in service.items() if value is not None}
    return {"request_streams.chat.services": {"coding": kept}}


def serving_inputs(scenario: Scenario) -> Inputs:
    """Return the inputs of a scenario without profiles of jobs."""
    return load_inputs(scenario, ProfileLibrary.in_order([]))


def load_curves(scenario: Scenario) -> Curves:
    """Read or compute the curves of all services of a scenario."""
    return serving_inputs(scenario).curves


def services_load(scenario: Scenario, answering: bool = False) -> ServicesLoad:
    """Plan and lower all request streams of a scenario."""
    library = ProfileLibrary.in_order([])
    return ServicesLoad(scenario, load_inputs(scenario, library), library, answering)


def plan_of(scenario: Scenario, answering: bool = False) -> ServicePlan:
    """Plan instances and served requests of the only request stream of a scenario."""
    (plan,) = services_load(scenario, answering).plans
    return plan


def request_rates(scenario: Scenario, name: str) -> RequestRates:
    """Return the request rate of a stream in time, for any mean rate."""
    return rates_of(scenario, name, serving_inputs(scenario).traces)
