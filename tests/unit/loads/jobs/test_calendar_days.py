"""Holidays that have a weekday's hours, and weeks that differ at random."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pytest

from diploee.base.clock import RunClock
from diploee.fits.binned_counts import BinnedCounts
from diploee.fits.calendar import fit_calendar
from diploee.fits.week_to_week import fit_weeks
from diploee.loads.jobs.rates import HourlyRates, hourly_rates
from diploee.scenario import Calendar

MS_PER_H, HOURS_PER_WEEK = 3_600_000, 168
WEEK = tuple(float(hour) for hour in range(1, HOURS_PER_WEEK + 1))


def rates_of(
    calendar: Calendar, n_weeks: int, seed: int = 0, start: str = "2018-01-01"
):
    horizon_ms = n_weeks * HOURS_PER_WEEK * MS_PER_H
    clock = RunClock(datetime.fromisoformat(start), UTC, horizon_ms, MS_PER_H)
    return hourly_rates(calendar, clock, seed, "stream")


def of_day(rates: HourlyRates, day: date) -> list[float]:
    first = (day - date(2018, 1, 1)).days * 24
    return (
        (rates.relative_rate / rates.relative_rate.min())[first : first + 24]
        .round(9)
        .tolist()
    )


@pytest.mark.parametrize(
    ("country", "holiday_as", "weekday", "holiday", "workday"),
    [
        ("US", "sunday", 6, date(2018, 7, 4), date(2018, 8, 15)),
        ("DE-BY", "wednesday", 2, date(2018, 11, 1), date(2018, 7, 4)),
    ],
)
def test_holidays_have_the_hours_of_their_weekday(
    country: str, holiday_as: str, weekday: int, holiday: date, workday: date
) -> None:
    rates = rates_of(
        Calendar(hour_of_week=WEEK, holidays=country, holiday_as=holiday_as), 52
    )
    for day, as_weekday in ((holiday, weekday), (workday, workday.weekday())):
        assert of_day(rates, day) == list(WEEK[as_weekday * 24 : as_weekday * 24 + 24])


def test_months_keep_their_totals_with_holidays() -> None:
    month = (1.0, 2.0, 0.5, 1.0, 1.0, 3.0, 1.0, 1.0, 1.0, 1.0, 1.0, 4.0)
    plain, seasonal = (
        rates_of(Calendar(hour_of_week=WEEK, holidays="US", **given), 60).relative_rate[
            :8_760
        ]
        for given in ({}, {"month": month})
    )
    number = np.arange("2018-01", "2019-01", dtype="datetime64[h]").astype(
        "datetime64[M]"
    )
    index = number.astype(int) % 12
    ratio = [
        seasonal[index == k].sum() / plain[index == k].sum() / month[k]
        for k in range(12)
    ]
    assert np.ptp(ratio) == pytest.approx(0, abs=1e-9)


def varied(relative_std: float, correlation_weeks: float, **given: Any) -> Calendar:
    weeks = {"relative_std": relative_std, "correlation_weeks": correlation_weeks}
    return Calendar(week_to_week=weeks, **given)


@pytest.mark.parametrize("correlation_weeks", [0, 1, 4])
def test_weekly_means_scatter_and_hang_together_as_asked(
    correlation_weeks: float,
) -> None:
    rates = rates_of(varied(0.2, correlation_weeks), 2_000)
    weekly = rates.relative_rate.reshape(-1, HOURS_PER_WEEK).mean(axis=1)
    assert (weekly > 0).all()
    # Standard errors with so many weeks, neighbours taken as one: 3 of them.
    error = np.sqrt((1 + 2 * correlation_weeks) / weekly.size)
    assert weekly.mean() == pytest.approx(1, abs=3 * 0.2 * error)
    assert weekly.std() == pytest.approx(0.2, rel=3 * error)
    lag = 8
    found = np.corrcoef(weekly[:-lag], weekly[lag:])[0, 1]
    expected = np.exp(-lag / correlation_weeks) if correlation_weeks else 0.0
    assert found == pytest.approx(expected, abs=0.03 + 3 * error)


def test_weeks_have_a_mean_of_one_over_each_calendar_year() -> None:
    # Mondays: 52 weeks whose middle lies in the year
    for start in ("2018-01-01", "2024-01-01"):
        weekly = rates_of(varied(0.5, 6), 52, start=start).relative_rate
        # The outermost half weeks lead to levels of other years.
        assert weekly.mean() == pytest.approx(1, abs=0.01)


def test_weeks_are_the_same_in_a_longer_run_and_differ_by_seed_and_stream() -> None:
    calendar = varied(0.3, 3)
    whole = rates_of(calendar, 20).relative_rate
    part = rates_of(calendar, 4, start="2018-02-12").relative_rate
    np.testing.assert_allclose(
        part, whole[6 * HOURS_PER_WEEK : 10 * HOURS_PER_WEEK], rtol=1e-12
    )
    other = rates_of(calendar, 20, seed=1).relative_rate
    assert np.abs(other / whole - 1).max() > 0.1


def test_weeks_go_over_into_each_other_without_a_step() -> None:
    clock = RunClock(
        datetime(2018, 1, 1), UTC, 30 * HOURS_PER_WEEK * MS_PER_H, MS_PER_H
    )
    every_ms = np.arange(0, clock.horizon_ms, 60_000)
    rates = hourly_rates(varied(0.5, 0), clock, 0, "stream").at(every_ms)
    assert np.abs(np.diff(rates)).max() < 2 * np.ptp(rates) / HOURS_PER_WEEK / 60
    assert rates.min() < 0.8 and rates.max() > 1.3


def fitted(counts: np.ndarray):
    first = int(np.datetime64("2018-01-01T00", "h").astype(np.int64))
    start_ms = (first + np.arange(counts.size)) * MS_PER_H
    calendar = fit_calendar(
        BinnedCounts(MS_PER_H, start_ms, counts, np.ones(counts.size)), months=False
    )
    return fit_weeks(start_ms, MS_PER_H, counts.astype(float), calendar.expected, 0.95)


@pytest.mark.parametrize("correlation_weeks", [0.0, 2.0])
def test_a_fit_returns_how_weeks_differ_within_its_limits(
    correlation_weeks: float,
) -> None:
    calendar = varied(0.2, correlation_weeks, hour_of_day=tuple(range(1, 25)))
    inside, stds = [], []
    for seed in range(8):
        rate = 20 * rates_of(calendar, 52, seed).relative_rate
        found = fitted(np.random.default_rng(seed).poisson(rate))
        assert found is not None and found.is_significant
        inside.append(
            found.low <= 0.2 <= found.high
            and found.correlation_low <= correlation_weeks <= found.correlation_high
        )
        stds.append(found.relative_std)
    assert sum(inside) >= 6  # of limits of 95 %
    assert np.median(stds) == pytest.approx(0.2, rel=0.25)


def test_weeks_that_do_not_differ_are_reported_as_noise() -> None:
    told = [
        found.is_significant
        for seed in range(10)
        if (
            found := fitted(
                np.random.default_rng(seed).poisson(10.0, 40 * HOURS_PER_WEEK)
            )
        )
    ]
    assert len(told) == 10 and sum(told) <= 2


@pytest.mark.parametrize(("n_weeks", "is_fitted"), [(5, False), (6, True)])
def test_fewer_than_six_weeks_tell_nothing(n_weeks: int, is_fitted: bool) -> None:
    counts = np.random.default_rng(0).poisson(10.0, n_weeks * HOURS_PER_WEEK + 100)
    assert (fitted(counts) is not None) == is_fitted
