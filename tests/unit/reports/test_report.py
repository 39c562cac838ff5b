from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from builders import change_metrics, tiny_run

from diploee import run as simulate
from diploee.base.errors import InputError, OutputExistsError
from diploee.base.units import MS_PER_WEEK
from diploee.reports import write_report
from diploee.reports.build import Report, build_report, report_page, write_pictures
from diploee.reports.data import read_run
from diploee.reports.drawing.charts import (
    INK,
    MUTED,
    PALETTE,
    PEAK,
    Area,
    Axis,
    Chart,
    Line,
    Panel,
)
from diploee.reports.drawing.page import DARK, Figures
from diploee.reports.drawing.pictures import Picture
from diploee.reports.stack_charts import LIMIT
from diploee.scenario import load_scenario

UNIT = re.compile(r"\[[^\]]+\]")
UNITLESS = {
    "Load factor",
    "Closed swings in the run",
    "Instances in use",
    "Day",
    "Time of week",
    "Duration",
    "Length of the ramp",
    "Length of the window",
}


@pytest.fixture
def copied(run_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(run_folder, tmp_path / "copied"))


@pytest.fixture
def serving_folder(copied: Path) -> Path:
    """A run folder with two services, as the inference mode writes it."""
    table = pq.read_table(copied / "facility.parquet")
    n = table.num_rows
    for service, rate in (("chat", 4.0), ("code", 2.0)):
        incoming = rate + np.sin(np.arange(n) / 200)
        columns = {
            "incoming_rps": incoming,
            "served_rps": np.minimum(incoming, rate),
            "unserved_rps": np.maximum(incoming - rate, 0),
            "n_instances": np.ceil(incoming),
        }
        for name, values in columns.items():
            column = pa.array(values.astype(np.float32))
            table = table.append_column(f"{name}.{service}", column)
    # Without its own catalogue, as older versions wrote it.
    pq.write_table(table.replace_schema_metadata(None), copied / "facility.parquet")
    requests = {"per_day": 5e5, "incoming_rps": 6.0, "services": {"chat": {}}}
    change_metrics(copied, lambda metrics: metrics.update(requests=requests))
    return copied


@pytest.fixture
def sweep_folder(run_folder: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "sweep"
    rows: list[dict[str, Any]] = []
    for target in (0.2, 0.4, 0.6):
        for case in ("small", "large"):
            for seed in (0, 1):
                run = f"{target}{case}{seed}"
                failed = (target, case, seed) == (0.4, "small", 1)
                value = np.nan if failed else target * 10 + seed * 0.1
                metrics = {"power.mean_mw": value, "power.max_mw": value * 1.5}
                status = "failed" if failed else "finished"
                axes = {"streams.training.target_utilization": target, "case": case}
                names = {"run": run, "seed": seed, "status": status}
                rows.append(axes | names | metrics)
    for run in ("0.2small0", "0.6large0"):
        shutil.copytree(run_folder, folder / "runs" / run)
    pd.DataFrame(rows).to_parquet(folder / "summary.parquet")
    axes = ["streams.training.target_utilization", "case"]
    text = json.dumps({"name": "levels", "axes": axes})
    (folder / "sweep.json").write_text(text, "utf-8")
    return folder


def array_of(column: dict[str, Any]) -> np.ndarray:
    """Read a column of a page."""
    if "start" in column:
        steps = np.full(column["n"], column["step"])
        for place, by in column["jumps"]:
            steps[place] += by
        return column["start"] + np.cumsum(steps) - column["step"]
    (code,) = column.keys() & {"f4", "f8", "i2"}
    values = np.frombuffer(base64.b64decode(column[code]), f"<{code}").astype(float)
    if code == "i2":
        steps = np.where(values == -32768, np.nan, values + 32767)
        values = column["low"] + column["step"] * steps
    return values


def columns_of(page: str) -> list[dict[str, Any]]:
    (columns,) = re.findall(r"id='columns'>(.*?)</script>", page)
    found: list[dict[str, Any]] = json.loads(columns)
    return found


def hovered(page: str) -> dict[str, list[dict[str, np.ndarray]]]:
    """Return what hovering reads from the first panel of each figure: values by `y` or
    `z`."""
    found = re.findall(
        r"<figure id='([^']+)'.*?class='spec'>(.*?)</script>", page, re.DOTALL
    )
    values = columns_of(page)
    return {
        figure: [
            {
                n: array_of(values[k])
                for n, k in line["columns"].items()
                if n in ("y", "z") and "start" not in values[k]
            }
            for line in json.loads(content)["hover"]
        ]
        for figure, content in found
    }


def test_times_across_a_change_of_the_clock_are_kept_as_start_step_and_jump() -> None:
    times_ms = np.arange(0, 3_600_000 * 50, 600_000)
    times_ms[100:] += 3_600_000
    line = Line(times_ms.astype("datetime64[ms]"), np.sqrt(times_ms), "power", INK)
    panel = Panel(Axis("Time", "date"), Axis("Power [MW]"), (line,))
    columns = columns_of(Figures().page(Chart("power", "Power", "Power.", (panel,))))
    (kept,) = [column for column in columns if column.get("jumps")]
    assert kept["jumps"] == [[100, 3_600_000]]
    assert array_of(kept).tolist() == times_ms.tolist()


def test_charts_of_a_run_tell_the_whole_story(run_folder: Path) -> None:
    report = build_report([run_folder])
    expected = "overview carpet peak-week bands duration months ramps swings"
    expected += " worst-weeks occupancy queue"
    assert [chart.id for chart in report.charts] == expected.split()
    assert all(chart.caption.endswith(".") for chart in report.charts)
    absent = {"flexibility", "limits", "poi"}
    assert not absent & {section.id for section in report.sections}


def test_events_link_to_the_minutes_of_their_weeks(run_folder: Path) -> None:
    report = build_report([run_folder])
    charts = {chart.id: chart for chart in report.charts}
    (section,) = (section for section in report.sections if section.id == "ramps")
    linked = [of for of in section.tables[0].figures if of.quantity == "When"]
    assert {figure.link for figure in linked} == {"peak-week", "worst-weeks"}
    series = read_run(run_folder)
    for figure in linked:
        day = np.datetime64(str(figure.value)[:10])
        monday = day - (day.astype(int) + 3) % 7
        title = f"{monday.item().day} {monday.item():%B %Y}"
        panels = charts[figure.link].panels
        panel = panels[0]
        if figure.link == "worst-weeks":
            (panel,) = (panel for panel in panels if figure.item in panel.title)
        assert panel.title.endswith(title)
        into_ms = series.local_ms - monday.astype("datetime64[ms]").astype(int)
        in_week = (into_ms >= 0) & (into_ms < MS_PER_WEEK)
        assert panel.layers[0].x.size == in_week.sum()
        assert f"<a href='#{figure.link}'>{figure.value}</a>" in report_page(report)


def test_every_axis_names_its_unit(
    serving_folder: Path, sweep_folder: Path, fine_folder: Path
) -> None:
    for folder in (serving_folder, sweep_folder, fine_folder):
        for chart in build_report([folder]).charts:
            for panel in chart.panels:
                for axis in (panel.x, panel.y):
                    known = axis.label in UNITLESS or axis.label.startswith("Month")
                    known = known or chart.id.startswith(("axis-", "map"))
                    assert known or UNIT.search(axis.label), axis.label


@pytest.mark.slow
def test_vega_lite_accepts_every_figure(
    serving_folder: Path, sweep_folder: Path, fine_folder: Path
) -> None:
    import vl_convert

    for folder in (serving_folder, sweep_folder, fine_folder):
        for chart in build_report([folder]).charts:
            # Raises on a wrong one
            drawn = vl_convert.vegalite_to_scenegraph(Picture(chart).spec)
            text = json.dumps(drawn, ensure_ascii=False)
            for panel in chart.panels:
                assert panel.y.label.replace('"', '\\"') in text


def test_page_holds_the_numbers_of_the_run(run_folder: Path) -> None:
    run = read_run(run_folder)
    drawn = hovered(report_page(build_report([run_folder])))
    curve = drawn["duration"][0]["y"]
    kilowatts = run.metrics["power"]["max_mw"] * 1e3
    assert curve[0] == pytest.approx(kilowatts, rel=1e-5)
    energy = drawn["months"][0]["y"].sum()
    assert energy == pytest.approx(run.metrics["power"]["energy_mwh"] * 1e3, rel=1e-5)
    carpet = drawn["carpet"][0]["z"]
    assert carpet.size == 96 * 10
    mean_kw = run.metrics["power"]["mean_mw"] * 1e3
    assert carpet.mean() == pytest.approx(mean_kw, rel=1e-5)


def test_page_asks_no_network_and_says_where_numbers_come_from(
    run_folder: Path,
) -> None:
    report = build_report([run_folder])
    page = report_page(report)
    own = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    assert "default-src 'none'" in page
    assert not re.search(r"(src|href)\s*=\s*['\"]?(https?:|//)", own)
    manifest = json.loads((run_folder / "manifest.json").read_text("utf-8"))
    assert manifest["scenario_sha256"] in page
    assert "4 reference (synthesised from published facts)" in page
    assert "Mean power" in page


def test_colours_are_clear_on_dark_paper() -> None:
    def luminance(text: str) -> float:
        part = np.array([int(text[k : k + 2], 16) for k in (1, 3, 5)]) / 255
        is_dark = part <= 0.03928
        linear = np.where(is_dark, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    for colour in (*PALETTE, PEAK, INK, MUTED, LIMIT):
        shown = luminance(DARK.get(colour, colour))
        assert (shown + 0.05) / (luminance("#1b242c") + 0.05) >= 4.5, colour


def test_equal_runs_give_equal_pages(run_folder: Path) -> None:
    first, second = (report_page(build_report([run_folder])) for _ in range(2))
    assert first == second


def test_runs_are_named_by_what_differs(run_folder: Path, busier_folder: Path) -> None:
    report = build_report([run_folder, busier_folder])
    curves = next(c for c in report.charts if c.id == "duration").panels[0].layers
    names = [layer.name for layer in curves]
    assert names == ["target utilization 0.6", "target utilization 0.8"]
    assert "overview" not in [chart.id for chart in report.charts]
    assert len({layer.colour for layer in curves}) == 2


def test_names_of_the_user_can_not_become_markup(copied: Path) -> None:
    manifest = json.loads((copied / "manifest.json").read_text("utf-8"))
    manifest["scenario_name"] = "</script><script>alert(1)</script>"
    manifest["warnings"] = ["<img src=x>"]
    (copied / "manifest.json").write_text(json.dumps(manifest), "utf-8")
    page = report_page(build_report([copied]))
    assert "<script>alert" not in page
    assert "<img src=x>" not in page
    assert "&lt;img src=x&gt;" in page


def test_services_are_drawn_with_unserved_requests(serving_folder: Path) -> None:
    report = build_report([serving_folder])
    ids = [chart.id for chart in report.charts]
    assert ids[-3:] == ["request-rates", "unserved", "instances"]
    unserved = report.charts[-2]
    assert unserved.panels[-1].notes[0].startswith("chat: ")
    assert "%" in unserved.panels[-1].notes[0]


def test_run_without_jobs_leaves_the_queue_out(copied: Path) -> None:
    (copied / "jobs.parquet").unlink()
    assert "queue" not in [chart.id for chart in build_report([copied]).charts]


def test_run_of_half_a_day_is_drawn_for_its_hours_alone(tmp_path: Path) -> None:
    folder = tiny_run(tmp_path / "half", {"duration": "12 h"}).folder
    charts = {chart.id: chart for chart in build_report([folder]).charts}
    for layer in charts["bands"].panels[0].layers:
        assert layer.x.max() == np.datetime64("2018-01-01T11:45")
        assert np.isfinite(getattr(layer, "y", getattr(layer, "low", None))).all()


def test_run_within_a_day_is_drawn_over_its_hours_and_does_not_fall_back_at_midnight(
    tmp_path: Path,
) -> None:
    folder = tiny_run(tmp_path / "day", {"duration": "1 d"}).folder
    charts = {chart.id: chart for chart in build_report([folder]).charts}
    assert "months" not in charts
    (hours,) = charts["bands"].panels  # no typical week
    for layer in hours.layers:
        y = getattr(layer, "y", getattr(layer, "low", None))
        assert layer.x[-1] == np.datetime64("2018-01-02")
        assert y[-1] == y[-2]
    (occupancy,) = charts["occupancy"].panels
    assert occupancy.x.kind == "time of day"
    assert len(occupancy.layers[0].x) == 97
    (carpet,) = Picture(charts["carpet"]).spec["concat"]
    days = np.array(["2018-01-01", "2018-01-02"], "datetime64[ms]")
    ends = days.astype(int).tolist()
    assert carpet["layer"][0]["encoding"]["x"]["scale"]["domain"] == ends
    assert [carpet["layer"][0]["data"]["values"][0][end] for end in ("x", "x2")] == ends
    carpet = only("carpet", build_report([folder]))
    (place,) = write_pictures(carpet, tmp_path / "png", "png")
    assert place.name == "01-carpet.png"


def test_long_run_is_averaged_to_minutes_but_keeps_its_peak(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {"duration": "1 d", "resolution": "1 s"}
    folder = tiny_run(tmp_path / "seconds", changes).folder
    whole = read_run(folder)
    monkeypatch.setattr("diploee.reports.data.MAX_INTERVALS", 1_000)
    reduced = read_run(folder)
    assert (whole.step_ms, reduced.step_ms) == (1_000, 60_000)
    assert reduced.max_w == whole.max_w > reduced.power_w.max()
    means_w = whole.power_w.reshape(-1, 60).mean(axis=1)
    np.testing.assert_allclose(reduced.power_w, means_w, 1e-6)
    assert "means of about a minute" in report_page(build_report([folder]))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak memory from /proc")
def test_report_of_ten_days_at_a_tenth_of_a_second_stays_below_a_gigabyte(
    tmp_path: Path,
) -> None:
    scenario = load_scenario("colocation_10mw", ["duration=10 d", "resolution=0.1 s"])
    simulate(scenario, tmp_path / "run", engine="compiled", event_windows=True)
    code = (
        "import sys; from diploee.reports import write_report;"
        "write_report([sys.argv[1]], sys.argv[2]);"
        "status = open('/proc/self/status').read();"
        # kB; getrusage counts the parent's too
        "print(status.partition('VmHWM:')[2].split()[0])"
    )
    command = [sys.executable, "-c", code, tmp_path / "run", tmp_path / "r.html"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) * 1024 < 1e9
    assert (tmp_path / "r.html").stat().st_size < 3e6


def test_sweep_is_drawn_against_its_axes(sweep_folder: Path) -> None:
    report = build_report([sweep_folder])
    first, second, *_ = report.charts
    assert first.title == "Metrics against target utilization"
    assert second.title == "Metrics against case"
    lines = [of for of in first.panels[0].layers if hasattr(of, "markers_only")]
    medians = {of.name: of.y.tolist() for of in lines if not of.markers_only}
    assert medians["case large"] == pytest.approx([2.05, 4.05, 6.05])
    assert medians["case small"] == pytest.approx([2.05, 4.0, 6.05])
    (warning,) = report.warnings
    assert warning == "1 run of the sweep without a result; see summary.parquet"
    assert "duration" in [chart.id for chart in report.charts]


def test_names_on_an_axis_keep_their_order_and_are_not_joined(
    sweep_folder: Path,
) -> None:
    report = build_report([sweep_folder])
    chart = report.charts[1]
    for panel in chart.panels:
        assert panel.x.kind == "category"
        medians = [layer for layer in panel.layers if getattr(layer, "markers", False)]
        assert medians
        for layer in medians:
            assert layer.x.tolist() == ["small", "large"]
            assert layer.width == 0
        assert not any(isinstance(layer, Area) for layer in panel.layers)
    assert "Large points are medians" in chart.caption
    by_target = report.charts[0].panels[0].layers
    assert all(layer.width > 0 for layer in by_target if not layer.markers_only)
    names = [layer.name for layer in by_target if layer.legend]
    assert names == ["case small", "case large"]
    table = report.sections[0].tables[0]
    assert next(iter(table.rows)) == "target utilization 0.2, case small"


def test_metrics_that_are_the_same_in_all_runs_are_named_and_not_drawn(
    sweep_folder: Path,
) -> None:
    table = pd.read_parquet(sweep_folder / "summary.parquet")
    is_finished = table["status"] == "finished"
    table["requests.incoming_rps"] = np.where(is_finished, 12.5, np.nan)
    table.to_parquet(sweep_folder / "summary.parquet")
    report = build_report([sweep_folder])
    for chart in report.charts[:2]:
        assert [p.title for p in chart.panels] == ["Mean power", "Maximum power"]
        assert "The same in all runs, so not drawn: incoming requests." in chart.caption
    assert "Incoming requests" in report.sections[0].tables[0].units


def test_axes_in_step_are_drawn_once(sweep_folder: Path) -> None:
    table = pd.read_parquet(sweep_folder / "summary.parquet")
    table["rated"] = table["streams.training.target_utilization"] * 5
    table.to_parquet(sweep_folder / "summary.parquet")
    axes = ["streams.training.target_utilization", "rated", "case"]
    (sweep_folder / "sweep.json").write_text(json.dumps({"axes": axes}), "utf-8")
    ids = [chart.id for chart in build_report([sweep_folder]).charts]
    assert [i for i in ids if i.startswith("axis-")] == ["axis-1", "axis-2"]


def test_seeds_alone_show_how_metrics_spread(sweep_folder: Path) -> None:
    (sweep_folder / "sweep.json").write_text(json.dumps({"axes": []}), "utf-8")
    assert build_report([sweep_folder]).charts[0].id == "spread"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["busier_folder", "fine_folder"])
def test_pictures_show_every_chart(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    folder = request.getfixturevalue(name)
    page, *pictures = write_report([folder], tmp_path / "r.html", svg=tmp_path / "svg")
    assert page == tmp_path / "r.html"
    ids = [chart.id for chart in build_report([folder]).charts]
    assert [path.stem.split("-", 1)[1] for path in pictures] == ids
    assert all(path.read_bytes().startswith(b"<svg") for path in pictures)


def only(chart_id: str, report: Report) -> Report:
    """Return a report of one of its charts."""
    (chart,) = (chart for chart in report.charts if chart.id == chart_id)
    section = next(of for of in report.sections if chart in of.charts)
    return replace(report, sections=(replace(section, charts=(chart,)),))


@pytest.mark.slow
def test_equal_runs_give_equal_pictures(run_folder: Path, tmp_path: Path) -> None:
    curve = only("duration", build_report([run_folder]))
    for kind, start in (("svg", b"<svg"), ("png", b"\x89PNG")):
        (first,) = write_pictures(curve, tmp_path / "a", kind)
        (second,) = write_pictures(curve, tmp_path / "b", kind)
        assert first.name == f"01-duration.{kind}"
        assert first.read_bytes().startswith(start)
        assert first.read_bytes() == second.read_bytes()


def test_report_replaces_a_report_and_nothing_else(
    run_folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "report.html"
    write_report([run_folder], out)
    write_report([run_folder], out)
    out.write_text("my notes", "utf-8")
    with pytest.raises(OutputExistsError, match="exists already"):
        write_report([run_folder], out)
    assert out.read_text("utf-8") == "my notes"


def test_pictures_are_not_written_to_a_file_in_the_way(
    run_folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    with pytest.raises(InputError, match="is a file"):
        write_report([run_folder], tmp_path / "r.html", png=tmp_path / "file")


def test_facility_file_without_a_column_or_rows_is_one_clear_line(copied: Path) -> None:
    path = copied / "facility.parquet"
    table = pq.read_table(path)
    for damaged, problem in (
        (table.drop_columns("utilization"), "column 'utilization' is missing"),
        (table.slice(0, 0), "holds 0 intervals where the run has"),
    ):
        pq.write_table(damaged, path)
        with pytest.raises(InputError, match=problem):
            build_report([copied])


def test_damaged_sweep_is_one_clear_line(sweep_folder: Path, run_folder: Path) -> None:
    with pytest.raises(InputError, match="one sweep alone"):
        build_report([sweep_folder, run_folder])
    (sweep_folder / "sweep.json").write_text('{"axes": ["streams.x"]}', "utf-8")
    with pytest.raises(InputError, match=r"column 'streams\.x' is missing"):
        build_report([sweep_folder])


def test_more_runs_than_a_page_shows_are_refused(run_folder: Path) -> None:
    with pytest.raises(InputError, match="up to 12"):
        build_report([run_folder] * 13)
    assert len(build_report([run_folder] * 2).charts) == 7
