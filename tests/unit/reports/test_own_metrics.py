"""Runs with a measure or a measured stage of the user's own, and no grid's meter, are
reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import tiny_run

from diploee import Run
from diploee.base import Metric
from diploee.base.column_specs import Column
from diploee.facility.stage_meters import EnergyMeter
from diploee.metrics import MEASURES, RunMeasure
from diploee.reports.build import build_report


class Count:
    """Counts values."""

    n_window = 1

    def __init__(self, clock: Any) -> None:
        self.n = 0

    def add(self, stretch: Any) -> None:
        self.n += stretch.n_new

    def result(self) -> dict[str, int]:
        return {"n": self.n}


class Cable:
    """Loses a hundredth of the power."""

    columns = (
        Column("cable_loss_w", "W", "facility", "mean", None, "loss", role="loss"),
    )
    metrics = (Metric("cable.energy_mwh", "MWh", "lost in the cable", view="table"),)
    boundary = "behind a cable"

    def start(self) -> None:
        return None

    def apply(self, block: Any, state: None) -> Any:
        loss_w = 0.01 * block.columns["facility_power_w"]
        total_w = block.columns["facility_power_w"] + loss_w
        return {"cable_loss_w": loss_w, "facility_power_w": total_w}, None

    def meter(self) -> Any:
        return EnergyMeter("cable_loss_w", "cable.energy_mwh")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    metric = Metric("measures.count.n", "1", "values counted", view="table")
    monkeypatch.setattr(
        MEASURES, "by_name", {"count": RunMeasure("count", (metric,), Count)}
    )
    return tiny_run(tmp_path / "run", {"duration": "6 h"}, stages=[Cable()])


def test_report_of_own_measure_and_stage_has_their_figures_and_no_chart_of_a_meter(
    run: Run,
) -> None:
    report = build_report([run.folder])
    where = {
        figure.key: section.id
        for section in report.sections
        for figure in section.figures
    }
    assert where["measures.count.n"] == "demand"
    assert where["cable.energy_mwh"] == "poi"
    assert not [chart.id for chart in report.charts if chart.id.startswith("poi")]
    lost_mwh = run.facility()["cable_loss_w"].to_numpy(np.float64).sum() / 60 / 1e6
    assert run.metrics["cable"]["energy_mwh"] == pytest.approx(lost_mwh, rel=1e-4)
