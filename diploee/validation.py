"""What can be said of a scenario before it runs."""

from __future__ import annotations

from diploee.inputs import load_inputs
from diploee.metrics import RunMetrics
from diploee.profiles import ProfileLibrary
from diploee.scenario import Scenario
from diploee.steps import at_size, open_stages, open_streams, plan_services


def check(scenario: Scenario, library: ProfileLibrary | None = None) -> int:
    """Read and check all that a run of a scenario needs, without simulating.

    Returns
    -------
    int
        Number of job classes.

    Raises
    ------
    InputError
        What `simulate` would refuse before its first job: a missing or damaged profile or curve, a
        latency cap or a target of requests out of reach, a column or metric declared twice.
    """
    inputs = load_inputs(scenario, library)
    scenario = at_size(scenario, inputs.weather)
    streams = open_streams(scenario, inputs)
    for index in {index for c in streams.classes for index in c.profile_ids}:
        _ = streams.library[index]  # reads the file and checks its values
    plan_services(scenario, inputs=inputs)
    stages, _ = open_stages(scenario, weather=inputs.weather)
    RunMetrics(scenario.facility, scenario.clock, (), stages)
    return len(streams.classes)
