"""Moist air: saturation pressure, relative humidity and wet-bulb temperature.

References
----------
ASHRAE Handbook Fundamentals (2017, SI), chapter 1: equations 5 and 6 (saturation), 22
(humidity ratio), 33 and 35 (psychrometer equation over water and ice).

See also: docs/models/node_to_meter.md
"""

from __future__ import annotations

import numpy as np

from diploee.base.tables import Float64Array

ZERO_C_K = 273.15
_TRIPLE_POINT_C = 0.01
_WATER_TO_AIR = 0.621945
"""Ratio of the molar masses of water and dry air [1]."""
_MIN_C = -150.0
"""Lower bound of wet-bulb temperatures [deg C]."""
_HALVINGS = 50


def saturation_pressure_pa(temperature_c: Float64Array) -> Float64Array:
    """Return the saturation pressure of water vapour over water or ice [Pa].

    Eqs. 5 (ice, up to the triple point) and 6 (water) of the ASHRAE handbook.
    """
    t_k = np.asarray(temperature_c, dtype=np.float64) + ZERO_C_K
    ice = (
        -5.6745359e3 / t_k + 6.3925247 - 9.677843e-3 * t_k + 6.2215701e-7 * t_k**2
        + 2.0747825e-9 * t_k**3 - 9.484024e-13 * t_k**4 + 4.1635019 * np.log(t_k)
    )  # fmt: skip
    water = (
        -5.8002206e3 / t_k + 1.3914993 - 4.8640239e-2 * t_k + 4.1764768e-5 * t_k**2
        - 1.4452093e-8 * t_k**3 + 6.5459673 * np.log(t_k)
    )  # fmt: skip
    return np.exp(np.where(t_k <= _TRIPLE_POINT_C + ZERO_C_K, ice, water))


def wet_bulb_c(
    dry_bulb_c: Float64Array, relative_humidity: Float64Array, pressure_pa: Float64Array
) -> Float64Array:
    """Return the thermodynamic wet-bulb temperature [deg C], shape (n,).

    Bisection finds the wet-bulb temperature for which the psychrometer equation gives
    the humidity ratio of the air.

    Parameters
    ----------
    dry_bulb_c : numpy.ndarray
        Dry-bulb temperature [deg C].
    relative_humidity : numpy.ndarray
        Relative humidity, 0-1.
    pressure_pa : numpy.ndarray
        Air pressure [Pa].
    """
    vapour_pa = relative_humidity * saturation_pressure_pa(dry_bulb_c)
    humidity_ratio = _humidity_ratio(vapour_pa, pressure_pa)
    low, high = (
        np.full_like(dry_bulb_c, _MIN_C),
        np.array(dry_bulb_c, dtype=np.float64),
    )
    # The humidity ratio increases with the wet-bulb temperature
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        is_over = _ratio_at_wet_bulb(dry_bulb_c, middle, pressure_pa) > humidity_ratio
        low, high = np.where(is_over, low, middle), np.where(is_over, middle, high)
    return (low + high) / 2


def relative_humidity(
    dry_bulb_c: Float64Array, wet_bulb_c: Float64Array, pressure_pa: Float64Array
) -> Float64Array:
    """Return the relative humidity, 0-1, at a wet-bulb temperature.

    Arguments as in `wet_bulb_c`.
    """
    ratio = np.maximum(_ratio_at_wet_bulb(dry_bulb_c, wet_bulb_c, pressure_pa), 0.0)
    vapour_pa = pressure_pa * ratio / (_WATER_TO_AIR + ratio)
    return np.minimum(vapour_pa / saturation_pressure_pa(dry_bulb_c), 1.0)


def _humidity_ratio(vapour_pa: Float64Array, pressure_pa: Float64Array) -> Float64Array:
    """Return the humidity ratio ``0.621945 p_v / (p - p_v)`` at a vapour pressure."""
    return _WATER_TO_AIR * vapour_pa / (pressure_pa - vapour_pa)


def _ratio_at_wet_bulb(
    dry_bulb_c: Float64Array, wet_bulb_c: Float64Array, pressure_pa: Float64Array
) -> Float64Array:
    """Return the humidity ratio by the psychrometer equation (Eqs. 33, 35)."""
    t, t_wet = dry_bulb_c, wet_bulb_c
    saturated = _humidity_ratio(saturation_pressure_pa(t_wet), pressure_pa)
    water = ((2501 - 2.326 * t_wet) * saturated - 1.006 * (t - t_wet)) / (
        2501 + 1.86 * t - 4.186 * t_wet
    )
    ice = ((2830 - 0.24 * t_wet) * saturated - 1.006 * (t - t_wet)) / (
        2830 + 1.86 * t - 2.1 * t_wet
    )
    return np.where(t_wet >= 0, water, ice)
