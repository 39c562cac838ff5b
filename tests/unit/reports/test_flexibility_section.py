"""The report of a run that answered an event."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from builders import tiny_data, tiny_library

import diploee
from diploee import Run
from diploee.reports.build import build_report, report_page
from diploee.reports.drawing.charts import Line
from diploee.reports.drawing.pictures import Picture
from diploee.scenario import scenario_from_dict

EVENT = {
    "id": "noon",
    "issued": "2018-01-01 11:00",
    "start": "2018-01-01 12:00",
    "end": "2018-01-01 14:00",
    "target": {"fraction": 0.7},
}
FLEXIBLE = {
    "streams.training.flexibility": {"tier": 3, "pausable": True, "work": "fine_tuning"}
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    data = tiny_data({**FLEXIBLE, "flexibility.events": [EVENT]})
    folder = tmp_path_factory.mktemp("runs")
    return diploee.run(
        scenario_from_dict(data), folder / "run", profiles=tiny_library()
    )


def test_load_target_and_twin_stand_in_one_figure(run: Run) -> None:
    report = build_report([run.folder])
    (section,) = (section for section in report.sections if section.id == "flexibility")
    (chart,) = section.charts
    lines = {
        layer.name: layer for layer in chart.panels[0].layers if isinstance(layer, Line)
    }
    assert set(lines) == {"load", "without the event", "allowed"}
    facility = run.facility()
    shown = slice(9 * 60 + 45, 20 * 60 + 15)
    power_kw = facility["facility_power_w"][shown] / 1e3
    np.testing.assert_allclose(lines["load"].y, power_kw, 1e-6)
    event = run.metrics["flexibility"]["events"][0]
    assert lines["allowed"].y[1] == pytest.approx(event["target_mw"] * 1e3, rel=1e-5)
    assert lines["allowed"].x[1] == np.datetime64("2018-01-01T12:00")


def test_the_widest_jobs_are_drawn_by_what_they_do(run: Run) -> None:
    event = run.metrics["flexibility"]["events"][0]
    jobs = event["widest_jobs"]
    widths = [job["n_nodes"] for job in jobs]
    assert widths == sorted(widths, reverse=True)
    for job in jobs:
        assert all(a < b for a, b in zip(job["from_s"], job["to_s"], strict=True))
        assert all(a >= b for a, b in zip(job["from_s"][1:], job["to_s"], strict=False))
    assert {state for job in jobs for state in job["state"]} >= {"run", "capped"}


def test_bars_of_jobs_are_drawn_in_their_order_with_a_gap_behind_each(run: Run) -> None:
    charts = build_report([run.folder]).charts
    (chart,) = (c for c in charts if c.id.startswith("event-"))
    load, jobs = (part["layer"][0] for part in Picture(chart).spec["concat"])
    assert load["encoding"]["x"]["scale"] == jobs["encoding"]["x"]["scale"]
    bars = jobs
    assert bars["mark"]["order"] is False
    y = [row["y"] for row in bars["data"]["values"]]
    assert len(y) % 3 == 0 and set(y[2::3]) == {None}
    assert y[0::3] == y[1::3]
    assert load["encoding"]["x"]["axis"]["title"] == "Time on 2018-01-01"
    assert bars["encoding"]["y"]["axis"]["labels"] is False  # rows have no numbers


def test_tables_hold_what_the_event_did_and_what_it_cost(run: Run) -> None:
    report = build_report([run.folder])
    (section,) = (section for section in report.sections if section.id == "flexibility")
    events, costs = section.tables
    measured = run.metrics["flexibility"]["events"][0]
    reduction = events.rows["noon"]["Reduction"]
    assert reduction.unit == "%" and reduction.value == 100 * measured["mean_reduction"]
    assert any("queue time" in name for name in costs.units)


def test_a_run_begins_with_what_its_event_asked_for_and_what_it_cost(run: Run) -> None:
    answer, *_ = build_report([run.folder]).sections
    first, event = answer.figures[0], run.metrics["flexibility"]["events"][0]
    held, work = event["held_fraction"], event["weighted_performance"]
    assert first.item == "Event noon" and 0 < work < 1
    assert first.value == ("held" if held == 1 else f"held {int(100 * held)} % of it")
    words = f"30 % less for 2 h; jobs did {100 * work:.0f} % of their work"
    words += ", weighted by tier"
    assert first.note == words
    page = report_page(build_report([run.folder]))
    assert page.index(words) < page.index("<dl class='cards'>")
    (section,) = (section for section in run.sections() if section.id == "flexibility")
    events = section.tables[0]
    assert "Weighted performance: mean over jobs of work in the event" in events.note


def test_an_event_without_control_is_said_to_be_measured_alone(tmp_path: Path) -> None:
    data = tiny_data({"flexibility": {"controller": "off", "events": [EVENT]}})
    run = diploee.run(
        scenario_from_dict(data), tmp_path / "run", profiles=tiny_library()
    )
    (first, *_) = run.sections()[0].figures
    assert first.note == "30 % less for 2 h; measured alone, controller: off"
