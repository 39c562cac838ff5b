"""The week that ships for colocation is in step with the published day, and can be made
again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from calendars import (
    DAY,
    PARTS_PER_H,
    WEEK,
    expected_load,
    fitted_week,
    mean_day,
    mean_job_power,
    minutes_behind,
    shipped_week,
    week_text,
)
from paper_tables import TABLE_3

from diploee.base.units import HOURS_PER_DAY, HOURS_PER_WEEK
from diploee.loads.jobs.rates import line_with_means
from diploee.scenario import load_scenario

SCENARIOS = Path(__file__).parents[2] / "scenarios"
COLOCATION = ("", "_varied", "_poi", "_poi_air")
IDLE_MW, MEAN_MW = 2_840 * 420e-6, 2.378843  # of the year at 20 %, Table 3


def minutes_of_days(hours: np.ndarray) -> np.ndarray:
    """Return a line through the means of hours, one value a minute."""
    nodes, values = line_with_means(np.arange(hours.size + 1) * 60, hours)
    return np.interp(np.arange(hours.size * 60) + 0.5, nodes, values)


@pytest.mark.parametrize("late_min", [-37, 0, 5, 60])
def test_the_step_of_a_day_that_is_moved_is_found_to_the_minute(late_min: int) -> None:
    power_w = np.roll(minutes_of_days(np.tile(DAY, 5)), late_min)
    assert minutes_behind(power_w) == pytest.approx(late_min, abs=1)
    np.testing.assert_allclose(mean_day(power_w, late_min), DAY, atol=1e-3)


def test_power_of_the_shipped_week_is_in_step_with_the_published_one() -> None:
    scenario = load_scenario(TABLE_3.scenario)
    weights = np.array(scenario.streams["training"].calendar.week_weights())
    job = mean_job_power(scenario) * PARTS_PER_H
    above = expected_load(np.tile(weights / weights.mean(), 3), job)[-HOURS_PER_WEEK:]
    power = (IDLE_MW + (MEAN_MW - IDLE_MW) * above / above.mean()) / MEAN_MW
    assert abs(minutes_behind(minutes_of_days(power))) <= 5
    day = power.reshape(-1, HOURS_PER_DAY).mean(axis=0)
    assert np.sqrt(np.mean((day - DAY) ** 2)) < 0.008
    assert np.corrcoef(power, WEEK)[0, 1] > 0.998


def test_all_scenarios_of_the_colocation_site_have_one_week() -> None:
    names = [*(f"colocation_10mw{end}" for end in COLOCATION), "mixed_11mw"]
    weeks = {
        shipped_week((SCENARIOS / f"{name}.yaml").read_text("utf-8")) for name in names
    }
    assert len(weeks) == 1


@pytest.mark.slow
def test_the_shipped_week_is_what_the_published_figures_give() -> None:
    scenario = load_scenario(TABLE_3.scenario)
    text = (SCENARIOS / f"{TABLE_3.scenario}.yaml").read_text("utf-8")
    assert week_text(fitted_week(scenario)) == shipped_week(text)
