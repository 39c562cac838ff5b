"""A metric declared in one place shows in every table, page and file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from builders import tiny_scenario
from command_line import call
from sweep_builders import UTILIZATION, tiny_sweep

import diploee
from diploee.cli.display import show_run
from diploee.cli.sweep_display import show_sweep
from diploee.metric import Metric
from diploee.metrics import catalogue, demand
from diploee.profiles import ProfileLibrary
from diploee.reports.build import build_report
from diploee.sweeps import run_sweep

NIGHT = Metric("power.night_mw", "MW", "mean power at night", "{:.1f}", view="main")
SHOWN = "mean power at night [kW]"


@pytest.fixture
def with_night(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add a metric where power is measured, and declare it."""
    measured = demand.power_metrics

    def power_metrics(*args: Any) -> dict[str, Any]:
        block = measured(*args)
        return block | {"night_mw": block["mean_mw"] / 2}

    monkeypatch.setattr(demand, "power_metrics", power_metrics)
    monkeypatch.setattr(catalogue, "DECLARED", [*catalogue.DECLARED, (NIGHT,)])


@pytest.mark.usefixtures("with_night")
def test_a_metric_of_a_run_shows_in_its_table_and_its_report(
    tmp_path: Path, library: ProfileLibrary, capsys: pytest.CaptureFixture[str]
) -> None:
    run = diploee.simulate(tiny_scenario(), tmp_path / "tiny", library=library)
    value = f"{run.metrics['power']['mean_mw'] * 500:.1f}"
    show_run(run)
    (line,) = (row for row in capsys.readouterr().out.splitlines() if SHOWN in row)
    assert value in line
    report = build_report([run.folder])
    assert (value, "kW", NIGHT.label) in report.figures
    rows = {row[0]: row[1:] for row in report.sections[1].tables[0].rows}
    assert rows[SHOWN.capitalize().replace("[kw]", "[kW]")] == (value,)


@pytest.mark.usefixtures("with_night")
def test_a_metric_of_the_runs_shows_in_the_summary_table_and_report_of_their_sweep(
    tmp_path: Path,
    library_folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sweep = tiny_sweep(tmp_path, axes=[{"grid": {UTILIZATION: [0.2, 0.4]}}], seeds=1)
    result = run_sweep(sweep, tmp_path / "out", profiles=[str(library_folder)])
    summary = pd.read_parquet(tmp_path / "out" / "summary.parquet")
    assert (summary["power.night_mw"] == summary["power.mean_mw"] / 2).all()
    monkeypatch.setenv("COLUMNS", "200")
    show_sweep(sweep, result)
    assert "at night" in capsys.readouterr().out
    report = build_report([tmp_path / "out"])
    assert "Mean power at night" in [panel.title for panel in report.charts[0].panels]
    assert "Mean power at night [kW]" in report.sections[0].tables[0].header


@pytest.mark.usefixtures("with_night")
def test_a_declared_metric_stands_in_the_page_of_outputs() -> None:
    assert f"| `{NIGHT.key}` | MW | {NIGHT.label} |" in call("schema", "--outputs").out


def test_a_table_too_wide_for_the_screen_keeps_its_numbers_whole_and_names_the_pools(
    tmp_path: Path,
    library: ProfileLibrary,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pools = {name: {"node_type": "node", "n_nodes": 4} for name in ("main", *map(str, range(12)))}
    run = diploee.simulate(
        tiny_scenario({"facility.pools": pools}), tmp_path / "run", library=library
    )
    shown = {}
    for width in (80, 240):
        monkeypatch.setenv("COLUMNS", str(width))
        show_run(run)
        shown[width] = capsys.readouterr().out
        mean = f"{run.metrics['power']['mean_mw'] * 1e3:,.3f}"
        assert mean in shown[width] and "\N{HORIZONTAL ELLIPSIS}" not in shown[width]
    assert "The pools main, 0, 1, 2," in shown[80]
    assert "The pools" not in shown[240] and shown[240].count("0.000") >= 12
