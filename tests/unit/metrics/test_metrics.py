"""Metrics in small cases worked out by hand."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import numpy as np
import pytest
from builders import job_table

from diploee.base.errors import InputError
from diploee.base.measures import distribution
from diploee.base.metric import Metric
from diploee.loads.jobs.queue import QueueMetrics
from diploee.metrics import MEASURES, RunMeasure
from diploee.metrics.demand import FacilityMetrics
from diploee.metrics.run_metrics import GridMetrics
from diploee.schedule import Schedule
from diploee.schedule.started import NEVER_MS

MS_PER_H = 3_600_000


def metrics_of(
    power_w: list[float], busy: list[float], step_ms: int = 60_000
) -> FacilityMetrics:
    found = FacilityMetrics(rated_power_w=10e6, step_ms=step_ms)
    found.add(np.array(power_w), np.array(busy) / 4)
    return found


def test_power_block_in_the_units_of_its_names() -> None:
    power = metrics_of([1e6, 2e6, 3e6, 6e6], [0, 1, 2, 4]).blocks()["power"]
    assert power == {
        "mean_mw": 3.0,
        "std_mw": pytest.approx(np.std([1, 2, 3, 6])),  # of the population
        "median_mw": 2.5,
        "p90_mw": pytest.approx(5.1),  # numpy's linear definition
        "min_mw": 1.0,
        "max_mw": 6.0,
        "peak_to_average_ratio": 2.0,
        "load_factor": 0.5,
        "rated_mw": 10.0,
        "max_over_rated": 0.6,
        "energy_mwh": pytest.approx(3 * 4 / 60),
        "resolution_s": 60.0,
    }


def test_utilization_block_is_a_fraction_of_the_nodes() -> None:
    utilization = metrics_of([1] * 4, [0, 1, 2, 4]).blocks()["utilization"]
    assert utilization == {
        "mean": pytest.approx(7 / 16),
        "std": pytest.approx(np.std([0, 0.25, 0.5, 1])),
        "median": 0.375,
        "p90": pytest.approx(0.85),
        "max": 1.0,
    }


def test_a_facility_without_power_has_no_ratios() -> None:
    power = metrics_of([0, 0], [0, 0]).blocks()["power"]
    assert power["peak_to_average_ratio"] is None
    assert power["load_factor"] is None


def queue_metrics(schedule: Schedule) -> dict[str, Any]:
    metrics = QueueMetrics(schedule.horizon_ms)
    metrics.add(len(schedule.jobs), schedule.take(schedule.started))
    return metrics.block()


def test_queued_means_started_later_than_submitted_among_started_jobs() -> None:
    jobs = job_table([0, 0, MS_PER_H, MS_PER_H], [1] * 4, [1] * 4)
    start_ms = np.array([0, 2 * MS_PER_H, 5 * MS_PER_H, NEVER_MS])
    found = queue_metrics(Schedule(jobs, start_ms, 48 * MS_PER_H))
    assert found == {
        "submitted": 4,
        "submitted_per_day": 2.0,
        "queued_fraction": pytest.approx(2 / 3),
        "mean_queue_time_queued_h": 3.0,
        "mean_queue_time_all_h": 2.0,
        "max_queue_time_h": 4.0,
        "unstarted": 1,
    }


def test_values_that_no_job_defines_are_none() -> None:
    found = queue_metrics(
        Schedule(job_table([0], [1], [1]), np.array([NEVER_MS]), MS_PER_H)
    )
    assert found["unstarted"] == 1
    names = ("queued_fraction", "mean_queue_time_queued_h", "mean_queue_time_all_h")
    assert [found[name] for name in (*names, "max_queue_time_h")] == [None] * 4


def test_the_error_of_histogram_percentiles_is_stated_in_the_metrics(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert "percentile_error_mw" not in metrics_of([1e6] * 4, [0] * 4).blocks()["power"]
    monkeypatch.setattr(distribution, "EXACT_VALUES", 3)
    power = metrics_of([1e6, 2e6, 3e6, 4e6], [0] * 4).blocks()["power"]
    assert 0 < power["percentile_error_mw"] < 4 / 2**19
    assert power["median_mw"] == pytest.approx(2.5, abs=power["percentile_error_mw"])
    assert power["max_mw"] == 4.0


class Most:
    """The largest power."""

    n_window = 1

    def __init__(self, _: Any) -> None:
        pass

    def add(self, stretch: Any) -> None:
        pass

    def result(self) -> Any:
        return {"most_mw": 1.0}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (
            {"result": lambda _: {"most_mw": 1.0, "time": "noon"}},
            "gives .*'measures.own.time'",
        ),
        ({"result": lambda _: {"most_mw": np.inf}}, "gives inf for 'measures.own.most"),
        (
            {"result": lambda _: {}},
            "lacks metric 'measures.own.most_mw', which it decl",
        ),
        ({"result": lambda _: 3}, "its result must be values by name, found 3"),
        ({"result": lambda self: self.most}, "result raised AttributeError"),
        ({"n_window": None}, "n_window must be a whole number, found null"),
        ({"__init__": lambda _, clock: clock.dt_ms}, "opening it raised AttributeErr"),
    ],
)
def test_measure_from_outside_that_lacks_something_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, changed: dict[str, Any], words: str
) -> None:
    own = type("Own", (Most,), changed)
    metrics = (Metric("measures.own.most_mw", "MW", "most"),)
    monkeypatch.setattr(MEASURES, "by_name", {"own": RunMeasure("own", metrics, own)})
    with pytest.raises(InputError, match=f"^measure 'own':? {words}"):
        GridMetrics(1_000, datetime(2018, 1, 1), rated_power_w=1e6).measures_block()


@pytest.mark.parametrize(
    ("metrics", "open_", "words"),
    [
        ("n", Most, "metrics must be a tuple of Metric"),
        ((), None, "open must be a class or func"),
    ],
)
def test_measure_that_is_not_whole_is_refused_where_it_is_made(
    metrics: Any, open_: Any, words: str
) -> None:
    with pytest.raises(InputError, match=f"^measure own: {words}"):
        RunMeasure("own", metrics, open_)
    with pytest.raises(InputError, match="measures are objects with a name, found"):
        MEASURES.register(Most)  # type: ignore[arg-type]
