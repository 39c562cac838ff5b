"""The first figure of a report: areas that add up, lines at their values."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from diploee.drawing.charts import Band, Line
from diploee.outputs import open_run
from diploee.report import build_report, read_run
from diploee.report.overview_chart import overview_chart
from diploee.run import simulate
from diploee.scenario import load_scenario
from diploee.units import power_unit


@pytest.fixture(scope="module")
def mixed_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three days of the facility of several pools."""
    folder = tmp_path_factory.mktemp("overview") / "mixed"
    simulate(load_scenario("mixed_11mw", ["duration=3 d"]), folder, engine="compiled")
    return folder


def test_pools_and_the_rest_stack_up_to_the_facility_power(mixed_folder: Path) -> None:
    run = read_run(mixed_folder)
    unit = power_unit(run.max_w)
    layers = overview_chart(run, unit).panels[0].layers
    bands = [layer for layer in layers if isinstance(layer, Band)]
    pools = list(run.run.scenario.facility.pools)
    assert len(pools) > 1
    assert [band.name for band in bands][: len(pools)] == pools
    assert not bands[0].low.any()
    for below, above in pairwise(bands):
        np.testing.assert_array_equal(below.high, above.low)
    blocks = open_run(mixed_folder).blocks(["facility_power_w"], 3_600_000)
    hourly_w = np.concatenate([block.columns["facility_power_w"] for block in blocks])
    np.testing.assert_allclose(bands[-1].high[:-1] * unit.watts, hourly_w, rtol=1e-6)


def test_lines_lie_at_the_peak_of_the_metrics_and_the_rated_power(run_folder: Path) -> None:
    run = read_run(run_folder)
    unit = power_unit(run.max_w)
    lines = {
        layer.name: layer.y * unit.watts
        for layer in overview_chart(run, unit).panels[0].layers
        if isinstance(layer, Line)
    }
    peak_w = run.metrics["power"]["max_mw"] * 1e6
    np.testing.assert_allclose(lines["peak"], peak_w, rtol=1e-6)
    rated_w = run.run.scenario.facility.rated_power_w
    np.testing.assert_allclose(lines["rated power of the devices"], rated_w, rtol=1e-6)


def test_the_overview_comes_first_for_one_run_alone(run_folder: Path, busier_folder: Path) -> None:
    assert build_report([run_folder]).sections[0].id == "overview"
    several = build_report([run_folder, busier_folder])
    assert "overview" not in [section.id for section in several.sections]


def test_the_page_opens_with_the_figures_that_people_ask_for(run_folder: Path) -> None:
    report, metrics = build_report([run_folder], ["example"]), read_run(run_folder).metrics
    shown = {meaning.partition(",")[0]: (value, unit) for value, unit, meaning in report.figures}
    kw = 1e3
    assert shown["peak"] == (f"{metrics['power']['max_mw'] * kw:,.3f}", "kW")
    demand = next(
        e for e in metrics["grid"]["maximum_demand"]["intervals"] if e["interval_min"] == 15
    )
    assert shown["15-minute demand"] == (f"{demand['max_mw'] * kw:,.3f}", "kW")
    ramps = {e["interval_s"]: e for e in metrics["grid"]["ramps"]["intervals"]}
    for seconds, name in ((60, "1 min"), (600, "10 min")):
        up, down = (ramps[seconds][way]["max_mw"] * kw for way in ("up", "down"))
        assert shown[f"worst rise / drop within {name}"] == (f"{up:,.3f} / {down:,.3f}", "kW")
    assert shown["load factor"] == (f"{metrics['power']['load_factor']:.3f}", "")
    assert "energy" in shown
    assert report.figures_note == f"Power is taken at: {read_run(run_folder).run.boundary()}."
    assert len(report.verdicts) == 1 and "power boundary" not in report.verdicts[0]
