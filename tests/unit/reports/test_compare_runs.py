"""Runs beside each other: changes and warnings against the runs themselves."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from builders import tiny_library, tiny_run, tiny_scenario
from command_line import call

import diploee
from diploee import Run
from diploee.base.errors import InputError
from diploee.base.metric import NONE, Metric, find_metric, flatten
from diploee.base.units import power_unit
from diploee.grid.limits import Limits
from diploee.metrics.catalogue import declared_metrics
from diploee.reports.build import build_report
from diploee.reports.chart_elements import join_charts
from diploee.reports.compare import MetricRow, compare
from diploee.reports.data import read_run
from diploee.reports.drawing.charts import Line
from diploee.reports.power_charts import peak_week_chart
from diploee.reports.weekly_charts import bands_chart

TARGET = "streams.training.target_utilization"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """Of one site: two levels of four weeks, one of a fortnight a week later, and one
    of a day."""
    folder, library = tmp_path_factory.mktemp("compared"), tiny_library()
    later = {"duration": "14 d", "start": "2018-01-11", "resolution": "5 min"}
    changes: dict[str, dict[str, Any]] = {
        "base": {"duration": "28 d", TARGET: 0.3},
        "busier": {"duration": "28 d", TARGET: 0.6},
        "later": later | {TARGET: 0.6},
        "day": {"duration": "1 d", TARGET: 0.6},
    }
    return {
        name: diploee.run(
            tiny_scenario(of), folder / name, profiles=library, engine="compiled"
        )
        for name, of in changes.items()
    }


@pytest.mark.parametrize("chart_of", [bands_chart, peak_week_chart])
def test_of_many_runs_each_is_drawn_as_alone_and_all_of_one_scale(
    runs: dict[str, Run], chart_of: Any
) -> None:
    """Four runs over the same weeks, two of them twice: no panel holds lines of two."""
    names = ("base", "busier", "base", "busier")
    folders = [(f"{k} {name}", runs[name].folder) for k, name in enumerate(names)]
    read = [replace(read_run(folder), label=label) for label, folder in folders]
    unit = power_unit(max(run.max_w for run in read))
    panels = join_charts([(run.label, chart_of([run], unit)) for run in read]).panels
    titles = [panel.title for panel in chart_of(read[:1], unit).panels]
    assert all(panel.title.startswith(f"{k % 4} b") for k, panel in enumerate(panels))
    assert len(panels) == 4 * len(titles)
    for kind in range(len(titles)):
        of_kind = panels[4 * kind : 4 * kind + 4]
        assert len({(panel.x.range, panel.y.range) for panel in of_kind}) == 1
        for run, panel in zip(read, of_kind, strict=True):
            alone = chart_of([run], unit).panels[kind].layers
            for ours, own in zip(panel.layers, alone, strict=True):
                assert ours.name == own.name
                if isinstance(own, Line) and chart_of is bands_chart:
                    np.testing.assert_array_equal(ours.y, own.y)
    together = chart_of(read[:3], unit).panels
    assert len(together) == len(titles)


def test_every_declared_number_stands_beside_that_of_the_other_run(
    runs: dict[str, Run],
) -> None:
    base, busier = runs["base"], runs["busier"]
    found = compare(base.folder, busier)
    assert found.labels == ("target utilization 0.3", "target utilization 0.6")
    assert found.settings == {TARGET: (0.3, 0.6)}
    values = [*flatten(base.metrics), *flatten(busier.metrics)]
    numbers = {key for key, value in values if isinstance(value, int | float)}
    declared = declared_metrics()
    expected = {key for key in numbers if find_metric(key, declared)}
    assert {row.metric.key for row in found.rows} == expected
    assert any(key.startswith("grid.ramps.") for key in expected)
    first, second = (run.metrics["power"]["max_mw"] for run in (base, busier))
    assert found["power.max_mw"].values == (first, second)
    assert found["power.max_mw"].change(1) == pytest.approx(second / first - 1)
    with pytest.raises(KeyError):
        found["power.none"]


def test_a_frame_holds_the_shown_unit_and_changes_of_each_run(
    runs: dict[str, Run],
) -> None:
    found = compare(runs["base"], runs["busier"])
    frame = found.frame()
    row = frame.loc["power.mean_mw"]
    assert (row["unit"], row["metric"]) == ("kW", "Mean power")
    mean_kw = 1000 * runs["base"].metrics["power"]["mean_mw"]
    assert row["target utilization 0.3"] == pytest.approx(mean_kw)
    assert row["target utilization 0.6: change"] > 0.1
    (section,) = found.sections()
    assert len(section.tables[-1].rows) == len(frame)
    assert "<td>Mean power [kW]</td>" in found._repr_html_()


def test_the_command_ranks_what_differs_in_twenty_lines_and_writes_all_of_it(
    runs: dict[str, Run], tmp_path: Path
) -> None:
    folders = [runs[name].folder for name in ("base", "busier")]
    found = call("compare", *folders, "--out", tmp_path / "changes.csv")
    lines = found.out.splitlines()
    assert found.code == 0 and len(lines) <= 20
    assert [TARGET, "0.3", "0.6"] in [line.split() for line in lines]
    names = [line.split("  ")[0] for line in lines if "%" in line]
    assert names[0].startswith("Maximum power")
    heads = [line.partition(" [")[0] for line in found.out.splitlines()]
    same = call("compare", folders[0], folders[0]).out
    for name in ("Maximum power", "Energy", "Mean queue time", "Jobs that queued"):
        assert sum(head.startswith(name) for head in heads) == 1, heads
        assert name in same
    whole = call("compare", *folders, "--all").out
    assert len(whole.splitlines()) > 3 * len(lines)
    table = pd.read_csv(tmp_path / "changes.csv", index_col="key")
    assert table.index.is_unique and "grid.peak.max_mw" in table.index
    as_json = json.loads(call("compare", *folders, "--json").out)
    assert as_json["metrics"]["power.energy_mwh"]["changes"][0] > 0


@pytest.mark.parametrize(
    ("metric", "values", "text"),
    [
        (Metric("a", "MW", "a"), (0.00104, 0.00114), ""),
        (Metric("a", "MW", "a"), (10.0, 11.0), "+10.0 %"),
        (Metric("a", "MW", "a"), (1e4, 1e4 + 1), "+0.01 %"),
        (Metric("a", "%", "a", "{:.2f}", factor=100), (0.5, 0.6), "+10.00 pp"),
        (Metric("a", "MW", "a"), (0.0, 2.0), NONE),
        (Metric("a", "MW", "a"), (1.0, None), ""),
    ],
)
def test_a_change_means_something_at_the_printed_digits(
    metric: Metric, values: tuple[float, float | None], text: str
) -> None:
    assert MetricRow(metric, values).change_text(1) == text


def test_one_run_and_what_is_no_run_are_refused(
    runs: dict[str, Run], tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="1 run given, two or more are compared"):
        compare(runs["base"])
    refused = call(
        "compare", runs["base"].folder, tmp_path, "--out", tmp_path / "x.csv"
    )
    assert refused.code == 2 and not (tmp_path / "x.csv").exists()


def test_a_warning_stands_once_with_the_runs_that_have_it(runs: dict[str, Run]) -> None:
    found = compare(runs["base"], runs["busier"], runs["day"])
    every = [
        w for name in ("base", "busier", "day") for w in runs[name].manifest["warnings"]
    ]
    assert set(found.warnings) == set(every)
    assert sum(map(len, found.warnings.values())) == len(every)


def test_a_page_of_several_runs_shows_one_week_and_each_warning_once(
    runs: dict[str, Run],
) -> None:
    read = {name: read_run(runs[name].folder, name) for name in runs}
    unit = power_unit(1e5)
    together = peak_week_chart([read["base"], read["busier"]], unit)
    assert "week with the highest 1 min mean of all runs" in together.caption
    first, second = together.panels[0].layers
    assert first.x[0] == second.x[0]
    peak_w = max(float(read[name].power_w.max()) for name in ("base", "busier"))
    assert max(first.y.max(), second.y.max()) == pytest.approx(peak_w / unit.watts)
    apart = peak_week_chart([read["base"], read["day"]], unit)
    assert "the highest 1 min mean of each run" in apart.caption
    every = [w for name in runs for w in read[name].manifest["warnings"]]
    told = build_report(
        [runs[name].folder for name in runs], with_charts=False
    ).warnings
    assert len(told) == len(set(every))
    common = [w for w in set(every) if every.count(w) == len(runs)]
    assert all(any(t == f"all {len(runs)} runs: {w}" for t in told) for w in common)


METER = ["ups", "transformers", "point_of_interconnection"]
BATTERY = {
    "kind": "battery",
    "power_mw": 0.05,
    "energy_mwh": 0.05,
    "ramp_limit": {"up_mw_per_min": 0.0005, "down_mw_per_min": 0.0005},
}


def test_an_added_stage_is_named_before_verdicts_that_changed_and_figures(
    tmp_path: Path,
) -> None:
    limits = Limits.model_validate(
        {"name": "own", "ramps": [{"interval": "1 min", "mw_per_min": 0.001}]}
    )
    meter = {"duration": "1 d", "facility.node_types.node.ac_power": "air_hgx"}
    stages = {"without": METER, "with": [*METER[:2], BATTERY, METER[2]]}
    found = {
        name: tiny_run(
            tmp_path / name, {**meter, "facility.stages": of}, limits=[limits]
        )
        for name, of in stages.items()
    }
    folders = [found[name].folder for name in ("without", "with")]
    lines = call("compare", *folders).out.splitlines()
    (added,) = (k for k, line in enumerate(lines) if line.startswith("battery"))
    assert lines[added].split(maxsplit=2) == ["battery", NONE, "0.05 MW, 0.05 MWh"]
    assert not any("facility.stages" in line for line in lines)
    before, after = (found[name].verdicts[0].results[0] for name in stages)
    assert (before.verdict, after.verdict) == ("not met", "met")
    changed = [k for k, line in enumerate(lines) if line.startswith("own: ramp")]
    figures = [k for k, line in enumerate(lines) if line.startswith("Maximum power")]
    assert len(changed) == 1 and added < changed[0] < figures[0]
    assert f"not met, {before.value:.4g} of 0.001 MW/min" in lines[changed[0]]
    assert " met, " in lines[changed[0]].partition("MW/min")[2]
    back = compare(*reversed(folders))
    assert back.stages == {"battery": ("0.05 MW, 0.05 MWh", None)}


def test_a_changed_key_of_a_stage_is_a_setting_of_its_own(tmp_path: Path) -> None:
    sizes, runs = (0.01, 0.02), []
    for size in sizes:
        stages = [*METER[:2], {**BATTERY, "power_mw": size}, METER[2]]
        changes: dict[str, Any] = {
            "duration": "6 h",
            "facility.node_types.node.ac_power": "air_hgx",
        }
        changes |= {"facility.stages": stages}
        runs.append(tiny_run(tmp_path / str(size), changes))
    found = compare(*runs)
    assert found.settings == {"facility.stages.battery.power_mw": sizes}
    assert found.stages == {}
