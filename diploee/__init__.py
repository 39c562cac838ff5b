"""Year-long power load of AI data centers, synthesised from published measurements.

The steps of the model, each a function over tables::

    scenario = diploee.load_scenario("colocation_10mw")
    library = diploee.ProfileLibrary.open()
    workload = diploee.generate_jobs(scenario, library)
    schedule = diploee.schedule_jobs(workload.jobs, scenario)
    segments = diploee.job_segments(schedule, workload.library, scenario)
    power = diploee.power_series(segments, scenario, workload.library)

or all at once, into a run folder, which `diploee.open_run` reads again::

    run = diploee.run("colocation_10mw", target_utilization=0.4)
    run.metric("grid.ramps.intervals.60s.up.max_mw")

`sweep` and `ensemble` make many runs; `report`, `export`, `limits` and `datasheet` take them on.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from diploee.errors import DiploeeError as DiploeeError
    from diploee.outputs import Run as Run
    from diploee.outputs import open_run as open_run
    from diploee.profiles import PowerProfile as PowerProfile
    from diploee.profiles import ProfileLibrary as ProfileLibrary
    from diploee.reports import report as report
    from diploee.reports.compare import compare as compare
    from diploee.scenario import Scenario as Scenario
    from diploee.scenario import load_scenario as load_scenario
    from diploee.simulation import simulate as simulate
    from diploee.steps import generate_jobs as generate_jobs
    from diploee.steps import job_segments as job_segments
    from diploee.steps import power_blocks as power_blocks
    from diploee.steps import power_series as power_series
    from diploee.steps import schedule_jobs as schedule_jobs
    from diploee.sweeps import sweep as sweep
    from diploee.sweeps.python import ensemble as ensemble
    from diploee.top_level import datasheet as datasheet
    from diploee.top_level import export as export
    from diploee.top_level import fit as fit
    from diploee.top_level import import_profile as import_profile
    from diploee.top_level import limits as limits
    from diploee.top_level import run as run
    from diploee.top_level import scenarios as scenarios

# Imported on first use: `diploee --help` must not wait for pandas and numba.
_HOMES = {
    "DiploeeError": "errors",
    "PowerProfile": "profiles",
    "ProfileLibrary": "profiles",
    "Run": "outputs",
    "Scenario": "scenario",
    "compare": "reports.compare",
    "datasheet": "top_level",
    "ensemble": "sweeps.python",
    "export": "top_level",
    "fit": "top_level",
    "generate_jobs": "steps",
    "import_profile": "top_level",
    "job_segments": "steps",
    "limits": "top_level",
    "load_scenario": "scenario",
    "open_run": "outputs",
    "power_blocks": "steps",
    "power_series": "steps",
    "report": "reports.build",
    "run": "top_level",
    "scenarios": "top_level",
    "schedule_jobs": "steps",
    "simulate": "simulation",
    "sweep": "sweeps.python",
}

__all__ = ["__version__", *sorted(_HOMES)]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"diploee.{_HOMES[name]}"), name)
    if not name.startswith("_") and find_spec(f"diploee.{name}"):
        return import_module(f"diploee.{name}")
    raise AttributeError(f"module 'diploee' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
