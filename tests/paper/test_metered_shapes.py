"""The campus that is calibrated to meters has the figures of its sources, whatever the seed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diploee
from diploee.scenario import load_scenario
from diploee.tables import Float64Array

pytestmark = pytest.mark.slow

EPRI_COLOCATION = 0.88
"""Load factor of metered colocation, of its own peak; EPRI 2026."""

EPRI_NAMEPLATE = 0.57
"""Mean over nameplate of the same sites."""

GOOGLE_STEP = 0.06
"""Largest 5-minute step over the mean, of five power domains; Google powerdata_2019."""


@pytest.fixture(scope="module", params=[0, 1])
def power_mw(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Float64Array:
    """Power at the point of interconnection over the year, 5-minute means [MW]."""
    site = load_scenario("colocation_metered_150mw", ["resolution=5 min", f"seed={request.param}"])
    folder = tmp_path_factory.mktemp("metered") / "run"
    run = diploee.simulate(site, folder, engine="compiled", jobs_file=False)
    return run.facility()["poi_power_w"].to_numpy().astype(np.float64) / 1e6


def test_load_factor_is_that_of_metered_colocation(power_mw: Float64Array) -> None:
    assert power_mw.mean() / power_mw.max() == pytest.approx(EPRI_COLOCATION, abs=0.02)
    assert power_mw.mean() / 150 == pytest.approx(EPRI_NAMEPLATE, abs=0.05)


def test_largest_step_is_at_most_that_of_a_domain(power_mw: Float64Array) -> None:
    # A campus steps less than one of its domains, but not ten times less.
    largest = np.abs(np.diff(power_mw)).max() / power_mw.mean()
    assert 0.02 < largest <= GOOGLE_STEP
