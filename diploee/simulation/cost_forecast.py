"""Forecast of a run's time, memory and disk space, from its jobs and services."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from heapq import heappop, heappush
from statistics import median

import numpy as np

from diploee.base.units import MS_PER_DAY, PROFILE_STEP_MS
from diploee.loads.jobs.load import JOBS_PER_WINDOW, MAX_DRAWS
from diploee.loads.jobs.source import draw_spans
from diploee.loads.jobs.synthetic import MAX_RETAINED
from diploee.loads.services.service_plan import ServicePlan
from diploee.power.blocks import BLOCK_INTERVALS
from diploee.runs.folder import estimate_size_mb
from diploee.schedule.job_table import DRAW_MS
from diploee.schedule.schedule import Engine
from diploee.simulation.prepared import PreparedSite

START_S, START_OF_SERVICES_S, S_PER_SPAN, S_PER_POOL_INTERVAL = (
    1.7,
    1.7,
    0.25e-3,
    2.3e-6,
)
S_PER_PIECE, S_PER_PIECE_MATCHED = 1.3e-6, 0.8e-6
S_PER_JOB: dict[Engine, float] = {"simpy": 9.8e-6, "compiled": 2.1e-6}
"""Run time of parts [s]: the start, without and with services; per draw span
of a stream; per interval of a pool; per interval of a service's plan (and more if it
matches a target); and per job. Fitted to days, months and years of the shipped
scenarios on one core."""

S_PER_STEP, S_PER_STEP_OF_STAGE, S_PER_STEP_OF_LIMITS = 0.1e-6, 0.02e-6, 0.08e-6
S_PER_STEP_OF_JOBS = 0.4e-6
"""Run time per step finer than the resolution [s]: of power, of each stage, and of each
file of limits, doubled if a large job has a lower end; and of each pool with many jobs,
whose profiles are added."""

S_PER_STEP_OF_WINDOWS, S_PER_STEP_OF_WINDOWS_OF_JOBS = 0.03e-6, 0.2e-6
"""Run time of the search for event windows per step of the profiles [s], and for each
pool with many jobs: within a factor of two of years of 1, 10, 100 and 150 MW."""

CORES_OF_STEPS = 1.8
"""Number of cores that a run in such steps uses, out of two or more: its processor time
over its run time, 589 s over 324 s for the year of a campus of 150 MW."""

REFERENCE_S = 0.020
"""Time of the task of `slowness` on the reference machine [s]."""

# Memory at the start, and of a full window of jobs [MB]
START_MB, MB_OF_WINDOW = 330.0, 230.0
B_PER_PIECE, B_PER_PIECE_MATCHED, B_PER_KEPT_JOB = 120, 50, 60
B_PER_BLOCK_INTERVAL = 900
"""Memory per pool and interval of a block, with temporary arrays [bytes]."""


@cache
def slowness() -> float:
    """Return this machine's time for a fixed task, relative to the reference machine.

    Like a run, the task has a queue in Python, computes, and reads memory out of order.
    It allocates no new memory, because the time to do so depends on the history of the
    process.
    """
    times_s, values = [], np.arange(1_000_000.0)
    order = np.arange(values.size) * 7_919 % values.size
    result, reordered = np.empty(200_000), np.empty_like(values)
    for _ in range(7):
        began_s = time.process_time()
        queue: list[tuple[int, int]] = []
        for k in range(10_000):
            heappush(queue, (k * 7_919 % 10_007, k))
        while queue:
            heappop(queue)
        np.sin(values[: result.size], out=result).sort()
        np.take(values, order, out=reordered, mode="wrap")
        times_s.append(time.process_time() - began_s)
    return median(times_s) / REFERENCE_S


def duration(time_s: float) -> str:
    """Return the text of a duration, rounded to the forecast's accuracy."""
    return f"{time_s:.0f} s" if time_s < 120 else f"{time_s / 60:.0f} min"


@dataclass(frozen=True)
class Forecast:
    """Expected time, memory and disk space of a run, within a factor of about 1.5."""

    time_s: float  # run time [s]
    memory_mb: float  # peak memory [MB]
    disk_mb: float  # size of the run folder [MB]

    def text(self) -> str:
        """Return the forecast as one line of text."""
        memory, disk = (
            f"{mb:,.0f} MB" if mb < 1000 else f"{mb / 1000:,.1f} GB"
            for mb in (self.memory_mb, self.disk_mb)
        )
        return f"about {duration(self.time_s)}, {memory} of memory, {disk} on disk"


def forecast_run(
    site: PreparedSite, jobs_per_day: float, plans: Sequence[ServicePlan]
) -> Forecast:
    """Return the forecast of a run from its number of jobs and service segments."""
    scenario, clock = site.scenario, site.scenario.clock
    n_jobs = int(jobs_per_day * clock.simulated_ms / MS_PER_DAY)
    n_spans = len(scenario.streams) * len(draw_spans(clock))
    n_pieces = n_matched = 0
    for plan in plans:
        plan_pieces = sum(service.served.rate_rps.size for service in plan.services)
        n_pieces += plan_pieces
        n_matched += plan_pieces * (plan.match.match == "plan")
    n_services = sum(len(plan.services) for plan in plans)
    time_s = START_S + START_OF_SERVICES_S * bool(plans)
    time_s += S_PER_SPAN * n_spans + S_PER_JOB[site.engine] * n_jobs
    time_s += S_PER_PIECE * n_pieces + S_PER_PIECE_MATCHED * n_matched
    time_s += S_PER_POOL_INTERVAL * len(scenario.facility.pools) * scenario.n_intervals
    n_pools = len(
        {of.pool for of in scenario.streams.values() if of.synchronous is None}
    )
    n_cores = min(os.cpu_count() or 1, CORES_OF_STEPS)
    if site.options.event_windows:
        step_s = S_PER_STEP_OF_WINDOWS + S_PER_STEP_OF_WINDOWS_OF_JOBS * n_pools
        time_s += step_s / n_cores * scenario.horizon_ms / PROFILE_STEP_MS
    if scenario.step_ms < scenario.resolution_ms:
        n_ends = 1 if site.watch.lower_end(scenario) is None else 2
        step_time_s = S_PER_STEP + S_PER_STEP_OF_STAGE * len(scenario.facility.stages)
        step_time_s += S_PER_STEP_OF_LIMITS * len(site.watch.models)
        all_step_time_s = n_ends * step_time_s + S_PER_STEP_OF_JOBS * n_pools
        time_s += all_step_time_s / n_cores * scenario.horizon_ms / scenario.step_ms
    n_storing = sum(stream.match == "simulated" for stream in scenario.streams.values())
    n_stored = min(n_jobs, MAX_RETAINED * n_storing)
    window_mb = MB_OF_WINDOW * min(n_jobs / JOBS_PER_WINDOW, 1.0)
    memory_b: float = (
        B_PER_PIECE * n_pieces
        + B_PER_PIECE_MATCHED * n_matched
        + B_PER_KEPT_JOB * n_stored
    )
    window_ms = min(
        MAX_DRAWS * DRAW_MS, JOBS_PER_WINDOW / max(jobs_per_day, 1) * MS_PER_DAY
    )
    n_steps = scenario.horizon_ms // scenario.step_ms
    n_rows: float = min(n_steps, window_ms / scenario.step_ms, BLOCK_INTERVALS)
    memory_b += B_PER_BLOCK_INTERVAL * n_rows * len(scenario.facility.pools)
    files = (
        scenario.n_intervals,
        scenario.resolution_ms,
        n_services,
        n_jobs if site.options.jobs_file else 0,
    )
    return Forecast(
        time_s * slowness(),
        START_MB + window_mb + memory_b / 1e6,
        estimate_size_mb(*files),
    )
