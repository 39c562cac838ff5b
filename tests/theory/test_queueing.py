"""Schedules against queueing theory: Erlang C, Pollaczek-Khinchine, Little's law.

The tolerance is a confidence interval over independent replications of the simulation
itself; no result of the package is pinned.
"""

from __future__ import annotations

from math import factorial

import numpy as np
import pytest
from builders import (
    job_table,
    mean_utilization,
    profile,
    queued_at,
    schedule_pool,
    tiny_scenario,
)
from scipy import stats

from diploee import generate_jobs
from diploee.profiles import ProfileLibrary
from diploee.scenario import Pool
from diploee.schedule import Schedule
from diploee.schedule.schedule import Engine
from diploee.simulation.steps import schedule_jobs

CONFIDENCE = 0.999
MEAN_SERVICE_MS = 3_600_000.0  # whole milliseconds are a rounding of 1e-7 of it
N_REPLICATIONS = {"simpy": 24, "compiled": 80}
N_JOBS = {"simpy": 15_000, "compiled": 30_000}
WARM_UP = 0.25  # share of each replication that is left out, as it starts empty

ENGINES: list[Engine] = ["simpy", "compiled"]
# Servers and load; the relaxation time, some 1 / (1 - sqrt(rho))**2 service times over
# the number of servers, stays far below the warm-up.
SYSTEMS = [(1, 0.5), (1, 0.7), (3, 0.8), (8, 0.7), (20, 0.85)]
FEW = {(1, 0.7), (20, 0.85)}
"""Of what takes longer, by default."""
SOME_SYSTEMS = [
    pytest.param(*system, marks=() if system in FEW else pytest.mark.slow)
    for system in SYSTEMS
]


def erlang_c_mean_wait_ms(n_servers: int, rho: float) -> float:
    """Mean wait in an M/M/c queue (Erlang C) [ms]."""
    offered = n_servers * rho
    waiting = offered**n_servers / factorial(n_servers) / (1 - rho)
    empty = sum(offered**k / factorial(k) for k in range(n_servers))
    return waiting / (empty + waiting) * MEAN_SERVICE_MS / (n_servers * (1 - rho))


def simulate_mmc(n_servers: int, rho: float, engine: Engine, seed: int) -> Schedule:
    rng = np.random.default_rng([2_604, 7_345, n_servers, round(100 * rho), seed])
    n_jobs = N_JOBS[engine]
    gaps_ms = rng.exponential(MEAN_SERVICE_MS / (n_servers * rho), n_jobs)
    submit_ms = np.cumsum(gaps_ms).astype(np.int64)
    duration_ms = np.maximum(
        np.rint(rng.exponential(MEAN_SERVICE_MS, n_jobs)), 1
    ).astype(np.int64)
    jobs = job_table(submit_ms, np.ones(n_jobs, dtype=int), duration_ms)
    pool = Pool(node_type="any", n_nodes=n_servers)
    return schedule_pool(jobs, pool, int(submit_ms[-1] + 1), engine)


def settled(schedule: Schedule) -> slice:
    """Jobs after the warm-up; the last few, of which some do not start in time, are
    left out.

    A fixed range of jobs, as a fixed range of time would correlate their number with
    their waits.
    """
    n_jobs = len(schedule.jobs)
    return slice(int(WARM_UP * n_jobs), int(0.95 * n_jobs))


def interval(samples: list[float]) -> tuple[float, float]:
    """Confidence interval of the mean of independent replications (Student's t)."""
    values = np.array(samples)
    half = stats.t.ppf((1 + CONFIDENCE) / 2, values.size - 1) * stats.sem(values)
    return float(values.mean() - half), float(values.mean() + half)


@pytest.mark.parametrize(("n_servers", "rho"), SYSTEMS)
def test_mean_wait_agrees_with_erlang_c(n_servers: int, rho: float) -> None:
    check_mean_wait(n_servers, rho, "compiled")


@pytest.mark.parametrize(("n_servers", "rho"), SOME_SYSTEMS)
def test_mean_wait_under_simpy_agrees_with_erlang_c(n_servers: int, rho: float) -> None:
    check_mean_wait(n_servers, rho, "simpy")


def check_mean_wait(n_servers: int, rho: float, engine: Engine) -> None:
    means = []
    for seed in range(N_REPLICATIONS[engine]):
        schedule = simulate_mmc(n_servers, rho, engine, seed)
        assert schedule.started[settled(schedule)].all()
        means.append(float(schedule.wait_ms[settled(schedule)].mean()))
    low, high = interval(means)
    assert low <= erlang_c_mean_wait_ms(n_servers, rho) <= high
    # An interval that holds everything would prove nothing.
    assert (high - low) / (high + low) < {"simpy": 0.25, "compiled": 0.12}[engine]


@pytest.mark.parametrize(("n_servers", "rho"), SOME_SYSTEMS)
def test_queue_length_obeys_littles_law(n_servers: int, rho: float) -> None:
    """Mean jobs waiting = arrival rate x mean wait, each counted in its own way."""
    rate_per_ms = n_servers * rho / MEAN_SERVICE_MS
    span_ms = N_JOBS["compiled"] / rate_per_ms
    times_ms = np.linspace(WARM_UP * span_ms, 0.9 * span_ms, 100_000).astype(np.int64)
    differences, lengths = [], []
    for seed in range(N_REPLICATIONS["compiled"]):
        schedule = simulate_mmc(n_servers, rho, "compiled", 1_000 + seed)
        length = float(np.mean(queued_at(schedule, times_ms)))
        submit_ms = schedule.jobs.submit_ms
        inside = (submit_ms >= times_ms[0]) & (submit_ms < times_ms[-1])
        waited_ms = int(schedule.wait_ms[inside].sum())
        differences.append(length - waited_ms / (times_ms[-1] - times_ms[0]))
        lengths.append(length)
    low, high = interval(differences)
    assert low <= 0 <= high
    low, high = interval(lengths)
    assert low <= rate_per_ms * erlang_c_mean_wait_ms(n_servers, rho) <= high


@pytest.mark.parametrize(("n_servers", "rho"), SYSTEMS)
def test_occupancy_obeys_littles_law(n_servers: int, rho: float) -> None:
    """Mean busy nodes = arrival rate x mean run time, so utilization = rho but for the
    start."""
    deficits = []
    for seed in range(N_REPLICATIONS["compiled"]):
        schedule = simulate_mmc(n_servers, rho, "compiled", 2_000 + seed)
        deficits.append(mean_utilization(schedule, n_servers) - rho)
    low, high = interval(deficits)
    # The pool starts empty: up to about one relaxation time of the run is missing.
    start = (
        1 / (1 - np.sqrt(rho)) ** 2 / n_servers * MEAN_SERVICE_MS / schedule.horizon_ms
    )
    assert low <= 0 and high >= -start


@pytest.mark.parametrize("engine", ENGINES)
def test_generated_jobs_of_equal_length_wait_as_pollaczek_and_khinchine_say(
    engine: Engine,
) -> None:
    """M/D/1: a generated list on one node; mean wait = rho / (2 (1 - rho)) service
    times."""
    rho, service_s = 0.6, 600
    library = ProfileLibrary([profile("one-1n-1", np.full(service_s, 700.0))])
    means_s = []
    for seed in range(30):
        scenario = tiny_scenario(
            {
                "duration": "20 d",
                "seed": seed,
                "facility.pools.main.n_nodes": 1,
                "streams.training.target_utilization": None,
                "streams.training.jobs_per_day": rho * 86_400 / service_s,
                "streams.training.classes": [
                    {"workload": "one", "n_nodes": 1, "probability": 1}
                ],
            }
        )
        schedule = schedule_jobs(
            generate_jobs(scenario, library).jobs, scenario, engine
        )
        means_s.append(float(schedule.wait_ms[settled(schedule)].mean()) / 1_000)
    low, high = interval(means_s)
    assert low <= rho / (2 * (1 - rho)) * service_s <= high
