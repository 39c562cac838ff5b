"""The shipped sites at their meters; `test_validation` holds their PUE."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from metered import ESIF_COOLING_ONLY, SITES

import diploee
from diploee import Run
from diploee.scenario import load_scenario

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=SITES)
def run(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("sites") / request.param
    scenario = load_scenario(request.param, ["resolution=5 min"])
    return diploee.run(scenario, folder, engine="compiled", jobs_file=False)


def test_power_at_the_meter_stays_below_its_rating_there(run: Run) -> None:
    power = run.metrics["power"]
    assert power["max_over_rated"] == pytest.approx(power["max_mw"] / power["rated_mw"])
    assert 0.5 < power["max_over_rated"] < 1


def test_air_cooling_takes_more_than_liquid_cooling_of_its_climate(run: Run) -> None:
    cooling = run.metrics["poi"]["ppue_cooling"]
    assert (cooling > ESIF_COOLING_ONLY) == run.scenario.name.endswith("_air")


def test_reactive_power_leads_at_low_load_and_lags_at_high_load(run: Run) -> None:
    power = run.facility()
    at_least, at_most = power["poi_power_w"].idxmin(), power["poi_power_w"].idxmax()
    assert (
        power["poi_reactive_var"].loc[at_least]
        < 0
        < power["poi_reactive_var"].loc[at_most]
    )


def test_parts_add_up_to_the_meter(run: Run) -> None:
    power = run.facility().astype(np.float64)
    parts = [
        name
        for name in power
        if name.endswith("_loss_w") or name == "auxiliary_power_w"
    ]
    total = power["it_ac_power_w"] + power["cooling_w"] + power[parts].sum(axis=1)
    # float32 in the file
    np.testing.assert_allclose(power["poi_power_w"], total, rtol=1e-6)
