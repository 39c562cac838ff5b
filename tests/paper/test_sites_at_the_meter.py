"""The shipped sites at their meters: ratios within what sites of their kind and climate have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diploee
from diploee.outputs import Run
from diploee.scenario import load_scenario

pytestmark = pytest.mark.slow

CORRIDOR = (1.080, 1.194)
"""Annual PUE of large sites with economizers, 5th to 95th percentile, climate zone 5B (Denver);
Lei and Masanet's UE.csv, sheet section 3.1."""

ESIF_COOLING_ONLY = 1.036
"""Annual PUE of NREL's ESIF, warm-water cooling near Denver: its meters are lights, plugs, fans,
pumps, HVAC and IT, no UPS or transformer, so that it compares with the cooling-only figure."""


@pytest.fixture(
    scope="module", params=["colocation_10mw_poi", "colocation_10mw_poi_air", "inference_1mw_poi"]
)
def run(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("sites") / request.param
    scenario = load_scenario(request.param, ["resolution=5 min"])
    return diploee.simulate(scenario, folder, engine="compiled", jobs_file=False)


def test_annual_pue_is_within_the_corridor_of_its_climate(run: Run) -> None:
    low, high = CORRIDOR
    assert low <= run.metrics["poi"]["pue"] <= high
    assert run.metrics["power"]["max_over_rated"] is None  # the ratings are the devices'


def test_liquid_cooling_compares_with_esif_by_its_cooling_alone(run: Run) -> None:
    poi = run.metrics["poi"]
    if run.scenario.name.endswith("_air"):
        assert poi["ppue_cooling"] > ESIF_COOLING_ONLY
        return
    lights = poi["energy"]["auxiliary_mwh"] / poi["energy"]["total_mwh"] * poi["pue"]
    assert poi["ppue_cooling"] < ESIF_COOLING_ONLY < poi["pue"]
    assert poi["ppue_cooling"] + lights == pytest.approx(ESIF_COOLING_ONLY, abs=0.015)


def test_reactive_power_leads_at_low_load_and_lags_at_high_load(run: Run) -> None:
    power = run.facility()
    at_least, at_most = power["poi_power_w"].idxmin(), power["poi_power_w"].idxmax()
    assert power["poi_reactive_var"].loc[at_least] < 0 < power["poi_reactive_var"].loc[at_most]


def test_parts_add_up_to_the_meter(run: Run) -> None:
    power = run.facility().astype(np.float64)
    parts = [name for name in power if name.endswith("_loss_w") or name == "auxiliary_power_w"]
    total = power["it_ac_power_w"] + power["cooling_w"] + power[parts].sum(axis=1)
    np.testing.assert_allclose(power["poi_power_w"], total, rtol=1e-6)  # float32 in the file
