"""Minimum, mean and maximum of power, nodes, occupancy and queue, of all and by job
class."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import tiny_run

from diploee import Run

CROWDED = {"streams.training.target_utilization": 0.95, "duration": "1 d"}
COLUMNS = {
    "power": ("it_power_w", 1e6, "_mw"),
    "busy_nodes": ("busy_nodes", 1, ""),
    "utilization": ("utilization", 1, ""),
    "queued_jobs": ("queued_jobs", 1, ""),
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("aggregates") / "run"
    return tiny_run(folder, CROWDED, by_load=True)


def test_aggregates_of_all_are_those_of_the_series(run: Run) -> None:
    found, series = run.metrics["aggregates"]["all"], run.facility()
    for name, (column, per, suffix) in COLUMNS.items():
        values = series[column].astype(float) / per
        expected = {"min": values.min(), "mean": values.mean(), "max": values.max()}
        assert found[name] == {
            f"{kind}{suffix}": pytest.approx(value, rel=1e-6)
            for kind, value in expected.items()
        }


def test_classes_add_up_to_what_jobs_draw_and_hold(run: Run) -> None:
    found, series, jobs = run.metrics["aggregates"], run.facility(), run.jobs()
    classes = {name: of for name, of in found.items() if name != "all"}
    assert set(classes) == set(jobs["class"])
    idle_mw = (12 - 12 * series["utilization"].mean()) * 400 / 1e6
    power_mw = sum(of["power"]["mean_mw"] for of in classes.values())
    of_all_mw = found["all"]["power"]["mean_mw"]
    assert power_mw + idle_mw == pytest.approx(of_all_mw, rel=1e-6)
    for name in ("busy_nodes", "utilization", "queued_jobs"):
        total = sum(of[name]["mean"] for of in classes.values())
        assert total == pytest.approx(found["all"][name]["mean"])


def test_the_queue_of_a_class_is_that_of_its_jobs(run: Run) -> None:
    found, series, jobs = run.metrics["aggregates"], run.facility(), run.jobs()
    at = series.index.to_numpy()[:, None]
    for name, of_class in jobs.groupby("class", observed=True):
        submitted, started = (
            of_class[c].to_numpy() for c in ("submit_time", "start_time")
        )
        waits = (submitted <= at) & ~(started <= at)
        depth = waits.sum(axis=1)
        queued: dict[str, Any] = found[name]["queued_jobs"]
        assert queued["max"] == depth.max() and queued["min"] == depth.min()
        assert queued["mean"] == pytest.approx(depth.mean())
    assert max(of["queued_jobs"]["max"] for of in found.values()) > 0


def test_without_by_load_only_all_is_reported_and_the_section_is_folded(
    tmp_path: Path,
) -> None:
    plain = tiny_run(tmp_path / "run", CROWDED)
    assert set(plain.metrics["aggregates"]) == {"all"}
    section = next(s for s in plain.sections() if s.id == "aggregates")
    assert section.folded
    (table,) = section.tables
    assert {figure.item for figure in table.figures} == {"all"}
    shown = {figure.quantity: figure.value for figure in table.figures}
    assert shown["Busy nodes, max"] == np.max(plain.facility()["busy_nodes"])


def test_mean_occupancy_of_a_growing_site_is_node_time_over_node_hours(
    tmp_path: Path,
) -> None:
    """Half a day without nodes, then 4, then 12: by the jobs' own node time."""
    phases = [
        {"since": "2018-01-01 12:00", "n_nodes": 4},
        {"since": "2018-01-02 07:00", "n_nodes": 12},
    ]
    changes = {
        "facility.pools.main.phases": phases,
        "facility.pools.other": {"node_type": "node", "n_nodes": 5},
        "streams.training.target_utilization": 0.5,
        "resolution": "1 h",
    }
    run = tiny_run(tmp_path / "run", changes, by_load=True)
    jobs = run.jobs()
    end = run.facility().index[0] + np.timedelta64(2, "D")
    lasts = jobs["end_time"].clip(upper=end).fillna(end) - jobs["start_time"]
    node_h = float((jobs["n_nodes"] * lasts.dt.total_seconds()).sum()) / 3600
    stand_h = 19 * 4 + 17 * 12
    found = run.metrics["pools"]["main"]["utilization"]
    assert found["mean"] == pytest.approx(node_h / stand_h, rel=1e-5)
    whole = node_h / (stand_h + 5 * 48)
    for block in (run.metrics, run.metrics["aggregates"]["all"]):
        assert block["utilization"]["mean"] == pytest.approx(whole, rel=1e-5)
    of_classes = [of for name, of in run.metrics["aggregates"].items() if name != "all"]
    total = sum(of["utilization"]["mean"] for of in of_classes)
    assert total == pytest.approx(node_h / stand_h, rel=1e-5)
    # Percentiles are of the hours in which nodes stand: every busy hour is among 36.
    hours = run.facility()["utilization.main"].astype(float)[12:]
    assert found["median"] == pytest.approx(hours.median(), rel=1e-5)
