"""Request rates over time (Eqs. 2-3): calendar weights, minute jitter, mean normalised."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import numpy as np

from diploee.errors import WorkloadError
from diploee.inference.replay import trace_rates_rps
from diploee.scenario import RequestStream, Scenario
from diploee.streams import stream as random_stream
from diploee.tables import Float64Array, Int64Array
from diploee.units import HOURS_PER_WEEK, MS_PER_H, MS_PER_MIN, MS_PER_S, MS_PER_WEEK

PLANNING_STEP_MS = 60_000
"""Step of the request rates and the instance plan [ms], whatever the output's resolution."""

MINUTES_PER_WEEK = MS_PER_WEEK // MS_PER_MIN


@dataclass(frozen=True, eq=False)
class RelativeRates:
    """Request rate in each planning step relative to its mean over the span.

    Parameters
    ----------
    edges_ms : numpy.ndarray, shape (T + 1,), int64
        Edges of the steps from the start of the run [ms]; the last step may be shorter.
    relative_rate : numpy.ndarray, shape (T,), float64
        Relative rate, with a time-weighted mean of 1.
    trace_rate_rps : float, optional
        Mean rate of a replayed trace [1/s]; None where a calendar gives the rates.
    """

    edges_ms: Int64Array
    relative_rate: Float64Array
    trace_rate_rps: float | None = None

    @property
    def step_s(self) -> Float64Array:
        """Length of each step [s], shape (T,)."""
        length: Float64Array = np.diff(self.edges_ms) / MS_PER_S
        return length


def planning_edges_ms(horizon_ms: int) -> Int64Array:
    """Return the edges of the planning steps [ms], shape (T + 1,), from 0 to the horizon."""
    steps = np.arange(0, horizon_ms, PLANNING_STEP_MS, dtype=np.int64)
    return np.append(steps, horizon_ms)


def relative_rates(scenario: Scenario, name: str) -> RelativeRates:
    """Lay the calendar and the jitter of a request stream over the run.

    The hour-of-week weights hold at the centres of the hours and are linear between them, so that
    no artificial step falls on the hour; each month's weight multiplies all its days. With jitter
    every minute of the week has one factor ``max(0, 1 + std z)``, the same in every week and for
    every service.

    Parameters
    ----------
    scenario : Scenario
        Start, length and seed of the run.
    name : str
        Name of the request stream.

    Raises
    ------
    WorkloadError
        If the weights of the whole span are zero, or a trace has no requests in it.
    """
    spec = scenario.request_streams[name]
    edges_ms = planning_edges_ms(scenario.horizon_ms)
    if spec.replay is not None:
        return _replayed(scenario, name, edges_ms)
    start = scenario.start
    monday = start.replace(hour=0, minute=0, second=0, microsecond=0)
    monday -= timedelta(days=start.weekday())
    into_week_ms = (start - monday) // timedelta(milliseconds=1)

    middle_h = ((edges_ms[:-1] + edges_ms[1:]) / 2 + into_week_ms) / MS_PER_H
    centres_h = np.arange(HOURS_PER_WEEK) + 0.5
    weight: Float64Array = np.interp(
        middle_h, centres_h, spec.calendar.week_weights(), period=HOURS_PER_WEEK
    )
    days = (np.datetime64(monday, "ms") + into_week_ms + edges_ms[:-1]).astype("datetime64[M]")
    weight *= np.array(spec.calendar.month_weights())[days.astype(np.int64) % 12]
    if spec.minute_jitter_relative_std > 0:
        minute = (edges_ms[:-1] + into_week_ms) // MS_PER_MIN % MINUTES_PER_WEEK
        weight *= _minute_factors(spec, scenario.seed, name)[minute]

    mean = np.average(weight, weights=np.diff(edges_ms))
    if mean == 0:
        raise WorkloadError(
            f"request_streams.{name}.calendar: the whole span from {start} on has weight zero; "
            "give the simulated hours and months positive weights"
        )
    return RelativeRates(edges_ms, weight / mean)


def _replayed(scenario: Scenario, name: str, edges_ms: Int64Array) -> RelativeRates:
    """Return the rates of a trace relative to their mean; jitter is the trace's own."""
    rates_rps = trace_rates_rps(scenario, name, PLANNING_STEP_MS)
    mean_rps = float(np.average(rates_rps, weights=np.diff(edges_ms)))
    return RelativeRates(edges_ms, rates_rps / mean_rps, mean_rps)


def _minute_factors(spec: RequestStream, seed: int, name: str) -> Float64Array:
    rng = random_stream(seed, "requests", name, "jitter")
    z = rng.standard_normal(MINUTES_PER_WEEK)
    factors: Float64Array = np.maximum(0.0, 1 + spec.minute_jitter_relative_std * z)
    return factors
