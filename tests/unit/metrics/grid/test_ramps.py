from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest
from builders import tiny_run

from diploee.metrics.limits import Limits
from diploee.metrics.run_metrics import GridMetrics
from diploee.profiles.profile import Provenance

START = datetime(2018, 1, 1, tzinfo=UTC)
MW = 1e6


def grid_block(power_w, step_ms, start=START, **options):
    metrics = GridMetrics(step_ms, start, **{"rated_power_w": 10 * MW} | options)
    metrics.add(0, np.asarray(power_w, dtype=float))
    return metrics.block()


def ramp(block, interval_s):
    (found,) = [r for r in block["ramps"]["intervals"] if r["interval_s"] == interval_s]
    return found


def test_steady_rise_has_its_rate_at_every_length():
    block = grid_block(np.arange(3 * 3600) * 100.0, 1_000)  # 100 W/s = 6 kW/min
    for interval_s in (2, 10, 60, 300, 600, 900, 3600):
        entry = ramp(block, interval_s)
        assert entry["up"]["max_mw"] == pytest.approx(interval_s * 1e-4, rel=1e-12)
        assert entry["up"]["max_mw_per_min"] == pytest.approx(0.006, rel=1e-12)
        assert entry["up"]["p99_mw_per_min"] == pytest.approx(0.006, rel=1e-12)
        assert entry["down"]["max_mw"] == 0
        assert entry["down"]["time"] is None


def test_step_is_found_exactly_with_its_time():
    power_w = np.full(7200, 2 * MW)
    power_w[4000:] = 5 * MW
    power_w[5000:] = 1 * MW
    block = grid_block(power_w, 1_000)
    for interval_s in (2, 10, 60, 300, 600, 900):
        entry = ramp(block, interval_s)
        assert entry["up"]["max_mw"] == 3.0
        assert entry["up"]["time"] == (START + timedelta(seconds=4000 - interval_s)).isoformat()
        assert entry["down"]["max_mw"] == 4.0
        assert entry["down"]["max_mw_per_min"] == pytest.approx(4.0 * 60 / interval_s)
        assert entry["down"]["time"] == (START + timedelta(seconds=5000 - interval_s)).isoformat()
        assert entry["lower_bound"] is False


def test_ramps_shorter_than_the_resolution_are_absent_with_the_reason():
    ramps = grid_block(np.ones(600), 60_000)["ramps"]
    assert [r["interval_s"] for r in ramps["intervals"]] == [60, 300, 600, 900, 3600]
    assert [(r["interval_s"], r["reason"]) for r in ramps["absent"]] == [
        (2, "shorter than the run's resolution of 60 s"),
        (10, "shorter than the run's resolution of 60 s"),
    ]


def test_ramps_longer_than_half_the_run_are_absent_with_the_reason():
    ramps = grid_block(np.ones(40), 60_000)["ramps"]
    assert [r["interval_s"] for r in ramps["intervals"]] == [60, 300, 600, 900]
    assert ramps["absent"][-1] == {
        "interval_s": 3600,
        "reason": "the run is shorter than two intervals",
    }


def test_slow_readings_mark_ramps_as_lower_bounds():
    slow = Provenance("measured", "", "", 10.0, 10.0, 0.0443)
    block = grid_block(np.ones(7200), 1_000, readings=[slow])
    marked = {r["interval_s"]: r["lower_bound"] for r in block["ramps"]["intervals"]}
    assert marked == {2: True, 10: True, **dict.fromkeys((60, 300, 600, 900, 3600), False)}
    marked = {r["window_s"]: r["lower_bound"] for r in block["rolling_range"]["windows"]}
    assert marked == {2: True, 10: True, 60: False}


def test_rolling_range_of_a_pulse_is_exact_in_every_window():
    power_w = np.full(3000, 4 * MW)
    power_w[1000:1005] = 1 * MW  # half a second
    power_w[2000:2300] += np.arange(300) * 1000.0
    windows = grid_block(power_w, 100)["rolling_range"]["windows"]
    assert [w["window_s"] for w in windows] == [2, 10, 60]
    assert [w["max_mw"] for w in windows] == [3, 3, 3]
    # The first window that holds the pulse's first value ends with it.
    assert windows[0]["time"] == (START + timedelta(seconds=100 - 1.9)).isoformat(
        "T", "milliseconds"
    )


def test_rolling_range_needs_two_values():
    rolling = grid_block(np.ones(600), 2_000)["rolling_range"]
    assert [w["window_s"] for w in rolling["windows"]] == [10, 60]
    assert rolling["absent"][0]["reason"] == "fewer than 2 values at the run's resolution of 2 s"


def test_times_are_local():
    zone = timezone(timedelta(hours=-7))
    power_w = np.ones(300)
    power_w[90:] = 2.0
    block = grid_block(power_w, 60_000, start=datetime(2018, 1, 1, tzinfo=zone))
    assert ramp(block, 60)["up"]["time"] == "2018-01-01T01:29:00-07:00"


def test_blocks_must_follow_on_each_other():
    metrics = GridMetrics(60_000, START, rated_power_w=MW)
    metrics.add(0, np.ones(10))
    with pytest.raises(ValueError, match=r"starts at 600000 ms, found 660000 ms"):
        metrics.add(660_000, np.ones(10))


def test_power_that_is_not_finite_is_refused():
    metrics = GridMetrics(60_000, START, rated_power_w=MW)
    with pytest.raises(ValueError, match="finite"):
        metrics.add(0, np.array([1.0, np.nan]))


def test_nothing_added_gives_no_block():
    with pytest.raises(ValueError, match="no power"):
        GridMetrics(60_000, START, rated_power_w=MW).block()


def test_one_ramp_has_one_time_in_metrics_and_limits_by_either_definition(tmp_path):
    run = tiny_run(tmp_path / "run", {"duration": "6 h"})
    told = ramp(run.metrics["grid"], 60)["up"]["time"]
    for between in ("adjacent_means", "end_points"):  # alike at the run's own interval
        limit = {"interval": "1 min", "up_mw_per_min": 1e-6, "between": between}
        (result,) = run.limits(Limits.model_validate({"ramps": [limit]})).results
        assert result.time == told
