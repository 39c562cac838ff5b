"""Bands of results over drawn assumptions, and the assumption that moves each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import TYPICAL_DENVER, write_scenario
from sweep_builders import Swept

from diploee import open_run
from diploee.base.errors import ScenarioError
from diploee.sweeps import load_ensemble
from diploee.sweeps.draws import Uniform
from diploee.sweeps.ensemble import significant_correlations, spread

NONE = ("fan_share_min", "fan_share_max", "variable_share", "reactive_share")
NODE: Any = dict.fromkeys(NONE, 0.0) | {"kind": "custom", "fixed_share": 0.1}
NODE |= {"supply": "orv3", "supply_ratio": 1.8, "network_w": 60.0}
LOSS = "facility.stages.0.linear_loss"
ONE_LOSS: dict[str, Any] = {
    "duration": "1 h",
    "streams.training.target_utilization": None,
    "streams.training.jobs_per_day": 1e-6,
    "facility.node_types.node.ac_power": NODE,
    "facility.stages": [{"kind": "pdu", "square_loss": 0.0}],
}
"""An idle site: its load is constant, and the loss of its PDUs that goes with the load
is open."""


@pytest.mark.slow
def test_the_band_of_a_closed_form_is_its_percentiles_within_the_sampling_error(
    tmp_path: Path, swept: Swept
) -> None:
    write_scenario(tmp_path / "idle.yaml", ONE_LOSS)
    sweep = load_ensemble(tmp_path / "idle.yaml", 40, assumed=True)
    assert sweep.spec.draw == {LOSS: Uniform(low=0.0, high=0.01)}
    found = swept(sweep)
    run = open_run(tmp_path / "out" / "runs" / found.runs[0].run)
    load_mw = run.metrics["power"]["max_mw"] / (1 + found.runs[0].drawn[f"draw.{LOSS}"])
    assert found.ensemble is not None
    point = found.ensemble.points[0]
    band = point.metrics["power.max_mw"]
    # The loss is uniform, so the peak is load_mw (1 + U(0, 0.01)); three standard
    # errors of a percentile p of n draws are 3 sqrt(p (1 - p) / n) of the range.
    error_mw = 3 * np.sqrt(0.05 * 0.95 / 40) * 0.01 * load_mw
    assert band.p5 == pytest.approx(load_mw * 1.0005, abs=error_mw)
    assert band.p95 == pytest.approx(load_mw * 1.0095, abs=error_mw)
    drawn = [load_mw * (1 + one.drawn[f"draw.{LOSS}"]) for one in found.runs]
    assert [band.p5, band.p95] == pytest.approx(np.percentile(drawn, [5, 95]), rel=1e-6)
    assert point.moved_by["power.max_mw"] == {LOSS: pytest.approx(1.0)}
    assert json.loads((tmp_path / "out" / "ensemble.json").read_text())["points"][0][
        "moved_by"
    ]


def test_what_a_file_gives_is_not_drawn(tmp_path: Path) -> None:
    # As the default has it
    write_scenario(tmp_path / "given.yaml", ONE_LOSS | {LOSS: 0.005})
    with pytest.raises(ScenarioError, match="that has a range is given"):
        load_ensemble(tmp_path / "given.yaml", 40, assumed=True)


def test_a_site_keeps_its_nodes_while_its_losses_are_drawn(tmp_path: Path) -> None:
    stages = {"facility.stages": ["pdu", "transformers", "point_of_interconnection"]}
    sized = ONE_LOSS | stages | TYPICAL_DENVER | {"facility.size": {"poi_mw": 1}}
    write_scenario(tmp_path / "sized.yaml", sized)
    sweep = load_ensemble(tmp_path / "sized.yaml", 2, assumed=True)
    assert sweep.base.facility.size is None
    rated_mw = sweep.base.facility.supplied_power_w / 1e6
    assert rated_mw == pytest.approx(1, rel=0.05)
    drawn = sweep.spec.draw["facility.stages.1.units.0.rated_mva"]
    assert isinstance(drawn, Uniform)
    assert (drawn.low, drawn.high) == pytest.approx((1.3 * rated_mw, 2.2 * rated_mw))


def test_a_sweep_says_itself_what_it_draws() -> None:
    with pytest.raises(ScenarioError, match=r"--assumed: .*_utilization is a sweep"):
        load_ensemble("colocation_utilization", assumed=True)


def test_chance_seldom_stands_out_of_any_metric_of_a_run_and_a_cause_does() -> None:
    rng, found = np.random.default_rng(5), 0
    for _ in range(30):
        drawn = {f"k{i}": rng.random(40) for i in range(11)}
        metrics = {f"m{i}": rng.random(40) for i in range(89)} | {
            "sum": drawn["k7"] * 3
        }
        moved = significant_correlations(drawn, metrics)
        assert moved.pop("sum") == {"k7": pytest.approx(1.0)}
        found += any(moved.values())
    # Each of 30 with a probability of 1 %; more than 3 has one of 2e-4
    assert found <= 3


def test_few_members_have_a_least_and_a_largest_but_no_percentile() -> None:
    few, many = spread(np.arange(19.0), 0.01), spread(np.arange(20.0), 0.01)
    assert (few.p5, few.p95, few.min, few.max) == (None, None, 0.0, 18.0)
    assert (many.p5, many.p95) == pytest.approx((0.95, 18.05))
    assert significant_correlations({"k": np.ones(19)}, {"m": np.ones(19)}) == {}
