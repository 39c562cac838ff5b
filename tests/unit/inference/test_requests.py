from __future__ import annotations

import numpy as np
import pytest
from serving_builders import request_rates, serving_scenario

from diploee.errors import WorkloadError
from diploee.loads.jobs.rates import month_factors
from diploee.scenario import Calendar

CALENDAR = "request_streams.chat.calendar"
MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000


def test_weights_on_a_line_give_rates_on_that_line() -> None:
    rates = request_rates(serving_scenario({CALENDAR: {"hour_of_day": list(range(1, 25))}}), "chat")
    hour = rates.nodes_ms / HOUR_MS
    inside = (hour > 1) & (hour < 23)
    ramp = hour + 0.5  # hour h has mean h + 1, h + 0.5 hours into the day
    ratio = (rates.relative_mean / ramp)[inside]
    assert np.ptp(ratio) == pytest.approx(0, abs=1e-9)


def test_rates_join_across_midnight_and_across_the_week() -> None:
    rates = request_rates(serving_scenario({"duration": "14 d"}), "chat")
    slope = np.diff(rates.relative_mean) / np.diff(rates.nodes_ms)
    assert np.abs(slope).max() * HOUR_MS / 2 <= rates.relative_mean.max()


def test_nodes_lie_on_no_clock() -> None:
    rates = request_rates(serving_scenario({"duration": "14 d"}), "chat")
    into_minute = rates.nodes_ms[1:-1] % MINUTE_MS // 6_000
    counts = np.bincount(into_minute, minlength=10)
    expected = counts.sum() / 10
    assert ((counts - expected) ** 2 / expected).sum() < 27.9  # chi-square, 9 degrees, 0.1 %


def test_months_go_over_into_each_other_without_a_step_and_keep_their_totals() -> None:
    month = (1.0, 2.0, 0.5, 1.0, 0.0, 3.0, 1.0, 1.0, 1.0, 1.0, 1.0, 4.0)
    hour = np.arange("2018-01", "2019-01", dtype="datetime64[h]")
    factor = month_factors(Calendar(month=month), hour.astype(np.int64))
    # Half a week from one level to the mean of the two, the level a little off the weight.
    assert np.abs(np.diff(factor)).max() <= 1.1 * 3 / 84
    number = hour.astype("datetime64[M]").astype(int) % 12
    for index, weight in enumerate(month):
        assert factor[number == index].mean() == pytest.approx(weight, abs=1e-9)
    assert (factor >= 0).all()


def test_months_keep_their_totals_with_a_week_of_hours() -> None:
    rng = np.random.default_rng(3)
    week = tuple(rng.gamma(0.5, size=168).tolist())
    calendar = Calendar(hour_of_week=week, month=tuple(rng.uniform(0.5, 2, 12).tolist()))
    hour = np.arange("2019-01", "2020-01", dtype="datetime64[h]")
    of_week = np.array(week)[(hour.astype(int) + 72) % 168]
    factor = month_factors(calendar, hour.astype(np.int64))
    number = hour.astype("datetime64[M]").astype(int) % 12
    for index, weight in enumerate(calendar.month_weights()):
        inside = number == index
        assert (factor * of_week)[inside].sum() == pytest.approx(weight * of_week[inside].sum())


def test_part_of_a_year_has_the_months_of_the_whole() -> None:
    calendar = Calendar(month=(1.0, 2.0, 0.5) * 4)
    hour = np.arange("2018-01", "2019-01", dtype="datetime64[h]").astype(np.int64)
    whole = month_factors(calendar, hour)
    assert month_factors(calendar, hour[2000:2100]) == pytest.approx(whole[2000:2100], abs=1e-12)


def test_span_of_weight_zero_is_refused() -> None:
    month = [0.0] + [1.0] * 11
    with pytest.raises(WorkloadError, match=r"^request_streams\.chat\.calendar: .* weight zero"):
        request_rates(serving_scenario({CALENDAR: {"month": month}}), "chat")
