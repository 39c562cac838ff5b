"""The first figure of a report: areas that add up, lines at their values."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from builders import tiny_run

from diploee import open_run
from diploee import run as simulate
from diploee.base.errors import InputError
from diploee.base.units import power_unit
from diploee.reports.build import build_report, report_page
from diploee.reports.data import RunData, read_run
from diploee.reports.drawing.charts import Area, Line, Stack
from diploee.reports.grid_charts import limit_lines
from diploee.reports.stack_charts import overview_chart
from diploee.runs.formatting import short_boundary
from diploee.scenario import load_scenario
from diploee.simulation.size import rated_at_meter_w


@pytest.fixture(scope="module")
def mixed_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three days of the facility of several pools."""
    folder = tmp_path_factory.mktemp("overview") / "mixed"
    simulate(load_scenario("mixed_11mw", ["duration=3 d"]), folder, engine="compiled")
    return folder


@pytest.mark.slow
def test_pools_and_the_rest_stack_up_to_the_facility_power(mixed_folder: Path) -> None:
    run = read_run(mixed_folder, in_parts=True)
    unit = power_unit(run.max_w)
    layers = overview_chart(run, unit).panels[0].layers
    (stack,) = (layer for layer in layers if isinstance(layer, Stack))
    pools = list(run.run.scenario.facility.pools)
    assert len(pools) > 1
    assert list(stack.names)[: len(pools)] == pools
    # Of a stack
    blocks = open_run(mixed_folder).blocks(["facility_power_w"], 3_600_000)
    means_w = np.concatenate([block.columns["facility_power_w"] for block in blocks])
    stacked_w = stack.parts.sum(axis=0)[:-1] * unit.watts
    np.testing.assert_allclose(stacked_w, means_w, rtol=1e-6)
    (spread,) = (layer for layer in layers if isinstance(layer, Area))
    assert spread.high.max() * unit.watts == pytest.approx(run.max_w, rel=1e-6)
    assert spread.low.min() * unit.watts == pytest.approx(run.min_w, rel=1e-6)


def test_lines_lie_at_the_peak_of_the_metrics_and_the_rated_power(
    run_folder: Path,
) -> None:
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


def test_power_at_the_meter_is_drawn_beside_a_rating_at_the_meter(
    tmp_path: Path,
) -> None:
    changes = {
        "duration": "6 h",
        "facility.node_types.node.ac_power": "air_hgx",
        "facility.stages": ["ups", "transformers", "point_of_interconnection"],
    }
    run = read_run(tiny_run(tmp_path / "run", changes).folder)
    layers = overview_chart(run, power_unit(run.max_w)).panels[0].layers
    lines = {layer.name: layer.y[0] for layer in layers if isinstance(layer, Line)}
    assert not [name for name in lines if "device" in name]
    rated_w = lines["rated power at the meter"] * power_unit(run.max_w).watts
    assert rated_w == pytest.approx(rated_at_meter_w(run.run.scenario), rel=1e-6)
    assert rated_w > run.run.scenario.facility.rated_power_w


class _Stage:
    """A stage of a user's own with a contract."""

    kind = "second_feed"

    def __init__(self, contract_mw: float) -> None:
        self.contract = contract_mw, f"contract of {contract_mw:g} MW"


def contracted(
    monkeypatch: pytest.MonkeyPatch, run: RunData, *of_peak: float
) -> list[_Stage]:
    """Give a run stages with contracts, in parts of its peak."""
    stages = [_Stage(part * run.max_w / 1e6) for part in of_peak]
    scenario = run.run.scenario
    facility = scenario.facility.model_copy(update={"stages": stages})
    changed = scenario.model_copy(update={"facility": facility})
    monkeypatch.setattr(type(run.run), "scenario", property(lambda _: changed))
    return stages


def test_contracts_of_all_stages_and_limits_are_lines_at_their_values(
    run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = read_run(run_folder)
    peak_mw, stages = run.max_w / 1e6, contracted(monkeypatch, run, 1.1, 1.2)
    limits = tmp_path / "own.yaml"
    limits.write_text(
        f"name: own\npeaks:\n  - max_mw: {0.9 * peak_mw}\n  - max_mw: 1000\n"
    )
    unit = power_unit(run.max_w)
    chart = overview_chart(run, unit, limit_lines(run, [str(limits)]))
    lines = [layer for layer in chart.panels[0].layers if isinstance(layer, Line)]
    drawn = [
        (line.name, float(line.y[0]) * unit.watts / run.max_w) for line in lines[3:]
    ]
    contracts = [stage.contract[1] for stage in stages]
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
    details = ["nodes", "aggregates", "services", "provenance"]
    assert sections == ["answer", "limits", "demand", "ramps", *details]


def test_every_figure_of_power_says_where_it_is_taken(mixed_folder: Path) -> None:
    sections = build_report([mixed_folder], ["example"]).sections
    for section in sections:
        for chart in section.charts:
            if chart.id in {"overview", "carpet", "duration", "ramps"}:
                assert chart.boundary == "device power", chart.id
            elif section.id in {"nodes", "services"}:
                assert chart.boundary == "", chart.id
    stages = "node AC power, power supplies and fans included, behind PDUs"
    assert short_boundary(stages) == "node AC power, behind PDUs"
    meter = f"{stages}, at the point of interconnection"
    assert short_boundary(meter) == "at the point of interconnection"
    assert short_boundary("unknown") == "unknown"


def test_layers_by_load_are_the_energy_of_the_jobs_and_the_idle_rest(
    tmp_path: Path,
) -> None:
    run = tiny_run(tmp_path / "run", by_load=True)
    frame = run.facility()
    parts_w = frame[["load_power_w.training", "idle_power_w"]]
    np.testing.assert_allclose(parts_w.sum(axis=1), frame["it_power_w"], rtol=1e-6)
    cause = run.metrics["grid"]["peak"]["cause"]["parts"]
    means_mw = [part["mean_mw"] for part in cause]
    np.testing.assert_allclose(parts_w.mean() / 1e6, means_mw, rtol=1e-5)
    found = read_run(run.folder, by_load=True)
    layers = overview_chart(found, power_unit(found.max_w)).panels[0].layers
    (stack,) = (layer for layer in layers if isinstance(layer, Stack))
    assert stack.names == ("training", "idle nodes")
    kept = tiny_run(tmp_path / "without")
    # Those of classes go with the layers
    aggregates = {"all": run.metrics["aggregates"]["all"]}
    assert len(run.metrics["aggregates"]) > 1
    assert kept.metrics == {**run.metrics, "aggregates": aggregates}
    with pytest.raises(InputError, match="run it again with 'diploee run --by-load'"):
        build_report([kept.folder], by_load=True)


def test_of_many_loads_the_smallest_are_one_and_no_colour_comes_twice(
    tmp_path: Path,
) -> None:
    changes: dict[str, object] = {
        "streams.training.target_utilization": 0.01,
        "duration": "1 d",
    }
    for k in range(9):
        classes = [{"workload": "tune", "n_nodes": 2, "probability": 1}]
        stream = {
            "pool": "main",
            "classes": classes,
            "target_utilization": 0.02 + 0.01 * k,
        }
        changes[f"streams.s{k}"] = stream
    run = tiny_run(tmp_path / "run", changes, by_load=True)
    found = read_run(run.folder, by_load=True)
    overview = overview_chart(found, power_unit(found.max_w))
    (stack,) = (of for of in overview.panels[0].layers if isinstance(of, Stack))
    assert stack.names[-1] == "6 smaller loads"
    assert len(set(stack.colours)) == len(stack.names) == 6
    frame = run.facility()
    names = [name for name in frame if name.startswith("load_power_w.")]
    largest = frame[names].mean().nlargest(4).index
    assert {name.partition(".")[2] for name in largest} < set(stack.names)
    total_w = stack.parts.sum(axis=0) * power_unit(found.max_w).watts
    assert total_w[:-1].mean() == pytest.approx(frame["it_power_w"].mean(), rel=1e-5)


def test_lines_at_the_same_height_are_one_with_the_names_of_all(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = read_run(run_folder)
    stages = contracted(monkeypatch, run, 1.2, 1.201)
    lines = overview_chart(run, power_unit(run.max_w)).panels[0].layers
    joined = [line.name for line in lines if line.name.count("contract of") == 2]
    assert joined == [f"{stages[0].contract[1]}, {stages[1].contract[1]}"]
