"""A solar plant at this place.

Pvlib's PVWatts chain on the irradiance of a weather file. The chain [1]_ gives the mean
output of each record of the weather, with the sun where it is in the record's middle.
Within a record the output goes on a line from edge to edge that keeps the record's
energy and stays between nothing and the inverters' rating: below an hour, or what the
file's records are, no cloud is seen, and ramps, swings and bands with it are lower
bounds.

ASSUMPTION [J]: open racks of glass and polymer; it does not fail, is not curtailed, and
gives active power alone.

References
----------
.. [1] A. P. Dobos, "PVWatts Version 5 Manual", NREL/TP-6A20-62641, 2014, as
   `pvlib.modelchain.ModelChain.with_pvwatts` has it.

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
from diploee.facility.meters import ColumnMeter
from diploee.facility.weather import Sun

PER_KELVIN = -0.0035
"""DC power per kelvin of the cells above 25 deg C: crystalline silicon, "premium" in
[1] [M]."""
INVERTER = 0.96
"""Efficiency of the inverters at their rating, PVWatts' [S: pvlib]."""
ALBEDO = 0.2
"""Of the ground, PVWatts' [M]."""
MAX_TURN_DEG, COVER = 60.0, 0.4
"""Of tracking rows: largest angle (typical of makers) and ground cover (PVWatts') [M]."""  # noqa: E501


class SolarSpec(StageSpec, Nameable):
    """A solar plant on the irradiance of the facility's weather."""

    columns = COLUMNS["solar"]
    metrics = METRICS["solar"]
    boundary = "behind a solar plant"
    _sun: Sun = PrivateAttr()

    kind: Literal["solar"] = default(
        "solar",
        (
            "A solar plant at this place, by PVWatts (pvlib) on the irradiance of "
            "facility.weather, which must be a file that has it; without clouds within "
            "its records."
        ),
    )
    dc_mw: Annotated[PositiveFloat, SCALES] = Field(
        description="Rated power of the panels, at 1000 W/m2 and 25 deg C [MW]."
    )
    dc_per_ac: Annotated[float, Field(ge=0.5, le=3)] = uncertain(
        1.2,
        "Panels' rated power over the inverters', which clip what is above",
        (1.1, 1.5),
    )
    tilt_deg: Annotated[float, Field(ge=0, le=90)] = uncertain(
        20.0, "Tilt of fixed panels [deg]", (10, 40)
    )
    azimuth_deg: Annotated[float, Field(ge=0, lt=360)] = default(
        180.0, "Where fixed panels look, clockwise from north [deg]: 180 is south."
    )
    tracks: bool = default(
        False, "Rows that follow the sun from east to west, in place of fixed panels."
    )
    losses: Share = uncertain(
        0.14,
        "DC losses by dirt, wiring, mismatch and the like, 0-1",
        (0.08, 0.2),
        basis="assumed, PVWatts'",
    )

    def open(self, site: SiteView) -> SolarSpec:
        """Return the plant under the site's weather."""
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
        """Time within which its output is interpolated [s]."""
        return self._sun.step_ms / MS_PER_S

    @cached_property
    def _line(self) -> tuple[Float64Array, Float64Array, Float64Array]:
        """Nodes of the output [ms], output there [W], and energy up to there [W ms]."""
        sun, most_w = self._sun, self.dc_mw * W_PER_MW / self.dc_per_ac
        edges_ms = (
            np.append(sun.middle_ms, sun.middle_ms[-1] + sun.step_ms) - sun.step_ms // 2
        )
        nodes_ms, values_w = line_of_means(edges_ms, pvwatts_w(self, sun), most_w)
        energy = np.cumsum((values_w[1:] + values_w[:-1]) / 2 * np.diff(nodes_ms))
        return nodes_ms, values_w, np.concatenate([[0.0], energy])

    def apply(self, block: Block, state: None) -> tuple[Values, None]:
        """Give what the sun yields."""
        nodes_ms, values_w, energy = self._line
        edges_ms = np.append(block.starts_ms, block.end_ms)
        at = np.clip(
            np.searchsorted(nodes_ms, edges_ms, side="right") - 1, 0, energy.size - 2
        )
        since_ms = edges_ms - nodes_ms[at]
        rises = np.diff(values_w)[at] / np.diff(nodes_ms)[at]
        until = energy[at] + since_ms * (values_w[at] + rises * since_ms / 2)
        given_w = np.maximum(np.diff(until) / block.dt_ms, 0.0)
        return {"solar_w": given_w, POWER: block.columns[POWER] - given_w}, state

    def meter(self) -> ColumnMeter:
        """Return what measures what it gives."""
        return ColumnMeter(
            {
                "solar.energy_mwh": (Energy(), "solar_w"),
                "solar.max_mw": (RunningMaximum(per=W_PER_MW), "solar_w"),
            }
        )


def pvwatts_w(spec: SolarSpec, sun: Sun) -> Float64Array:
    """Return the mean AC power of each record by PVWatts [W], shape (n,)."""
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
        mount = SingleAxisTrackerMount(0, 180, MAX_TURN_DEG, backtrack=True, gcr=COVER)
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
        # Of pvlib's use of pandas, and of angles at night
        warnings.simplefilter("ignore")
        chain.run_model(pd.DataFrame(dict(zip(names, sun.records, strict=True)), times))
    power_w = np.nan_to_num(chain.results.ac.to_numpy(np.float64))
    return np.asarray(np.maximum(power_w, 0.0))  # inverters draw nothing at night


def line_of_means(
    edges_ms: Int64Array, means: Float64Array, most: float
) -> tuple[Float64Array, Float64Array]:
    """Return nodes of a line with given means between edges, within bounds.

    At an edge it passes the mean of its neighbours where both allow that; from there it
    goes to a level, as slowly as keeps that within bounds, at most half of the time on
    either side.
    """
    low, high = np.minimum(means[1:], means[:-1]), np.maximum(means[1:], means[:-1])
    joints = np.minimum(np.maximum((low + high) / 2, 2 * high - most), 2 * low)
    ends = np.concatenate([means[:1], joints, means[-1:]])
    outer = (ends[1:] + ends[:-1]) / 2
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        parts = np.fmin(np.fmin(means / outer, (most - means) / (most - outer)), 0.5)
    parts = np.clip(np.nan_to_num(parts), 0.0, 0.5)
    level = np.clip((means - parts * outer) / (1 - parts), 0.0, most)
    reach_ms = parts * np.diff(edges_ms)
    nodes = np.column_stack(
        [edges_ms[:-1], edges_ms[:-1] + reach_ms, edges_ms[1:] - reach_ms]
    )
    values = np.column_stack([ends[:-1], level, level])
    return np.append(nodes, edges_ms[-1]), np.append(values, ends[-1])
