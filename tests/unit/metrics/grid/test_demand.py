from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest

from diploee.measures.distribution import Distribution
from diploee.metrics.run_metrics import GridMetrics

START = datetime(2018, 1, 31, 22, tzinfo=UTC)
MW = 1e6


def metrics_of(power_w, step_ms=60_000, start=START, pools_w=None):
    metrics = GridMetrics(step_ms, start, rated_power_w=10 * MW)
    metrics.add(0, np.asarray(power_w, dtype=float), pools_w)
    return metrics


def test_maximum_demand_is_the_largest_clock_interval():
    power_w = np.full(240, 2 * MW)
    power_w[50:70] = 5 * MW  # 22:50 to 23:10
    block = metrics_of(power_w).block()
    mean_mw = 2 + 3 * 20 / 240
    entries = block["maximum_demand"]["intervals"]
    found = {e["interval_min"]: (e["max_mw"], e["time"][11:16]) for e in entries}
    assert found == {15: (4.0, "22:45"), 30: (3.0, "22:30"), 60: (2.5, "22:00")}
    assert block["mean_mw"] == pytest.approx(mean_mw)
    assert [e["load_factor"] for e in entries] == pytest.approx([mean_mw / x for x in (4, 3, 2.5)])
    assert block["load_factor"] == pytest.approx(mean_mw / 5)


def test_part_of_a_clock_interval_is_no_demand():
    power_w = np.full(60, 1 * MW)
    power_w[:10] = 9 * MW  # 22:20 to 22:30
    block = metrics_of(power_w, start=START.replace(minute=20)).block()
    found = {e["interval_min"]: e["max_mw"] for e in block["maximum_demand"]["intervals"]}
    assert found == {15: 1.0, 30: 1.0}
    assert block["maximum_demand"]["absent"] == [
        {"interval_min": 60, "reason": "the run holds no whole interval"}
    ]


def test_demand_needs_a_resolution_on_the_clock():
    absent = metrics_of(np.ones(10), 7_000).block()["maximum_demand"]["absent"]
    assert {a["reason"] for a in absent} == {"no multiple of the run's resolution of 7 s"}
    late = metrics_of(np.ones(100), start=START.replace(second=30)).block()["maximum_demand"]
    assert late["intervals"] == []
    assert "off its own clock" in late["absent"][0]["reason"]
    hourly = metrics_of(np.ones(10), 3_600_000).block()["maximum_demand"]
    assert [e["interval_min"] for e in hourly["intervals"]] == [60]


def test_peaks_are_given_by_local_month_with_their_time():
    power_w = np.full(240, 2 * MW)
    power_w[[30, 31]] = 4 * MW
    power_w[150] = 7 * MW
    block = metrics_of(power_w).block()
    assert block["monthly_peaks"] == {
        "2018-01": {"max_mw": 4.0, "time": "2018-01-31T22:30:00+00:00"},
        "2018-02": {"max_mw": 7.0, "time": "2018-02-01T00:30:00+00:00"},
    }
    assert block["peak"] == block["monthly_peaks"]["2018-02"]
    assert block["headroom"] == {"rated_mw": 10.0, "mw": 3.0, "fraction": pytest.approx(0.3)}
    monthly = block["maximum_demand"]["intervals"][0]["monthly"]
    assert list(monthly) == ["2018-01", "2018-02"]
    assert monthly["2018-02"]["time"] == "2018-02-01T00:30:00+00:00"


def test_coincidence_factor_is_the_common_peak_over_the_sum_of_peaks():
    one, two = np.array([1.0, 3.0, 2.0]) * MW, np.array([4.0, 1.0, 3.5]) * MW
    block = metrics_of(one + two, pools_w={"one": one, "two": two}).block()["coincidence"]
    assert block["factor"] == pytest.approx(5.5 / 7)
    assert block["together"] == {"max_mw": 5.5, "time": "2018-01-31T22:02:00+00:00"}
    assert block["pools"]["two"] == {"max_mw": 4.0, "time": "2018-01-31T22:00:00+00:00"}
    assert metrics_of(one).block()["coincidence"] is None


def test_load_duration_curve_falls_from_peak_to_minimum():
    power_w = np.arange(101.0) * MW / 20
    load = Distribution()
    load.add(power_w)
    curve = metrics_of(power_w).block(load)["load_duration_curve"]
    percents = curve["percent_of_time"]
    assert set(range(101)) < set(percents) and percents == sorted(percents)
    assert min(np.diff(percents)) < 0.1, "the highest hours of a year are a thousandth of it"
    assert curve["exceeded_mw"] == pytest.approx([(100 - percent) / 20 for percent in percents])
    assert metrics_of(power_w).block()["load_duration_curve"] is None


def test_facility_without_a_rating_has_no_headroom():
    metrics = GridMetrics(60_000, START, rated_power_w=0.0)
    metrics.add(0, np.zeros(60))
    block = metrics.block()
    assert block["headroom"] is None
    assert block["load_factor"] is None
    assert block["rainflow"]["threshold_mw"] == 0.001
