"""Every power figure of a facility of several pools, split by pool: the parts add up."""  # noqa: E501

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from diploee import run as simulate
from diploee.base.units import MEGAWATT
from diploee.reports.build import build_report
from diploee.reports.data import REST, RunData, read_run
from diploee.reports.drawing.charts import Bars, Carpet, Chart, Line
from diploee.reports.event_charts import event_windows_chart
from diploee.reports.power_charts import (
    carpet_chart,
    duration_chart,
    months_chart,
    peak_week_chart,
)
from diploee.scenario import load_scenario

SPANS = {
    "mixed_11mw": ["start=2018-01-22", "duration=11 d"],
    "campus_100mw_synchronous": ["start=2026-01-26", "duration=8 d"],
}


@pytest.fixture(scope="module", params=list(SPANS))
def folder(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Days in two months of facilities of several pools, without and with what is
    behind them."""
    folder = tmp_path_factory.mktemp("pools") / request.param
    settings = [*SPANS[request.param], "resolution=5 min"]
    simulate(load_scenario(request.param, settings), folder, engine="compiled")
    return folder


@pytest.fixture(scope="module")
def run(folder: Path) -> RunData:
    return read_run(folder, in_parts=True)


def _by_name(chart: Chart, panel: int, kind: type) -> dict[str, np.ndarray]:
    """Return the solid layers of a kind of one panel by name."""
    layers = [layer for layer in chart.panels[panel].layers if isinstance(layer, kind)]
    solid = [of for of in layers if getattr(of, "dash", "solid") == "solid"]
    return {layer.name: layer.y for layer in solid}


def _adds_up(of: dict[str, np.ndarray]) -> None:
    assert len(of) > 2
    parts = sum(y for name, y in of.items() if name != "facility")
    np.testing.assert_allclose(parts, of["facility"], rtol=1e-5)


@pytest.mark.slow
def test_parts_are_the_pools_and_what_stages_add(run: RunData) -> None:
    facility = run.run.scenario.facility
    names = [part.label for part in run.parts]
    assert names == [*facility.pools, *([REST] if facility.has_ac_power else [])]
    total_w = sum(part.power_w for part in run.parts)
    np.testing.assert_allclose(total_w, run.power_w, rtol=1e-5)
    for part in run.parts:
        assert part.max_w == pytest.approx(part.power_w.max(), rel=1e-6)
        assert part.min_w == pytest.approx(part.power_w.min(), rel=1e-6)


@pytest.mark.slow
def test_cells_lines_and_bars_of_the_pools_add_up_to_the_facility(run: RunData) -> None:
    carpets = {
        panel.title or "facility": layer.z.reshape(24, -1, layer.z.shape[1])
        .mean(axis=1)
        .ravel()
        for chart in (carpet_chart([run], MEGAWATT), carpet_chart(run.parts, MEGAWATT))
        for panel in chart.panels
        for layer in panel.layers
        if isinstance(layer, Carpet)
    }
    seen = np.isfinite(carpets["facility"])
    _adds_up({name: z[seen] for name, z in carpets.items()})
    _adds_up(_by_name(peak_week_chart([run], MEGAWATT), 0, Line))
    months = months_chart([run], MEGAWATT)
    assert months is not None
    _adds_up(_by_name(months, 0, Bars))


def test_duration_curves_end_at_the_extremes_of_each_pool(run: RunData) -> None:
    curves = _by_name(duration_chart([run], MEGAWATT), 0, Line)
    assert list(curves) == ["facility", *(part.label for part in run.parts)]
    for part in (run, *run.parts):
        y = curves[part.label if part.is_part else "facility"] * 1e6
        assert (y[0], y[-1]) == pytest.approx((part.max_w, part.min_w), rel=1e-6)


def test_each_figure_of_power_shows_every_pool_of_one_run_and_none_of_several(
    folder: Path, run: RunData
) -> None:
    several = build_report([folder, folder]).charts
    single = {chart.id: chart for chart in build_report([folder]).charts}
    words = " By pool: medians, and bands from the 25th to the 75th"
    assert words in single["bands"].caption
    if "poi-weather" in single:
        meter = "at the point of interconnection"
        assert single["poi-weather"].boundary == single["poi-parts"].boundary == meter
        assert single["duration"].boundary == f"{meter}; of a pool: node AC power"
    for name, part in product(
        ("overview", "carpet-pools", "bands", "peak-week", "months", "duration"),
        run.parts,
    ):
        panels = single[name].panels
        layers = [of for p in panels for of in p.layers if not isinstance(of, Carpet)]
        shown = {p.title for p in panels}
        for layer in layers:
            shown |= {*getattr(layer, "names", (getattr(layer, "name", ""),))}
        assert part.label in shown, name
    assert not any(
        getattr(layer, "name", "") == run.parts[0].label
        for chart in several
        for panel in chart.panels
        for layer in panel.layers
    )


@pytest.mark.slow
def test_beside_each_worst_window_stand_the_pools_which_add_up_to_it(
    tmp_path: Path,
) -> None:
    settings = ["duration=30 min", "resolution=1 s", "warm_up=1 h"]
    scenario = load_scenario("mixed_11mw", settings)
    simulate(scenario, tmp_path / "fine", engine="compiled", event_windows=True)
    run = read_run(tmp_path / "fine", in_parts=True)
    chart = event_windows_chart(run, MEGAWATT)
    assert chart is not None
    panels = chart.panels
    assert len(panels) == 2 * len(run.run.event_windows)
    for whole, panel in zip(panels[::2], panels[1::2], strict=True):
        lines = {layer.name: layer.y for layer in panel.layers}
        assert list(lines) == ["facility", *(part.label for part in run.parts)]
        facility, power = lines.pop("facility"), whole.layers[0]
        np.testing.assert_allclose(sum(lines.values()), facility, atol=1e-5)
        assert whole.x.range is not None
        low, high = whole.x.range
        shown = power.y[(power.x >= low) & (power.x < high)]
        parts = np.split(shown, range(0, shown.size, -(-shown.size // 400))[1:])
        means = np.array([part.mean() for part in parts])
        np.testing.assert_allclose(facility - facility[0], means - means[0], atol=2e-5)


def test_of_many_pools_the_smallest_are_one(tmp_path: Path) -> None:
    pools = [
        f"facility.pools.p{k}={{node_type: h100_4x, n_nodes: {10 + k}}}"
        for k in range(6)
    ]
    settings = [*pools, "duration=1 d", "resolution=15 min", "warm_up=1 h"]
    simulate(
        load_scenario("mixed_11mw", settings), tmp_path / "many", engine="compiled"
    )
    run = read_run(tmp_path / "many", in_parts=True)
    largest = ["training", "serving", "p3", "p4", "p5"]
    assert [part.label for part in run.parts] == [*largest, "3 smaller pools"]
    total_w = sum(part.power_w for part in run.parts)
    np.testing.assert_allclose(total_w, run.power_w, rtol=1e-5)
