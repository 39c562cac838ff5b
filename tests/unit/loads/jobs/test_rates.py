"""Calendar weights over a span: clock hours, partial hours, leap years, mean 1."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest

from diploee.base.clock import RunClock
from diploee.base.errors import WorkloadError
from diploee.loads.jobs.rates import HourlyRates, gamma_factors, hourly_rates
from diploee.scenario import Calendar
from diploee.scenario.pools import InstalledNodes

MS_PER_H = 3_600_000
MONDAY = datetime(2018, 1, 1)
UNIFORM = Calendar()


def rates_of(calendar: Calendar, start: datetime, horizon_ms: int) -> HourlyRates:
    return hourly_rates(calendar, RunClock(start, UTC, horizon_ms, MS_PER_H))


def time_weighted_mean(rates: HourlyRates) -> float:
    return float(np.average(rates.relative_rate, weights=np.diff(rates.edges_ms)))


def test_the_29th_of_february_belongs_to_its_month() -> None:
    calendar = Calendar(month=(1, 7, *[1] * 10))
    rates = rates_of(calendar, datetime(2020, 2, 1), 60 * 24 * MS_PER_H)
    days = rates.relative_rate.reshape(60, 24).mean(axis=1)
    # The month's total is that of 29 days; half a week from its end the level goes down
    # to March.
    assert days[:29].sum() == pytest.approx(29 * 7 / 31 * days[29:].sum())
    assert days[24] > days[26] > days[28] > days[30] > days[33]


def test_a_span_that_starts_within_an_hour_has_partial_first_and_last_hours() -> None:
    start = datetime(2018, 1, 1, 0, 40)
    rates = rates_of(Calendar(hour_of_day=(3, 1, 2, *[0] * 21)), start, 2 * MS_PER_H)
    assert rates.edges_ms.tolist() == [0, 1_200_000, 4_800_000, 7_200_000]
    # The hour of weight 1 is whole, the others are parts of the line through 3, 1,
    # 2, 0.
    earlier = rates_of(Calendar(hour_of_day=(3, 1, 2, *[0] * 21)), MONDAY, 3 * MS_PER_H)
    part = earlier.between(2_400_000, 9_600_000)
    scale = part.segment_integrals.sum() / (2 * MS_PER_H)
    assert rates.point_rates == pytest.approx(part.point_rates / scale)
    assert rates.relative_rate[1] * scale == pytest.approx(1 / 2)


@pytest.mark.parametrize(
    "start", [MONDAY, datetime(2018, 1, 6), datetime(1969, 12, 29)]
)
def test_any_day_to_start_on_finds_its_weekday(start: datetime) -> None:
    rates = rates_of(
        Calendar(day_of_week=(0, 1, 2, 3, 4, 5, 6)), start, 24 * MS_PER_H * 7
    )
    by_day = rates.relative_rate.reshape(7, 24)[:, 0]
    assert by_day == pytest.approx(np.roll(np.arange(7) / 3, -start.weekday()))


def test_only_ratios_of_weights_matter() -> None:
    weights = np.arange(24) + 1.0
    rates = rates_of(Calendar(hour_of_day=tuple(1e6 * weights)), MONDAY, 30 * MS_PER_H)
    unscaled = rates_of(Calendar(hour_of_day=tuple(weights)), MONDAY, 30 * MS_PER_H)
    assert rates.relative_rate == pytest.approx(unscaled.relative_rate)
    assert time_weighted_mean(rates) == pytest.approx(1)


def test_rates_have_a_mean_of_one_over_a_span_of_unequal_months_and_hours() -> None:
    calendar = Calendar(
        hour_of_day=tuple(range(24)),
        day_of_week=(1, 2, 3, 4, 5, 6, 7),
        month=tuple(range(12)),
    )
    start = datetime(2018, 1, 30, 3, 17, 11, 5_000)
    rates = rates_of(calendar, start, 40 * 24 * MS_PER_H + 12_345)
    assert time_weighted_mean(rates) == pytest.approx(1, rel=1e-12)
    assert (rates.relative_rate[:40] == 0).all(), "January has weight 0"


def test_a_span_of_zero_weight_is_refused() -> None:
    with pytest.raises(
        WorkloadError, match="every hour from 2018-01-01 00:00:00 on has weight"
    ):
        rates_of(Calendar(day_of_week=(0, 1, 1, 1, 1, 1, 1)), MONDAY, 24 * MS_PER_H)


@pytest.mark.parametrize("dispersion", [5e-324, 1e-6, 10.0])
def test_factors_of_any_dispersion_are_finite_with_mean_1(dispersion: float) -> None:
    factors = gamma_factors(dispersion, np.arange(1_000), np.random.default_rng)
    assert np.isfinite(factors).all()
    assert factors.mean() == pytest.approx(
        1, abs=6 * (dispersion / 1_000) ** 0.5 + 1e-9
    )


def spiky(seed: int = 0) -> Calendar:
    week = np.random.default_rng(seed).gamma(0.5, size=168)
    week[[20, 21, 90]] = 0.0
    return Calendar(hour_of_week=tuple(week.tolist()))


def test_every_hour_keeps_the_mean_of_its_weight_and_its_random_factor() -> None:
    clock = RunClock(MONDAY, UTC, 168 * MS_PER_H, MS_PER_H)
    weights = np.array(spiky().week_weights())
    scatter = (0.7, 24, np.random.default_rng)
    for scatters, factors in (
        ((), np.ones(168)),
        (
            (scatter,),
            gamma_factors(0.7, 17_532 * 24 + np.arange(168), np.random.default_rng),
        ),
    ):
        rates = hourly_rates(spiky(), clock, random_factors=scatters)
        expected = weights / weights.mean() * factors
        np.testing.assert_allclose(rates.relative_rate, expected, rtol=1e-12)
        assert rates.point_rates.min() == 0


def test_rates_do_not_jump_at_the_edge_of_an_hour() -> None:
    for calendar in (spiky(), Calendar(day_of_week=(1, 0, 0, 1, 1, 0.6, 0.5))):
        rates = rates_of(calendar, MONDAY, 14 * 24 * MS_PER_H)
        step = np.abs(np.diff(rates.at(np.arange(0, 14 * 24 * MS_PER_H, 1_000))))
        assert step.max() < rates.point_rates.max() / 1_800 * 1.001, (
            "0 to the largest in 30 min"
        )


def test_a_run_that_begins_earlier_has_the_same_rates() -> None:
    def line(hours_before: float) -> HourlyRates:
        begin_ms = round(hours_before * MS_PER_H)
        clock = RunClock(
            datetime(2018, 1, 1, 5, 20), UTC, 168 * MS_PER_H, MS_PER_H, begin_ms
        )
        return hourly_rates(
            spiky(), clock, random_factors=((0.7, 24, np.random.default_rng),)
        )

    alone, earlier = line(0), line(100).between(0, 168 * MS_PER_H)
    assert alone.edges_ms.tolist() == earlier.edges_ms.tolist()
    np.testing.assert_allclose(alone.point_rates, earlier.point_rates, rtol=1e-12)


def test_rates_step_where_nodes_are_added_and_nowhere_else() -> None:
    clock = RunClock(MONDAY, UTC, 10 * MS_PER_H, MS_PER_H)
    added_ms = 4 * MS_PER_H + 700_000
    rates = hourly_rates(
        UNIFORM, clock, installed=InstalledNodes(10, ((added_ms, 30),))
    )
    at = rates.at(np.array([0, added_ms - 1, added_ms, 10 * MS_PER_H]))
    assert at / at[0] == pytest.approx([1, 1, 4, 4])
    assert rates.segment_integrals.sum() == pytest.approx(clock.horizon_ms)
    before, after = (
        rates.between(0, added_ms),
        rates.between(added_ms, clock.horizon_ms),
    )
    assert before.relative_rate == pytest.approx(at[0])
    assert after.relative_rate == pytest.approx(at[3])
