"""When jobs are submitted: a Poisson process at continuous rates."""

from __future__ import annotations

from functools import partial

import numpy as np

from diploee.jit import njit
from diploee.scenario import JobStream
from diploee.streams import stream
from diploee.tables import Float64Array, Int64Array
from diploee.units import HOURS_PER_DAY, MS_PER_DAY
from diploee.workload.rates import HourlyRates, hourly_rates
from diploee.workload.source import StreamFrame


def stream_rates(spec: JobStream, frame: StreamFrame) -> HourlyRates:
    """Lay a stream's calendar over the run, with its random factors per hour and day.

    Rates go with the nodes that stand, as tenants come with them (ASSUMPTION).

    The factors are drawn once for all that a stream submits, so that thinning keeps the dispersion.
    """
    name = ("workload", frame.name)
    scatters = [
        (dispersion, per_day, partial(stream, frame.seed, *name, what))
        for what, dispersion, per_day in (
            ("dispersion", spec.dispersion, HOURS_PER_DAY),
            ("day dispersion", spec.day_dispersion, 1),
        )
        if dispersion is not None
    ]
    return hourly_rates(
        spec.calendar,
        frame.clock,
        frame.seed,
        *name,
        standing=frame.standing,
        scatters=scatters,
    )


def draw_submissions(rng: np.random.Generator, rates: HourlyRates, per_day: float) -> Int64Array:
    """Draw a Poisson process: Poisson counts per clock hour, placed within it as the rate goes.

    The submissions [ms] are in the order of the hours, and in none within an hour.
    """
    of_hours = rates.of_hours
    n_jobs = rng.poisson(per_day / MS_PER_DAY * of_hours)
    # Given their number, the points are independent; the share of the hour's integral that lies
    # before each is uniform.
    submit_ms = np.empty(int(n_jobs.sum()), dtype=np.int64)
    first_piece = np.searchsorted(rates.nodes_ms, rates.edges_ms)
    before = rng.random(submit_ms.size)
    _place(before, n_jobs, of_hours, first_piece, rates.nodes_ms, rates.at_nodes, submit_ms)
    return submit_ms


@njit()
def _place(
    before: Float64Array,
    n_jobs: Int64Array,
    of_hours: Float64Array,
    first_piece: Int64Array,
    nodes_ms: Int64Array,
    at_nodes: Float64Array,
    submit_ms: Int64Array,
) -> None:
    """Find when a share of the integral of each hour is reached, for so many shares of each."""
    job = 0
    for hour in range(n_jobs.size):
        for _ in range(n_jobs[hour]):
            rest = before[job] * of_hours[hour]
            piece = first_piece[hour]
            while True:
                length_ms = nodes_ms[piece + 1] - nodes_ms[piece]
                rate, rise = at_nodes[piece], at_nodes[piece + 1] - at_nodes[piece]
                of_piece = (rate + rise / 2) * length_ms
                if rest < of_piece or piece + 1 == first_piece[hour + 1]:
                    break
                rest -= of_piece
                piece += 1
            # rate t + rise t**2 / (2 length) = rest: the root that holds for every slope.
            into_ms = 0.0
            if rest > 0:
                root = np.sqrt(max(rate**2 + 2 * rise / length_ms * rest, 0.0))
                into_ms = 2 * rest / (rate + root)
            submit_ms[job] = nodes_ms[piece] + max(0, min(int(into_ms), length_ms - 1))
            job += 1
