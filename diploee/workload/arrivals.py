"""When jobs are submitted: a Poisson process at hourly rates."""

from __future__ import annotations

from functools import partial

import numpy as np

from diploee.scenario import JobStream
from diploee.streams import stream
from diploee.tables import Int64Array
from diploee.units import HOURS_PER_DAY, MS_PER_DAY
from diploee.workload.rates import HourlyRates, dispersed, hourly_rates
from diploee.workload.source import StreamFrame


def stream_rates(spec: JobStream, frame: StreamFrame) -> HourlyRates:
    """Lay a stream's calendar over the run, with its random factors per hour and day.

    Rates go with the nodes that stand, as tenants come with them (ASSUMPTION).

    The factors are drawn once for all that a stream submits, so that thinning keeps the dispersion.
    """
    name, standing = ("workload", frame.name), frame.standing
    rates = hourly_rates(spec.calendar, frame.clock, frame.seed, *name, standing=standing)
    scales = (
        ("dispersion", spec.dispersion, HOURS_PER_DAY),
        ("day dispersion", spec.day_dispersion, 1),
    )
    for what, dispersion, per_day in scales:
        if dispersion is not None:
            of_day = partial(stream, frame.seed, *name, what)
            rates = dispersed(rates, dispersion, frame.clock.date_ms(0), of_day, per_day)
    return rates


def draw_submissions(rng: np.random.Generator, rates: HourlyRates, per_day: float) -> Int64Array:
    """Draw a Poisson process: Poisson counts per clock hour, uniform milliseconds within it.

    The submissions [ms] are in the order of the hours, and in none within an hour.
    """
    length_ms = np.diff(rates.edges_ms)
    # Given their number, the points of a Poisson process of constant rate are uniform.
    n_jobs = rng.poisson(per_day / MS_PER_DAY * rates.relative_rate * length_ms)
    into_hour = rng.random(int(n_jobs.sum())) * np.repeat(length_ms, n_jobs)
    submit_ms: Int64Array = np.repeat(rates.edges_ms[:-1], n_jobs) + into_hour.astype(np.int64)
    return submit_ms
