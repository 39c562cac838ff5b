from __future__ import annotations

import numpy as np
import pytest
from serving_builders import serving_scenario

from diploee.errors import WorkloadError
from diploee.inference import PLANNING_STEP_MS, relative_rates

CALENDAR = "request_streams.chat.calendar"
JITTER = "request_streams.chat.minute_jitter_relative_std"


def test_rates_are_linear_between_the_centres_of_the_hours() -> None:
    hours = list(range(1, 25))
    scenario = serving_scenario({CALENDAR: {"hour_of_day": hours}})
    rate = relative_rates(scenario, "chat").relative_rate
    minute = np.arange(24 * 60) + 0.5
    ramp = minute / 60 + 0.5  # hour h has weight h + 1 at its centre, h + 0.5 hours into the day
    inside = (minute > 30) & (minute < 23.5 * 60)
    assert np.diff(rate / ramp, axis=0)[inside[:-1] & inside[1:]] == pytest.approx(0, abs=1e-12)


def test_rates_join_across_midnight_and_across_the_week() -> None:
    scenario = serving_scenario({"duration": "14 d"})
    rate = relative_rates(scenario, "chat").relative_rate
    assert np.abs(np.diff(rate)).max() <= 8 / 60 * 1.01 * rate.max() / 9


def test_mean_rate_stays_as_given_with_jitter() -> None:
    scenario = serving_scenario({JITTER: 0.5, "duration": "10 d"})
    rates = relative_rates(scenario, "chat")
    assert np.average(rates.relative_rate, weights=rates.step_s) == pytest.approx(1, abs=1e-12)


def test_jitter_has_one_factor_per_minute_of_the_week() -> None:
    plain = relative_rates(serving_scenario({"duration": "14 d"}), "chat").relative_rate
    jittered = relative_rates(serving_scenario({"duration": "14 d", JITTER: 0.1}), "chat")
    factor = jittered.relative_rate / plain
    week = 7 * 24 * 60
    assert factor[:week] == pytest.approx(factor[week:])
    assert factor.std() == pytest.approx(0.1, rel=0.05)


def test_month_weights_step_at_midnight() -> None:
    month = [1.0, 2.0] + [1.0] * 10
    scenario = serving_scenario(
        {CALENDAR: {"month": month}, "start": "2018-01-31", "duration": "2 d"}
    )
    rate = relative_rates(scenario, "chat").relative_rate
    assert rate[: 24 * 60] == pytest.approx(2 / 3)
    assert rate[24 * 60 :] == pytest.approx(4 / 3)


def test_last_planning_step_may_be_shorter() -> None:
    scenario = serving_scenario({"duration": "90 s", "resolution": "10 s"})
    rates = relative_rates(scenario, "chat")
    assert np.diff(rates.edges_ms).tolist() == [PLANNING_STEP_MS, PLANNING_STEP_MS // 2]


def test_span_of_weight_zero_is_refused() -> None:
    month = [0.0] + [1.0] * 11
    with pytest.raises(WorkloadError, match=r"^request_streams\.chat\.calendar: .* weight zero"):
        relative_rates(serving_scenario({CALENDAR: {"month": month}}), "chat")
