from __future__ import annotations

import numpy as np
import pytest

from diploee.base.units import MS_PER_DAY, MS_PER_H, MS_PER_MIN, MS_PER_WEEK
from diploee.reports.aggregate import (
    block_means,
    day_grid,
    duration_curve,
    histogram,
    profile_by_time,
    round_edges,
    statistics_by_date,
    time_of_week_ms,
)

MONDAY_MS = int(np.datetime64("2018-01-01", "ms").astype(np.int64))
QUARTER_MS = 15 * MS_PER_MIN
FIRSTS = ["2018-01-01", "2018-02-01"]


def times(n: int, step_ms: int, start: str = "2018-01-01") -> np.ndarray:
    return np.datetime64(start, "ms").astype(np.int64) + np.arange(n) * step_ms


def test_cells_of_the_carpet_are_means_by_day_and_time_of_day() -> None:
    local_ms = times(3 * 1440, MS_PER_MIN)
    values = np.arange(local_ms.size, dtype=np.float64)
    days, found = day_grid(local_ms, values, QUARTER_MS)
    assert days[0] == np.datetime64("2018-01-01")
    np.testing.assert_allclose(found, values.reshape(3, 96, 15).mean(axis=2).T)


def test_cells_without_an_interval_are_empty() -> None:
    _, found = day_grid(
        times(1440, MS_PER_MIN, "2018-01-01T12:00"), np.ones(1440), MS_PER_H
    )
    assert np.isnan(found[:12, 0]).all()
    assert np.isnan(found[12:, 1]).all()
    assert (found[12:, 0] == 1).all()


def test_bands_are_means_and_percentiles_of_all_intervals_in_the_bin() -> None:
    local_ms = times(21 * 1440, MS_PER_MIN)
    values = np.random.default_rng(0).normal(size=local_ms.size)
    ms, bands = profile_by_time(
        local_ms, values, MS_PER_DAY, QUARTER_MS, (0.05, 0.5, 0.95)
    )
    at_six = values.reshape(21, 96, 15)[:, 24].ravel()
    expected = [at_six.mean(), *np.percentile(at_six, (5, 50, 95))]
    np.testing.assert_allclose(bands[:, 24], expected, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(bands[:, -1], bands[:, 0])
    assert (ms[24], ms[-1]) == (6 * MS_PER_H, MS_PER_DAY)


def test_one_day_does_not_end_where_it_started() -> None:
    local_ms = times(1440, MS_PER_MIN)
    values = np.arange(1440, dtype=np.float64)
    _, (mean, median) = profile_by_time(local_ms, values, MS_PER_DAY, MS_PER_H, (0.5,))
    assert median[-1] == median[-2] == np.median(values[-60:])
    assert mean[-1] == values[-60:].mean()
    _, (twice,) = profile_by_time(
        times(2880, MS_PER_MIN), np.tile(values, 2), MS_PER_DAY, MS_PER_H
    )
    assert twice[-1] == values[:60].mean()


def test_a_week_starts_on_monday() -> None:
    local_ms = times(14 * 24, MS_PER_H, "2018-01-03")  # a Wednesday
    values = (np.arange(local_ms.size) % 168).astype(np.float64)
    _, (mean,) = profile_by_time(local_ms, values, MS_PER_WEEK, MS_PER_H)
    assert mean[48] == 0
    assert time_of_week_ms(local_ms)[0] == 2 * MS_PER_DAY


def test_duration_curve_falls_from_the_maximum_to_the_minimum() -> None:
    values = np.random.default_rng(1).gamma(2, size=50_000)
    share, power = duration_curve(values)
    assert power[0] == values.max()
    assert power[-1] == values.min()
    assert (np.diff(power) <= 0).all()
    assert np.interp(0.5, share, power) == pytest.approx(np.median(values))


def test_shares_of_a_histogram_sum_to_one_of_a_constant_too() -> None:
    edges = round_edges(1200.0, 1200.0, 80)
    assert histogram(np.full(5, 1200.0), edges).sum() == 1
    values = np.random.default_rng(2).uniform(0.3, 7.3, 1_000)
    edges = round_edges(values.min(), values.max(), 80)
    assert edges[1] - edges[0] == pytest.approx(0.1)
    assert histogram(values, edges).sum() == pytest.approx(1)


def test_days_and_months_hold_count_mean_and_range() -> None:
    days = statistics_by_date(times(48, MS_PER_H), np.arange(48.0), "D")
    assert days.to_numpy().tolist() == [[24, 11.5, 0, 23], [24, 35.5, 24, 47]]
    power_w = np.random.default_rng(3).uniform(1, 2, 59 * 24)
    months = statistics_by_date(times(59 * 24, MS_PER_H), power_w, "M")
    assert [f"{month:%Y-%m-%d}" for month in months.index] == FIRSTS
    assert (months["count"] * months["mean"]).sum() == pytest.approx(power_w.sum())
    assert months["max"].max() == power_w.max()


def test_means_of_blocks_hold_the_sum() -> None:
    assert block_means(np.arange(7.0), 3).tolist() == [1, 4, 6]


def test_waits_are_grouped_by_the_hour_of_submission() -> None:
    submit_ms = MONDAY_MS + np.array([0, 10, 2 * MS_PER_H, MS_PER_WEEK])
    ms, (mean, p95) = profile_by_time(
        submit_ms, np.array([0.0, 3.0, 7.0, 3.0]), MS_PER_WEEK, MS_PER_H, (0.95,)
    )
    assert ms.tolist() == [0, 2 * MS_PER_H]
    assert (mean[0], mean[1], p95[1]) == (2, 7, 7)
