"""Wet-bulb temperature against the sheet's values and psychrolib."""

from __future__ import annotations

import sys
from unittest import mock

import numpy as np
import pytest

from diploee.facility.psychrometrics import (
    relative_humidity,
    saturation_pressure_pa,
    wet_bulb_c,
)

with mock.patch.dict(sys.modules, {"numba": None}):  # which psychrolib would compile itself with
    import psychrolib

SHEET = [
    (30, 0.50, 101_325, 22.005),
    (20, 0.40, 101_325, 12.355),
    (35, 0.30, 83_000, 20.740),
    (-5, 0.80, 101_325, -5.884),
    (0.5, 0.90, 95_000, -0.132),
]


def arrays(*values: float) -> list[np.ndarray]:
    return [np.array([value], dtype=float) for value in values]


@pytest.mark.parametrize(("dry_c", "humidity", "pressure_pa", "wet_c"), SHEET)
def test_wet_bulb_is_that_of_the_sheet(
    dry_c: float, humidity: float, pressure_pa: float, wet_c: float
) -> None:
    found = wet_bulb_c(*arrays(dry_c, humidity, pressure_pa))
    assert found[0] == pytest.approx(wet_c, abs=1e-3)


def test_wet_bulb_and_saturation_are_those_of_psychrolib() -> None:
    psychrolib.SetUnitSystem(psychrolib.SI)
    rng = np.random.default_rng(3)
    dry_c, humidity = rng.uniform(-40, 48, 40), rng.uniform(0.05, 1, 40)
    pressure_pa = rng.uniform(70_000, 105_000, 40)
    given = zip(dry_c, humidity, pressure_pa, strict=True)
    theirs = [psychrolib.GetTWetBulbFromRelHum(*values) for values in given]
    np.testing.assert_allclose(wet_bulb_c(dry_c, humidity, pressure_pa), theirs, atol=2e-3)
    saturated = [psychrolib.GetSatVapPres(t) for t in dry_c]
    np.testing.assert_allclose(saturation_pressure_pa(dry_c), saturated, rtol=1e-12)


def test_humidity_comes_back_from_the_wet_bulb() -> None:
    rng = np.random.default_rng(4)
    dry_c, humidity = rng.uniform(-30, 45, 500), rng.uniform(0.05, 1, 500)
    pressure_pa = np.full(500, 84_000.0)
    wet_c = wet_bulb_c(dry_c, humidity, pressure_pa)
    back = relative_humidity(dry_c, wet_c, pressure_pa)
    # Where water changes to ice the equation has a step: a few humidities there have no partner.
    apart = np.abs(wet_c) > 1e-6
    np.testing.assert_allclose(back[apart], humidity[apart], atol=1e-9)
    assert (wet_c <= dry_c).all()
