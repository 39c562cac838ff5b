"""A warm start: a run that begins with the queue, jobs and instances of the time before
it."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from builders import Keeps, tiny_library, tiny_scenario, write_scenario
from serving_builders import serving_scenario

import diploee
from diploee import Run, generate_jobs
from diploee import run as simulate
from diploee.base.errors import InputError
from diploee.grid.limits.file import Limits
from diploee.grid.limits.report import check_limits
from diploee.metrics.run_metrics import GridMetrics
from diploee.reports.datasheet import data_sheet
from diploee.scenario import Scenario

GIVEN: dict[str, Any] = {
    "streams.training.target_utilization": None,
    "streams.training.jobs_per_day": 150.0,
}
"""A flat calendar and a given count: nothing in the scenario depends on how long the
run is."""

DRAWN = {
    "lognormal": [{"weight": 1.0, "median_s": 1500, "sigma": 1.0}],
    "max_s": 40_000,
}
ARRAYS = {"job_share": 0.7, "sizes": {3: 0.5, 12: 0.5}, "duration": DRAWN}
WORKLOADS: dict[str, dict[str, Any]] = {
    "jobs": {},
    "dispersed": {"streams.training.dispersion": 0.5},
    "drawn run times with start-up": {
        "streams.training.startup": {
            "lognormal": [{"weight": 1.0, "median_s": 200, "sigma": 0.5}]
        },
        "streams.training.classes": [
            {"workload": "tune", "n_nodes": 2, "probability": 0.7, "duration": DRAWN},
            {"workload": "draw", "n_nodes": 1, "probability": 0.3, "duration": DRAWN},
        ],
    },
    "arrays and days that differ": {
        "streams.training.day_dispersion": 0.3,
        "streams.training.classes": [
            {
                "workload": "draw",
                "n_nodes": 1,
                "probability": 1,
                "duration": DRAWN,
                "arrays": ARRAYS,
            }
        ],
    },
    "recurring": {
        "streams": {
            "again": {"pool": "main", "jobs_per_day": 150, "zeus": {"eta": 0.5}}
        }
    },
}


def run_of(scenario: Scenario, folder: Path, **options: Any) -> Run:
    return simulate(scenario, folder, profiles=tiny_library(), **options)


def tail(run: Run, start: str) -> pd.DataFrame:
    series = run.facility()
    return series[series.index >= pd.Timestamp(start, tz="UTC")]


@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_run_with_a_warm_start_is_the_tail_of_a_longer_run(
    workload: str, tmp_path: Path
) -> None:
    of_workload = WORKLOADS[workload]
    given = of_workload if "streams" in of_workload else GIVEN | of_workload
    longer = run_of(tiny_scenario({**given, "duration": "3 d"}), tmp_path / "long")
    of_run = {"start": "2018-01-02 12:00", "warm_up": "36 h", "duration": "36 h"}
    warm = run_of(tiny_scenario({**given, **of_run}), tmp_path / "warm")
    pd.testing.assert_frame_equal(warm.facility(), tail(longer, "2018-01-02 12:00"))
    start = pd.Timestamp("2018-01-02 12:00", tz="UTC")
    jobs = longer.jobs()
    jobs = jobs[~(jobs["end_time"] <= start)]
    times = ["submit_time", "start_time", "end_time", "queue_time_s"]
    alike = ["job_id", "profile_id", *times]
    assert warm.jobs()[alike].equals(jobs[alike].reset_index(drop=True))
    assert (jobs["submit_time"] < start).any()
    assert warm.metrics["jobs"]["submitted"] == (jobs["submit_time"] >= start).sum()


@pytest.mark.slow
def test_requests_of_a_warm_start_are_the_tail_of_a_longer_run(tmp_path: Path) -> None:
    changes: dict[str, Any] = {
        "request_streams.chat.calendar": None,
        "request_streams.chat.overload": "queue",
        "request_streams.chat.services.coding.startup_s": 400,
        "request_streams.chat.services.coding.cooldown_s": 4_000,
        "request_streams.chat.fluctuation": {
            "relative_std": 0.3,
            "correlation_time_s": 7_200,
            "reference_rate_rps": 400,
        },
    }
    longer = run_of(serving_scenario({**changes, "duration": "2 d"}), tmp_path / "long")
    of_run = {"start": "2018-01-02", "warm_up": "1 d", "duration": "1 d"}
    warm = run_of(serving_scenario({**changes, **of_run}), tmp_path / "warm")
    at = {**changes, "start": "2018-01-02"}
    cold = run_of(serving_scenario(at), tmp_path / "cold")
    assert cold.metrics["grid"]["transient_h"] == 0  # with the instances it needs
    pd.testing.assert_frame_equal(warm.facility(), tail(longer, "2018-01-02"))
    assert not cold.facility().equals(warm.facility())
    coding = warm.metrics["requests"]["services"]["coding"]
    served = warm.facility()["served_rps.coding"]
    assert coding["effective_rps"] == pytest.approx(served.mean(), rel=1e-6)
    assert warm.metrics["utilization"]["mean"] == pytest.approx(
        warm.facility()["utilization"].mean(), rel=1e-6
    )


def test_the_queue_at_the_start_is_that_which_the_warm_up_left(tmp_path: Path) -> None:
    changes = {"streams.training.target_utilization": 0.97, "warm_up": "3 d"}
    run = run_of(tiny_scenario(changes), tmp_path / "run")
    jobs, start = run.jobs(), pd.Timestamp("2018-01-01", tz="UTC")
    waits = (jobs["submit_time"] <= start) & ~(jobs["start_time"] <= start)
    assert run.facility()["queued_jobs"].iloc[0] == waits.sum() > 0
    assert run.metrics["jobs"]["submitted"] == (jobs["submit_time"] >= start).sum()
    in_run = jobs[jobs["submit_time"] >= start]
    mean_h = in_run["queue_time_s"].mean() / 3600
    assert run.metrics["jobs"]["mean_queue_time_all_h"] == pytest.approx(mean_h)


def test_calendars_keep_their_mean_over_a_run_of_a_week() -> None:
    # No hour of the warm-up has a job: the run's mean count is that of the run alone.
    changes = {
        **GIVEN,
        "start": "2018-01-02",
        "duration": "1 week",
        "streams.training.calendar": {"day_of_week": [0, 1, 1, 1, 1, 1, 1]},
        "streams.training.jobs_per_day": 2_000.0,
        "facility.pools.main.n_nodes": 200,
    }
    cold = generate_jobs(tiny_scenario(changes), tiny_library()).jobs
    warm = generate_jobs(
        tiny_scenario({**changes, "warm_up": "1 d"}), tiny_library()
    ).jobs
    assert warm.submit_ms.tolist() == cold.submit_ms.tolist()


def write_log(folder: Path, first: datetime, n_days: int) -> None:
    """Write a log of a job of 40 minutes every half hour."""
    rows = [f"{first + timedelta(minutes=30 * k)},2400,2" for k in range(48 * n_days)]
    (folder / "jobs.csv").write_text(
        "\n".join(["submit,run_s,nodes", *rows]) + "\n", "utf-8"
    )


def replayed(folder: Path, warm_up: str | None, **replay: Any) -> Scenario:
    columns = {"submit": "submit", "duration": "run_s", "nodes": "nodes"}
    rules = [{"workload": "tune"}]
    stream = {
        "pool": "main",
        "replay": {"log": "jobs.csv", "columns": columns, "rules": rules},
    }
    stream["replay"] |= replay
    changes = {"streams": {"logged": stream}, "start": "2018-01-03", "warm_up": warm_up}
    path = write_scenario(folder / "replay.yaml", changes)
    return diploee.load_scenario(path)


@pytest.mark.parametrize(
    "replay", [{"align": "date"}, {"align": "weekday"}, {"align": "start"}]
)
def test_a_log_is_played_before_the_run_as_well(
    replay: dict[str, Any], tmp_path: Path
) -> None:
    write_log(tmp_path, datetime(2018, 1, 1), 14)
    cold = run_of(replayed(tmp_path, None, **replay), tmp_path / "cold")
    warm = run_of(replayed(tmp_path, "36 h", **replay), tmp_path / "warm")
    assert cold.facility()["busy_nodes"].iloc[0] == 2
    assert warm.facility()["busy_nodes"].iloc[0] == 4
    assert warm.jobs()["submit_time"].min() == pd.Timestamp(
        "2018-01-02 23:30", tz="UTC"
    )
    assert warm.manifest["workload"][0]["jobs_per_day"] == pytest.approx(48)


@pytest.mark.parametrize(
    "replay",
    [{"align": "date"}, {"align": "start", "repeat": False}, {"repeat": False}],
)
def test_a_warm_up_longer_than_the_log_is_refused_in_one_line(
    replay: dict[str, Any], tmp_path: Path
) -> None:
    write_log(tmp_path, datetime(2018, 1, 3, 12), 14)
    with pytest.raises(
        InputError, match=r"warm_up is 36 h, jobs\.csv has .*; shorten warm_up"
    ):
        run_of(replayed(tmp_path, "36 h", **replay), tmp_path / "run")


def test_months_before_the_start_follow_the_calendar() -> None:
    clock = tiny_scenario({"start": "2018-03-31", "warm_up": "1 month"}).clock
    assert clock.begin_ms == -31 * 86_400_000  # from the last day of February


def test_a_run_that_begins_empty_leaves_its_start_out_of_its_extremes(
    tmp_path: Path,
) -> None:
    # The jobs ask for more than the 12 nodes: the pool is full when the first of them
    # waits.
    stream = {
        "pool": "main",
        "jobs_per_day": 400,
        "classes": [{"workload": "tune", "n_nodes": 2, "probability": 1.0}],
    }
    changes, kept = {"streams": {"training": stream}}, Keeps()
    cold = run_of(tiny_scenario(changes), tmp_path / "cold", sinks=[kept])
    found = cold.metrics["grid"]
    jobs = cold.jobs()
    first_late = jobs["start_time"][jobs["queue_time_s"] > 0].min()
    transient = round(found["transient_h"] * 60)
    minutes = (first_late - cold.facility().index[0]) / pd.Timedelta("1 min")
    assert transient == np.ceil(minutes) > 0
    power_w = kept["facility_power_w"]
    apart = GridMetrics(60_000, cold.scenario.start_with_zone, rated_power_w=12 * 3_520)
    apart.add(transient * 60_000, power_w[transient:])
    expected = apart.block()
    without_causes(found)
    for block in (found, expected):  # these take the mean of the whole run
        for entry in block["maximum_demand"]["intervals"]:
            del entry["load_factor"]
    parts = ("ramps", "rolling_range", "rainflow", "peak", "monthly_peaks")
    for part in (*parts, "maximum_demand"):
        assert found[part] == expected[part], part
    assert found["mean_mw"] == pytest.approx(power_w.mean() / 1e6)
    warm = run_of(tiny_scenario(changes | {"warm_up": "1 d"}), tmp_path / "warm")
    assert warm.metrics["grid"]["transient_h"] == 0


def without_causes(block: Any) -> None:
    for entry in block.values() if isinstance(block, dict) else block:
        if isinstance(entry, dict | list):
            without_causes(entry)
    if isinstance(block, dict):
        block.pop("cause", None)


def test_limits_and_event_windows_leave_the_filling_up_out(tmp_path: Path) -> None:
    stream = {
        "pool": "main",
        "jobs_per_day": 40,
        "startup": {"quantiles_s": {0: 3_600, 1: 3_601}},
        "classes": [{"workload": "draw", "n_nodes": 1, "probability": 1.0}],
    }
    scenario = tiny_scenario({"streams": {"training": stream}})
    run = run_of(scenario, tmp_path / "run", event_windows=True)
    transient_h = run.metrics["grid"]["transient_h"]
    begin = pd.Timestamp("2018-01-01", tz="UTC") + pd.Timedelta(hours=transient_h)
    assert transient_h > 0
    for entry in run.event_windows.values():
        assert pd.Timestamp(entry["at"]) >= begin
    limits = Limits.model_validate(
        {"ramps": [{"interval": "1 min", "up_mw_per_s": 1e-9}]}
    )
    (result,) = check_limits(run, limits).results
    assert result.violations
    assert all(pd.Timestamp(worst.begin) >= begin for worst in result.worst)
    # The mean of a load factor is of the whole run, as in the metrics.
    (factor,) = check_limits(
        run, Limits.model_validate({"load_factor": [{"min": 0.5}]})
    ).results
    quarters = run.facility()["facility_power_w"].astype(float).resample("15min").mean()
    assert factor.value == pytest.approx(quarters.mean() / quarters.max(), rel=1e-5)
    assert quarters[quarters.index < begin].mean() < quarters.mean()


def test_the_data_sheet_says_what_is_left_out_at_the_start(tmp_path: Path) -> None:
    run = run_of(tiny_scenario(), tmp_path / "run")
    transient_h = run.metrics["grid"]["transient_h"]
    figures = [f for section in data_sheet(run).sections for f in section.figures]
    words = f"peak without the first {transient_h:.3g} h of filling up"
    assert transient_h > 0 and any(words in figure.note for figure in figures)
