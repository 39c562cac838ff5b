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


def test_a_site_without_tolerance_has_no_relief_and_says_so(library: Path) -> None:
    found = study(library, {"streams.training.flexibility": None}, levels=3)
    assert (found.frame().relief_mwh == 0).all()
    assert "No job and no service tolerates a call" in found.sections()[0].notes[0]


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
        ({"levels": 0}, "levels: must be "),
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
