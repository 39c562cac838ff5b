"""Year-long power load of AI data centers, synthesised from published measurements.

The steps of the model, each a function over tables::

    scenario = diploee.load_scenario("colocation_10mw")
    library = diploee.ProfileLibrary.open()
    workload = diploee.generate_jobs(scenario, library)
    schedule = diploee.schedule_jobs(workload.jobs, scenario)
    segments = diploee.job_segments(schedule, library)
    power = diploee.power_series(segments, scenario, library)

or all at once, into a run folder: ``diploee.simulate(scenario)``; `diploee.open_run` reads one.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from diploee.errors import DiploeeError as DiploeeError
    from diploee.outputs import Run as Run
    from diploee.outputs import open_run as open_run
    from diploee.profiles import PowerProfile as PowerProfile
    from diploee.profiles import ProfileLibrary as ProfileLibrary
    from diploee.run import simulate as simulate
    from diploee.scenario import Scenario as Scenario
    from diploee.scenario import load_scenario as load_scenario
    from diploee.steps import generate_jobs as generate_jobs
    from diploee.steps import job_segments as job_segments
    from diploee.steps import power_blocks as power_blocks
    from diploee.steps import power_series as power_series
    from diploee.steps import schedule_jobs as schedule_jobs

# Imported on first use: `diploee --help` must not wait for pandas and numba.
_HOMES = {
    "DiploeeError": "errors",
    "PowerProfile": "profiles",
    "ProfileLibrary": "profiles",
    "Run": "outputs",
    "Scenario": "scenario",
    "generate_jobs": "steps",
    "job_segments": "steps",
    "load_scenario": "scenario",
    "open_run": "outputs",
    "power_blocks": "steps",
    "power_series": "steps",
    "schedule_jobs": "steps",
    "simulate": "run",
}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"diploee.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'diploee' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
