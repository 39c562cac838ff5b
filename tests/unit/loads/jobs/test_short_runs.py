"""Rates and targets of runs that are shorter than what their calendar repeats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import tiny_library, tiny_scenario
from serving_builders import serving_scenario

from diploee import generate_jobs
from diploee import run as simulate
from diploee.loads.jobs.rates import hourly_rates
from diploee.scenario import Calendar, Scenario

WEEKDAYS = [1.0, 1.0, 1.0, 1.0, 1.0, 0.2, 0.2]
LIBRARY = tiny_library()
WEEKEND: dict[str, Any] = {
    "start": "2018-01-06",  # a Saturday
    "duration": "2 d",
    "warm_up": "1 week",
    "resolution": "60 s",
    "facility.pools.main.n_nodes": 100,
    "streams.training.calendar": {"day_of_week": WEEKDAYS},
}


def weekend(**keys: Any) -> Scenario:
    return tiny_scenario(
        WEEKEND | {f"streams.training.{key}": of for key, of in keys.items()}
    )


def test_jobs_per_day_are_those_of_warm_up_and_run() -> None:
    scenario = weekend(target_utilization=None, jobs_per_day=4_000.0)
    submit_d = generate_jobs(scenario, LIBRARY).jobs.submit_ms / 86_400_000
    counts = np.histogram(submit_d, np.arange(-7, 3))[0]
    assert submit_d.size / 9 == pytest.approx(4_000, rel=0.02)
    # Days in proportion to their weights, Saturday and Sunday before and in the run.
    weights = np.array([0.2, 0.2, 1, 1, 1, 1, 1, 0.2, 0.2])
    expected = 4_000 * 9 * weights / weights.sum()
    assert counts == pytest.approx(expected, abs=5 * np.sqrt(expected.max()))


def test_target_is_met_over_warm_up_and_run_and_no_queue_is_left(
    tmp_path: Path,
) -> None:
    run = simulate(weekend(target_utilization=0.5), tmp_path / "run", profiles=LIBRARY)
    (match,) = run.manifest["workload"]
    assert match["matched_utilization"] == pytest.approx(0.5, abs=0.002)
    jobs = run.jobs()
    # A weekend at a fifth of the other days
    assert run.metrics["utilization"]["mean"] < 0.5 / 2
    assert (jobs["queue_time_s"] == 0).all()
    assert not [line for line in run.manifest["warnings"] if "pool 'main'" in line]


@pytest.mark.parametrize(
    ("calendar", "of_run", "whole"),
    [
        (
            {"hour_of_day": [0.1] * 6 + [1.0] * 18},
            {"duration": "6 h", "warm_up": "18 h"},
            True,
        ),
        (
            {"hour_of_day": [0.1] * 6 + [1.0] * 18},
            {"duration": "1 d", "warm_up": "18 h"},
            False,
        ),
        ({"day_of_week": WEEKDAYS}, {"duration": "1 week", "warm_up": "36 h"}, False),
        (
            {"month": [0.5, *[1.0] * 11]},
            {"duration": "1 week", "warm_up": "1 week"},
            True,
        ),
        ({}, {"duration": "6 h", "warm_up": "18 h"}, False),
    ],
)
def test_mean_of_a_calendar_is_over_a_warm_up_where_the_run_lacks_a_cycle(
    calendar: dict[str, Any], of_run: dict[str, Any], whole: bool
) -> None:
    clock = tiny_scenario(of_run).clock
    line = hourly_rates(Calendar(**calendar), clock)
    over = line if whole else line.between(0, clock.horizon_ms)
    length_ms = clock.horizon_ms - (clock.begin_ms if whole else 0)
    assert over.of_pieces.sum() / length_ms == pytest.approx(1)


def test_request_rate_is_that_of_warm_up_and_run() -> None:
    keys = {"start": "2018-01-06", "warm_up": "6 d", "duration": "1 d"}
    keys["request_streams.chat.calendar"] = {"day_of_week": WEEKDAYS}
    scenario = serving_scenario(keys)
    line = hourly_rates(scenario.request_streams["chat"].calendar, scenario.clock)
    assert line.of_pieces.sum() / scenario.clock.simulated_ms == pytest.approx(1)


def test_work_that_the_warm_up_left_is_warned_of_as_too_much(tmp_path: Path) -> None:
    # Weekdays ask for 1.26 of the nodes, so that the weekend works off what is left.
    scenario = weekend(target_utilization=0.9)
    run = simulate(scenario, tmp_path / "run", profiles=LIBRARY)
    listed = generate_jobs(scenario, LIBRARY).jobs
    ends_ms = listed.submit_ms + listed.duration_ms
    in_run_ms = np.clip(ends_ms, 0, 172_800_000) - np.clip(listed.submit_ms, 0, None)
    asked = listed.n_nodes @ in_run_ms.clip(0) / (100 * 172_800_000)
    jobs = run.jobs()
    start = run.facility().index[0]
    left = int(((jobs["submit_time"] < start) & (jobs["start_time"] >= start)).sum())
    (warning,) = [line for line in run.manifest["warnings"] if "pool 'main'" in line]
    reached = run.metrics["utilization"]["mean"]
    assert warning.startswith(f"pool 'main': simulated utilization {reached:.4f} is ")
    assert (
        f"above {asked:.4f}: {left:,} jobs that the warm-up left in the queue"
        in warning
    )
