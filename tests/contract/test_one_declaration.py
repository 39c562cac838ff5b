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
from diploee.base.metric import Metric
from diploee.cli.sweep_display import show_sweep
from diploee.metrics import catalogue, demand
from diploee.profiles import ProfileLibrary
from diploee.reports.build import build_report
from diploee.sweeps import run_sweep

NIGHT = Metric("power.night_mw", "MW", "mean power at night", "{:.1f}", view="main")


@pytest.fixture
def with_night(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add a metric where power is measured, and declare it."""
    measured = demand.power_metrics

    def power_metrics(*args: Any) -> dict[str, Any]:
        block = measured(*args)
        return block | {"night_mw": block["mean_mw"] / 2}

    monkeypatch.setattr(demand, "power_metrics", power_metrics)
    monkeypatch.setattr(catalogue, "DECLARED", [*catalogue.DECLARED, NIGHT])


@pytest.mark.usefixtures("with_night")
def test_a_metric_of_a_run_shows_in_its_sections_and_its_report(
    tmp_path: Path, library: ProfileLibrary
) -> None:
    run = diploee.run(tiny_scenario(), tmp_path / "tiny", profiles=library)
    value = run.metrics["power"]["mean_mw"] * 500
    (figure,) = (f for s in run.sections() for f in s.figures if f.key == NIGHT.key)
    assert (figure.item, figure.unit) == ("Mean power at night", "kW")
    assert figure.value == pytest.approx(value) and figure.shown in run._repr_html_()
    (demand_,) = (s for s in build_report([run.folder]).sections if s.id == "demand")
    assert figure in demand_.figures


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
    monkeypatch.setenv("COLUMNS", "300")
    show_sweep(result, ("sweep",))
    assert "night" in capsys.readouterr().out
    report = build_report([tmp_path / "out"])
    assert "Mean power at night" in [panel.title for panel in report.charts[0].panels]
    assert "Mean power at night" in report.sections[0].tables[0].units


@pytest.mark.usefixtures("with_night")
def test_a_declared_metric_stands_in_the_page_of_outputs() -> None:
    assert f"| `{NIGHT.key}` | MW | {NIGHT.label} |" in call("schema", "--outputs").out
