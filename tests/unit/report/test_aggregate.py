from __future__ import annotations

import numpy as np
import pytest

from diploee.reports.aggregate import (
    by_day,
    by_month,
    day_grid,
    duration_curve,
    histogram,
    means_by_time,
    peak_week,
    percentiles_by_time,
    round_edges,
    waits_by_hour_of_week,
    week_ms,
)
from diploee.units import MS_PER_DAY, MS_PER_H, MS_PER_MIN, MS_PER_WEEK

MONDAY_MS = int(np.datetime64("2018-01-01", "ms").astype(np.int64))
QUARTER_MS = 15 * MS_PER_MIN


def times(n: int, step_ms: int, start: str = "2018-01-01") -> np.ndarray:
    return np.datetime64(start, "ms").astype(np.int64) + np.arange(n) * step_ms


def test_cells_of_the_carpet_are_means_by_day_and_time_of_day() -> None:
    local_ms = times(3 * 1440, MS_PER_MIN)
    values = np.arange(local_ms.size, dtype=np.float64)
    grid = day_grid(local_ms, values, QUARTER_MS)
    assert grid.first_day == np.datetime64("2018-01-01")
    np.testing.assert_allclose(grid.means, values.reshape(3, 96, 15).mean(axis=2).T)


def test_cells_without_an_interval_are_empty() -> None:
    grid = day_grid(times(1440, MS_PER_MIN, "2018-01-01T12:00"), np.ones(1440), MS_PER_H)
    assert np.isnan(grid.means[:12, 0]).all()
    assert np.isnan(grid.means[12:, 1]).all()
    assert (grid.means[12:, 0] == 1).all()


def test_bands_are_percentiles_of_all_intervals_in_the_bin() -> None:
    local_ms = times(21 * 1440, MS_PER_MIN)
    values = np.random.default_rng(0).normal(size=local_ms.size)
    bands = percentiles_by_time(local_ms, values, MS_PER_DAY, QUARTER_MS, (5.0, 50.0, 95.0))
    at_six = values.reshape(21, 96, 15)[:, 24].ravel()
    np.testing.assert_allclose(bands[:, 24], np.percentile(at_six, (5, 50, 95)))
    np.testing.assert_allclose(bands[:, -1], bands[:, 0])


def test_one_day_does_not_end_where_it_started() -> None:
    local_ms = times(1440, MS_PER_MIN)
    values = np.arange(1440, dtype=np.float64)
    bands = percentiles_by_time(local_ms, values, MS_PER_DAY, MS_PER_H, (50.0,))
    assert bands[0, -1] == bands[0, -2] == np.median(values[-60:])
    assert means_by_time(local_ms, values, MS_PER_DAY, MS_PER_H)[-1] == values[-60:].mean()
    twice, both = times(2880, MS_PER_MIN), np.tile(values, 2)
    assert means_by_time(twice, both, MS_PER_DAY, MS_PER_H)[-1] == values[:60].mean()


def test_a_week_starts_on_monday() -> None:
    local_ms = times(14 * 24, MS_PER_H, "2018-01-03")  # a Wednesday
    values = (np.arange(local_ms.size) % 168).astype(np.float64)
    bands = percentiles_by_time(local_ms, values, MS_PER_WEEK, MS_PER_H, (50.0,))
    assert bands[0, 48] == 0
    assert week_ms(local_ms)[0] == 2 * MS_PER_DAY


def test_duration_curve_falls_from_the_maximum_to_the_minimum() -> None:
    values = np.random.default_rng(1).gamma(2, size=50_000)
    share, power = duration_curve(values)
    assert power[0] == values.max()
    assert power[-1] == values.min()
    assert (np.diff(power) <= 0).all()
    assert np.interp(0.5, share, power) == pytest.approx(np.median(values))


def test_shares_of_a_histogram_sum_to_one() -> None:
    values = np.random.default_rng(2).uniform(0.3, 7.3, 1_000)
    edges = round_edges(values.min(), values.max(), 80)
    assert edges[1] - edges[0] == pytest.approx(0.1)
    assert histogram(values, edges).sum() == pytest.approx(1)


def test_a_constant_has_a_histogram_too() -> None:
    edges = round_edges(1200.0, 1200.0, 80)
    assert histogram(np.full(5, 1200.0), edges).sum() == 1


def test_months_hold_the_whole_energy() -> None:
    local_ms = times(59 * 24, MS_PER_H)
    power_w = np.random.default_rng(3).uniform(1, 2, local_ms.size)
    months = by_month(local_ms, power_w, MS_PER_H)
    assert [str(month) for month in months.month] == ["2018-01", "2018-02"]
    assert months.energy_j.sum() == pytest.approx(power_w.sum() * 3600)
    assert months.max_w.max() == power_w.max()
    assert months.complete.tolist() == [True, True]
    assert by_month(local_ms[5:], power_w[5:], MS_PER_H).complete.tolist() == [False, True]


def test_days_hold_mean_and_range() -> None:
    days = by_day(times(48, MS_PER_H), np.arange(48.0))
    assert days.mean.tolist() == [11.5, 35.5]
    assert (days.low.tolist(), days.high.tolist()) == ([0, 24], [23, 47])


def test_peak_week_is_a_calendar_week_around_the_maximum() -> None:
    local_ms = times(30 * 24, MS_PER_H, "2018-01-03")
    values = np.zeros(local_ms.size)
    values[400] = 1
    rows = peak_week(local_ms, values)
    assert rows.start <= 400 < rows.stop
    assert rows.stop - rows.start == 168
    assert (local_ms[rows.start] - MONDAY_MS) % MS_PER_WEEK == 0


def test_waits_are_grouped_by_the_hour_of_submission() -> None:
    submit_ms = MONDAY_MS + np.array([0, 10, 2 * MS_PER_H, MS_PER_WEEK])
    mean, p95 = waits_by_hour_of_week(submit_ms, np.array([0.0, 3.0, 7.0, 3.0]))
    assert mean[0] == 2
    assert (mean[2], p95[2]) == (7, 7)
    assert np.isnan(mean[1])
    assert mean.size == 169
