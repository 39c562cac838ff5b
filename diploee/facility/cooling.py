"""Power of cooling: heat behind its lags, against the weather; the base of all models.

Each model is a static map from heat and one temperature to power (see docs/meter.md),
the same at every size when both are taken per design heat. The heat that reaches it
lags: swings of the load within seconds hardly reach the cooling, and are not scaled by
the PUE.

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
from diploee.facility.meters import LoadMeter

IT_AC_POWER = "it_ac_power_w"
HEAT = "cooling_heat_w"

DESIGN_OVER_RATED = 1.1
"""ASSUMPTION: design heat over the nodes' rated power [J]."""

MAX_LAGS = 3
MIN_LAG_S, MAX_LAG_S = 0.1, 1e6
MIN_RATIO_OF_LAGS = 1.01
"""Lags of one time constant would have no partial fractions."""

HEATS_PER_DESIGN = 128
HEATS = np.arange(193) / HEATS_PER_DESIGN
"""Heat over design heat at which a model is tabulated; it goes on straight beyond the
last."""
STEP_K = 0.125
"""Largest step of the temperature in the table; a model's own breaks stand in it as
well."""


FROST_K = 20.0


class PartLoad(Model):
    """How fans and pumps follow the load.

    ``g(q) = max(q, least)^n``: n = 3 of an ideal drive, 1 of constant specific power.
    """

    part_load_exponent: float = uncertain(
        2.0,
        (
            "Exponent n of fan and pump power over load; 3 is an ideal variable speed "
            "drive, 1 a constant power per heat"
        ),
        (1, 3),
        ge=0,
        le=3,
    )
    min_part_load: float = uncertain(
        0.5,
        "Load below which fans and pumps slow down no further, 0-1",
        (0.3, 0.7),
        ge=0,
        le=1,
    )

    def turned_down(self, load: Any) -> Any:
        """Return the power of fans and pumps at a load, both over those at design."""
        return np.maximum(load, self.min_part_load) ** self.part_load_exponent


class Winter(Model):
    """How towers and dry coolers pass the cold.

    Fans slow down, and heaters keep frost off.
    """

    frost_fraction: float = uncertain(
        0.003,
        (
            "Power of basin heaters and traced pipes at 20 K below freezing, over the "
            "design heat; in proportion to the cold"
        ),
        (0.001, 0.01),
        ge=0,
        le=0.1,
    )

    def frost_power(self, temperature_c: Any) -> Any:
        """Return the power of heaters over the design heat."""
        return self.frost_fraction * np.maximum(-temperature_c, 0.0) / FROST_K


def staged_fans(temperature_c: Any, approach_k: float, least_c: float) -> Any:
    """Return the share of fans that keep cold water at `least_c` or above.

    The air that takes a heat goes with one over its rise in temperature; fans are
    switched off one by one, so that their power goes with the air.
    """
    return approach_k / np.maximum(least_c - temperature_c, approach_k)


class Plant(ABC):
    """A static model of cooling: power over design heat, by heat over design heat."""

    @property
    def follows(self) -> Literal["wet_bulb", "dry_bulb"]:
        """The temperature that it follows."""
        return "wet_bulb"

    @property
    @abstractmethod
    def range_c(self) -> tuple[float, float]:
        """Lowest and highest temperature that it holds for [deg C]."""

    @property
    def breaks_c(self) -> Sequence[float]:
        """Temperatures at which its slope changes [deg C]."""
        return ()

    @property
    def set_point_c(self) -> float | None:
        """Temperature above which it can't hold its set point [deg C].

        None if it always can.
        """
        return None

    @abstractmethod
    def relative_power(
        self, heat: Float64Array, temperature_c: Float64Array
    ) -> Float64Array:
        """Return the plant's power over its design heat."""


class CoolingSpec(StageSpec, ABC):
    """Settings of cooling in a scenario."""

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
            "Lags that the heat passes one after the other [s]; none for an empty "
            "list. If absent: room air 120 s (direct liquid cooling: its loop 60 s) "
            "and the facility's water 300 s (assumed; ranges 60-600, 20-120 and "
            "120-900 s)."
        ),
        assumed=True,
    )
    power_factor: float = uncertain(
        0.96,
        (
            "Power factor of the drives of fans, pumps and chillers, lagging "
            "(0.95-0.96 of variable speed drives)"
        ),
        (0.94, 0.98),
        gt=0.1,
        le=1,
    )

    @model_validator(mode="after")
    def _lags_differ(self) -> Self:
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
        """Return the static model."""

    @abstractmethod
    def design_w(self, site: SiteView) -> float:
        """Return the design heat [W]."""

    @property
    def other_heat_w(self) -> float:
        """Heat beside the power that sets the load [W]."""
        return 0.0

    def open(self, site: SiteView) -> Cooling:
        """Return the plant as it stands in a facility."""
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
    """Base of the models that cool all power which has passed, as heat."""

    design_heat_mw: Annotated[float | None, Field(ge=1e-6, le=1e6), SCALES] = uncertain(
        None,
        (
            "Heat that the plant is designed for [MW]; 1.1 times the power of all "
            "nodes at their ratings if absent"
        ),
        (1.0, 1.3),
        per_rating=True,
    )
    other_heat_kw: Annotated[float, Field(ge=0, le=1e9), SCALES] = default(
        0.0,
        (
            "Heat in the cooled space beside the power that reaches it, such as lights "
            "[kW]; what it draws belongs to an auxiliary_load."
        ),
    )

    @property
    def other_heat_w(self) -> float:
        """Heat beside the power that sets the load [W]."""
        return self.other_heat_kw * W_PER_KW

    def plant(self, site: SiteView) -> Plant:  # noqa: ARG002
        """Return the static model: itself."""
        return self

    def design_w(self, site: SiteView) -> float:
        """Return the design heat [W]."""
        if self.design_heat_mw is not None:
            return self.design_heat_mw * W_PER_MW
        return DESIGN_OVER_RATED * site.rated_power_w


class Cooling:
    """A cooling plant over a run, on a site with weather."""

    columns = COLUMNS["cooling"]
    metrics = METRICS["cooling"]

    def __init__(self, spec: CoolingSpec, site: SiteView) -> None:
        self.kind = spec.kind
        assert site.weather is not None
        self.spec, self.boundary, self.plant = spec, spec.boundary, spec.plant(site)
        # What sources and stores give becomes heat as what the grid gives does.
        self._given = site.with_role("source", "store") if spec.source == POWER else ()
        self._weather = weather = site.weather
        self.design_w = spec.design_w(site)
        self.temperature_c = (
            weather.wet_bulb_c
            if self.plant.follows == "wet_bulb"
            else weather.dry_bulb_c
        )
        low_c, high_c = self.plant.range_c
        n_steps = int(np.ceil((high_c - low_c) / STEP_K))
        even = np.linspace(low_c, high_c, n_steps + 1)
        inside = [t for t in self.plant.breaks_c if low_c < t < high_c]
        nodes_c = np.unique(np.concatenate([even, inside]))
        table = self.plant.relative_power(HEATS[None, :], nodes_c[:, None])
        self._map = _Map(nodes_c, table.ravel(), self.design_w, spec.other_heat_w)
        self._lines = _WeatherLines(
            weather.time_ms.astype(np.float64), self.temperature_c, weather.wet_bulb_c
        )

    def start(self) -> None:
        """Return the state at the start.

        None, the first interval's heat has flowed for long.
        """
        return None

    def apply(
        self, block: Block, state: Float64Array | None
    ) -> tuple[Values, Float64Array | None]:
        """Add the plant's power; the state is the heat in each lag [W], shape (k,)."""
        heat_w = np.ascontiguousarray(block.columns[self.spec.source], dtype=np.float64)
        for name in self._given:
            heat_w = heat_w + block.columns.get(name, 0.0)  # of the stages before it
        state = (
            np.full(MAX_LAGS, heat_w[0] + self._map.other_w)
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
            _lags(self.spec.lags_s, block.dt_ms / MS_PER_S),
            min(max(int(hour), 0), self._lines.time_ms.size - 2),
            self._lines,
            self._map,
            rows,
        )
        result = {"cooling_w": cooling_w, HEAT: lagged_w, "t_wetbulb_c": wet_c}
        result[POWER] = block.columns[POWER] + cooling_w
        if REACTIVE in block.columns:
            var_per_w = tan(acos(self.spec.power_factor))
            result[REACTIVE] = block.columns[REACTIVE] + var_per_w * cooling_w
        return result, state

    def meter(self) -> _CoolingMeter:
        """Return the meter of its energy and hours."""
        return _CoolingMeter(self)

    @cached_property
    def clamped(self) -> Hours:
        """Hours outside the model's range."""
        low_c, high_c = self.plant.range_c
        time_ms, found_c = self._weather.time_ms, self.temperature_c
        return Hours.above(time_ms, found_c, high_c) + Hours.above(
            time_ms, -found_c, -low_c
        )

    @cached_property
    def beyond(self) -> Hours | None:
        """Hours beyond the set point; None where the model has none."""
        limit_c = self.plant.set_point_c
        if limit_c is None:
            return None
        return Hours.above(self._weather.time_ms, self.temperature_c, limit_c)


class _CoolingMeter(LoadMeter):
    """Energy, load and hours of a cooling plant."""

    def __init__(self, cooling: Cooling) -> None:
        super().__init__(
            "cooling", "cooling_w", lambda columns: columns[HEAT] / cooling.design_w
        )
        self._cooling, self._clamped_h, self._beyond_h = cooling, 0.0, 0.0

    def add(self, block: Block) -> None:
        """Take in a block behind all stages."""
        super().add(block)
        clamped, beyond = self._cooling.clamped, self._cooling.beyond
        self._clamped_h += clamped.between(block.t0_ms, block.end_ms)
        if beyond is not None:
            self._beyond_h += beyond.between(block.t0_ms, block.end_ms)

    def values(self) -> dict[str, float | None]:
        """Return the metrics."""
        beyond_h = None if self._cooling.beyond is None else self._beyond_h
        return {
            **super().values(),
            "cooling.hours_beyond_set_point": beyond_h,
            "cooling.clamped_h": self._clamped_h,
        }


class Hours(NamedTuple):
    """Time that something lasted up to each of some instants, linear between them."""

    # Instants, rising, and hours up to them
    time_ms: Float64Array
    hours: Float64Array

    @classmethod
    def above(cls, time_ms: Int64Array, values: Float64Array, limit: float) -> Hours:
        """Return the time that values, linear between instants, are above a limit."""
        over = values - limit
        crosses = np.flatnonzero((over[:-1] > 0) != (over[1:] > 0))
        part = over[crosses] / (over[crosses] - over[crosses + 1])
        crossing_ms = time_ms[crosses] + part * (
            time_ms[crosses + 1] - time_ms[crosses]
        )
        edges_ms = np.sort(np.concatenate([time_ms, crossing_ms]))
        middle = np.interp((edges_ms[:-1] + edges_ms[1:]) / 2, time_ms, over)
        lasts = np.where(middle > 0, np.diff(edges_ms), 0.0) / MS_PER_H
        return cls(edges_ms, np.concatenate([[0.0], np.cumsum(lasts)]))

    def __add__(self, other: Any) -> Hours:  # another tuple would be joined
        edges_ms = np.union1d(self.time_ms, other.time_ms)
        parts = [np.interp(edges_ms, of.time_ms, of.hours) for of in (self, other)]
        return Hours(edges_ms, parts[0] + parts[1])

    def between(self, begin_ms: int, end_ms: int) -> float:
        """Return the hours between two times."""
        begin, end = np.interp([begin_ms, end_ms], self.time_ms, self.hours)
        return float(end - begin)


@lru_cache(maxsize=16)
def _lags(lags_s: tuple[float, ...], dt_s: float) -> tuple[Float64Array, Float64Array]:
    """Return lags in a row as partial fractions.

    Share of the mean, and decay, of each lag. A row of first-order lags, distinct, is
    the sum of single ones with shares that sum to 1; each has an exact update and an
    exact mean over an interval of constant heat u, so that nothing depends on the
    interval: ``y' = u + (y - u) e^(-dt/tau)``, mean
    ``u + (y - u) (tau/dt) (1 - e^(-dt/tau))`` (3.5). Lags that there are not have a
    share of 0.
    """
    tau = np.array(lags_s, dtype=np.float64)
    share = np.array(
        [np.prod([t / (t - other) for other in tau if other != t]) for t in tau]
    )
    missing = (0, MAX_LAGS - tau.size)
    decay = np.exp(-dt_s / tau)
    mean = -np.expm1(-dt_s / tau) * tau / dt_s
    return np.pad(share * mean, missing), np.pad(decay, missing)


class _WeatherLines(NamedTuple):
    """Weather by hours, straight lines between."""

    time_ms: Float64Array
    driving_c: Float64Array  # what the plant follows
    wet_bulb_c: Float64Array


class _Map(NamedTuple):
    """Power of a plant over its design heat, by temperature and heat."""

    nodes_c: Float64Array
    table: Float64Array
    design_w: float
    other_w: float  # heat beside the power that sets the load


@njit()
def _cool(
    heat_w: Float64Array,
    middle_ms: float,
    dt_ms: float,
    state: Float64Array,
    lags: tuple[Float64Array, Float64Array],
    hour: int,
    lines: _WeatherLines,
    plant: _Map,
    rows: Float64Array,
) -> None:
    """Find cooling power, lagged heat and wet-bulb; update the lags in place.

    Every value follows from its own time, the lags and the tables alone, so that
    results do not depend on where a block begins.
    """
    time_ms, driving_c, wet_bulb_c = lines
    nodes_c, table, design_w, other_w = plant
    share, decay = lags
    n, n_heats = heat_w.size, table.size // nodes_c.size
    cooling_w, lagged_w, wet_c = rows[0], rows[1], rows[2]
    last_hour, last_node, last_heat = time_ms.size - 2, nodes_c.size - 2, n_heats - 2
    coldest, hottest = nodes_c[0], nodes_c[-1]
    per_design = HEATS_PER_DESIGN / design_w
    y0, y1, y2 = state[0], state[1], state[2]
    share0, share1, share2 = share[0], share[1], share[2]
    decay0, decay1, decay2 = decay[0], decay[1], decay[2]
    hour, hour_ends_ms = hour - 1, -np.inf
    node, node_c, next_c = 0, np.inf, -np.inf
    hour_ms = wet = wet_per_ms = driving0 = driving_per_ms = per_node = 0.0
    for i in range(n):
        # Heat behind the lags, its mean over the interval.
        u = heat_w[i] + other_w
        over0, over1, over2 = y0 - u, y1 - u, y2 - u
        lagged = u + share0 * over0 + share1 * over1 + share2 * over2
        y0, y1, y2 = u + decay0 * over0, u + decay1 * over1, u + decay2 * over2
        lagged_w[i] = lagged
        # Weather in the middle of the interval; its lines change once an hour.
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
        # The static map, bilinear; beyond the last heat it goes on straight.
        q = max(lagged * per_design, 0.0)
        cell = np.int64(q) if q < last_heat else last_heat
        rest = q - cell
        at = np.uint64(node * n_heats + cell)
        above = np.uint64(at + np.uint64(n_heats))
        one = np.uint64(1)
        cold = table[at] + rest * (table[at + one] - table[at])
        warm = table[above] + rest * (table[above + one] - table[above])
        cooling_w[i] = (cold + warmer * (warm - cold)) * design_w
    state[0], state[1], state[2] = y0, y1, y2
