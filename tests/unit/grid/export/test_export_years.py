"""Files for tools of 8,760 hours: their documented rules, leap years, runs that don't
fit."""

from __future__ import annotations

import json

import numpy as np
import pytest
from builders import tiny_run
from exported import export, sidecar, stored_w

from diploee import Run
from diploee.base.errors import InputError
from diploee.grid.export import Options, export_run

QUIET = {"streams.training.target_utilization": 0.05, "resolution": "1 h"}


def hourly_kw(run: Run) -> np.ndarray:
    per_hour = 3_600_000 // run.scenario.resolution_ms
    return stored_w(run).reshape(-1, per_hour).mean(axis=1) / 1e3


@pytest.mark.parametrize("name", ["8760", "sam", "reopt"])
@pytest.mark.parametrize(("step", "n_lines"), [(None, 8_760), ("30 min", 17_520)])
def test_one_value_a_line_without_header(year_run, tmp_path, name, step, n_lines):
    place = export(year_run, name, tmp_path, step=step)
    text = place.read_text()
    assert text.endswith("\n") and "\r" not in text
    values = np.array([float(line) for line in text.splitlines()])
    assert values.size == n_lines
    hourly = values.reshape(8_760, -1).mean(axis=1)
    np.testing.assert_allclose(hourly, hourly_kw(year_run), atol=1e-6)
    told = sidecar(place)
    assert told["energy_mwh"] * 1e3 == pytest.approx(hourly.sum(), rel=1e-6)
    assert told["peak_mw"] * 1e3 == pytest.approx(values.max(), rel=1e-6)
    assert told["start"] == "2018-01-01T00:00:00-07:00"
    assert any("no hour is skipped or repeated" in note for note in told["notes"])


def test_reopt_json_has_load_year_and_steps(year_run, tmp_path):
    place = export(year_run, "reopt-json", tmp_path, step="30 min")
    content = json.loads(place.read_text())
    load, settings = content["ElectricLoad"], content["Settings"]
    assert set(load) == {"loads_kw", "year"}
    assert load["year"] == 2018
    # REopt.jl, ElectricLoad: length(loads_kw) / time_steps_per_hour must be 8760.
    assert len(load["loads_kw"]) / settings["time_steps_per_hour"] == 8_760
    kwh = sum(load["loads_kw"]) / 2
    assert kwh == pytest.approx(hourly_kw(year_run).sum(), rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["8760", "sam", "reopt", "reopt-json"])
def test_leap_year_without_a_rule_is_refused(leap_run, tmp_path, name):
    says = r"2020 is a leap year .* --leap-day drop-feb29 or --leap-day drop-last-day"
    with pytest.raises(InputError, match=says):
        export(leap_run, name, tmp_path)


@pytest.mark.parametrize(("rule", "lost"), [("drop-feb29", 59), ("drop-last-day", 365)])
def test_leap_year_loses_the_chosen_day(leap_run, tmp_path, rule, lost):
    kept = np.delete(hourly_kw(leap_run), slice(lost * 24, (lost + 1) * 24))
    place = export(leap_run, "8760", tmp_path, leap_day=rule)
    np.testing.assert_allclose(np.loadtxt(place), kept, atol=1e-6)
    told = sidecar(place)
    assert told["leap_day"].startswith(rule)
    assert told["n_steps"] == 8_760
    assert told["energy_mwh"] == pytest.approx(kept.sum() / 1e3, rel=1e-6)


def test_common_year_takes_a_leap_rule_and_says_that_nothing_is_lost(
    year_run, tmp_path
):
    place = export(year_run, "sam", tmp_path, leap_day="drop-feb29")
    assert sidecar(place)["leap_day"] == "the year has no 29 February"


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"duration": "2 d"},
        {"duration": "364 d"},
        {"start": "2018-07-01", "duration": "1 year"},
        {"start": "2020-01-01", "duration": "365 d"},
    ],
    ids=["short", "a day short", "july to july", "leap year cut"],
)
def test_run_without_a_whole_calendar_year_is_refused_in_one_line(tmp_path, changes):
    run = tiny_run(tmp_path / "run", QUIET | changes)
    with pytest.raises(InputError) as caught:
        export_run(run, "sam")
    text = str(caught.value)
    assert len(text.splitlines()) == 1
    assert "'sam' needs a whole calendar year" in text and "the run covers 20" in text
    assert {p.name for p in tmp_path.iterdir()} == {"run"}


@pytest.mark.slow
def test_one_of_several_years_must_be_chosen(tmp_path):
    span = {"start": "2018-12-31", "duration": "732 d"}
    run = tiny_run(tmp_path / "run", QUIET | span)
    for options, says in (
        (
            {"leap_day": "drop-last-day"},
            "holds the years 2019, 2020; choose one with --year",
        ),
        ({"year": 2018}, "needs the whole of 2018"),
    ):
        with pytest.raises(InputError, match=says):
            export_run(run, "sam", options=Options(**options))
    values = np.loadtxt(export(run, "sam", tmp_path, year=2019))
    np.testing.assert_allclose(values, hourly_kw(run)[24 : 24 + 8_760], atol=1e-6)


@pytest.mark.parametrize("step", ["20 min", "60 s"])
def test_other_steps_than_the_tools_take_are_refused(year_run, step):
    says = r"takes a --step of 60 min, 30 min, 15 min|no multiple of"
    with pytest.raises(InputError, match=says):
        export_run(year_run, "sam", options=Options(step=step))
