"""Solar plant: PVWatts chain of pvlib on the irradiance of a weather file.

The chain [1]_ gives the mean output of each weather record, with the sun's position at
the middle of the record. Within a record the output is piecewise linear, keeps the
record's energy, and stays between zero and the inverters' rating. Clouds shorter than a
record are not resolved, so ramps, swings and spectral bands of the output are lower
bounds.

ASSUMPTION: open-rack glass-polymer modules; the plant never fails, is not curtailed,
and supplies active power only.

References
----------
.. [1] A. P. Dobos, "PVWatts Version 5 Manual", NREL/TP-6A20-62641, 2014, as implemented
   in `pvlib.modelchain.ModelChain.with_pvwatts`.

See also: docs/models/node_to_meter.md
"""

from __future__ import annotations

import warnings
from functools import cached_property
from inspect import signature
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, PositiveFloat, PrivateAttr

from diploee.base.errors import StageError
from diploee.base.measures.distribution import Energy, RunningMaximum
from diploee.base.model import SCALES, Share, default, uncertain
from diploee.base.tables import Float64Array, Int64Array
from diploee.base.units import MS_PER_S, W_PER_MW
from diploee.facility.base import POWER, Block, Nameable, SiteView, StageSpec, Values
from diploee.facility.declared import COLUMNS, METRICS
from diploee.facility.stage_meters import ColumnMeter
from diploee.facility.weather import Sun

PER_KELVIN = -0.0035
"""Temperature coefficient of DC power [1/K]: crystalline silicon, "premium" in PVWatts
(Dobos 2014)."""
INVERTER = 0.96
"""Efficiency of the inverters at their rating (PVWatts default in pvlib)."""
ALBEDO = 0.2
"""Albedo of the ground (PVWatts default)."""
MAX_TURN_DEG, GROUND_COVERAGE = 60.0, 0.4
"""Tracking rows: maximum rotation [deg] (typical), ground coverage ratio (PVWatts)."""


class SolarSpec(StageSpec, Nameable):
    """A solar plant on the irradiance of the facility's weather, by PVWatts.

    DC power ``P_dc = dc_mw (G / 1000 W/m²) (1 + gamma (T_cell - 25 °C))`` times (1 -
    `losses`), with plane-of-array irradiance G [W/m²], cell temperature T_cell [°C] and
    gamma -0.35 %/K; the inverters' AC power is limited to ``dc_mw / dc_per_ac``.

    See Also
    --------
    pvlib.modelchain.ModelChain.with_pvwatts : the model chain.
    """

    columns = COLUMNS["solar"]
    metrics = METRICS["solar"]
    boundary = "behind a solar plant"
    _sun: Sun = PrivateAttr()

    kind: Literal["solar"] = default(
        "solar",
        (
            "A solar plant by PVWatts (pvlib) on the irradiance of facility.weather, "
            "which must be a file with irradiance; clouds shorter than its records are "
            "not resolved."
        ),
    )
    dc_mw: Annotated[PositiveFloat, SCALES] = Field(
        description="Rated power of the panels, at 1000 W/m2 and 25 deg C [MW]."
    )
    dc_per_ac: Annotated[float, Field(ge=0.5, le=3)] = uncertain(
        1.2,
        "Rated power of the panels per rated power of the inverters, which clip",
        (1.1, 1.5),
    )
    tilt_deg: Annotated[float, Field(ge=0, le=90)] = uncertain(
        20.0, "Tilt of fixed panels [deg]", (10, 40)
    )
    azimuth_deg: Annotated[float, Field(ge=0, lt=360)] = default(
        180.0, "Azimuth of fixed panels, clockwise from north [deg]: 180 is south."
    )
    tracks: bool = default(
        False,
        "Whether rows of panels follow the sun from east to west, instead of "
        "fixed panels.",
    )
    losses: Share = uncertain(
        0.14,
        "DC losses by dirt, wiring, mismatch and the like, 0-1",
        (0.08, 0.2),
        basis="assumed, PVWatts'",
    )

    def open(self, site: SiteView) -> SolarSpec:
        """Return the plant with the site's irradiance."""
        sun = site.weather.sun if site.weather else "there is no facility.weather"
        if isinstance(sun, str):
            raise StageError(
                f"stage 'solar' needs irradiance: {sun}; give facility.weather "
                "{kind: file, path: ...}, an EPW (climate.onebuilding.org), TMY3 "
                "or NSRDB file (nsrdb.nrel.gov) with GHI, DNI, DHI and wind"
            )
        opened = self.model_copy()
        opened._sun = sun
        return opened

    @property
    def interpolated_s(self) -> float:
        """Interval within which the output is interpolated [s]."""
        return self._sun.step_ms / MS_PER_S

    @cached_property
    def _output_curve(self) -> tuple[Float64Array, Float64Array, Float64Array]:
        """Times of the output's nodes [ms], with output [W] and energy [W ms]."""
        sun, max_w = self._sun, self.dc_mw * W_PER_MW / self.dc_per_ac
        edges_ms = (
            np.append(sun.middle_ms, sun.middle_ms[-1] + sun.step_ms) - sun.step_ms // 2
        )
        nodes_ms, values_w = curve_through_means(edges_ms, pvwatts_w(self, sun), max_w)
        energy = np.cumsum((values_w[1:] + values_w[:-1]) / 2 * np.diff(nodes_ms))
        return nodes_ms, values_w, np.concatenate([[0.0], energy])

    def apply(self, block: Block, state: None) -> tuple[Values, None]:
        """Subtract the plant's output from the facility's power."""
        nodes_ms, values_w, energy = self._output_curve
        edges_ms = np.append(block.starts_ms, block.end_ms)
        segment = np.clip(
            np.searchsorted(nodes_ms, edges_ms, side="right") - 1, 0, energy.size - 2
        )
        elapsed_ms = edges_ms - nodes_ms[segment]
        slopes = np.diff(values_w)[segment] / np.diff(nodes_ms)[segment]
        energy_until = energy[segment] + elapsed_ms * (
            values_w[segment] + slopes * elapsed_ms / 2
        )
        output_w = np.maximum(np.diff(energy_until) / block.dt_ms, 0.0)
        return {"solar_w": output_w, POWER: block.columns[POWER] - output_w}, state

    def meter(self) -> ColumnMeter:
        """Return the meter of energy and maximum output."""
        return ColumnMeter(
            {
                "solar.energy_mwh": (Energy(), "solar_w"),
                "solar.max_mw": (RunningMaximum(divisor=W_PER_MW), "solar_w"),
            }
        )


def pvwatts_w(spec: SolarSpec, sun: Sun) -> Float64Array:
    """Return the mean AC power of each weather record by PVWatts [W], shape (n,)."""
    import pandas as pd
    from pvlib.location import Location
    from pvlib.modelchain import ModelChain
    from pvlib.pvsystem import (
        Array,
        FixedMount,
        PVSystem,
        SingleAxisTrackerMount,
        pvwatts_losses,
    )
    from pvlib.temperature import TEMPERATURE_MODEL_PARAMETERS

    mount = FixedMount(spec.tilt_deg, spec.azimuth_deg)
    if spec.tracks:
        mount = SingleAxisTrackerMount(
            0, 180, MAX_TURN_DEG, backtrack=True, gcr=GROUND_COVERAGE
        )
    panels = Array(
        mount,
        albedo=ALBEDO,
        module_parameters={"pdc0": spec.dc_mw * W_PER_MW, "gamma_pdc": PER_KELVIN},
        temperature_model_parameters=TEMPERATURE_MODEL_PARAMETERS["sapm"][
            "open_rack_glass_polymer"
        ],
    )
    losses = dict.fromkeys(signature(pvwatts_losses).parameters, 0) | {
        "soiling": 100 * spec.losses
    }
    inverters = {"pdc0": spec.dc_mw * W_PER_MW / spec.dc_per_ac / INVERTER}
    latitude, longitude, altitude_m = sun.station
    chain = ModelChain.with_pvwatts(
        PVSystem([panels], inverter_parameters=inverters, losses_parameters=losses),
        Location(latitude, longitude, altitude=altitude_m),
    )
    names = ("ghi", "dni", "dhi", "wind_speed", "temp_air")
    times = pd.DatetimeIndex(
        pd.to_datetime(sun.middle_ms + sun.utc_ms, unit="ms", utc=True)
    )
    with warnings.catch_warnings():
        # Warnings of pvlib's use of pandas, and of angles at night
        warnings.simplefilter("ignore")
        chain.run_model(pd.DataFrame(dict(zip(names, sun.records, strict=True)), times))
    power_w = np.nan_to_num(chain.results.ac.to_numpy(np.float64))
    return np.asarray(np.maximum(power_w, 0.0))  # inverters draw nothing at night


def curve_through_means(
    edges_ms: Int64Array, means: Float64Array, maximum: float
) -> tuple[Float64Array, Float64Array]:
    """Return nodes of a piecewise linear curve with specified means between edges.

    The curve stays between 0 and `maximum`. At an edge between two intervals it has the
    mean of their values if the bounds allow. From an edge it changes to a constant
    level, as slowly as the bounds allow, within at most half of the interval.
    """
    low, high = np.minimum(means[1:], means[:-1]), np.maximum(means[1:], means[:-1])
    edge_values = np.minimum(np.maximum((low + high) / 2, 2 * high - maximum), 2 * low)
    ends = np.concatenate([means[:1], edge_values, means[-1:]])
    outer = (ends[1:] + ends[:-1]) / 2
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        fractions = np.fmin(
            np.fmin(means / outer, (maximum - means) / (maximum - outer)), 0.5
        )
    fractions = np.clip(np.nan_to_num(fractions), 0.0, 0.5)
    level = np.clip((means - fractions * outer) / (1 - fractions), 0.0, maximum)
    ramp_ms = fractions * np.diff(edges_ms)
    nodes = np.column_stack(
        [edges_ms[:-1], edges_ms[:-1] + ramp_ms, edges_ms[1:] - ramp_ms]
    )
    values = np.column_stack([ends[:-1], level, level])
    return np.append(nodes, edges_ms[-1]), np.append(values, ends[-1])
