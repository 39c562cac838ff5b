"""Verdicts in the report, of a sweep in shares of its runs, and what the command says
of both."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from builders import tiny_run
from command_line import call
from sweep_builders import UTILIZATION, tiny_sweep

from diploee import Run
from diploee.grid.limits import Limits, check_limits
from diploee.reports.build import build_report
from diploee.reports.datasheet import data_sheet
from diploee.sweeps import run_sweep


@pytest.fixture
def limits(tmp_path: Path) -> str:
    path = tmp_path / "limits.yaml"
    path.write_text(
        "name: the village\n"
        "peaks: [{max_mw: 0.001, mark: S2}, {max_mw: 9}]\n"
        "swings: [{window: 5 s, max_mw: 1.0e-5}]\n"
        "load_factor: [{min: 0.5, interval: 1 h}]\n",
        "utf-8",
    )
    return str(path)


def test_report_tells_verdicts_sources_and_the_worst_in_percent(
    run_folder: Path, busier_folder: Path, limits: str
) -> None:
    report = build_report([run_folder], [limits])
    (section,) = (s for s in report.sections if s.id == "limits")
    (table,) = section.tables
    assert table.title.startswith(
        "the village, on means of 60 s: NOT MET (1 not met, 2 met, 1 inconcl"
    )
    verdicts = {item: table.cell(item, "Verdict") for item in table.rows}
    assert sorted(verdicts.values()) == ["inconclusive", "met", "met", "not met"]
    first = next(item for item, verdict in verdicts.items() if verdict == "not met")
    assert table.cell(first, "Coverage, source, cause").startswith("secondary source")
    factor = next(item for item in table.rows if "load factor" in item)
    peak_mw = float(table.cell(first, "Worst").split()[0])
    used = {item: table.cell(item, "Of the limit") for item in (first, factor)}
    percent = float(used[first].split()[0].replace(",", ""))
    assert percent == pytest.approx(100 * peak_mw / 0.001, 0.01)
    # Of a least allowed value the limit is taken of it.
    percent = float(used[factor].split()[0])
    assert percent == pytest.approx(50 / float(table.cell(factor, "Worst")), abs=0.5)
    both = build_report([run_folder, busier_folder], [limits, limits])
    (section,) = (s for s in both.sections if s.id == "limits")
    assert [len(table.rows) for table in section.tables] == [4] * 2


RAMP = {"interval": "1 min", "between": "end_points"}
STORED = Limits.model_validate(
    {
        "name": "stored",
        "ramps": [{**RAMP, "mw_per_min": 1e-6}, {**RAMP, "mw_per_min": 5}],
    }
)


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run that was checked at 10 s, and written in minutes."""
    folder = tmp_path_factory.mktemp("checked") / "run"
    changes = {"duration": "6 h", "step": "10 s"}
    return tiny_run(folder, changes, limits=[STORED])


def test_further_limits_come_after_those_that_a_run_was_checked_against(
    checked: Run, limits: str, tmp_path: Path
) -> None:
    assert [r.verdict for r in checked.verdicts[0].results] == ["not met", "met"]
    sheets = (
        data_sheet(checked, [limits]),
        build_report([checked.folder], [limits], with_charts=False),
    )
    for page in sheets:
        (section,) = (s for s in page.sections if s.id == "limits")
        names = [table.title.partition(",")[0] for table in section.tables]
        assert sorted(names) == ["stored", "the village"]
        stored = section.tables[names.index("stored")]
        assert "on means of 10 s: NOT MET" in stored.title
        assert "not met" in [stored.cell(item, "Verdict") for item in stored.rows]
    (answer, *_) = checked.sections([checked.limits(limits)])
    named = [f.item for f in answer.figures if f.key == "verdict"]
    assert named == ["stored", "the village"]
    told = call(
        "datasheet", checked.folder, "--limits", limits, "--out", tmp_path / "a.html"
    )
    assert told.code == 0 and "stored" in (tmp_path / "a.html").read_text("utf-8")


def test_a_coarser_reading_never_replaces_what_was_checked_at_the_step(
    checked: Run,
) -> None:
    """The same rules under another name, beside one that the run was not checked
    against."""
    stored_ramp = STORED.model_dump(mode="json", exclude_defaults=True)["ramps"][0]
    ramps = [{**RAMP, "mw_per_min": 3}, {**stored_ramp, "note": "ours"}]
    renamed = Limits.model_validate({"name": "mine", "ramps": ramps})
    fresh = check_limits(checked, renamed)
    report, stored = checked.limits(renamed), checked.verdicts[0].results[0]
    assert report.name == "mine" and len(report.results) == 2
    found = {result.key: result for result in report.results}
    assert found["ramps.0"].value == fresh.results[0].value
    assert found["ramps.1"].value == stored.value != fresh.results[1].value
    assert found["ramps.1"].violations == stored.violations
    assert "checked while the run passed, at 10 s" in found["ramps.1"].scope
    assert checked.limits(STORED) == checked.verdicts[0]


def test_the_same_rules_under_another_name_are_named_by_the_step_they_were_checked_at(
    checked: Run,
) -> None:
    again = checked.limits(STORED.model_copy(update={"name": "mine"}))
    assert again.resolution_s == checked.verdicts[0].resolution_s == 10
    fewer = STORED.model_copy(update={"name": "mine", "daily_energy_mwh": 1e6})
    assert checked.limits(fewer).resolution_s == 60


@pytest.fixture
def sweep_folder(tmp_path: Path, library_folder: Path) -> Path:
    sweep = tiny_sweep(tmp_path, axes=[{"grid": {UTILIZATION: [0.1, 0.9]}}], seeds=2)
    run_sweep(sweep, tmp_path / "sweep", profiles=[str(library_folder)])
    return tmp_path / "sweep"


@pytest.mark.slow
def test_sweep_gives_the_share_of_runs_in_violation(
    sweep_folder: Path, tmp_path: Path
) -> None:
    peaks = pq.read_table(sweep_folder / "summary.parquet")["power.max_mw"].to_pylist()
    limit = tmp_path / "peak.yaml"
    between = (max(peaks[:2]) + min(peaks[2:])) / 2
    limit.write_text(f"name: own\npeaks: [{{max_mw: {between}}}]\n", "utf-8")
    ended = call("limits", limit, sweep_folder, "--fail")
    assert ended.code == 3
    first, *runs = ended.out.splitlines()
    assert first == "own: not met in 2 of 4 runs (50.0 %), inconclusive in 2, met in 0"
    assert len(runs) == 4
    told = json.loads(call("limits", limit, sweep_folder, "--json").out)
    verdicts = sorted(report["verdict"] for report in told.values())
    assert verdicts == ["inconclusive"] * 2 + ["not met"] * 2
    report = build_report([sweep_folder], [str(limit)])
    (section,) = (s for s in report.sections if s.id == "limits")
    assert [row[1:] for row in section.tables[0].lines()] == [
        ("2", "0", "2", "0", "0.0"),
        ("2", "2", "0", "0", "100.0"),
    ]


def test_sweep_that_kept_no_series_says_so(
    tmp_path: Path, library_folder: Path, limits: str
) -> None:
    sweep = tiny_sweep(tmp_path, keep="metrics")
    run_sweep(sweep, tmp_path / "sweep", profiles=[str(library_folder)])
    ended = call("limits", limits, tmp_path / "sweep")
    assert ended.code == 2 and "sweep with 'keep: series'" in ended.problems[0]


def test_presets_are_listed_with_source_date_and_status(tmp_path: Path) -> None:
    listed = call("limits", "--list").out.splitlines()
    lines = {line.split(":")[0]: line for line in listed}
    assert "2026-09-03; status: published" in lines["ieso_3_0"]
    assert lines["example"].endswith("an example, no standard")
    told = json.loads(call("limits", "--list", "--json").out)
    assert told["aeso"]["ramps"][0]["mark"] == "S2"
    assert "give LIMITS and RUN_DIR, or --list" in call("limits").problems[0]
    assert call("limits", "aseo", tmp_path).problems[0].endswith("did you mean 'aeso'?")


def test_figures_of_ramps_and_swings_have_lines_of_limits(
    run_folder: Path, tmp_path: Path
) -> None:
    charts = {chart.id: chart for chart in build_report([run_folder]).charts}
    largest = max(float(panel.layers[0].y.max()) for panel in charts["ramps"].panels)
    path = tmp_path / "own.yaml"
    path.write_text(
        "name: own\n"
        "ramps:\n"
        f"  - {{interval: 5 min, up_mw_per_min: {largest / 5e3:.6g}}}\n"
        "  - {interval: 5 min, mw_per_min: 900}\n",
        "utf-8",
    )
    charts = build_report([run_folder], [str(path)]).charts
    (figure,) = (chart for chart in charts if chart.id == "ramps")
    lines = [
        [layer for layer in panel.layers if layer.name.startswith("limit: own")]
        for panel in figure.panels
    ]
    ((up,), down) = lines
    assert not down and "within 5 min" in up.name
    # Up to its own time: longer ramps may be larger.
    n_limited = list(up.x).index("5 min") + 1
    assert up.y[:n_limited] == pytest.approx(largest, rel=1e-4)
    assert np.isnan(up.y[n_limited:]).all()
    assert "Limits beyond what is drawn: own, 4500 MW within 5 min" in figure.caption
