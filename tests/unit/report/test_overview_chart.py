"""The first figure of a report: areas that add up, lines at their values."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from builders import tiny_library, tiny_scenario

from diploee.drawing.charts import Band, Line
from diploee.outputs import open_run
from diploee.reports.build import build_report
from diploee.reports.data import read_run
from diploee.reports.limits_section import limit_lines
from diploee.reports.overview_chart import overview_chart
from diploee.reports.page import report_page
from diploee.reports.words import short_boundary
from diploee.scenario import load_scenario
from diploee.simulation import simulate
from diploee.site import rated_at_meter_w
from diploee.units import power_unit


@pytest.fixture(scope="module")
def mixed_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three days of the facility of several pools."""
    folder = tmp_path_factory.mktemp("overview") / "mixed"
    simulate(load_scenario("mixed_11mw", ["duration=3 d"]), folder, engine="compiled")
    return folder


@pytest.mark.slow
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
    np.testing.assert_allclose(lines["device rating (the nodes')"], rated_w, rtol=1e-6)


def test_power_at_the_meter_is_drawn_beside_a_rating_at_the_meter(tmp_path: Path) -> None:
    changes = {
        "duration": "6 h",
        "facility.node_types.node.ac_power": "air_hgx",
        "facility.stages": ["ups", "transformers", "point_of_interconnection"],
    }
    run = read_run(
        simulate(tiny_scenario(changes), tmp_path / "run", library=tiny_library()).folder
    )
    layers = overview_chart(run, power_unit(run.max_w)).panels[0].layers
    lines = {layer.name: layer.y[0] for layer in layers if isinstance(layer, Line)}
    assert not [name for name in lines if "device" in name]
    rated_w = lines["rated power at the meter"] * power_unit(run.max_w).watts
    assert rated_w == pytest.approx(rated_at_meter_w(run.run.scenario), rel=1e-6)
    assert rated_w > run.run.scenario.facility.rated_power_w


class _Stage:
    """A stage of a user's own with a contract."""

    kind = "second_feed"

    def __init__(self, contract_mva: float) -> None:
        self.contract_mva = contract_mva


def test_contracts_of_all_stages_and_limits_are_lines_at_their_values(
    run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = read_run(run_folder)
    peak_mw = run.max_w / 1e6
    scenario, stages = run.run.scenario, (_Stage(1.1 * peak_mw), _Stage(1.2 * peak_mw))
    facility = scenario.facility.model_copy(update={"stages": stages})
    changed = scenario.model_copy(update={"facility": facility})
    monkeypatch.setattr(type(run.run), "scenario", property(lambda _: changed))
    limits = tmp_path / "own.yaml"
    limits.write_text(f"name: own\npeaks:\n  - max_mw: {0.9 * peak_mw}\n  - max_mw: 1000\n")
    unit = power_unit(run.max_w)
    chart = overview_chart(run, unit, limit_lines(run, [str(limits)]))
    lines = [layer for layer in chart.panels[0].layers if isinstance(layer, Line)]
    drawn = [(line.name, float(line.y[0]) * unit.watts / run.max_w) for line in lines[3:]]
    contracts = [f"contract of second feed, {s.contract_mva:g} MVA at unity power factor"
                 for s in stages]  # fmt: skip
    assert [name for name, _ in drawn] == [*contracts, lines[-1].name]
    assert [of_peak for _, of_peak in drawn] == pytest.approx([1.1, 1.2, 0.9], rel=1e-5)
    assert lines[-1].name.startswith("limit: own, ")
    assert "Above the figure: limit: own, 1000 MW" in chart.caption
    assert chart.panels[0].y.range[1] * unit.watts > 1.2 * run.max_w


def test_sections_stand_in_their_order_and_the_table_of_contents_links_each(
    mixed_folder: Path,
) -> None:
    page = report_page(build_report([mixed_folder], ["example"]))
    nav = re.search(r"<nav.*?</nav>", page, re.DOTALL)
    assert nav is not None
    links = re.findall(r"href='#([\w-]+)'", nav[0])
    sections = re.findall(r"<section id='([\w-]+)'", page)
    assert links == sections
    assert sections == ["overview", "limits", "metrics", "power", "planning", "grid", "nodes",
                        "services", "provenance"]  # fmt: skip


def test_metrics_of_services_are_rows_and_the_cards_fill_their_rows(mixed_folder: Path) -> None:
    report = build_report([mixed_folder])
    services = next(t for s in report.sections for t in s.tables if t.title == "Services")
    names = ["coding", "conversation"]
    assert services.header == ("Service", *names)
    rates = next(row for row in services.rows if row[0].startswith("Requests per day"))
    told = read_run(mixed_folder).metrics["requests"]["services"]
    per_day = [told[name]["per_day"] / 1e6 for name in names]
    assert [float(cell.replace(",", "")) for cell in rates[1:]] == pytest.approx(per_day, abs=0.01)
    for n, columns in ((12, 6), (13, 5), (15, 5), (17, 6)):
        assert replace(report, figures=(("1", "", ""),) * n).n_columns == columns


def test_every_figure_of_power_says_where_it_is_taken(mixed_folder: Path) -> None:
    sections = build_report([mixed_folder], ["example"]).sections
    for section in sections:
        is_power = section.id in {"overview", "limits", "power", "planning", "grid"}
        for chart in section.charts:
            assert chart.boundary == ("device power" if is_power else ""), chart.id
    stages = "node AC power, power supplies and fans included, behind PDUs"
    assert short_boundary(stages) == "node AC power, behind PDUs"
    meter = f"{stages}, at the point of interconnection"
    assert short_boundary(meter) == "at the point of interconnection"
    assert short_boundary("unknown") == "unknown"


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
    assert shown["15-minute demand (clock)"] == (f"{demand['max_mw'] * kw:,.3f}", "kW")
    ramps = {e["interval_s"]: e for e in metrics["grid"]["ramps"]["intervals"]}
    for seconds, name in ((60, "1 min"), (600, "10 min")):
        up, down = (ramps[seconds][way]["max_mw"] * kw for way in ("up", "down"))
        assert shown[f"worst rise / drop within {name}"] == (f"{up:,.3f} / {down:,.3f}", "kW")
    assert shown["load factor"] == (f"{metrics['power']['load_factor']:.3f}", "")
    assert "energy" in shown
    assert report.figures_note == f"Power is taken at: {read_run(run_folder).run.boundary()}."
    assert len(report.verdicts) == 1 and "power boundary" not in report.verdicts[0]
