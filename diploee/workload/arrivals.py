"""When jobs are submitted: a Poisson process at hourly rates."""

from __future__ import annotations

import numpy as np

from diploee.tables import Int64Array
from diploee.units import MS_PER_DAY
from diploee.workload.rates import HourlyRates


def draw_submissions(
    rng: np.random.Generator, rates: HourlyRates, jobs_per_day: float
) -> Int64Array:
    """Draw a Poisson process: Poisson counts per clock hour, uniform milliseconds within it."""
    length_ms = np.diff(rates.edges_ms)
    n_jobs = rng.poisson(jobs_per_day / MS_PER_DAY * rates.relative_rate * length_ms)
    into_hour = rng.random(int(n_jobs.sum())) * np.repeat(length_ms, n_jobs)
    submit_ms: Int64Array = np.repeat(rates.edges_ms[:-1], n_jobs) + into_hour.astype(np.int64)
    return submit_ms
