"""The data sheet: closed forms, what a run can't tell, its files, and what is missing
for them."""

from __future__ import annotations

import csv
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from builders import change_metrics, tiny_run
from command_line import call

from diploee import Run, open_run
from diploee.base.errors import InputError
from diploee.importers.peak_intervals import read_peak_intervals
from diploee.reports import datasheet
from diploee.reports.build import Report, build_report
from diploee.reports.datasheet import data_sheet
from diploee.runs.sections import Section, Statistic, long_rows
from diploee.simulation.size import rated_at_meter_w


@pytest.fixture(scope="session")
def at_the_meter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty days, from a month's begin, of the tiny scenario up to a contracted meter."""  # noqa: E501
    folder = tmp_path_factory.mktemp("sheet") / "meter"
    changes = {
        "name": "meter",
        "duration": "40 d",
        "warm_up": "1 d",
        "facility.node_types.node.ac_power": "air_hgx",
        "facility.stages": [
            "pdu",
            "ups",
            "transformers",
            {"kind": "point_of_interconnection", "contract_mva": 0.1},
        ],
    }
    tiny_run(folder, changes)
    return folder


def found(sheet: Report, title: str) -> dict[tuple[str, str], Statistic]:
    (section,) = (s for s in sheet.sections if s.title.startswith(title))
    cells = (figure for table in section.tables for figure in table.figures)
    return {
        (figure.item, figure.quantity): figure for figure in (*section.figures, *cells)
    }


def test_quarters_of_a_run_in_finer_steps_than_it_writes_are_all_there(
    tmp_path: Path,
) -> None:
    changes = {"duration": "2 d", "step": "10 s"}
    run = tiny_run(tmp_path / "run", changes)
    active, months = (
        found(data_sheet(run), title) for title in ("Active", "Demand by month")
    )
    filled = run.facility()["facility_power_w"].iloc[round(run.transient_h * 60) :]
    quarters = filled.astype(float).resample("15min").agg(["mean", "size"])
    whole_mw = quarters["mean"][quarters["size"] == 15] / 1e6
    assert active["15 min demand, P50", ""].value == pytest.approx(whole_mw.median())
    assert months["2018-01", "15 min demand"].value == pytest.approx(whole_mw.max())


def test_ratings_and_contract_say_what_they_are_of(at_the_meter: Path) -> None:
    run = open_run(at_the_meter)
    sheet, mean_w = data_sheet(run), run.metrics["power"]["mean_mw"] * 1e6
    connection, active = found(sheet, "Connection"), found(sheet, "Active")
    rated_w = rated_at_meter_w(run.scenario)
    assert connection["Rated power", ""].value == pytest.approx(rated_w / 1e6)
    assert "meter" in connection["Rated power", ""].note
    devices_mw = run.scenario.facility.rated_power_w / 1e6
    assert connection["Device rating", ""].value == devices_mw < rated_w / 1e6
    of_rated = active["Load factor of the rated power", ""].value
    assert of_rated == pytest.approx(mean_w / rated_w)
    assert connection["Contract", ""].value == 0.1
    of_contract = active["Load factor of the contract", ""].value
    assert of_contract == pytest.approx(mean_w / 0.1e6)
    months, peak = found(sheet, "Demand by month"), "peak, 1 min means"
    assert [months[m, peak].note for m in ("2018-01", "2018-02")] == ["", "in part"]


def test_sections_of_runs_beside_each_other_keep_their_rank(
    run_folder: Path, at_the_meter: Path
) -> None:
    alone = [s.id for s in build_report([at_the_meter], with_charts=False).sections]
    beside = [
        s.id
        for s in build_report([run_folder, at_the_meter], with_charts=False).sections
    ]
    assert "poi" in beside
    assert beside == [name for name in alone if name in beside]


def test_share_of_training_is_the_energy_of_the_jobs(run_folder: Path) -> None:
    run = open_run(run_folder)
    shares = found(data_sheet(run), "Share")
    jobs_j = run.jobs(["energy_j"])["energy_j"].sum()
    devices_j = run.facility(["it_power_w"])["it_power_w"].astype("float64").sum() * 60
    expected = pytest.approx(100 * jobs_j / devices_j, rel=1e-6)
    assert shares["AI training", "of the energy"].value == expected
    for quantity in ("of the energy", "at the peak"):
        parts = [f.value for (_, of), f in shares.items() if of == quantity]
        assert sum(parts) == pytest.approx(100)


def test_build_out_steps_are_rated_where_their_demand_is_taken(tmp_path: Path) -> None:
    phases = [
        {"since": "2018-01-01", "n_nodes": 8},
        {"since": "2018-01-02", "n_nodes": 12},
    ]
    changes = {
        "facility.pools.main.phases": phases,
        "facility.node_types.node.ac_power": "air_hgx",
        "facility.stages": ["ups", "transformers", "point_of_interconnection"],
    }
    run = tiny_run(tmp_path / "run", changes)
    steps = found(data_sheet(run), "Build-out")
    rated_mw = [steps[f"2018-01-0{day}", "rated"].value for day in (1, 2)]
    assert rated_mw[1] == pytest.approx(rated_at_meter_w(run.scenario) / 1e6)
    assert rated_mw[0] == pytest.approx(rated_mw[1] * 8 / 12)
    assert rated_mw[1] > 1.1 * run.scenario.facility.nodes_power_w / 1e6


@pytest.mark.slow
def test_build_out_steps_add_up_and_many_months_become_years(tmp_path: Path) -> None:
    phases = [
        {"since": "2018-01-01", "n_nodes": 4},
        {"since": "2018-07-01", "n_nodes": 8},
        {"since": "2019-07-01", "n_nodes": 12},
    ]
    changes = {
        "duration": "26 months",
        "resolution": "15 min",
        "facility.rated_power_mw": 0.06,
        "facility.pools.main.phases": phases,
        "streams.training.target_utilization": 0.02,
    }
    tiny_run(tmp_path / "run", changes)
    sheet = data_sheet(open_run(tmp_path / "run"))
    steps = found(sheet, "Build-out")
    dates = [str(phase["since"]) for phase in phases]
    assert [steps[date, "nodes"].value for date in dates] == [4, 8, 12]
    assert [steps[date, "step"].value for date in dates] == pytest.approx([0.02] * 3)
    assert [steps[date, "after"].value for date in dates] == [None, 181, 365]
    demands = [steps[date, "15 min demand"].value for date in dates]
    assert max(demands) == found(sheet, "Active")["Demand, 15 min", ""].value
    note = found(sheet, "Active")["Load factor of the rated power", ""].note
    assert note == "device rating (as given) of all phases"
    ramps = found(sheet, "Peak and ramps")
    assert ("Largest ramp up [MW/min]", "10 min means") not in ramps
    assert ramps["Largest ramp up [MW/min]", "15 min means"].value > 0
    assert any(
        "shorter than the run's resolution" in note for note in sheet.sections[-1].notes
    )
    assert min(demands) > 0.9 * 4 * 400e-6
    years = found(sheet, "Demand by year")
    of_year = "peak, 15 min means"
    assert [item for item, of in years if of == of_year] == ["2018", "2019", "2020"]
    notes = [years[year, of_year].note for year in ("2018", "2019", "2020")]
    assert notes == ["", "", "in part"]


def test_what_a_run_cannot_tell_is_absent_with_the_reason(run_folder: Path) -> None:
    sheet = data_sheet(open_run(run_folder))
    reactive = found(sheet, "Reactive")["Reactive power", ""]
    assert "ends before the point" in reactive.note
    assert "swings" not in [section.id for section in sheet.sections]
    notes = sheet.sections[-1].notes
    (withheld,) = (note for note in notes if note.startswith("Withheld"))
    assert "swings within 2 s, swings within 10 s and swings within 60 s" in withheld
    assert "resolution of 60 s" in withheld
    assert found(sheet, "Connection")["Contract", ""].value is None
    assert sheet.notes[0].startswith("The run ends before the grid's meter")


def test_lines_and_swings_of_a_fine_run_stand_there(fine_folder: Path) -> None:
    sheet = data_sheet(open_run(fine_folder), ["ercot_lcl_2026_06"])
    assert found(sheet, "Swings")["1", "Period"].value == pytest.approx(20, rel=0.02)
    assert found(sheet, "Swings")["10 s", "Largest"].value > 0
    verdicts = found(sheet, "Limits")
    told = {f.value for (_, of), f in verdicts.items() if of == "Verdict"}
    assert told <= {"not met", "met", "inconclusive"}


def test_files_hold_the_same_figures(at_the_meter: Path, tmp_path: Path) -> None:
    peaks = tmp_path / "peaks.csv"
    peaks.write_text("name,start,duration_min\n1CP,2018-01-05 17:00,60\n", "utf-8")
    place = tmp_path / "sheet"
    ended = call(
        *("datasheet", at_the_meter, "--limits", "ieso_3_0", "--peaks", peaks),
        *("--out", f"{place}.html", "--csv", f"{place}.csv"),
    )
    assert ended.code == 0 and len(ended.out.splitlines()) == 2
    with Path(f"{place}.csv").open(encoding="utf-8") as file:
        rows = {
            (r["section"], r["item"], r["quantity"]): r for r in csv.DictReader(file)
        }
    sheet = data_sheet(open_run(at_the_meter), ["ieso_3_0"], read_peak_intervals(peaks))
    assert not any(section.endswith(": ") for section, *_ in rows)
    for section, item, quantity, value, unit, note in long_rows(sheet.sections):
        row = rows[str(section), str(item), str(quantity)]
        assert row["value"] == ("" if value is None else str(value))
        assert (row["unit"], row["note"]) == (unit, note)
    page = Path(f"{place}.html").read_text("utf-8")
    assert "<script" not in page and "1CP" in page and "inconclusive" in page
    again = call(
        "datasheet", at_the_meter, "--out", f"{place}.html", "--csv", f"{place}.csv"
    )
    assert again.code == 2 and "--force" in again.problem


def test_names_that_look_like_formulas_stay_names(tmp_path: Path) -> None:
    names = ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(1)", "\t=1", "plain", "b-1"]
    figures = tuple(Statistic(name, -1.5, "MW", name, name) for name in names)
    sheet = Report("sheet", "", (Section("x", "=0", figures),))
    datasheet.write_csv(sheet, tmp_path / "a.csv")
    with (tmp_path / "a.csv").open(encoding="utf-8", newline="") as file:
        _, *rows = csv.reader(file)
    quoted = [f"'{name}" for name in names[:5]] + names[5:]
    assert rows == [["'=0", name, name, "-1.5", "MW", name] for name in quoted]


def test_two_forms_of_a_sheet_at_one_place_are_refused(
    at_the_meter: Path, tmp_path: Path
) -> None:
    """The later one would stand there alone, as if both had been written."""
    one = tmp_path / "sheet.html"
    same = tmp_path / "." / "sheet.html"
    with pytest.raises(InputError, match=r"--csv: .*sheet.html is that of --out"):
        datasheet.write_datasheet(at_the_meter, one, csv_file=same)
    assert not one.exists()


def test_a_table_in_a_loop_of_links_is_refused(
    at_the_meter: Path, tmp_path: Path
) -> None:
    (tmp_path / "loop").symlink_to("loop")
    place = tmp_path / "loop" / "sheet.csv"
    with pytest.raises(InputError, match="can't be written"):
        datasheet.write_datasheet(at_the_meter, tmp_path / "x.html", csv_file=place)


def test_drop_has_the_sign_of_a_ramp_down(tmp_path: Path) -> None:
    run = tiny_run(
        tmp_path / "run", {"duration": "6 h", "resolution": "60 s"}, event_windows=True
    )
    ramps = found(data_sheet(run), "Peak and ramps")
    drop = ramps["Largest ramp down [MW/min]", "1 s means"].value
    assert drop == pytest.approx(-60 * run.event_windows["drop_1s"]["value_mw"])
    assert drop > 0


def test_load_factors_say_which_leaves_the_fill_up_out(tmp_path: Path) -> None:
    run = tiny_run(tmp_path / "run", {"start": "2018-01-31", "duration": "4 d"})
    assert 0 < run.metrics["grid"]["transient_h"] < 24
    sheet = data_sheet(run)
    active = found(sheet, "Active")
    note = active["Load factor of the 15 min demand", ""].note
    assert "mean of the whole run, peak without the first" in note
    months, of_demand = (
        found(sheet, "Demand by month"),
        "load factor of the 15 min demand",
    )
    of_january = months["2018-01", of_demand]
    assert of_january.note == "mean of all of it, demand without the time of filling up"
    assert months["2018-02", of_demand].note == ""


def test_place_in_the_run_folder_is_refused_and_nothing_written(
    at_the_meter: Path, tmp_path: Path
) -> None:
    places = {"--out": tmp_path / "d.html", "--csv": at_the_meter / "x.csv"}
    before = set(at_the_meter.rglob("*"))
    told = call(
        "datasheet", at_the_meter, *(part for pair in places.items() for part in pair)
    )
    assert told.code != 0
    assert "--csv: " in told.err and "choose a folder next to it" in told.err
    assert set(at_the_meter.rglob("*")) == before


def test_peaks_and_ramps_are_of_all_lengths_that_a_run_of_minutes_shows(
    tmp_path: Path,
) -> None:
    run = tiny_run(tmp_path / "run", {"duration": "1 d"})
    (section,) = (s for s in data_sheet(run).sections if s.id == "averaging")
    (table,) = section.tables
    assert list(table.units) == ["1 min means", "10 min means", "15 min means"]
    assert all(set(cells) == set(table.units) for cells in table.rows.values())
    assert "Means of 0.1 s and 1 s need a finer step" in section.notes[0]
    assert "from 1 min means" in section.notes[0]


def test_a_sheet_speaks_the_words_of_the_trade_and_folds_what_it_rests_on(
    at_the_meter: Path,
) -> None:
    limits = ["ieso_3_0", "ercot_lcl_2026_06", "southern", "lipa"]
    sheet = data_sheet(open_run(at_the_meter), limits)
    *shown, sources = sheet.sections
    assert sources.folded and not any(section.folded for section in shown)
    words = [text for row in long_rows(shown) for text in row if isinstance(text, str)]
    words += [note for section in shown for note in section.notes]
    for text in (*words, *sources.notes, *map(str, long_rows([sources]))):
        assert "ASSUMPTION" not in text and "[J]" not in text
    keys = [
        word for text in words for word in re.findall(r"[a-z0-9]+(?:_[a-z0-9]+)+", text)
    ]
    assert keys == []
    assert not any("diploee" in text or "--set" in text for text in words)
    assert [text for text in words if text.startswith("Withheld")] == []
    assert any(note.startswith("Withheld") for note in sources.notes)
    assert any("Assumed: jobs are training" in note for note in sources.notes)
    reasons = [table for table in sources.tables if "IESO" in table.title]
    assert len(reasons) == 1 and "secondary source" in str(reasons[0].figures)


def test_power_factors_that_are_shown_equal_are_one_row(
    at_the_meter: Path, tmp_path: Path
) -> None:
    def factors(run: Run) -> dict[str, str]:
        cells = found(data_sheet(run), "Reactive")
        return {item: f.shown for (item, _), f in cells.items() if "factor" in item}

    assert len(factors(open_run(at_the_meter))) == 3
    folder = shutil.copytree(at_the_meter, tmp_path / "unity")

    def unity(metrics: dict[str, Any]) -> None:
        metrics["poi"]["peak"]["power_factor"] = 0.9991
        metrics["poi"] |= {"lagging_power_factor": 1.0, "leading_power_factor": 0.9974}

    change_metrics(folder, unity)
    assert factors(open_run(folder)) == {"Power factor": "1.00"}


def test_ramps_and_changes_of_a_finer_run_are_all_of_its_steps(tmp_path: Path) -> None:
    run = tiny_run(tmp_path / "run", {"duration": "1 d", "step": "10 s"})
    sheet, at_step = data_sheet(run), run.metrics["grid"]["at_step"]
    ramps, active = found(sheet, "Peak and ramps"), found(sheet, "Active")
    (section,) = (s for s in sheet.sections if s.id == "averaging")
    assert "steps of 10 s" in section.notes[0]
    for minutes in (1, 10, 15):
        cell = ramps["Largest ramp up [MW/min]", f"{minutes} min means"]
        assert cell.value == at_step["ramps"][f"{minutes * 60}s"]["up_mw_per_min"]
    rise = active["Largest rise within 10 min, of the steps", ""]
    assert rise.value == at_step["changes"]["600s"]["up"]["max_mw"]
