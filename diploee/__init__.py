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

from typing import TYPE_CHECKING

from diploee.base.version import __version__ as __version__

if TYPE_CHECKING:
    # In the order of the README, as `dir` and the reference have them
    # isort: off
    from diploee.api import run as run
    from diploee.reports.build import report as report
    from diploee.api import scenarios as scenarios
    from diploee.scenario.loading import load_scenario as load_scenario
    from diploee.scenario.models import Scenario as Scenario
    from diploee.runs.reader import Run as Run
    from diploee.runs.reader import open_run as open_run
    from diploee.simulation.run import simulate as simulate
    from diploee.simulation.steps import generate_jobs as generate_jobs
    from diploee.simulation.steps import schedule_jobs as schedule_jobs
    from diploee.simulation.steps import job_segments as job_segments
    from diploee.simulation.steps import power_series as power_series
    from diploee.simulation.steps import power_blocks as power_blocks
    from diploee.profiles.profile import PowerProfile as PowerProfile
    from diploee.profiles.library import ProfileLibrary as ProfileLibrary
    from diploee.api import import_profile as import_profile
    from diploee.api import limits as limits
    from diploee.api import datasheet as datasheet
    from diploee.api import export as export
    from diploee.sweeps.execute import sweep as sweep
    from diploee.sweeps.execute import ensemble as ensemble
    from diploee.reports.compare import compare as compare
    from diploee.api import fit as fit
    from diploee.base.errors import DiploeeError as DiploeeError
    from diploee.base.errors import InputError as InputError
    # isort: on
else:
    from diploee.base.fronts import front

    __all__, __getattr__, __dir__ = front(__name__)
