"""Logs and traces of named zones over a change of the clock, and of weeks that differ."""  # noqa: E501

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from builders import tiny_library, tiny_scenario
from fit_logs import HOUR_MS, job_log

from diploee.base.clock import RunClock, Zone
from diploee.fits.jobs.job_log_fit import fit_job_log
from diploee.fits.jobs.scenario_entry import job_stream
from diploee.fits.requests.fit import fit_requests
from diploee.fits.requests.scenario_entry import request_stream
from diploee.loads.import_counts import ImportCounts
from diploee.loads.jobs.job_log import JobLog
from diploee.loads.jobs.rates import hourly_rates
from diploee.loads.services.request_trace import RequestTrace
from diploee.scenario import Calendar, ClassRule

WEEK_MS = 7 * 86_400_000
ZONE = "America/Chicago"
BEGIN_MS = 1_517_810_400_000
"""2018-02-05 00:00 in Chicago, five weeks before its clock is put forward, a Monday."""


def busy_at_nine(n_weeks: int) -> np.ndarray:
    """Return the instants of hours that show 9 o'clock in Chicago."""
    hours = BEGIN_MS + np.arange(n_weeks * 168, dtype=np.int64) * HOUR_MS
    return hours[Zone(ZONE).local_ms(hours) // HOUR_MS % 24 == 9]


def log_of(submit_ms: np.ndarray) -> JobLog:
    return replace(job_log(submit_ms, utc_offset_min=-360), time_zone=ZONE)


def trace_of(n_requests: np.ndarray) -> RequestTrace:
    rows, counts = n_requests[None, :].astype(np.float64), ImportCounts(0, 0)
    of = ("t.csv", "csv", ("all",), BEGIN_MS, False, HOUR_MS, rows, (), (), counts)
    return RequestTrace(*of, zone=Zone(ZONE))


def test_hours_of_a_log_are_those_of_its_zone_over_a_change_of_the_clock() -> None:
    submit_ms = (busy_at_nine(10)[:, None] + np.arange(0, HOUR_MS, 60_000)).ravel()
    log = log_of(submit_ms)
    rules = [ClassRule(workload="tune")]
    fit = fit_job_log(log, rules, tiny_library(), months=False)
    weight = fit.arrivals.calendar.week_weight.reshape(7, 24)
    np.testing.assert_allclose(weight[:, 9], 24)
    assert weight.sum() == pytest.approx(168) and fit.time_zone == ZONE
    fixed = fit_job_log(replace(log, time_zone=""), rules, tiny_library(), months=False)
    assert fixed.arrivals.calendar.week_weight.reshape(7, 24)[:, 8].min() > 5


def test_hours_of_a_trace_are_those_of_its_zone_over_a_change_of_the_clock() -> None:
    counts = np.ones(10 * 168)
    counts[(busy_at_nine(10) - BEGIN_MS) // HOUR_MS] = 100
    fit = fit_requests(trace_of(counts))
    weight = fit.calendar.week_weight.reshape(7, 24)
    assert weight[:, 9].min() == pytest.approx(100 * np.delete(weight, 9, axis=1).max())


def test_a_fit_of_a_long_log_and_trace_writes_how_weeks_differ() -> None:
    varied = Calendar(week_to_week={"relative_std": 0.3, "correlation_weeks": 2})
    clock = RunClock(datetime(2018, 2, 5, 6), UTC, 40 * WEEK_MS, HOUR_MS)
    rates = hourly_rates(varied, clock, 5, "stream").relative_rate
    rng = np.random.default_rng(5)
    counts = rng.poisson(6 * rates)
    jobs = BEGIN_MS + np.repeat(np.arange(counts.size), counts) * HOUR_MS
    jobs += rng.integers(0, HOUR_MS, jobs.size)
    fit = fit_job_log(log_of(jobs), [ClassRule(workload="tune")], tiny_library())
    weeks = fit.arrivals.weeks
    assert weeks is not None and weeks.low <= 0.3 <= weeks.high
    # Not found twice
    assert fit.arrivals.dispersion is None or fit.arrivals.dispersion < 0.02
    calendar = job_stream(fit, "main")["calendar"]
    assert calendar["week_to_week"] == weeks.entry
    of_trace = fit_requests(trace_of(counts))
    assert (
        of_trace.weeks is not None and of_trace.weeks.low <= 0.3 <= of_trace.weeks.high
    )
    written = request_stream(of_trace, pool="main")["calendar"]["week_to_week"]
    assert written == of_trace.weeks.entry
    tiny_scenario({"streams.training.calendar.week_to_week": weeks.entry})


def test_weeks_without_a_job_are_gaps_and_not_weeks_that_differ() -> None:
    rng = np.random.default_rng(3)
    counts = rng.poisson(np.full(52 * 168, 1.0))
    counts[14 * 168 : 17 * 168] = 0
    jobs = BEGIN_MS + np.repeat(np.arange(counts.size), counts) * HOUR_MS
    fit = fit_job_log(log_of(jobs), [ClassRule(workload="tune")], tiny_library())
    weeks = fit.arrivals.weeks
    assert weeks is not None and weeks.n_dead == 3
    assert weeks.relative_std < 0.4 and weeks.correlation_weeks <= 13
    tiny_scenario({"streams.training.calendar.week_to_week": weeks.entry})
