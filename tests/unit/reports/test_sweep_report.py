"""Reports of sweeps: maps, panels of one scale, axes, envelopes, chosen metrics,
warnings once."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sweep_builders import UTILIZATION, sweep_file, tiny_sweep

import diploee
from diploee.base.errors import InputError, ScenarioError, counted
from diploee.reports.build import Report, build_report, report_page
from diploee.reports.drawing.charts import Area, Carpet
from diploee.reports.drawing.pictures import Picture
from diploee.reports.sweep_data import read_sweep
from diploee.sweeps import run_sweep

NODES, LEVEL = "facility.pools.h100.n_nodes", "streams.training.target_utilization"
IDLE = "facility.node_types.node.idle_power_w"
RAMP = "grid.ramps.intervals.60s.up.max_mw"


def written(
    folder: Path, nodes: list[Any], levels: list[float], **content: Any
) -> Report:
    """Write a summary of three seeds of each point, whose mean power is nodes x
    level + seed."""
    rows = [
        {
            "run": f"{index}-{seed}",
            "seed": seed,
            NODES: n,
            LEVEL: level,
            "power.mean_mw": (index + 1) * level + seed / 10,
            "power.max_mw": 9.0 + seed,
            RAMP: 0.1 * seed,
        }
        for (index, n), level, seed in itertools.product(
            enumerate(nodes), levels, range(3)
        )
    ]
    folder.mkdir(exist_ok=True)
    pd.DataFrame(rows).to_parquet(folder / "summary.parquet")
    text = json.dumps({"axes": [NODES, LEVEL], **content})
    (folder / "sweep.json").write_text(text, "utf-8")
    return build_report([folder])


@pytest.mark.slow
def test_two_axes_give_a_map_of_the_medians_of_each_metric(tmp_path: Path) -> None:
    report = written(tmp_path / "s", [8, 64, 512], [0.2, 0.4])
    (chart,) = (chart for chart in report.charts if chart.id == "map")
    (carpet,) = chart.panels[0].layers
    assert isinstance(carpet, Carpet)
    assert carpet.x.tolist() == ["8", "64", "512"]
    assert carpet.y.tolist() == ["0.2", "0.4"]
    expected = [[k * level + 0.1 for k in (1, 2, 3)] for level in (0.2, 0.4)]
    assert carpet.z == pytest.approx(np.array(expected))
    picture = Picture(chart)
    cells = picture.spec["concat"][0]["layer"][0]
    assert cells["encoding"]["x"]["type"] == cells["encoding"]["y"]["type"] == "nominal"
    assert picture._repr_png_().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("nodes", "kind"),
    [
        ([8, 64, 512], "log"),
        ([100, 200, 300], "linear"),
        ([0, 10, 1000], "linear"),
        (["small", "large"], "category"),
    ],
)
def test_an_axis_is_of_the_kind_of_its_values(
    tmp_path: Path, nodes: list[Any], kind: str
) -> None:
    report = written(tmp_path / "s", nodes, [0.2, 0.4])
    (chart,) = (chart for chart in report.charts if chart.id == "axis-1")
    assert {panel.x.kind for panel in chart.panels} == {kind}


def test_lines_of_another_axis_have_colours_of_their_own_or_are_pooled(
    tmp_path: Path,
) -> None:
    for n_levels, named in ((4, True), (9, False)):
        levels = [round(0.1 * k, 1) for k in range(1, n_levels + 1)]
        report = written(tmp_path / f"s{n_levels}", [8, 64], levels)
        (chart,) = (c for c in report.charts if c.title == "Metrics against n nodes")
        layers = chart.panels[0].layers
        medians = [layer for layer in layers if getattr(layer, "markers", False)]
        names = [f"target utilization {of}" for of in levels] if named else ["median"]
        assert [layer.name for layer in medians] == names
        assert len({layer.colour for layer in medians}) == len(names)
    (band,) = (layer for layer in chart.panels[0].layers if isinstance(layer, Area))
    runs = [level + seed / 10 for level in levels for seed in range(3)]
    assert [band.low[0], band.high[0]] == pytest.approx(np.percentile(runs, [5, 95]))


def test_chosen_metrics_are_in_tables_and_figures_and_wrong_ones_are_refused(
    tmp_path: Path,
) -> None:
    report = written(tmp_path / "s", [8, 64], [0.2], spec={"metrics": [RAMP]})
    shown = "Largest ramp up over 60 s"
    assert [panel.title for panel in report.charts[0].panels] == [shown]
    assert list(report.sections[0].tables[0].units) == ["runs", shown]
    with pytest.raises(ScenarioError, match=r"metrics\.0: no metric .*'power.mean_mw"):
        tiny_sweep(tmp_path, metrics=["power.mean_w"])


def test_warnings_of_runs_stand_once_with_their_number(tmp_path: Path) -> None:
    runs = [{"warnings": [f"{n} jobs never started"]} for n in (7, 11)] + [{}, {}]
    report = written(tmp_path / "s", [8, 64], [0.2], runs=runs)
    assert report.warnings == ("7 jobs never started (2 of 6 runs)",)
    assert counted([["a 1", "a 2"], ["b"]], 2, "run") == [
        "a 2 (1 of 2 runs)",
        "b (1 of 2 runs)",
    ]


@pytest.mark.slow
def test_an_ensemble_shows_envelopes_seeds_needed_and_what_moves_a_metric(
    tmp_path: Path, library_folder: Path
) -> None:
    axes = [{"grid": {UTILIZATION: [0.2, 0.5]}}]
    draw = {IDLE: {"distribution": "uniform", "low": 300, "high": 500}}
    sweep = tiny_sweep(tmp_path, axes=axes, draw=draw, seeds=20)
    diploee.sweep(sweep, tmp_path / "out", profiles=[str(library_folder)])
    report = build_report([tmp_path / "out"])
    (section,) = (section for section in report.sections if section.id == "ensemble")
    week, duration = section.charts
    assert (week.id, duration.id) == ("envelope-week", "envelope-duration")
    for panel in duration.panels:
        widest, inner, median = panel.layers
        assert isinstance(widest, Area)
        assert isinstance(inner, Area)
        assert (widest.low <= inner.low).all()
        assert (inner.low <= median.y).all()
        assert (inner.high <= widest.high).all()
    table = pd.read_parquet(tmp_path / "out" / "ensemble.parquet")
    row = table[(table.point == 0) & (table.metric == "power.mean_mw")].iloc[0]
    assert section.tables[0].title.startswith("Mean power")
    (first, *_) = section.tables[0].lines()
    assert first[0] == "target utilization 0.2"
    assert first[4] == f"{row.seeds_for_mean:,.0f}"
    assert first[-1] == f"{IDLE} (+1.00)"
    assert "Spread over seeds and draws" in report_page(report)


def test_a_sweep_that_kept_metrics_alone_has_its_figures_and_no_run_in_detail(
    tmp_path: Path, library_folder: Path
) -> None:
    axes = [{"grid": {UTILIZATION: [0.2, 0.4]}}]
    sweep = tiny_sweep(tmp_path, axes=axes, keep="metrics")
    diploee.sweep(sweep, tmp_path / "out", profiles=[str(library_folder)])
    report = build_report([tmp_path / "out"])
    assert report.subtitle.endswith("no run in detail")
    assert [chart.id for chart in report.charts] == ["axis-1"]


def test_a_sweep_whose_runs_are_all_pending_says_so(
    tmp_path: Path, library_folder: Path
) -> None:
    file, out = sweep_file(tmp_path, {}), tmp_path / "out"
    run_sweep(file, out, executor=lambda _: iter(()), profiles=[str(library_folder)])
    with pytest.raises(InputError, match="no run of this sweep has finished"):
        read_sweep(out)


def test_of_many_points_those_that_are_drawn_span_all_and_the_caption_says_so(
    tmp_path: Path,
) -> None:
    levels = [round(0.02 * k, 2) for k in range(1, 16)]
    points = range(len(levels))
    spread = {"metric": "power.mean_mw", "n": 3, "p5": None, "p95": None}
    spread["seeds_for_mean"] = 5.0
    rows = [
        {**spread, "point": k, "mean": k, "min": k, "p50": k, "max": k + 1}
        for k in points
    ]
    curve = dict.fromkeys(("p5_w", "p50_w", "p95_w", "min_w", "max_w"), 5e6)
    weeks = [
        {**curve, "kind": "duration_curve", "point": k, "at": at}
        for k in points
        for at in (0, 1)
    ]
    folder = tmp_path / "s"
    folder.mkdir()
    pd.DataFrame(rows).astype({"p5": float, "p95": float}).to_parquet(
        folder / "ensemble.parquet"
    )
    pd.DataFrame(weeks).to_parquet(folder / "envelope.parquet")
    report = written(folder, [8], levels)
    summary = pd.read_parquet(folder / "summary.parquet")
    summary["point"] = summary.groupby(LEVEL).ngroup()
    summary.to_parquet(folder / "summary.parquet")
    report = build_report([folder])
    (section,) = (section for section in report.sections if section.id == "ensemble")
    (chart,) = section.charts
    drawn = [panel.title for panel in chart.panels]
    ends = ["target utilization 0.02", "target utilization 0.3"]
    assert (len(drawn), drawn[:: len(drawn) - 1]) == (12, ends)
    words = "12 of 15 points, evenly spread; all are in envelope.parquet."
    assert words in chart.caption
    (table,) = section.tables
    assert (table.title, len(table.rows)) == ("Mean power [MW], over 3 members", 15)
    assert table.cell("target utilization 0.1", "seeds for the mean") == "5"


def test_a_summary_of_text_that_is_not_utf_8_is_named(tmp_path: Path) -> None:
    written(tmp_path, [8], [0.2])
    path = tmp_path / "summary.parquet"
    summary = pq.read_table(path)
    note = pa.array([b"\xff"] * summary.num_rows).view(pa.string())
    pq.write_table(summary.append_column("note", note), path)
    with pytest.raises(InputError, match=r"summary.parquet: can't be read \(.*UTF8"):
        build_report([tmp_path])
