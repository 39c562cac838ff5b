"""Base of cooling models: heat with thermal lags, mapped to power by weather.

Each model is a static map from heat and one temperature to power (see docs/meter.md),
scaled by the design heat. The heat passes first-order lags before it reaches the plant,
so that fluctuations of the load within seconds hardly change the cooling power.

See Also
--------
diploee.facility.wse : water-cooled chillers and waterside economizer.
diploee.facility.air_chiller : air-cooled chillers.
diploee.facility.dlc_tower : direct liquid cooling.
diploee.facility.cooling_table : measured cooling power.

See also: docs/models/node_to_meter.md
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property, lru_cache
from itertools import pairwise
from math import acos, tan
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from pydantic import Field, model_validator

from diploee.base.errors import StageError
from diploee.base.jit import njit
from diploee.base.model import SCALES, Model, default, optional, uncertain
from diploee.base.tables import Float64Array, Int64Array
from diploee.base.units import MS_PER_H, MS_PER_S, W_PER_KW, W_PER_MW
from diploee.facility.base import POWER, REACTIVE, Block, SiteView, StageSpec, Values
from diploee.facility.declared import COLUMNS, METRICS
from diploee.facility.stage_meters import LoadMeter

IT_AC_POWER = "it_ac_power_w"
HEAT = "cooling_heat_w"

DESIGN_OVER_RATED = 1.1
"""Default design heat per rated power of the nodes (ASSUMPTION)."""

MAX_LAGS = 3
MIN_LAG_S, MAX_LAG_S = 0.1, 1e6
MIN_RATIO_OF_LAGS = 1.01
"""Minimum ratio of time constants: equal ones would have no partial fractions."""

HEATS_PER_DESIGN = 128
HEATS = np.arange(193) / HEATS_PER_DESIGN
"""Heat per design heat at which a model is tabulated; extrapolated linearly beyond."""
STEP_K = 0.125
"""Maximum step of temperature in the table [K], which also has the model's breaks."""


FROST_K = 20.0


class PartLoad(Model):
    """Part-load curve of fans and pumps.

    ``g(q) = max(q, q_min)^n``, with g power per design power, q load per design load,
    q_min `min_part_load`, and n `part_load_exponent`: 3 for an ideal variable-speed
    drive, 1 for constant specific power.
    """

    part_load_exponent: float = uncertain(
        2.0,
        (
            "Exponent n of fan and pump power over load: 3 for an ideal variable-speed "
            "drive, 1 for constant power per heat"
        ),
        (1, 3),
        ge=0,
        le=3,
    )
    min_part_load: float = uncertain(
        0.5,
        "Minimum load to which fans and pumps slow down, 0-1",
        (0.3, 0.7),
        ge=0,
        le=1,
    )

    def part_load_power(self, load: Any) -> Any:
        """Return fan and pump power per design power, at a load per design load."""
        return np.maximum(load, self.min_part_load) ** self.part_load_exponent


class FrostProtection(Model):
    """Frost protection of towers and dry coolers by heaters."""

    frost_fraction: float = uncertain(
        0.003,
        (
            "Power of basin and pipe heaters at -20 deg C per design heat, "
            "proportional to the temperature below freezing"
        ),
        (0.001, 0.01),
        ge=0,
        le=0.1,
    )

    def frost_power(self, temperature_c: Any) -> Any:
        """Return the power of heaters per design heat.

        ``f max(-T, 0) / (20 K)``, with f `frost_fraction` and T the temperature [deg
        C].
        """
        return self.frost_fraction * np.maximum(-temperature_c, 0.0) / FROST_K


def running_fans(temperature_c: Any, approach_k: float, min_c: float) -> Any:
    """Return the fraction of fans that run to keep cold water at `min_c` or above.

    ``n = dT / max(T_min - T, dT)``, with dT `approach_k` [K], T_min `min_c` and T the
    outdoor temperature [deg C]. The air flow for a given heat is inversely proportional
    to its temperature rise; fans are staged, so that their power is proportional to the
    flow.
    """
    return approach_k / np.maximum(min_c - temperature_c, approach_k)


class Plant(ABC):
    """A static cooling model: power per design heat, by heat per design heat."""

    @property
    def driving_temperature(self) -> Literal["wet_bulb", "dry_bulb"]:
        """Outdoor temperature that determines the power: wet bulb or dry bulb."""
        return "wet_bulb"

    @property
    @abstractmethod
    def range_c(self) -> tuple[float, float]:
        """Lowest and highest temperature of the model's validity [deg C]."""

    @property
    def breakpoints_c(self) -> Sequence[float]:
        """Temperatures at which the slope of the model changes [deg C]."""
        return ()

    @property
    def set_point_c(self) -> float | None:
        """Temperature above which the supply exceeds its set point [deg C], or None."""
        return None

    @abstractmethod
    def relative_power(
        self, heat: Float64Array, temperature_c: Float64Array
    ) -> Float64Array:
        """Return the plant's power per design heat."""


class CoolingSpec(StageSpec, ABC):
    """Scenario settings common to all cooling models: lags and power factor."""

    columns = COLUMNS["cooling"]
    metrics = METRICS["cooling"]
    boundary = "with the cooling plant"
    place = "cooling"
    source: ClassVar[str] = POWER
    default_lags_s: ClassVar[tuple[float, ...]] = (120.0, 300.0)

    time_constants_s: (
        Annotated[tuple[float, ...], Field(max_length=MAX_LAGS)] | None
    ) = optional(
        (
            "Time constants of the heat's lags, in series [s]; an empty list for "
            "none. If absent: room air 120 s (direct liquid cooling: its loop 60 s) "
            "and the facility's water 300 s (assumed; ranges 60-600, 20-120 and "
            "120-900 s)."
        ),
        assumed=True,
    )
    power_factor: float = uncertain(
        0.96,
        (
            "Power factor of the drives of fans, pumps and chillers, lagging "
            "(0.95-0.96 for variable-speed drives)"
        ),
        (0.94, 0.98),
        gt=0.1,
        le=1,
    )

    @model_validator(mode="after")
    def _check_lags(self) -> Self:
        """Refuse time constants that are out of range or nearly equal."""
        lags_s = sorted(self.lags_s)
        for lag_s in lags_s:
            if not MIN_LAG_S <= lag_s <= MAX_LAG_S:
                raise ValueError(
                    f"time_constants_s must be from {MIN_LAG_S:g} to "
                    f"{MAX_LAG_S:g} s, found {lag_s:g} s"
                )
        for shorter, longer in pairwise(lags_s):
            if longer < shorter * MIN_RATIO_OF_LAGS:
                raise ValueError(
                    f"time_constants_s must differ by 1 % at least, found {shorter:g} "
                    f"and {longer:g} s"
                )
        return self

    @property
    def lags_s(self) -> tuple[float, ...]:
        """Time constants of the lags [s]."""
        return (
            self.default_lags_s
            if self.time_constants_s is None
            else self.time_constants_s
        )

    @abstractmethod
    def plant(self, site: SiteView) -> Plant:
        """Return the static model of the plant."""

    @abstractmethod
    def design_w(self, site: SiteView) -> float:
        """Return the design heat of the plant [W]."""

    @property
    def other_heat_w(self) -> float:
        """Heat in addition to the power of the load [W]."""
        return 0.0

    def open(self, site: SiteView) -> Cooling:
        """Return the cooling plant for a facility."""
        site.require_ac(self.kind)
        kind = f"stage '{self.kind}'"
        if site.weather is None:
            raise StageError(
                f"{kind} needs the weather; give facility.weather, such as "
                "{kind: typical_day, station: denver}"
            )
        if not self.design_w(site) > 0:
            raise StageError(
                f"{kind} needs a design heat above 0, and the nodes' ratings are 0; "
                "give ratings in facility.node_types"
            )
        return Cooling(self, site)


class HeatCoolingSpec(CoolingSpec, Plant):
    """Base of cooling models that remove the power of all previous stages as heat."""

    design_heat_mw: Annotated[float | None, Field(ge=1e-6, le=1e6), SCALES] = uncertain(
        None,
        (
            "Design heat of the plant [MW]; 1.1 times the rated power of all nodes if "
            "absent"
        ),
        (1.0, 1.3),
        per_rating=True,
    )
    other_heat_kw: Annotated[float, Field(ge=0, le=1e9), SCALES] = default(
        0.0,
        (
            "Other heat in the cooled space, such as of lights [kW]; its power belongs "
            "to an auxiliary_load."
        ),
    )

    @property
    def other_heat_w(self) -> float:
        """Heat in addition to the power of the load [W]."""
        return self.other_heat_kw * W_PER_KW

    def plant(self, site: SiteView) -> Plant:  # noqa: ARG002
        """Return the static model: the spec itself."""
        return self

    def design_w(self, site: SiteView) -> float:
        """Return the design heat, by default from the nodes' rated power [W]."""
        if self.design_heat_mw is not None:
            return self.design_heat_mw * W_PER_MW
        return DESIGN_OVER_RATED * site.rated_power_w


class Cooling:
    """A cooling plant over a run, with the weather of the site."""

    columns = COLUMNS["cooling"]
    metrics = METRICS["cooling"]

    def __init__(self, spec: CoolingSpec, site: SiteView) -> None:
        self.kind = spec.kind
        assert site.weather is not None
        self.spec, self.boundary, self.plant = spec, spec.boundary, spec.plant(site)
        # Power of on-site sources and storage becomes heat like that of the grid
        self._source_columns = (
            site.columns_with_roles("source", "store") if spec.source == POWER else ()
        )
        self._weather = weather = site.weather
        self.design_w = spec.design_w(site)
        self.temperature_c = (
            weather.wet_bulb_c
            if self.plant.driving_temperature == "wet_bulb"
            else weather.dry_bulb_c
        )
        low_c, high_c = self.plant.range_c
        n_steps = int(np.ceil((high_c - low_c) / STEP_K))
        even = np.linspace(low_c, high_c, n_steps + 1)
        inner_breaks = [t for t in self.plant.breakpoints_c if low_c < t < high_c]
        nodes_c = np.unique(np.concatenate([even, inner_breaks]))
        table = self.plant.relative_power(HEATS[None, :], nodes_c[:, None])
        self._table = _PowerTable(
            nodes_c, table.ravel(), self.design_w, spec.other_heat_w
        )
        self._lines = _WeatherLines(
            weather.time_ms.astype(np.float64), self.temperature_c, weather.wet_bulb_c
        )

    def start(self) -> None:
        """Return the state at the start: None.

        The lags then start in steady state at the first heat.
        """
        return None

    def apply(
        self, block: Block, state: Float64Array | None
    ) -> tuple[Values, Float64Array | None]:
        """Add the plant's power; the state is the heat in each lag [W], shape (k,)."""
        heat_w = np.ascontiguousarray(block.columns[self.spec.source], dtype=np.float64)
        for name in self._source_columns:
            heat_w = heat_w + block.columns.get(name, 0.0)  # of previous stages
        state = (
            np.full(MAX_LAGS, heat_w[0] + self._table.other_w)
            if state is None
            else state.copy()
        )
        middle_ms = block.t0_ms + block.dt_ms / 2
        hour = np.searchsorted(self._weather.time_ms, middle_ms, side="right") - 1
        cooling_w, lagged_w, wet_c = rows = np.empty((3, heat_w.size))
        _cool(
            heat_w,
            middle_ms,
            float(block.dt_ms),
            state,
            _lag_fractions(self.spec.lags_s, block.dt_ms / MS_PER_S),
            min(max(int(hour), 0), self._lines.time_ms.size - 2),
            self._lines,
            self._table,
            rows,
        )
        result = {"cooling_w": cooling_w, HEAT: lagged_w, "t_wetbulb_c": wet_c}
        result[POWER] = block.columns[POWER] + cooling_w
        if REACTIVE in block.columns:
            var_per_w = tan(acos(self.spec.power_factor))
            result[REACTIVE] = block.columns[REACTIVE] + var_per_w * cooling_w
        return result, state

    def meter(self) -> _CoolingMeter:
        """Return the meter of the plant's energy and hours."""
        return _CoolingMeter(self)

    @cached_property
    def hours_outside_range(self) -> CumulativeHours:
        """Hours outside the temperature range of the model."""
        low_c, high_c = self.plant.range_c
        time_ms, temperature_c = self._weather.time_ms, self.temperature_c
        return CumulativeHours.hours_above(
            time_ms, temperature_c, high_c
        ) + CumulativeHours.hours_above(time_ms, -temperature_c, -low_c)

    @cached_property
    def hours_beyond_set_point(self) -> CumulativeHours | None:
        """Hours beyond the set point; None for a model without one."""
        limit_c = self.plant.set_point_c
        if limit_c is None:
            return None
        return CumulativeHours.hours_above(
            self._weather.time_ms, self.temperature_c, limit_c
        )


class _CoolingMeter(LoadMeter):
    """Meter of a cooling plant: energy, load, and hours out of range."""

    def __init__(self, cooling: Cooling) -> None:
        super().__init__(
            "cooling", "cooling_w", lambda columns: columns[HEAT] / cooling.design_w
        )
        self._cooling, self._clamped_h, self._beyond_h = cooling, 0.0, 0.0

    def add(self, block: Block) -> None:
        """Add a block that has passed all stages."""
        super().add(block)
        clamped, set_point_hours = (
            self._cooling.hours_outside_range,
            self._cooling.hours_beyond_set_point,
        )
        self._clamped_h += clamped.between(block.t0_ms, block.end_ms)
        if set_point_hours is not None:
            self._beyond_h += set_point_hours.between(block.t0_ms, block.end_ms)

    def values(self) -> dict[str, float | None]:
        """Return the values by metric key."""
        beyond_h = (
            None if self._cooling.hours_beyond_set_point is None else self._beyond_h
        )
        return {
            **super().values(),
            "cooling.hours_beyond_set_point": beyond_h,
            "cooling.clamped_h": self._clamped_h,
        }


class CumulativeHours(NamedTuple):
    """Cumulative hours in which a condition holds, linear between some times."""

    # Times, ascending, and hours up to them
    time_ms: Float64Array
    hours: Float64Array

    @classmethod
    def hours_above(
        cls, time_ms: Int64Array, values: Float64Array, limit: float
    ) -> CumulativeHours:
        """Return the hours in which values, linear between times, are above a limit."""
        excess = values - limit
        crossings = np.flatnonzero((excess[:-1] > 0) != (excess[1:] > 0))
        fraction = excess[crossings] / (excess[crossings] - excess[crossings + 1])
        crossing_ms = time_ms[crossings] + fraction * (
            time_ms[crossings + 1] - time_ms[crossings]
        )
        edges_ms = np.sort(np.concatenate([time_ms, crossing_ms]))
        middle = np.interp((edges_ms[:-1] + edges_ms[1:]) / 2, time_ms, excess)
        durations_h = np.where(middle > 0, np.diff(edges_ms), 0.0) / MS_PER_H
        return cls(edges_ms, np.concatenate([[0.0], np.cumsum(durations_h)]))

    def __add__(self, other: Any) -> CumulativeHours:  # another tuple would be joined
        edges_ms = np.union1d(self.time_ms, other.time_ms)
        parts = [
            np.interp(edges_ms, each.time_ms, each.hours) for each in (self, other)
        ]
        return CumulativeHours(edges_ms, parts[0] + parts[1])

    def between(self, begin_ms: int, end_ms: int) -> float:
        """Return the hours between two times."""
        begin, end = np.interp([begin_ms, end_ms], self.time_ms, self.hours)
        return float(end - begin)


@lru_cache(maxsize=16)
def _lag_fractions(
    lags_s: tuple[float, ...], dt_s: float
) -> tuple[Float64Array, Float64Array]:
    """Return the weights and decays of lags in series, as partial fractions.

    Lags in series with distinct time constants equal a weighted sum of single lags with
    weights that sum to 1. Each has an exact update and an exact mean over an interval
    of constant heat u, so that results do not depend on the interval::

        y' = u + (y - u) exp(-dt / tau)
        mean = u + (y - u) (tau / dt) (1 - exp(-dt / tau))

    with y the lag's heat [W], tau its time constant [s], and dt the interval [s].
    Returned are weight times mean factor, and decay, of each lag; unused lags have
    weight 0.
    """
    tau = np.array(lags_s, dtype=np.float64)
    weight = np.array(
        [np.prod([t / (t - other) for other in tau if other != t]) for t in tau]
    )
    missing = (0, MAX_LAGS - tau.size)
    decay = np.exp(-dt_s / tau)
    mean = -np.expm1(-dt_s / tau) * tau / dt_s
    return np.pad(weight * mean, missing), np.pad(decay, missing)


class _WeatherLines(NamedTuple):
    """Hourly temperatures for the compiled kernel, linear between times."""

    time_ms: Float64Array
    driving_c: Float64Array  # driving temperature of the plant
    wet_bulb_c: Float64Array


class _PowerTable(NamedTuple):
    """Table of a plant's power per design heat, by temperature and heat."""

    nodes_c: Float64Array
    table: Float64Array
    design_w: float
    other_w: float  # heat in addition to that of the power [W]


@njit()
def _cool(
    heat_w: Float64Array,
    middle_ms: float,
    dt_ms: float,
    state: Float64Array,
    lags: tuple[Float64Array, Float64Array],
    hour: int,
    lines: _WeatherLines,
    plant: _PowerTable,
    rows: Float64Array,
) -> None:
    """Fill `rows` with cooling power, lagged heat and temperature; update the lags.

    Results do not depend on how a run is cut into blocks.
    """
    time_ms, driving_c, wet_bulb_c = lines
    nodes_c, table, design_w, other_w = plant
    weight, decay = lags
    n, n_heats = heat_w.size, table.size // nodes_c.size
    cooling_w, lagged_w, wet_c = rows[0], rows[1], rows[2]
    last_hour, last_node, last_heat = time_ms.size - 2, nodes_c.size - 2, n_heats - 2
    coldest, hottest = nodes_c[0], nodes_c[-1]
    per_design = HEATS_PER_DESIGN / design_w
    y0, y1, y2 = state[0], state[1], state[2]
    share0, share1, share2 = weight[0], weight[1], weight[2]
    decay0, decay1, decay2 = decay[0], decay[1], decay[2]
    hour, hour_ends_ms = hour - 1, -np.inf
    node, node_c, next_c = 0, np.inf, -np.inf
    hour_ms = wet = wet_per_ms = driving0 = driving_per_ms = per_node = 0.0
    for i in range(n):
        # Heat after the lags, as the mean over the interval
        u = heat_w[i] + other_w
        over0, over1, over2 = y0 - u, y1 - u, y2 - u
        lagged = u + share0 * over0 + share1 * over1 + share2 * over2
        y0, y1, y2 = u + decay0 * over0, u + decay1 * over1, u + decay2 * over2
        lagged_w[i] = lagged
        # Weather in the middle of the interval; its slope changes once an hour
        t = middle_ms + i * dt_ms
        if t >= hour_ends_ms:
            while hour < last_hour and (hour_ends_ms <= t):
                hour += 1
                hour_ends_ms = time_ms[hour + 1]
            hour_ms = time_ms[hour]
            wet, driving0 = wet_bulb_c[hour], driving_c[hour]
            wet_per_ms = (wet_bulb_c[hour + 1] - wet) / (hour_ends_ms - hour_ms)
            driving_per_ms = (driving_c[hour + 1] - driving0) / (hour_ends_ms - hour_ms)
        t -= hour_ms
        wet_c[i] = wet + t * wet_per_ms
        driving = min(max(driving0 + t * driving_per_ms, coldest), hottest)
        if not node_c <= driving < next_c:
            while node < last_node and nodes_c[node + 1] <= driving:
                node += 1
            while node > 0 and nodes_c[node] > driving:
                node -= 1
            node_c, next_c = nodes_c[node], nodes_c[node + 1]
            per_node = 1 / (next_c - node_c)
        warmer = (driving - node_c) * per_node
        # The static map is bilinear, and extrapolated beyond the last heat
        q = max(lagged * per_design, 0.0)
        cell = np.int64(q) if q < last_heat else last_heat
        remainder = q - cell
        cell_index = np.uint64(node * n_heats + cell)
        warmer_index = np.uint64(cell_index + np.uint64(n_heats))
        one = np.uint64(1)
        cold = table[cell_index] + remainder * (
            table[cell_index + one] - table[cell_index]
        )
        warm = table[warmer_index] + remainder * (
            table[warmer_index + one] - table[warmer_index]
        )
        cooling_w[i] = (cold + warmer * (warm - cold)) * design_w
    state[0], state[1], state[2] = y0, y1, y2
