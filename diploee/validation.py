"""Checks of a scenario before it runs."""

from __future__ import annotations

from dataclasses import dataclass

from diploee.inputs import load_inputs
from diploee.loads.jobs.streams import JobStreams
from diploee.loads.services.load import ServicesLoad
from diploee.metrics.run_metrics import RunMetrics
from diploee.outputs.folder import expected_mb
from diploee.plausibility import overfull_pools
from diploee.profiles import ProfileLibrary
from diploee.scenario import Scenario
from diploee.schedule.schedule import Engine
from diploee.site import open_stages, rated_w, settle
from diploee.units import MS_PER_DAY, MS_PER_H, W_PER_MW

START_S = 1.0
S_PER_JOB: dict[Engine, float] = {"simpy": 4.3e-6, "compiled": 1.6e-6}
S_PER_SERVICE_INTERVAL = 12e-6
START_MB, MB_PER_NODE_HOUR = 400.0, 30e-6
"""ASSUMPTION [J]: what quarters of the shipped scenarios took on one core, to a factor of three."""


@dataclass(frozen=True)
class Forecast:
    """Expected time, memory and disk of a run, to about a factor of three."""

    time_s: float  # time of one core [s]
    # Largest memory, and size of the run folder [MB]
    memory_mb: float
    disk_mb: float

    def words(self) -> str:
        """Return it as one line."""
        time = f"{self.time_s:.0f} s" if self.time_s < 120 else f"{self.time_s / 60:.0f} min"
        sizes = (f"{mb:,.0f} MB" if mb < 1000 else f"{mb / 1000:,.1f} GB" for mb in self._sizes)
        return "about {}, {} of memory, {} on disk".format(time, *sizes)

    @property
    def _sizes(self) -> tuple[float, float]:
        return self.memory_mb, self.disk_mb


@dataclass(frozen=True)
class Checked:
    """Result of a check.

    `scenario` is the site as a run has it, in its size, and `rated_mw` its `rated_w` [MW];
    `warnings` name pools that are asked for more nodes than they have.
    """

    scenario: Scenario
    rated_mw: float
    n_classes: int
    forecast: Forecast
    warnings: tuple[str, ...]


def check(
    scenario: Scenario,
    library: ProfileLibrary | None = None,
    *,
    engine: Engine = "simpy",
    jobs_file: bool = True,
) -> Checked:
    """Read and check all that a run of a scenario needs, without simulating."""
    inputs = load_inputs(scenario, library)
    scenario = settle(scenario, inputs)
    streams = JobStreams(scenario, inputs)
    for index in {index for c in streams.classes for index in c.profile_ids}:
        _ = streams.library[index]  # reads the file and checks its values
    plans = ServicesLoad(scenario, inputs, streams.library).plans
    stages, _ = open_stages(scenario, weather=inputs.weather)
    of_site_w = rated_w(scenario, inputs.weather_year)
    RunMetrics(scenario.facility, scenario.clock, of_site_w, (), stages)
    n_jobs = int(streams.jobs_per_day * scenario.clock.simulated_ms / MS_PER_DAY)
    n_services = sum(len(plan.services) for plan in plans)
    served_s = S_PER_SERVICE_INTERVAL * n_services * scenario.n_intervals
    node_hours = scenario.facility.n_nodes * scenario.clock.simulated_ms / MS_PER_H
    files = (scenario.n_intervals, scenario.resolution_ms, n_services, n_jobs if jobs_file else 0)
    forecast = Forecast(
        START_S + S_PER_JOB[engine] * n_jobs + served_s,
        START_MB + MB_PER_NODE_HOUR * node_hours,
        expected_mb(*files),
    )
    overfull = overfull_pools(scenario.facility, scenario.clock, streams)
    return Checked(scenario, of_site_w / W_PER_MW, len(streams.classes), forecast, tuple(overfull))
