"""Cooling by a measured table of a site: power per IT power, by weather and load.

See also: docs/models/node_to_meter.md
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from diploee.base.errors import StageError
from diploee.base.model import READERS, default, entry_point_objects, optional
from diploee.base.tables import Float64Array, Range
from diploee.facility.base import SiteView
from diploee.facility.cooling import HEATS, IT_AC_POWER, CoolingSpec, Plant

Temperature = Literal["wet_bulb", "dry_bulb"]
Point = tuple[float, float, float]

LIMITS = {
    "temperature_c": Range(largest=80),
    "load": Range(above=0, largest=1.5),
    "cooling_ratio": Range(at_least=0, largest=5),
}
"""Columns of a table and their allowed ranges."""


@dataclass(frozen=True, eq=False)
class _MeasuredPlant(Plant):
    """A table of cooling power, linear between its points."""

    temperature: Temperature  # driving temperature
    nodes_c: Float64Array  # temperatures, ascending [deg C]
    # IT power per rated power of all nodes, ascending from 0
    loads: Float64Array
    power: Float64Array  # cooling power per rated power of all nodes

    @classmethod
    def from_points(
        cls, temperature: Temperature, points: Sequence[Point]
    ) -> _MeasuredPlant:
        """Build the table from points of temperature, load, and power per IT power.

        Beyond the lowest and highest load power is extrapolated linearly, but not below
        0.
        """
        nodes_c, loads = (
            np.unique([point[axis] for point in points]) for axis in (0, 1)
        )
        if nodes_c.size < 2 or len(points) != nodes_c.size * loads.size:
            raise ValueError(
                "must have one point for each of two or more temperatures and each "
                f"load, found {len(points)} points of {nodes_c.size} temperatures and "
                f"{loads.size} loads"
            )
        power = np.full((nodes_c.size, loads.size), np.nan)
        for t_c, load, ratio in points:
            power[np.searchsorted(nodes_c, t_c), np.searchsorted(loads, load)] = (
                ratio * load
            )
        if np.isnan(power).any():
            missing = np.argwhere(np.isnan(power))[0]
            raise ValueError(
                f"has no point at {nodes_c[missing[0]]:g} deg C and a load of "
                f"{loads[missing[1]]:g}, and two at another place"
            )
        max_load = max(float(HEATS[-1]), loads[-1] + 1)
        if loads.size == 1:  # one load alone: in proportion to it
            ends = [np.zeros((nodes_c.size, 1)), power * (max_load / loads)]
        else:
            slopes = np.diff(power) / np.diff(loads)
            ends = [
                power[:, :1] - slopes[:, :1] * loads[0],
                power[:, -1:] + slopes[:, -1:] * (max_load - loads[-1]),
            ]
        extended = np.maximum(np.hstack([ends[0], power, ends[1]]), 0.0)
        return cls(
            temperature, nodes_c, np.concatenate([[0.0], loads, [max_load]]), extended
        )

    @property
    def driving_temperature(self) -> Temperature:
        """Outdoor temperature of the table: wet bulb or dry bulb."""
        return self.temperature

    @property
    def range_c(self) -> tuple[float, float]:
        """Lowest and highest temperature of the table [deg C]."""
        return float(self.nodes_c[0]), float(self.nodes_c[-1])

    @property
    def breakpoints_c(self) -> Sequence[float]:
        """Temperatures of the table [deg C]."""
        return [float(t) for t in self.nodes_c]

    def relative_power(
        self, heat: Float64Array, temperature_c: Float64Array
    ) -> Float64Array:
        """Return cooling power per rated power of the nodes, by load and weather."""
        from scipy.interpolate import RegularGridInterpolator

        table = RegularGridInterpolator((self.nodes_c, self.loads), self.power)
        return np.asarray(table((temperature_c, heat)))


class CoolingTableSpec(CoolingSpec):
    """Cooling power measured at the site, the most accurate model.

    ``P = P_rated r(T, x) x``, with P cooling power [W], P_rated the nodes' rated AC
    power [W], r measured cooling power per IT power, T the wet-bulb or dry-bulb
    temperature [deg C], and x lagged IT power per P_rated. The product r x is linear
    between points.

    See Also
    --------
    WseSpec, AirChillerSpec, DlcTowerSpec : models without measurements.
    """

    source = IT_AC_POWER

    kind: Literal["cooling_table"] = default(
        "cooling_table",
        (
            "Cooling power per IT power as measured at the site, by temperature and "
            "load; the best model if available."
        ),
    )
    temperature: Temperature = default("wet_bulb", "Kind of temperature in the table.")
    points: Annotated[tuple[Point, ...], Field(min_length=2)] | None = optional(
        "Points of temperature [deg C], load (IT power at the nodes' AC input per "
        "rated power of all nodes) and cooling power per IT power, one for each "
        "temperature and load; instead of path."
    )
    path: str | None = optional(
        "CSV file with the columns temperature_c, load and cooling_ratio, relative to "
        "the scenario file; instead of points."
    )

    @model_validator(mode="after")
    def _check_one_source(self) -> Self:
        """Refuse none or both sources, and values out of range."""
        if (self.points is None) == (self.path is None):
            raise ValueError(
                "give either points or path, the table of measured cooling power"
            )
        for number, point in enumerate(self.points or ()):
            for value, (name, limit) in zip(point, LIMITS.items(), strict=True):
                if not limit.contains(np.array([value])).all():
                    raise ValueError(
                        f"points: {name} of point {number + 1} must be {limit}, found "
                        f"{value:g}"
                    )
        if self.points is not None:
            _MeasuredPlant.from_points(self.temperature, self.points)
        return self

    @property
    def files(self) -> tuple[str, ...]:
        """File of the table, if any."""
        return () if self.path is None else (self.path,)

    def design_w(self, site: SiteView) -> float:
        """Return the rated power of all nodes, to which loads are relative [W]."""
        return site.rated_power_w

    def plant(self, site: SiteView) -> Plant:
        """Return the measured table, from its points or file, as a static model."""
        points = self.points
        if self.path is not None:
            points = entry_point_objects(READERS)["cooling_points"](
                site.folder / self.path
            )
        try:
            return _MeasuredPlant.from_points(self.temperature, points or ())
        except ValueError as error:
            raise StageError(f"stage 'cooling_table': {self.path} {error}") from None
