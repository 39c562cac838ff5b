"""The study of firm demand: levels of a site, its table and its recommendation."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import tiny_library, tiny_scenario, write_library, write_scenario
from command_line import call
from serving_builders import one_service, serving_scenario

import diploee
from diploee.api.sites import site_of
from diploee.base.clock import NamedSpan
from diploee.base.errors import InputError, RunTooLongError
from diploee.grid.firm.calls import ALL
from diploee.grid.firm.study import firm_results
from diploee.grid.firm.undisturbed import simulate_year
from diploee.simulation.prepared import RunOptions

TOLERANT = {
    "duration": "4 d",
    "streams.training.flexibility": {"tier": 3, "pausable": True},
}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_library(tmp_path_factory.mktemp("profiles"))


def study(library: Path, changes: Any = None, **options: Any) -> Any:
    scenario = tiny_scenario(TOLERANT | (changes or {}))
    return diploee.firm(scenario, profiles=[library], seeds=1, **options)


def test_levels_go_from_the_least_to_the_peak_of_the_undisturbed_year(
    library: Path,
) -> None:
    found = study(library, levels=4)
    frame = found.frame()
    least, peak = found.bounds_mw
    assert sorted(frame.level_mw.unique()) == pytest.approx(
        np.linspace(least, peak, 4).tolist()
    )
    top = frame[frame.level_mw == frame.level_mw.max()]
    assert (top.above_mwh == 0).all()
    assert (top.delayed_gpu_h == 0).all()
    # Sets of calls and notices of each level
    assert len(frame) == 4 * 4 * 4


def test_the_undisturbed_year_is_that_of_a_run(library: Path, tmp_path: Path) -> None:
    scenario = tiny_scenario(TOLERANT | {"resolution": "5 min"})
    run = diploee.run(scenario, tmp_path / "run", profiles=[library])
    found = study(library, level=[0.0])
    assert found.bounds_mw[1] == pytest.approx(run.values["power.max_mw"], rel=1e-6)
    frame = found.frame()
    whole = frame[frame.calls == ALL].above_mwh
    mean_mw = run.values["power.mean_mw"]
    assert whole.to_numpy() == pytest.approx(mean_mw * 4 * 24, rel=1e-6)


def test_the_power_of_jobs_is_their_mean_above_idle() -> None:
    scenario = tiny_scenario(TOLERANT | {"resolution": "5 min"})
    site = site_of(scenario, tiny_library(), RunOptions(engine=None))
    year = simulate_year(site)
    idle_w = 12 * 400.0
    ratio = (year.power_w - idle_w).sum() / year.jobs_w.sum()
    assert ratio == pytest.approx(1, abs=0.01)
    assert year.gain == pytest.approx(1)


def test_events_of_a_scenario_are_left_out(library: Path) -> None:
    event = {
        "id": "call",
        "start": "2018-01-01 10:00",
        "end": "2018-01-01 14:00",
        "target": {"fraction": 0.5},
    }
    plain, called = (
        study(library, changes, level=[0.01])
        for changes in ({}, {"flexibility.events": [event]})
    )
    assert plain.results == called.results


def test_a_recommendation_is_one_sentence_with_its_levels(library: Path) -> None:
    found = study(library, levels=5)
    text = found.recommendation
    assert text.startswith("Sign ")
    assert text.count(". ") == 0
    assert found.sections()[0].notes[0].startswith(text)


@pytest.mark.parametrize("flexibility", [None, {"tier": 3, "pausable": True}])
def test_a_picture_has_the_firm_level_below_every_panel(
    flexibility: Any, library: Path
) -> None:
    found = study(library, {"streams.training.flexibility": flexibility}, levels=3)
    panels = {panel.y.label: panel for panel in found.plot().chart.panels}
    assert {panel.x.label for panel in panels.values()} == {"Firm level [MW]"}
    (delayed,) = panels["Work delayed [GPU h]"].layers
    assert delayed.y.any() == bool(flexibility)
    (hours,) = panels["Hours above the level [h]"].layers
    rows = found.frame().query(f"calls == '{ALL}' and notice_ms == 3_600_000")
    assert dict(zip(hours.x, hours.y, strict=True)) == pytest.approx(
        dict(zip(rows.level_mw, rows.hours_above, strict=True))
    )


def test_late_jobs_are_given_in_percent_with_their_threshold(library: Path) -> None:
    found = study(library, levels=3)
    (section,) = found.sections()
    (table,) = section.tables
    rows = found.frame().query(f"calls == '{ALL}' and notice_ms == 3_600_000")
    late = [row["late"].value for row in table.rows.values()]
    share = 100 * rows.jobs_late / rows.n_jobs
    assert sorted(late) == pytest.approx(sorted(share)) and max(late) > 0
    assert table.units["late"] == "% of jobs"
    assert any("tiers 1 to 3: 11%, 33%, 100%" in note for note in section.notes)


def test_a_level_above_the_peak_says_that_nothing_is_above_it(library: Path) -> None:
    found = study(library, level=[1.0, 0.01])
    notes = [n for n in found.sections()[0].notes if n.startswith("Nothing is above")]
    assert len(notes) == 1 and "Nothing is above 1.000" in notes[0]


def test_a_site_without_tolerance_has_no_relief_and_says_so(library: Path) -> None:
    found = study(library, {"streams.training.flexibility": None}, levels=3)
    assert (found.frame().relief_mwh == 0).all()
    (figure,) = found.sections()[0].figures
    assert figure.note.startswith("no work is declared flexible, so relief is 0")


def test_capped_services_slow_the_requests_of_called_hours() -> None:
    service = one_service(flexibility={"power_limit": 0.75})
    chat = "request_streams.chat"
    steady = {f"{chat}.calendar": None, f"{chat}.fluctuation": None}
    rate_rps, hours = 500.0, 8
    scenario = serving_scenario(
        {**steady, **service, f"{chat}.request_rate_rps": rate_rps, "duration": "8 h"}
    )
    frame = diploee.firm(scenario, seeds=1, level=[0.0, 1e3]).frame()
    called = frame[(frame.calls == ALL) & (frame.level_mw == 0)]
    assert called.requests_slowed.to_numpy() == pytest.approx(rate_rps * hours * 3600)
    assert (called.relief_mwh > 0).all()
    rest = frame[frame.level_mw > 0]
    columns = ["requests_slowed", "requests_rejected", "relief_mwh"]
    assert (rest[columns].to_numpy() == 0).all()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"step": "7 min"}, "step: must divide an hour, found 7 min"),
        ({"step": "1 ms"}, "step: must be at least 1 s, found 1 ms"),
        ({"peaks": ""}, "peaks: must be text of 1 or more characters"),
        ({"levels": 0}, "levels: must be "),
        ({"levels": 3, "level": 1.0}, "level: must not be given with levels"),
        ({"level": [-1.0]}, r"level\.0: must be "),
        ({"notice": ["soon"]}, r"notice\.0: must be "),
        ({"notise": ["1 h"]}, "notise.*did you mean 'notice'"),
    ],
)
def test_a_bad_option_is_refused_by_its_name(
    options: dict[str, Any], text: str, library: Path
) -> None:
    with pytest.raises(InputError, match=text):
        study(library, **options)


def test_a_step_that_does_not_divide_the_run_is_refused(library: Path) -> None:
    with pytest.raises(InputError, match="1 h must divide the duration of the run"):
        study(library, {"duration": "90 min"}, step="1 h")


def test_a_forecast_above_the_limit_is_refused(library: Path) -> None:
    with pytest.raises(RunTooLongError, match=r"more than at_most 0\.001"):
        study(library, at_most=0.001)


def test_peaks_of_a_file_are_further_calls(library: Path, tmp_path: Path) -> None:
    peaks = tmp_path / "peaks.csv"
    peaks.write_text("start,end\n2018-01-02 17:00,2018-01-02 18:00\n")
    frame = study(library, level=[0.0], peaks=str(peaks)).frame()
    assert (frame[frame.calls == "peaks"].hours_called == 1).all()


def test_the_command_prints_its_table_and_writes_rows(
    library: Path, tmp_path: Path
) -> None:
    site, rows = write_scenario(tmp_path / "tiny.yaml", TOLERANT), tmp_path / "rows.csv"
    options = ["--profiles", str(library), "--seeds", "1", "--level", "0.01"]
    done = call("firm", str(site), *options, "--out", str(rows))
    assert "Firm levels of tiny" in done.out
    assert len(rows.read_text().splitlines()) == 1 + 16
    again = json.loads(call("firm", str(site), *options, "--json").out)
    assert again["recommendation"].startswith("Sign ")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("--out rows.xlsx", "--out: must end in .csv, found 'rows.xlsx'"),
        ("--picture x.pdf", "x.pdf: a picture's name ends in .png, .svg or .html"),
        ("--out site.yaml/rows.csv", "can't be written"),
        ("--level 1 --levels 3", "level: must not be given with levels"),
    ],
)
def test_the_command_refuses_before_any_work(
    options: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_scenario(tmp_path / "site.yaml", {"duration": "1 year"})
    done = call("firm", "site.yaml", *options.split())
    assert done.code == 2 and text in done.problem
    assert [path.name for path in tmp_path.iterdir()] == ["site.yaml"]


@pytest.mark.slow
def test_a_dispatch_gives_the_relief_of_a_run_with_its_controller(
    tmp_path: Path,
) -> None:
    level_mw, first = 4.15, 17 * 12
    scenario = diploee.load_scenario(
        "demand_response_3h", values={"flexibility": None, "resolution": "5 min"}
    )
    year = simulate_year(site_of(scenario, None, RunOptions(engine=None)))
    event = {
        "id": "call",
        "issued": "2018-01-03 16:00",
        "start": "2018-01-03 17:00",
        "end": "2018-01-03 21:00",
        "target": {"mw": level_mw},
        "ramp_down": "0 s",
        "ramp_up": "0 s",
    }
    run = diploee.run(
        "demand_response_3h",
        tmp_path / "run",
        values={"flexibility.events": [event], "resolution": "5 min"},
    )
    names = ["facility_power_w", "baseline_power_w"]
    columns = run.series().read(names).columns
    calls = slice(first, first + 48)
    own, twin = (
        np.maximum(columns[name][calls] - level_mw * 1e6, 0).sum() / 12e6
        for name in names
    )
    start = datetime(2018, 1, 3, 17)
    end = datetime(2018, 1, 3, 21)
    peaks = [NamedSpan(start, end, "", Path("peaks.csv"), "peaks.csv:2")]
    result = next(
        each
        for each in firm_results(
            year, 0, [level_mw * 1e6], [3_600_000], peaks, lambda *_: None
        )
        if each.calls == "peaks"
    )
    assert result.above_mwh == pytest.approx(twin, rel=1e-3)
    assert result.relief_mwh == pytest.approx(twin - own, rel=0.01)
