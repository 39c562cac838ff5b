"""The section "As the grid sees it": the metrics with their resolution, and event windows."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from diploee.drawing.charts import Chart, Line, Marks, log_ticks
from diploee.errors import InputError
from diploee.metrics.cause_words import cause_words
from diploee.reports.build import build_report
from diploee.reports.common import near_range
from diploee.reports.content import PageTable, Section
from diploee.reports.data import read_run
from diploee.reports.grid_charts import worst_window_psd
from diploee.reports.grid_data import GridView, grid_view, power_from
from diploee.reports.grid_section import withheld
from diploee.reports.grid_tables import seconds
from diploee.reports.page import report_page
from diploee.reports.words import moment, pattern_for
from diploee.units import KILOWATT

WAVE_S = 20.0
"""Period at which the training jobs of `fine_folder` swing."""
TITLES = {
    "peak": "Highest 1 s mean",
    "rise_1s": "Largest 1 s rise",
    "drop_1s": "Largest 1 s drop",
    "rise_10s": "Largest 10 s rise",
    "drop_10s": "Largest 10 s drop",
    "rise_60s": "Largest 1 min rise",
    "drop_60s": "Largest 1 min drop",
}
LENGTHS = ["2 s", "10 s", "1 min", "5 min", "10 min", "15 min", "1 h"]


def section_of(folder: Path) -> Section:
    return next(section for section in build_report([folder]).sections if section.id == "grid")


def chart_of(folder: Path, name: str) -> Chart:
    return next(chart for chart in build_report([folder]).charts if chart.id == name)


def table_of(folder: Path, title: str) -> PageTable:
    return next(table for table in section_of(folder).tables if table.title.startswith(title))


def metrics_of(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "metrics.json").read_text("utf-8"))
    return content


def view_of(folder: Path) -> GridView:
    view = grid_view(read_run(folder), KILOWATT)
    assert view is not None
    return view


@pytest.fixture
def copied(fine_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(fine_folder, tmp_path / "copied"))


def age(metrics: dict[str, Any]) -> None:
    """Take out what older versions did not write."""
    del metrics["grid"], metrics["zooms"]


def change(folder: Path, edit: Callable[[dict[str, Any]], None]) -> Path:
    metrics = metrics_of(folder)
    edit(metrics)
    (folder / "metrics.json").write_text(json.dumps(metrics), "utf-8")
    return folder


def test_every_part_of_the_section_says_its_resolution(run_folder: Path, fine_folder: Path) -> None:
    for folder, words in ((run_folder, "1 min means"), (fine_folder, "0.1 s means")):
        section = section_of(folder)
        assert words in section.notes[0]
        for part in section.content:
            told = part.caption if isinstance(part, Chart) else f"{part.note} {part.rows[0]}"
            assert words in told or part.title == "The worst windows at 0.1 s", part.title


def test_demand_is_that_of_the_metrics(fine_folder: Path) -> None:
    block = metrics_of(fine_folder)["grid"]
    rows = {row[0]: row[1:] for row in table_of(fine_folder, "Demand").rows}
    found = {label: float(row[0].replace(",", "")) for label, row in rows.items()}
    kilowatts = pytest.approx(block["peak"]["max_mw"] * 1e3, rel=1e-3)
    assert found["Peak [kW]"] == kilowatts
    peak_at = datetime.fromisoformat(block["peak"]["time"])
    assert rows["Peak [kW]"][2] == f"{peak_at:%Y-%m-%d %H:%M:%S.%f}"[:21]
    (demand,) = (d for d in block["maximum_demand"]["intervals"] if d["interval_min"] == 30)
    assert found["Maximum demand over 30 min [kW]"] == pytest.approx(demand["max_mw"] * 1e3, 1e-3)
    assert found["Load factor, 30 min demand"] == pytest.approx(demand["load_factor"], abs=6e-4)
    assert rows["Load factor, 30 min demand"][1] == "30 min of 0.1 s means"
    assert found["Headroom [kW]"] + found["Peak [kW]"] == pytest.approx(
        block["headroom"]["rated_mw"] * 1e3, rel=1e-3
    )
    assert found["Coincidence factor of the pools"] == 1


def test_load_factors_by_month_give_the_energy_back(run_folder: Path) -> None:
    table = table_of(run_folder, "Maximum demand and load factor by month")
    hours = {"2018-01": 7 * 24, "2018-02": 3 * 24}
    assert [row[0] for row in table.rows] == list(hours)
    energy_mwh = metrics_of(run_folder)["power"]["energy_mwh"]
    for demand in ("15 min", "30 min", "60 min"):
        largest = table.header.index(f"{demand} [kW]")
        factor = table.header.index(f"{demand} load factor")
        energy_kwh = [float(r[largest]) * float(r[factor]) * hours[r[0]] for r in table.rows]
        assert sum(energy_kwh) == pytest.approx(energy_mwh * 1e3, rel=2e-3)  # rounded cells
    assert "2018-01 and 2018-02: only what the run covers" in table.note


def test_run_within_a_month_has_no_months(fine_folder: Path) -> None:
    titles = [part.title for part in section_of(fine_folder).content]
    assert not [title for title in titles if "by month" in title]


def test_ramps_of_every_length_are_given_or_say_why_not(
    run_folder: Path, fine_folder: Path
) -> None:
    for folder in (run_folder, fine_folder):
        table, block = table_of(folder, "Ramps"), metrics_of(folder)["grid"]["ramps"]
        assert list(dict.fromkeys(row[0] for row in table.rows)) == LENGTHS
        entry = block["intervals"][-1]
        up, down = table.rows[-2:]
        assert (up[1], down[1]) == ("up", "down")
        assert float(up[2]) == pytest.approx(entry["up"]["max_mw"] * 1e3, rel=1e-3)
        assert float(down[5]) == pytest.approx(entry["down"]["max_mw_per_min"] * 1e3, rel=5e-3)
        for row in table.rows:
            assert (row[2] == "–") == row[-1].startswith("not supported: "), row  # noqa: RUF001
    short = table_of(run_folder, "Ramps").rows[0]
    assert short[-1] == "not supported: shorter than the run's resolution of 60 s"


def test_lower_bounds_are_marked_in_table_chart_and_note(copied: Path) -> None:
    def edit(metrics: dict[str, Any]) -> None:
        metrics["grid"]["ramps"]["intervals"][0]["lower_bound"] = True
        metrics["grid"]["rolling_range"]["windows"][0]["lower_bound"] = True
        metrics["grid"]["bandwidth"]["averaging_window_s"] = 3.0

    change(copied, edit)
    for title in ("Ramps", "Rapid load changes"):
        notes = [row[-1] for row in table_of(copied, title).rows]
        assert notes[0].endswith("lower bound: the profiles average over 3 s")
        assert not any("lower bound" in note for note in notes[2:])
    assert "2 s (at least)" in chart_of(copied, "ramps").panels[0].layers[0].x
    assert "lower bound" in chart_of(copied, "ramps").caption
    expected = "Lower bounds: ramps over 2 s and swings within 2 s (the profiles average over 3 s)."
    assert expected in section_of(copied).notes[1]


def test_one_line_tells_what_was_withheld_and_why(run_folder: Path, fine_folder: Path) -> None:
    line = section_of(run_folder).notes[1]
    assert line.startswith("Withheld: ramps over 2 s and 10 s (shorter than the run's resolution")
    assert "the spectrum from 0.001 to 0.44 Hz (the run's resolution of 60 s does not" in line
    assert "No claim on flicker, torsion or harmonics" in line
    line = section_of(fine_folder).notes[1]
    assert "Withheld: the spectrum from 0.44 to 2.5 Hz (the profiles support nothing above" in line
    assert "Flagged: 0.25 to 0.44 Hz (above 0.25 Hz levels read low or alias)." in line


def test_nothing_is_withheld_without_a_word(fine_folder: Path) -> None:
    block = metrics_of(fine_folder)["grid"]
    block["spectrum"]["absent"].clear()
    for band in block["spectrum"]["bands"]:
        band["flagged"] = False
    assert withheld(block).startswith("No claim on flicker")


def test_tables_of_what_a_run_can_not_hold_are_left_out(run_folder: Path) -> None:
    titles = [part.title for part in section_of(run_folder).content]
    assert "Rapid load changes" not in titles
    assert "Band levels" not in titles
    assert "Spectrum of the load" not in titles


def test_swings_are_those_of_the_metrics(fine_folder: Path) -> None:
    block = metrics_of(fine_folder)["grid"]
    rolling, rainflow = chart_of(fine_folder, "swings").panels
    largest = [entry["max_mw"] * 1e3 for entry in block["rolling_range"]["windows"]]
    np.testing.assert_allclose(rolling.layers[0].y, largest, rtol=1e-6)
    counts = np.nan_to_num(rainflow.layers[0].y)
    assert counts.tolist() == [entry["swings"] for entry in block["rainflow"]["classes"]]
    assert counts.sum() == block["rainflow"]["swings"] > 0


def test_run_without_swings_says_so_instead_of_an_empty_figure(copied: Path) -> None:
    def edit(metrics: dict[str, Any]) -> None:
        metrics["grid"]["rainflow"].update(swings=0, swings_per_day=0.0)

    caption = chart_of(change(copied, edit), "swings").caption
    assert re.search(r"No swing of [\d.]+ kW or more closed", caption)
    change(copied, lambda metrics: metrics["grid"]["rolling_range"]["windows"].clear())
    section = section_of(copied)
    assert "swings" not in [chart.id for chart in section.charts]
    assert section.notes[2].startswith("No swing of ")


@pytest.mark.parametrize("key", ["max_mw", "p99_mw", "max_from", "max_to"])
def test_swings_of_a_file_that_lacks_one_of_their_values_are_drawn(copied: Path, key: str) -> None:
    change(copied, lambda metrics: metrics["grid"]["rainflow"].pop(key) and None)
    assert "Rainflow-counted" in chart_of(copied, "swings").caption


def test_coincidence_names_the_pools(copied: Path) -> None:
    def edit(metrics: dict[str, Any]) -> None:
        peak = metrics["grid"]["peak"]
        pools = {"left": peak, "right": peak}
        metrics["grid"]["coincidence"] = {"factor": 0.9, "together": peak, "pools": pools}

    table = table_of(change(copied, edit), "Demand")
    assert table.rows[-1][:2] == ("Coincidence factor of the pools", "0.900")
    assert "over the sum of their own peaks (left and right)." in table.note


def test_worst_windows_of_the_series_have_the_band_levels_of_the_metrics(fine_folder: Path) -> None:
    view = view_of(fine_folder)
    df_hz = view.block["spectrum"]["frequency_resolution_hz"]
    for band in view.block["spectrum"]["bands"]:
        frequency_hz, psd = worst_window_psd(view, band)
        assert np.sqrt(psd.sum() * df_hz) == pytest.approx(band["rms_max_mw"], rel=1e-4)
        assert frequency_hz[psd.argmax()] == pytest.approx(band["worst_window_strongest_hz"])


def test_spectrum_pins_the_period_that_the_jobs_have(fine_folder: Path) -> None:
    layers = chart_of(fine_folder, "spectrum").panels[0].layers
    (pins,) = (e for e in layers if isinstance(e, Marks) and e.name == "lines of the mean")
    strongest = metrics_of(fine_folder)["grid"]["spectrum"]["lines"][0]
    assert strongest["period_s"] == pytest.approx(WAVE_S, rel=2e-2)
    assert f"{strongest['period_s']:.3g} s" in pins.texts
    (mean,) = (e for e in layers if isinstance(e, Line) and e.name == "mean of all windows")
    assert mean.x[mean.y[5:].argmax() + 5] == pytest.approx(1 / WAVE_S, abs=1 / 600)
    names = [layer.name for layer in layers if isinstance(layer, Line)]
    assert "worst of 0.25 to 0.44 Hz (flagged)" in names
    assert all(np.isfinite(layer.y).all() for layer in layers if layer.name)


def test_series_is_read_from_the_row_groups_that_hold_it(copied: Path) -> None:
    path = copied / "facility.parquet"
    table = pq.read_table(path)
    expected = table.column("facility_power_w").to_numpy().astype(np.float64)
    for size in (997, 6_000, table.num_rows):
        pq.write_table(table, path, row_group_size=size)
        run = read_run(copied)
        found = power_from(run, "2018-01-01T00:10:00-07:00", 6_000)
        np.testing.assert_array_equal(found, expected[6_000:12_000])
        assert power_from(run, "2018-01-01T01:59:00-07:00", 6_000).size == 600
        with pytest.raises(InputError, match=r"grid\.spectrum: 2017-12-31.* lies outside the run"):
            power_from(run, "2017-12-31T23:00:00-07:00", 1)


def test_duration_curve_keeps_the_resolution_of_a_run_that_is_averaged_on_reading(
    fine_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("diploee.reports.data.MAX_INTERVALS", 1_000)
    assert read_run(fine_folder).step_ms == 60_000
    chart = chart_of(fine_folder, "duration")
    assert "from 0.1 s means" in chart.caption
    line = chart.panels[0].layers[0]
    power = metrics_of(fine_folder)["power"]
    assert line.y[0] == pytest.approx(power["max_mw"] * 1e3, rel=1e-6)
    assert line.y[line.x.tolist().index(50)] == pytest.approx(power["median_mw"] * 1e3, rel=1e-6)


def test_every_event_window_is_a_panel_with_its_title_and_its_power(fine_folder: Path) -> None:
    entries = metrics_of(fine_folder)["zooms"]["windows"]
    panels = chart_of(fine_folder, "zooms").panels
    assert len(panels) == len(entries) == 7
    for panel, entry in zip(panels, entries, strict=True):
        assert panel.title.startswith(f"{TITLES[entry['name']]}: ")
        assert f"{abs(entry['value_mw']) * 1e3:,.3f} kW" in panel.title
        at = np.datetime64(entry["at"][:19])
        assert str(at).partition("T")[2] in panel.title
        assert panel.x.range is not None and panel.x.range[0] < at < panel.x.range[1]
        power = panel.layers[0]
        table = pq.read_table(fine_folder / entry["file"])
        stored_kw = table.column("facility_power_w").to_numpy() / 1e3
        np.testing.assert_allclose(power.y, stored_kw, rtol=1e-6)
        assert power.x[0] == table.column("timestamp")[0].as_py().replace(tzinfo=None)
        low, high = panel.y.range or (0, 0)
        shown = (power.x >= panel.x.range[0]) & (power.x < panel.x.range[1])
        assert low < power.y[shown].min() <= power.y[shown].max() < high


def test_worst_windows_and_ramps_say_below_them_and_in_their_table_why(fine_folder: Path) -> None:
    metrics = metrics_of(fine_folder)
    panels = chart_of(fine_folder, "zooms").panels
    assert [panel.notes for panel in panels] == [
        (cause_words(entry["cause"], KILOWATT),) for entry in metrics["zooms"]["windows"]
    ]
    assert all("stream training " in panel.notes[0] for panel in panels)
    intervals = metrics["grid"]["ramps"]["intervals"]
    rows = {(row[0], row[1]): row[-1] for row in table_of(fine_folder, "Ramps").rows}
    for panel, way in zip(chart_of(fine_folder, "ramps").panels, ("up", "down"), strict=True):
        assert panel.title == f"Ramps {way}, and why the largest"
        explained = [entry for entry in intervals if entry[way].get("cause")]
        assert len(explained) > 4
        for note, entry in zip(panel.notes, explained, strict=True):
            length = seconds(entry["interval_s"])
            why = cause_words(entry[way]["cause"], KILOWATT, brief=True)
            assert note == f"{length}: {why}."
            assert why and rows[length, way].startswith(why)


def test_no_axis_of_power_makes_a_cliff_of_half_a_percent(
    run_folder: Path, fine_folder: Path
) -> None:
    report = [*build_report([run_folder]).charts, *build_report([fine_folder]).charts]
    seen = 0
    for axis in (panel.y for chart in report for panel in chart.panels if chart.id != "spectrum"):
        if "ower [kW]" in axis.label and not axis.from_zero:
            low, high = axis.range or (0, 0)
            assert high - low >= 0.095 * high
            seen += 1
    assert seen > 10
    assert near_range(99.6, 100.1)[0] < 95 and near_range(0.0, 5.0)[0] == 0


def test_drawn_means_differ_by_the_step_that_the_event_window_was_kept_for(
    fine_folder: Path,
) -> None:
    entries = metrics_of(fine_folder)["zooms"]["windows"]
    for panel, entry in zip(chart_of(fine_folder, "zooms").panels, entries, strict=True):
        found = panel.layers[1]
        kilowatts = pytest.approx(entry["value_mw"] * 1e3, rel=1e-4)
        if entry["name"] == "peak":
            assert found.y[0] == kilowatts
        else:
            assert found.y[-1] - found.y[0] == kilowatts
            length_s = int(entry["name"].split("_")[1].removesuffix("s"))
            assert found.x[-1] - found.x[0] == np.timedelta64(2 * length_s, "s")


def test_a_page_holds_no_more_of_an_event_window_than_it_shows(
    fine_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("diploee.reports.event_window_charts.MAX_ROWS", 400)
    for panel in chart_of(fine_folder, "zooms").panels:
        assert panel.layers[0].x.size <= 400
        assert panel.x.range is not None
        assert panel.layers[0].x[0] <= panel.x.range[0] < panel.x.range[1]


def test_sections_add_less_than_half_a_megabyte_to_the_page(copied: Path) -> None:
    with_grid = len(report_page(build_report([copied])))
    change(copied, age)
    assert 50_000 < with_grid - len(report_page(build_report([copied]))) < 500_000


def test_run_of_an_older_version_has_the_report_that_it_had(copied: Path) -> None:
    change(copied, age)
    report = build_report([copied])
    assert "grid" not in [section.id for section in report.sections]
    planning = next(section for section in report.sections if section.id == "planning")
    assert planning.charts[0].id == "duration"


def test_event_windows_without_grid_metrics_are_drawn_too(copied: Path) -> None:
    change(copied, lambda metrics: metrics.pop("grid") and None)
    assert [chart.id for chart in section_of(copied).charts] == ["zooms"]
    assert "duration" in [chart.id for chart in build_report([copied]).charts]


def test_spectrum_without_a_mean_of_an_older_version_is_left_out(copied: Path) -> None:
    change(copied, lambda metrics: metrics["grid"]["spectrum"].pop("mean_psd_mw2_per_hz") and None)
    assert "spectrum" not in [chart.id for chart in section_of(copied).charts]
    assert table_of(copied, "Band levels").rows


def test_facility_without_a_rating_has_no_headroom(copied: Path) -> None:
    change(copied, lambda metrics: metrics["grid"].update(headroom=None, coincidence=None))
    labels = [row[0] for row in table_of(copied, "Demand").rows]
    assert not [label for label in labels if "Headroom" in label or "Coincidence" in label]


def test_compared_runs_keep_the_page_that_they_had(run_folder: Path, busier_folder: Path) -> None:
    report = build_report([run_folder, busier_folder])
    assert "grid" not in [section.id for section in report.sections]
    assert "duration" in [chart.id for chart in report.charts]


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda m: m["grid"].pop("ramps"), "grid.ramps: this key is missing"),
        (lambda m: m["grid"].update(peak=3), "grid.peak: must be a group of keys"),
        (lambda m: m["grid"]["peak"].update(time="noon"), "grid.peak.time: must be an ISO time"),
        (
            lambda m: m["zooms"].update(windows=[{"name": "peak"}]),
            "windows.0.window_s: this key is",
        ),
        (lambda m: m["zooms"].update(windows=[7]), "zooms.windows.0: must be a group of keys"),
        (lambda m: m["zooms"]["windows"][0].update(name="gone"), "gone.parquet: no such file"),
    ],
)
def test_damaged_metrics_are_one_clear_line(
    edit: Callable[[dict[str, Any]], object], words: str, copied: Path
) -> None:
    change(copied, lambda metrics: edit(metrics) and None)
    with pytest.raises(InputError, match=re.escape(words)) as caught:
        build_report([copied])
    assert len(str(caught.value).splitlines()) == 1


def test_damaged_event_window_is_one_clear_line(copied: Path) -> None:
    for damage in (b"PAR1 but no more", b""):
        (copied / "zooms" / "peak.parquet").write_bytes(damage)
        with pytest.raises(InputError, match=r"peak\.parquet: can't be read") as caught:
            build_report([copied])
        assert len(str(caught.value).splitlines()) == 1
    empty = pq.read_table(copied / "zooms" / "rise_1s.parquet").slice(0, 0)
    pq.write_table(empty, copied / "zooms" / "peak.parquet")
    with pytest.raises(InputError, match=r"peak\.parquet: holds 0 intervals where"):
        build_report([copied])


def test_page_of_a_fine_run_reads_the_same_in_batches_of_any_size(
    fine_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = read_run(fine_folder)
    monkeypatch.setattr("diploee.outputs.series.BATCH_ROWS", 777)
    in_batches = read_run(fine_folder)
    np.testing.assert_array_equal(in_batches.power_w, whole.power_w)
    monkeypatch.setattr("diploee.reports.data.MAX_INTERVALS", 1_000)
    np.testing.assert_allclose(
        read_run(fine_folder).power_w, whole.power_w.reshape(-1, 600).mean(axis=1), rtol=1e-6
    )


def test_ticks_of_a_logarithmic_axis_lie_on_it() -> None:
    values, texts = log_ticks(0.0015, 0.48)
    assert texts == ["0.002", "0.005", "0.01", "0.02", "0.05", "0.1", "0.2"]
    values, texts = log_ticks(2e-7, 3e5)
    assert texts[:3] == ["10⁻⁶", "10⁻⁵", "0.0001"]
    assert texts[-2:] == ["10,000", "10⁵"]
    assert all(2e-7 <= value <= 3e5 for value in values)


def test_times_and_numbers_are_as_fine_as_they_can_be_read() -> None:
    text = "2018-05-19T12:39:07.300-07:00"
    assert moment(text) == "2018-05-19 12:39"
    assert moment(text, 1_000) == "2018-05-19 12:39:07"
    assert moment(text, 100) == "2018-05-19 12:39:07.3"
    assert moment("2018-05-19T12:39:07-07:00", 100) == "2018-05-19 12:39:07.0"
    assert moment(None) == moment(5) == "\N{EN DASH}"
    assert pattern_for([7.33, None, -0.2]).format(7.33) == "7.330"
    assert pattern_for([0.0021]).format(0.0021) == "0.002100"
    assert pattern_for([3649.2], 3).format(3649.2) == "3,649"
    assert pattern_for([]).format(0.0) == "0.000"


def test_section_says_what_its_times_are(fine_folder: Path) -> None:
    words = "the start of an interval; of a ramp, that of the earlier one."
    assert any(words in note for note in section_of(fine_folder).notes)
