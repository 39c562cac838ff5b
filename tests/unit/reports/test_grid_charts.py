"""Charts of the grid metrics and event windows against the metrics and the series."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from builders import change_metrics

from diploee.base.errors import InputError
from diploee.reports.build import build_report
from diploee.reports.chart_elements import padded_range
from diploee.reports.data import read_run
from diploee.reports.drawing.charts import Chart, Line, log_ticks
from diploee.reports.grid_charts import worst_window_psd

WAVE_S = 20.0
"""Period at which the training jobs of `fine_folder` swing."""


def chart_of(folder: Path, name: str) -> Chart:
    return next(chart for chart in build_report([folder]).charts if chart.id == name)


def metrics_of(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "metrics.json").read_text("utf-8"))
    return content


@pytest.fixture
def copied(fine_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(fine_folder, tmp_path / "copied"))


def change(folder: Path, edit: Callable[[dict[str, Any]], object]) -> Path:
    change_metrics(folder, edit)
    return folder


def test_swings_are_those_of_the_metrics(fine_folder: Path) -> None:
    block = metrics_of(fine_folder)["grid"]
    rolling, rainflow = chart_of(fine_folder, "swings").panels
    largest = [entry["max_mw"] * 1e3 for entry in block["rolling_range"]["windows"]]
    np.testing.assert_allclose(rolling.layers[0].y, largest, rtol=1e-6)
    counts = np.nan_to_num(rainflow.layers[0].y)
    assert counts.tolist() == [
        entry["swings"] for entry in block["rainflow"]["classes"]
    ]
    assert counts.sum() == block["rainflow"]["swings"] > 0


def test_run_without_swings_has_no_empty_figure(copied: Path) -> None:
    change(copied, lambda metrics: metrics["grid"]["rainflow"].update(swings=0))
    assert len(chart_of(copied, "swings").panels) == 1
    change(copied, lambda metrics: metrics["grid"]["rolling_range"]["windows"].clear())
    assert "swings" not in [chart.id for chart in build_report([copied]).charts]


def test_worst_windows_of_the_series_have_the_band_levels_of_the_metrics(
    fine_folder: Path,
) -> None:
    run = read_run(fine_folder)
    block = run.metrics["grid"]["spectrum"]
    df_hz = block["frequency_resolution_hz"]
    for band in block["bands"]:
        frequency_hz, psd = worst_window_psd(run, band)
        assert np.sqrt(psd.sum() * df_hz) == pytest.approx(band["rms_max_mw"], rel=1e-4)
        strongest_hz = pytest.approx(band["worst_window_strongest_hz"])
        assert frequency_hz[psd.argmax()] == strongest_hz


def test_spectrum_pins_the_period_that_the_jobs_have(fine_folder: Path) -> None:
    layers = chart_of(fine_folder, "spectrum").panels[0].layers
    (pins,) = (e for e in layers if e.name == "lines of the mean")
    strongest = metrics_of(fine_folder)["grid"]["spectrum"]["lines"][0]
    assert strongest["period_s"] == pytest.approx(WAVE_S, rel=2e-2)
    assert f"{strongest['period_s']:.3g} s" in pins.texts
    (mean,) = (
        e for e in layers if isinstance(e, Line) and e.name == "mean of all windows"
    )
    assert mean.x[mean.y[5:].argmax() + 5] == pytest.approx(1 / WAVE_S, abs=1 / 600)
    names = [layer.name for layer in layers if isinstance(layer, Line)]
    assert "worst of 0.25 to 0.44 Hz (flagged)" in names
    assert all(np.isfinite(layer.y).all() for layer in layers if layer.name)


def test_worst_window_is_read_from_the_row_groups_that_hold_it(copied: Path) -> None:
    path = copied / "facility.parquet"
    table = pq.read_table(path)
    band = metrics_of(copied)["grid"]["spectrum"]["bands"][0]
    found = []
    for size in (997, table.num_rows):
        pq.write_table(table, path, row_group_size=size)
        run = read_run(copied)
        early = band | {"worst_window": "2018-01-01T00:10:00-07:00"}
        found.append(worst_window_psd(run, early)[1])
        late = band | {"worst_window": "2018-01-01T01:59:00-07:00"}
        assert worst_window_psd(run, late)[1].size == 0
        with pytest.raises(InputError, match=r"spectrum: 2017-12-31.* lies outside"):
            worst_window_psd(run, band | {"worst_window": "2017-12-31T23:00:00-07:00"})
    np.testing.assert_array_equal(*found)
    assert found[0].size


def test_duration_curve_keeps_the_resolution_of_a_run_that_is_averaged_on_reading(
    fine_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("diploee.reports.data.MAX_INTERVALS", 1_000)
    run = read_run(fine_folder)
    assert run.step_ms == 60_000
    # The clock of the facility, seven hours behind UTC
    assert run.local_ms[0].astype("datetime64[ms]") == np.datetime64("2018-01-01")
    chart = chart_of(fine_folder, "duration")
    assert "from 0.1 s means" in chart.caption
    line = chart.panels[0].layers[0]
    power = metrics_of(fine_folder)["power"]
    assert line.y[0] == pytest.approx(power["max_mw"] * 1e3, rel=1e-6)
    median_kw = pytest.approx(power["median_mw"] * 1e3, rel=1e-6)
    assert line.y[line.x.tolist().index(50)] == median_kw


def test_every_event_window_is_a_panel_with_its_title_and_its_power(
    fine_folder: Path,
) -> None:
    entries = metrics_of(fine_folder)["zooms"]["windows"]
    panels = chart_of(fine_folder, "zooms").panels
    assert len(panels) == len(entries) == 7
    for panel, entry in zip(panels, entries, strict=True):
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


def test_a_page_holds_no_more_of_an_event_window_than_it_shows(
    fine_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("diploee.reports.event_charts.MAX_ROWS", 400)
    for panel in chart_of(fine_folder, "zooms").panels:
        assert panel.layers[0].x.size <= 400
        assert panel.x.range is not None
        assert panel.layers[0].x[0] <= panel.x.range[0] < panel.x.range[1]


def test_run_of_an_older_version_has_the_rest_of_its_report(copied: Path) -> None:
    change(copied, lambda metrics: metrics.pop("grid") and None)
    assert "zooms" in [chart.id for chart in build_report([copied]).charts]
    change(copied, lambda metrics: metrics.pop("zooms") and None)
    report = build_report([copied])
    assert not {"ramps", "spectrum", "zooms"} & {chart.id for chart in report.charts}
    assert "duration" in [chart.id for chart in report.charts]


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda m: m["grid"].pop("ramps"), "grid.ramps: this key is missing"),
        (
            lambda m: m["zooms"]["windows"][0].update(name="gone"),
            "gone.parquet: no such file",
        ),
    ],
)
def test_metrics_that_lack_what_a_page_reads_are_one_clear_line(
    edit: Callable[[dict[str, Any]], object], words: str, copied: Path
) -> None:
    change(copied, edit)
    with pytest.raises(InputError, match=re.escape(words)) as caught:
        build_report([copied])
    assert len(str(caught.value).splitlines()) == 1


def test_event_window_without_rows_is_one_clear_line(copied: Path) -> None:
    empty = pq.read_table(copied / "zooms" / "rise_1s.parquet").slice(0, 0)
    pq.write_table(empty, copied / "zooms" / "peak.parquet")
    with pytest.raises(InputError, match=r"peak\.parquet: holds 0 intervals where"):
        build_report([copied])


def test_ticks_of_a_logarithmic_axis_lie_on_it() -> None:
    values, texts = log_ticks(0.0015, 0.48)
    assert texts == ["0.002", "0.005", "0.01", "0.02", "0.05", "0.1", "0.2"]
    values, texts = log_ticks(2e-7, 3e5)
    assert texts[:3] == ["10⁻⁶", "10⁻⁵", "0.0001"] and texts[-2:] == ["10,000", "10⁵"]
    assert all(2e-7 <= value <= 3e5 for value in values)


@pytest.mark.parametrize(("low", "high"), [(100.0, 100.5), (99.0, 300.0), (0.0, 0.0)])
def test_a_half_percent_is_no_cliff(low: float, high: float) -> None:
    bottom, top = padded_range(low, high)
    assert bottom <= low <= high <= top and top - bottom >= 0.09 * high
