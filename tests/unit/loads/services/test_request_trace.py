"""`RequestTrace`, its lengths, and its replay: no request lost or made up, weekdays
kept."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diploee.base.clock import UTC_ZONE, RunClock, Zone
from diploee.base.errors import WorkloadError
from diploee.base.tables import Float64Array
from diploee.base.units import MS_PER_DAY, MS_PER_H, MS_PER_WEEK
from diploee.loads.import_counts import ImportCounts
from diploee.loads.services.request_trace import (
    RequestTrace,
    TokenLengths,
    replayed_rates,
)
from diploee.scenario import RequestReplay

MONDAY = datetime(2024, 1, 1, tzinfo=UTC)


def trace_of(
    n_requests: Float64Array,
    step_ms: int = 60_000,
    start: datetime | None = MONDAY,
    origin_ms: int = 0,
    services: tuple[str, ...] = ("all",),
    zone: Zone = UTC_ZONE,
) -> RequestTrace:
    if start is not None:
        origin_ms = int(start.timestamp() * 1000)
    return RequestTrace(
        "trace.csv",
        "csv",
        services,
        origin_ms,
        start is None,
        step_ms,
        np.atleast_2d(np.asarray(n_requests, dtype=np.float64)),
        (),
        (),
        ImportCounts(0, 0),
        zone=zone,
    )


def replay(
    trace: RequestTrace, horizon_ms: int, step_ms: int = 60_000, **how: object
) -> Float64Array:
    start: Any = how.pop("start", MONDAY)
    spec = RequestReplay.model_validate({"trace": "trace", **how})
    clock = RunClock(start.replace(tzinfo=None), start.tzinfo, horizon_ms, step_ms)
    return replayed_rates(trace, spec, clock, step_ms)


def requests_in(rates: Float64Array, step_ms: int, horizon_ms: int) -> Float64Array:
    edges_s = np.append(np.arange(0, horizon_ms, step_ms), horizon_ms) / 1000
    return rates * np.diff(edges_s)


@given(
    n_requests=st.lists(st.integers(0, 50), min_size=1, max_size=20),
    trace_step=st.sampled_from([1000, 7000, 60_000, 600_000]),
    step=st.sampled_from([1000, 13_000, 60_000, 300_000]),
    n_repeats=st.integers(1, 4),
    rate_factor=st.floats(0.1, 10),
    time_factor=st.sampled_from([0.5, 1.0, 1.7, 3.0]),
)
def test_every_repetition_brings_each_request_once(
    n_requests: list[int],
    trace_step: int,
    step: int,
    n_repeats: int,
    rate_factor: float,
    time_factor: float,
) -> None:
    trace = trace_of(np.array(n_requests), trace_step)
    period_ms = len(n_requests) * trace_step * time_factor
    horizon_ms = int(n_repeats * period_ms)
    rates = replay(
        trace, horizon_ms, step, rate_factor=rate_factor, time_factor=time_factor
    )
    assert rates.size == -(-horizon_ms // step)
    assert (rates >= 0).all()
    found = requests_in(rates, step, horizon_ms).sum()
    lost = (
        (n_repeats * period_ms - horizon_ms)
        / (trace_step * time_factor)
        * max(n_requests)
    )
    expected = n_repeats * sum(n_requests) * rate_factor
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-9 + lost * rate_factor)


@given(
    n_requests=st.lists(st.integers(0, 50), min_size=2, max_size=30),
    coarse=st.integers(2, 9),
)
def test_coarser_steps_hold_the_sum_of_the_finer_ones(
    n_requests: list[int], coarse: int
) -> None:
    trace = trace_of(np.array(n_requests))
    horizon_ms = 3 * trace.span_ms
    fine = requests_in(replay(trace, horizon_ms), 60_000, horizon_ms)
    step_ms = coarse * 60_000
    found = requests_in(replay(trace, horizon_ms, step_ms), step_ms, horizon_ms)
    sums = np.add.reduceat(fine, np.arange(0, fine.size, coarse))
    assert found == pytest.approx(sums, rel=1e-9, abs=1e-9)


def test_a_trace_played_once_ends_and_a_time_factor_stretches_it() -> None:
    trace = trace_of(np.full(10, 6.0))
    once = replay(trace, 20 * 60_000, tile="none")
    assert once.tolist() == pytest.approx([0.1] * 10 + [0.0] * 10)
    stretched = replay(trace, 30 * 60_000, tile="none", time_factor=2)
    assert stretched.tolist() == pytest.approx([0.05] * 20 + [0.0] * 10)


@pytest.mark.parametrize(
    ("zone_h", "n_days", "run_start"),
    [
        (0, 7, datetime(2018, 1, 1)),
        (-7, 9, datetime(2018, 3, 3, 5, 30)),
        (9, 15, datetime(2018, 3, 3, 5, 30)),
    ],
)
def test_weeks_keep_the_weekday_and_hour_of_every_request(
    zone_h: int, n_days: int, run_start: datetime
) -> None:
    """A trace whose count in an hour is its hour of the week in UTC, from a Friday on."""  # noqa: E501
    start = datetime(2024, 5, 10, tzinfo=UTC)
    hours = np.arange(n_days * 24)
    of_week = (4 * 24 + hours) % 168
    trace = trace_of(of_week, MS_PER_H, start, zone=Zone("", zone_h * 60))
    zoned = run_start.replace(tzinfo=timezone(timedelta(hours=3)))
    rates = replay(trace, 60 * MS_PER_DAY, MS_PER_H // 2, start=zoned, tile="week")
    moments = [zoned + timedelta(minutes=30 * i) for i in range(rates.size)]
    local = np.array([m.weekday() * 24 + m.hour for m in moments])
    assert rates * 3600 == pytest.approx((local - zone_h) % 168, abs=1e-6)


def test_a_trace_repeats_by_its_own_span_and_has_no_dip_where_it_meets_itself() -> None:
    """Ten requests a second for 75 s, which begin and end within steps of a minute."""
    trace = trace_of(np.array([300.0, 450.0]))
    trace = replace(
        trace, own_span_ms=(trace.origin_ms + 30_000, trace.origin_ms + 105_000)
    )
    assert trace.span_ms == 75_000
    for step_ms in (1_000, 60_000):
        rates = replay(trace, 750_000, step_ms)
        assert rates == pytest.approx(np.full(rates.size, 10.0), rel=1e-9)


def test_a_week_that_lacks_some_minutes_is_a_week() -> None:
    trace = trace_of(np.ones(7 * 1440))
    trace = replace(
        trace, own_span_ms=(trace.origin_ms + 9_000, trace.edges_ms[-1] - 60_000)
    )
    rates = replay(trace, 2 * MS_PER_WEEK, tile="week")
    assert (rates * 60).sum() == pytest.approx(2 * 7 * 1440, rel=1e-9)


def test_weeks_of_a_relative_trace_lie_as_its_origin_is_stated() -> None:
    """The first step is 30 h after an origin at Wednesday 00:00 local time: Thursday
    06:00."""
    of_week = (3 * 24 + 6 + np.arange(168)) % 168
    trace = trace_of(of_week, MS_PER_H, None, origin_ms=30 * MS_PER_H)
    start = datetime(2018, 1, 2, 12, tzinfo=timezone(timedelta(hours=-7)))  # a Tuesday
    rates = replay(
        trace, 2 * MS_PER_WEEK, MS_PER_H, start=start, tile="week", zero_hour_of_week=48
    )
    assert rates * 3600 == pytest.approx((36 + np.arange(336)) % 168, abs=1e-6)


def test_a_service_is_replayed_by_name_and_all_as_their_sum() -> None:
    trace = trace_of(np.array([[60.0, 0.0], [30.0, 90.0]]), services=("a", "b"))
    parts = [replay(trace, 120_000, service=name) for name in ("a", "b")]
    assert parts[0].tolist() == [1.0, 0.0]
    assert (parts[0] + parts[1]).tolist() == replay(trace, 120_000).tolist()
    assert trace.rate_rps.tolist() == [[1.0, 0.0], [0.5, 1.5]]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (
            {"service": "alll"},
            r"trace.csv: no service 'alll' \(have: 'all'\); did you mean 'all'",
        ),
        ({"tile": "week"}, r"trace.csv: spans 0.01 days, tiling by weeks needs seven"),
    ],
)
def test_a_replay_that_cannot_be_is_refused(how: dict[str, str], message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        replay(trace_of(np.ones(10)), 60_000, **how)


@given(st.lists(st.integers(0, 300), min_size=1, max_size=50))
def test_quantiles_are_exact_where_bins_hold_one_length(lengths: list[int]) -> None:
    edges = np.arange(302)
    found = TokenLengths(edges, np.bincount(lengths, minlength=301), sum(lengths))
    assert found.mean == pytest.approx(np.mean(lengths))
    assert found.quantile([0, 1]).tolist() == [min(lengths), max(lengths)]
    low, high = (np.quantile(lengths, 0.5, method=m) for m in ("lower", "higher"))
    assert low <= found.quantile(0.5) <= high


def test_quantiles_of_a_wide_bin_lie_within_it() -> None:
    found = TokenLengths(np.array([0, 100, 200, 400]), np.array([0, 0, 10]), 2500)
    assert found.quantile([0, 0.5, 1]).tolist() == [200, 299.5, 399]
