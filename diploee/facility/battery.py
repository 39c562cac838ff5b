"""A battery that holds the supply steady.

Each interval of length dt asks for a supply: a wish through a first-order lag of time
constant tau, and that within a ramp limit r of the supply before,
``clip(lagged, supply - r dt, supply + r dt)``. Held ramps alone follow the load's
median, such as the upper level of a job's iterations, and the store stands full; with a
lag of several iterations they follow its mean. The battery gives the difference b =
load - supply as far as its power and its store reach; what it can't cover passes
through, and is counted. With e the energy stored::

    e' = e - b dt / eta_d   (b > 0, discharging)        e' = e - b dt eta_c   (b < 0, charging)

The wish is the load, what the battery lost in the interval before, and
``feedback (e_ref - e)``, which brings the store back to its reference. All of it is
O(1) an interval and its state is handed on, so that results do not depend on blocks.
ASSUMPTION [J]: reactive power passes it unchanged.
"""  # noqa: E501

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field, NonNegativeFloat, PositiveFloat, model_validator

from diploee.base.clock import WallClock
from diploee.base.columns import Column, Columns
from diploee.base.jit import njit
from diploee.base.measures.distribution import Energy, HoursAbove, Mean, Most
from diploee.base.measures.ramps import TurningPoints
from diploee.base.metric import Metric
from diploee.base.model import (
    SCALES,
    Model,
    PositiveShare,
    Share,
    default,
    optional,
    uncertain,
    unset,
)
from diploee.base.tables import Float64Array, Int64Array
from diploee.base.units import (
    J_PER_MWH,
    MS_PER_DAY,
    MS_PER_H,
    MS_PER_MIN,
    MS_PER_S,
    S_PER_MIN,
    W_PER_KW,
    W_PER_MW,
)
from diploee.facility.base import (
    POWER,
    Block,
    Nameable,
    SiteView,
    StageSpec,
    Values,
    tenth_ms,
)
from diploee.facility.local_hours import LocalHours, any_hold
from diploee.facility.meters import ColumnMeter

ROUNDING_W = 1e-3
"""A smaller shortfall is rounding [W]."""

DEPTHS_PERCENT = (1, 10, 20, 50, 100)
"""Edges of the classes of a cycle's depth [% of the nominal energy]; all depths are
added up."""

_PARTS = 10**9
"""The state of charge is counted in such parts of the nominal energy."""


class BatteryLimits(NamedTuple):
    """A battery in W, J and s."""

    power_w: float  # most that it takes and gives [W]
    # Energy that it may be emptied and filled to, and what it is brought back to [J]
    least_j: float
    most_j: float
    reference_j: float
    # Efficiencies, 0-1
    charge: float = 1.0
    discharge: float = 1.0
    # Power that brings it back, per energy that lacks [1/s]
    feedback_per_s: float = 0.0
    gives_w: float = np.nan  # most that it gives [W]; as much as it takes if NaN


class Hold(NamedTuple):
    """Limits on the ramps and the lag of the supply."""

    # Largest ramps [W/s]; infinite for none
    up_w_per_s: float = np.inf
    down_w_per_s: float = np.inf
    lag_s: float = 0.0  # time constant of the lag [s]; 0 for none


class Before(NamedTuple):
    """State behind an interval."""

    supply_w: float  # what was drawn [W]
    stored_j: float  # energy in it [J]
    level_w: float = np.nan  # of the lag [W]; the supply if NaN
    loss_w: float = 0.0  # what it lost [W]


@dataclass(frozen=True, eq=False)
class Held:
    """Supply, battery and store under a load, each of shape (n,)."""

    supply_w: Float64Array  # what is drawn [W]
    battery_w: Float64Array  # what the battery gives, negative where it takes [W]
    stored_j: Float64Array  # energy in it at the end of each interval [J]
    uncovered_w: Float64Array  # by how much it misses the supply that was asked for [W]
    state: Before


def hold(
    load_w: Float64Array, dt_s: float, store: BatteryLimits, asked: Hold, state: Before
) -> Held:
    """Hold the supply of a load by a store."""
    rows = np.empty((4, load_w.size))
    if np.isnan(store.gives_w):
        store = store._replace(gives_w=store.power_w)
    before = Before(*map(float, state))
    if np.isnan(before.level_w):
        before = before._replace(level_w=before.supply_w)
    numbers = BatteryLimits(*map(float, store)), Hold(*map(float, asked))
    last = _hold(load_w, dt_s, *numbers, before, rows)
    return Held(rows[0], rows[1], rows[2], rows[3], Before(*last))


@njit(inline="always")
def _given(
    gives_w: float, dt_s: float, store: BatteryLimits, stored_j: float
) -> tuple[float, float]:
    """Return what a battery gives of a request [W], and its energy then [J]."""
    if gives_w > 0:
        room_w = max(stored_j - store.least_j, 0.0) * store.discharge / dt_s
        gives_w = min(gives_w, store.gives_w, room_w)
        return gives_w, stored_j - gives_w * dt_s / store.discharge
    room_w = max(store.most_j - stored_j, 0.0) / store.charge / dt_s
    gives_w = -min(-gives_w, store.power_w, room_w)
    return gives_w, stored_j - gives_w * dt_s * store.charge


@njit()
def _hold(
    load_w: Float64Array,
    dt_s: float,
    store: BatteryLimits,
    asked: Hold,
    before: Before,
    rows: Float64Array,
) -> tuple[float, float, float, float]:
    supply_w, stored_j, level_w, loss_w = before
    # A lag of interval means: what is left of a step after an interval, and of it on
    # average.
    kept = mean = 0.0
    if asked.lag_s > 0:
        kept = np.exp(-dt_s / asked.lag_s)
        mean = (1 - kept) * asked.lag_s / dt_s
    for k in range(load_w.size):
        wish_w = (
            load_w[k] + loss_w + store.feedback_per_s * (store.reference_j - stored_j)
        )
        lagged_w = wish_w + (level_w - wish_w) * mean
        level_w = wish_w + (level_w - wish_w) * kept
        lowest_w = supply_w - asked.down_w_per_s * dt_s
        asked_w = min(max(lagged_w, lowest_w), supply_w + asked.up_w_per_s * dt_s)
        gives_w = load_w[k] - asked_w
        gives_w, stored_j = _given(gives_w, dt_s, store, stored_j)
        loss_w = (
            gives_w * (1 / store.discharge - 1)
            if gives_w > 0
            else gives_w * (store.charge - 1)
        )
        supply_w = load_w[k] - gives_w
        rows[0, k] = supply_w
        rows[1, k] = gives_w
        rows[2, k] = stored_j
        rows[3, k] = abs(supply_w - asked_w)
    return supply_w, stored_j, level_w, loss_w


class DispatchState(NamedTuple):
    """State of a battery that shaves peaks or follows the clock, behind an interval."""

    stored_j: float  # energy in it [J]
    billed_w: float = 0.0  # largest billed mean of the month [W]
    drawn_j: float = 0.0  # energy of the clock interval so far [J]
    # Clock interval and month of the interval before; below all at the start
    window: int = -(2**62)
    month: int = -(2**62)


class Clock(NamedTuple):
    """Local time of intervals, each of shape (n,), for what goes by it."""

    plan: Float64Array  # 1 to charge, -1 to discharge, 0 to rest
    # Number of the clock interval that bills, where in it each begins [s], and number
    # of the month
    window: Int64Array
    offset_s: Float64Array
    month: Int64Array


@njit()
def _dispatch(
    load_w: Float64Array,
    dt_s: float,
    store: BatteryLimits,
    target_w: float,
    window_s: float,
    clock: Clock,
    state: DispatchState,
    rows: Float64Array,
) -> tuple[float, float, float, int, int]:
    """Hold the supply at a target or billed mean, or follow the clock.

    `target_w` is infinite for the clock's plan, and `window_s` 0 where nothing is
    billed.
    """
    stored_j, billed_w, drawn_j, window, month = state
    for k in range(load_w.size):
        load = load_w[k]
        hold_w = most_w = target_w
        if window_s > 0:
            begins = clock.window[k] != window
            if begins:
                billed_w = max(billed_w, drawn_j / window_s)
            if clock.month[k] != month:
                billed_w = 0.0
            window, month = clock.window[k], clock.month[k]
            hold_w = max(billed_w, target_w)
            if begins:  # what a run has not seen of its first counts as held
                drawn_j = hold_w * clock.offset_s[k]
            # The mean of the clock interval may still come to what is held
            most_w = max(
                (hold_w * window_s - drawn_j) / (window_s - clock.offset_s[k]), 0.0
            )
        if np.isfinite(target_w):
            filled_w = load + store.feedback_per_s * (store.reference_j - stored_j)
            asked_w = min(filled_w, max(load, hold_w), most_w)
        elif clock.plan[k] >= 0:
            asked_w = load + clock.plan[k] * store.power_w
        else:
            asked_w = max(load - store.power_w, min(load, 0.0))
        gives_w, stored_j = _given(load - asked_w, dt_s, store, stored_j)
        rows[0, k] = load - gives_w
        rows[1, k] = gives_w
        rows[2, k] = stored_j
        rows[3, k] = max(load - gives_w - most_w, 0.0)
        drawn_j += (load - gives_w) * dt_s
    return stored_j, billed_w, drawn_j, window, month


@dataclass(frozen=True)
class _CycleCount:
    """Rainflow cycles of a state of charge, with halves (ASTM E1049-85, 5.4.4)."""

    # Cycles of each class of `DEPTHS_PERCENT`; both edges belong to the last
    classes: tuple[float, ...]
    deepest: float  # depth of the deepest cycle or half-cycle, 0-1
    # Depths of all cycles added up, the smallest ones too, in full cycles
    depths: float


class ChargeCycles:
    """Counts the rainflow cycles of a state of charge given in consecutive blocks.

    Depths are whole billionths of the nominal energy: counts do not depend on blocks.
    """

    def __init__(self) -> None:
        self._points = TurningPoints(1)
        self._classes = np.zeros(len(DEPTHS_PERCENT) + 1, dtype=np.int64)
        self._deepest = self._depths = 0

    def add(self, charge: Float64Array) -> None:
        """Add consecutive states of charge, 0-1."""
        parts = np.rint(charge * _PARTS).astype(np.int64)
        for closed in self._points.add(parts, 0, 0):
            self._classes += 2 * _by_depth(closed[0])
            self._depths += 2 * int(closed[0].sum())
            self._deepest = max(self._deepest, int(closed[0].max(initial=0)))

    def count(self) -> _CycleCount:
        """Return the cycles so far."""
        halves = np.abs(np.diff(self._points.residue))
        classes = self._classes + _by_depth(halves)
        classes[-2] += classes[-1]
        return _CycleCount(
            tuple((classes[1:-1] / 2).tolist()),
            max(self._deepest, int(halves.max(initial=0))) / _PARTS,
            (self._depths + int(halves.sum())) / 2 / _PARTS,
        )


def _by_depth(depths: Int64Array) -> Int64Array:
    """Return how many depths lie below, between and above the edges of the classes."""
    edges = np.array(DEPTHS_PERCENT) * (_PARTS // 100)
    found = np.searchsorted(edges, depths, side="right")
    return np.bincount(found, minlength=edges.size + 1)


EXAMPLE = "{{kind: battery, power_mw: 2, energy_mwh: 1, {}}}"
MODES = {
    "ramp_limit": "{up_mw_per_min: 5, down_mw_per_min: 5}",
    "smoothing_s": "600",
    "peak_shaving": "{target_mw: 8}",
    "demand_charge": "{target_mw: 8}",
    "time_of_use": (
        "{charge: [{from_h: 0, to_h: 6}], discharge: [{from_h: 17, to_h: 21}]}"
    ),
}
"""Modes of a battery by key, with an example of each."""

Rate = PositiveFloat


State = Before | None
"""None to begin: with the load as it is, at the reference."""


class RampRates(Model):
    """Largest ramps of the supply."""

    up_mw_per_min: Annotated[Rate | None, SCALES] = unset("Largest rise [MW/min].")
    down_mw_per_min: Annotated[Rate | None, SCALES] = unset("Largest fall [MW/min].")

    @model_validator(mode="after")
    def _some(self) -> RampRates:
        if self.up_mw_per_min is None and self.down_mw_per_min is None:
            raise ValueError("give up_mw_per_min, down_mw_per_min or both")
        return self

    def hold(self) -> Hold:
        """Return them in W/s."""
        up, down = (
            np.inf if rate is None else rate * W_PER_MW / S_PER_MIN
            for rate in (self.up_mw_per_min, self.down_mw_per_min)
        )
        return Hold(up, down)


class PeakShaving(Model):
    """A power that the supply is kept below."""

    target_mw: Annotated[PositiveFloat, SCALES] = Field(
        description=(
            "Power that the battery discharges above, and does not charge beyond [MW]."
        )
    )


class DemandCharge(PeakShaving):
    """A mean over clock intervals that caps the supply, and grows if missed."""

    target_mw: Annotated[PositiveFloat, SCALES] = Field(
        description=(
            "Mean over a clock interval that each month begins with; where one is "
            "larger, it is billed anyway, and is kept for the rest of the month [MW]."
        )
    )
    interval_min: Literal[15, 30, 60] = default(15, "The clock interval [min].")


class TimeOfUse(Model):
    """Hours in which it charges at its power, and discharges up to the load."""

    charge: Annotated[tuple[LocalHours, ...], Field(min_length=1)] = Field(
        description="Hours in which it charges."
    )
    discharge: Annotated[tuple[LocalHours, ...], Field(min_length=1)] = Field(
        description="Hours in which it discharges; not in those in which it charges."
    )


class BatterySpec(StageSpec, Nameable):
    """A battery that holds ramps, smooths, shaves peaks or follows the clock."""

    columns = (
        Column(
            "battery_power_w",
            "W",
            "facility",
            "mean",
            "at the battery's terminals",
            "what the battery gives, negative where it takes",
        ),
        Column(
            "battery_discharge_w",
            "W",
            "facility",
            "mean",
            "within the battery",
            "what leaves its store, losses included; negative where it fills",
            "store",
        ),
        Column(
            "battery_state_of_charge",
            "1",
            "facility",
            "end",
            None,
            "energy in the battery, of its nominal energy",
        ),
        Column(
            "battery_loss_w",
            "W",
            "facility",
            "mean",
            "within the battery",
            "conversion losses and auxiliary power of the battery",
            "loss",
        ),
        Column(
            "battery_uncovered_w",
            "W",
            "facility",
            "mean",
            None,
            "by how much the supply misses what the battery is asked to hold",
        ),
    )
    metrics = (
        Metric(
            "battery.discharged_mwh",
            "MWh",
            "energy that the battery gave",
            "{:,.2f}",
            view="table",
        ),
        Metric(
            "battery.loss_mwh",
            "MWh",
            "energy that the battery lost",
            "{:,.2f}",
            view="table",
        ),
        Metric(
            "battery.equivalent_full_cycles",
            "1",
            "equivalent full cycles",
            "{:,.1f}",
            view="table",
            text="energy given and taken over twice the nominal energy",
        ),
        Metric(
            "battery.cycled_depth",
            "1",
            "depths of all rainflow cycles added up",
            "{:,.1f}",
            "of the state of charge, by ASTM E1049-85, half-cycles as halves",
            "table",
        ),
        Metric(
            "battery.deepest_cycle",
            "%",
            "depth of the deepest rainflow cycle",
            "{:.1f}",
            "of the nominal energy",
            "table",
            100,
        ),
        *(
            Metric(
                f"battery.cycles_{low}_to_{high}_percent",
                "1",
                f"rainflow cycles of {low} to {high} % of the nominal energy",
                "{:,.1f}",
                view="table",
            )
            for low, high in pairwise(DEPTHS_PERCENT)
        ),
        Metric(
            "battery.calendar_fade",
            "%",
            "nominal energy lost by age alone",
            "{:.3f}",
            "at a constant rate; that by cycles is not in it",
            factor=100,
        ),
        Metric(
            "battery.uncovered_h",
            "h",
            "time beyond what the battery covers",
            "{:,.2f}",
            view="table",
        ),
        Metric(
            "battery.uncovered_mwh", "MWh", "energy that it could not cover", "{:,.3f}"
        ),
        Metric("battery.least_state_of_charge", "1", "least state of charge", "{:.3f}"),
        Metric(
            "battery.most_state_of_charge", "1", "highest state of charge", "{:.3f}"
        ),
        Metric("battery.mean_state_of_charge", "1", "mean state of charge", "{:.3f}"),
    )
    boundary = "behind a battery"

    kind: Literal["battery"] = default(
        "battery",
        (
            "A battery at this place that holds ramps, smooths the power, shaves "
            "peaks, or charges and discharges by the clock."
        ),
    )
    power_mw: Annotated[PositiveFloat, SCALES] = Field(
        description="Most that it takes and gives [MW]."
    )
    energy_mwh: Annotated[PositiveFloat, SCALES] = Field(
        description="Nominal energy [MWh]; usable of it: what is between least_ and "
        "most_state_of_charge, 80 % by default."
    )
    ramp_limit: RampRates | None = unset(
        "Ramps of the supply that it holds; or smoothing_s."
    )
    smoothing_s: PositiveFloat | None = unset(
        "Time constant of the lag that the supply follows the load with; a minute "
        "beside ramp_limit makes it follow the mean over a job's iterations."
    )
    peak_shaving: PeakShaving | None = optional(
        "A power that the supply is kept below; it is filled again below that."
    )
    demand_charge: DemandCharge | None = optional(
        "The month's largest billed mean so far, which the supply's means are kept "
        "below."
    )
    time_of_use: TimeOfUse | None = optional(
        "Local hours in which it charges and discharges."
    )
    charge_efficiency: PositiveShare = uncertain(
        0.95, "Energy stored per energy taken, 0-1", (0.92, 0.98)
    )
    discharge_efficiency: PositiveShare = uncertain(
        0.95, "Energy given per energy drawn from the store, 0-1", (0.92, 0.98)
    )
    auxiliary_kw: Annotated[NonNegativeFloat, SCALES] = default(
        0.0, "Its own constant power [kW]."
    )
    least_state_of_charge: Share = uncertain(
        0.1, "It is not emptied below this part of its nominal energy", (0.05, 0.2)
    )
    most_state_of_charge: Share = uncertain(
        0.9, "It is not filled above this part of its nominal energy", (0.85, 1)
    )
    reference_state_of_charge: Share = uncertain(
        0.5,
        (
            "State that it starts with, and is brought back to; where it shaves "
            "peaks, it starts filled and is filled again"
        ),
        (0.4, 0.6),
    )
    feedback_per_h: NonNegativeFloat = uncertain(
        1.0,
        "Part of the lacking energy that it asks for per hour, to be brought back",
        (0.5, 2),
    )
    calendar_fade_per_year: Share = uncertain(
        0.02,
        (
            "Part of the nominal energy lost in a year by age alone, 0-1. It is "
            "measured, and takes nothing from the energy within the run"
        ),
        (0.01, 0.04),
    )

    @model_validator(mode="before")
    @classmethod
    def _one_mode(cls, value: Any) -> Any:
        # Before the other keys are looked at: an entry of the kind alone is shown the
        # modes.
        modes = [
            key
            for key in MODES
            if isinstance(value, dict) and value.get(key) is not None
        ]
        if (
            isinstance(value, dict)
            and len(modes) != 1
            and {*modes} != {"ramp_limit", "smoothing_s"}
        ):
            examples = " or ".join(
                f"{key}: {example}" for key, example in MODES.items()
            )
            raise ValueError(
                f"a battery has one mode, found {' and '.join(modes) or 'none'}; give "
                f"one, as in {EXAMPLE.format('...')} with {examples}"
            )
        return value

    @model_validator(mode="after")
    def _parts_fit(self) -> BatterySpec:
        low, middle, high = (
            self.least_state_of_charge,
            self.reference_state_of_charge,
            self.most_state_of_charge,
        )
        if not low <= middle <= high or low == high:
            raise ValueError(
                "least, reference and most_state_of_charge must rise, found "
                f"{low:g}, {middle:g}, {high:g}"
            )
        return self

    @property
    def first_state_of_charge(self) -> float:
        """State that it starts with, and is brought back to."""
        fills = self.peak_shaving or self.demand_charge
        return self.most_state_of_charge if fills else self.reference_state_of_charge

    def open(self, site: SiteView) -> Any:
        """Return the stage; that of some modes knows the local time."""
        if any((self.peak_shaving, self.demand_charge, self.time_of_use)):
            return _Dispatched(self, site.clock.wall)
        return self

    def store(self) -> BatteryLimits:
        """Return it in W, J and s."""
        capacity_j = self.energy_mwh * J_PER_MWH
        return BatteryLimits(
            self.power_mw * W_PER_MW,
            self.least_state_of_charge * capacity_j,
            self.most_state_of_charge * capacity_j,
            self.first_state_of_charge * capacity_j,
            self.charge_efficiency,
            self.discharge_efficiency,
            self.feedback_per_h / (MS_PER_H / MS_PER_S),
        )

    def hold(self) -> Hold:
        """Return what it holds."""
        ramps = Hold() if self.ramp_limit is None else self.ramp_limit.hold()
        return ramps._replace(lag_s=self.smoothing_s or 0.0)

    def needed_step_ms(self) -> int | None:
        """Return a tenth of the lag, a ramp's minute or the billed interval [ms]."""
        if self.demand_charge is not None:
            return tenth_ms(self.demand_charge.interval_min * S_PER_MIN)
        return tenth_ms(self.smoothing_s or 0.0, S_PER_MIN if self.ramp_limit else 0.0)

    def apply(self, block: Block, state: State) -> tuple[Values, State]:
        """Hold the facility's power, and tell what the battery does."""
        load_w, store = block.columns[POWER], self.store()
        before = Before(float(load_w[0]), store.reference_j) if state is None else state
        held = hold(load_w, block.dt_ms / MS_PER_S, store, self.hold(), before)
        return self.values(
            held.supply_w, held.battery_w, held.stored_j, held.uncovered_w
        ), held.state

    def values(
        self,
        supply_w: Float64Array,
        battery_w: Float64Array,
        stored_j: Float64Array,
        uncovered_w: Float64Array,
    ) -> Values:
        """Return the columns of what it does; arguments as in `Held`."""
        auxiliary_w, store = self.auxiliary_kw * W_PER_KW, self.store()
        loss_w = np.where(
            battery_w > 0,
            battery_w * (1 / store.discharge - 1),
            -battery_w * (1 - store.charge),
        )
        return {
            "battery_power_w": battery_w,
            "battery_discharge_w": battery_w + loss_w,
            "battery_state_of_charge": stored_j / (self.energy_mwh * J_PER_MWH),
            "battery_loss_w": loss_w + auxiliary_w,
            "battery_uncovered_w": uncovered_w,
            POWER: supply_w + auxiliary_w,
        }

    def meter(self) -> _BatteryMeter:
        """Return what measures it."""
        return _BatteryMeter(self)


@dataclass(frozen=True)
class _Dispatched:
    """A battery that shaves peaks or follows the clock, as a stage."""

    spec: BatterySpec
    wall: WallClock
    kind: ClassVar[str] = "battery"
    columns: ClassVar[Columns] = BatterySpec.columns
    metrics: ClassVar[tuple[Metric, ...]] = BatterySpec.metrics
    boundary: ClassVar[str | None] = BatterySpec.boundary

    def start(self) -> DispatchState:
        """Return its state at the start of a run."""
        return DispatchState(self.spec.store().reference_j)

    def apply(self, block: Block, state: DispatchState) -> tuple[Values, DispatchState]:
        """Hold the facility's power, and tell what the battery does."""
        spec, load_w = self.spec, block.columns[POWER]
        store, n = spec.store(), len(block)
        # Its own power passes the meter too, and is within what it holds.
        auxiliary_w = spec.auxiliary_kw * W_PER_KW
        asked, target_w, window_ms = (
            spec.peak_shaving or spec.demand_charge,
            np.inf,
            MS_PER_DAY,
        )
        local_ms = self.wall.local_ms(block.starts_ms)
        plan = np.zeros(n)
        if asked is not None:
            target_w = asked.target_mw * W_PER_MW - auxiliary_w
        elif spec.time_of_use is not None:
            charges, discharges = (
                any_hold(hours, self.wall, block.starts_ms)
                for hours in (spec.time_of_use.charge, spec.time_of_use.discharge)
            )
            plan = np.where(charges, 1.0, np.where(discharges, -1.0, 0.0))
        if spec.demand_charge is not None:
            window_ms = spec.demand_charge.interval_min * MS_PER_MIN
        months = (
            local_ms.astype("datetime64[ms]").astype("datetime64[M]").astype(np.int64)
        )
        clock = Clock(
            plan, local_ms // window_ms, local_ms % window_ms / MS_PER_S, months
        )
        rows = np.empty((4, n))
        after = _dispatch(
            load_w,
            block.dt_ms / MS_PER_S,
            store._replace(gives_w=store.power_w),
            target_w,
            window_ms / MS_PER_S if spec.demand_charge else 0.0,
            clock,
            state,
            rows,
        )
        supply_w, battery_w, stored_j, uncovered_w = rows
        return spec.values(supply_w, battery_w, stored_j, uncovered_w), DispatchState(
            *after
        )

    def meter(self) -> _BatteryMeter:
        """Return what measures it."""
        return self.spec.meter()


class _BatteryMeter(ColumnMeter):
    """Measures what a battery does over a run."""

    def __init__(self, spec: BatterySpec) -> None:
        power, uncovered, charge = (
            f"battery_{name}" for name in ("power_w", "uncovered_w", "state_of_charge")
        )
        super().__init__(
            {
                "battery.discharged_mwh": (
                    Energy(),
                    lambda columns: np.maximum(columns[power], 0),
                ),
                "battery.loss_mwh": (Energy(), "battery_loss_w"),
                "battery.uncovered_h": (HoursAbove(ROUNDING_W), uncovered),
                "battery.uncovered_mwh": (Energy(), uncovered),
                "battery.least_state_of_charge": (
                    Most(-np.inf, per=-1),
                    lambda columns: -columns[charge],
                ),
                "battery.most_state_of_charge": (Most(-np.inf), charge),
                "battery.mean_state_of_charge": (Mean(), charge),
            }
        )
        self._capacity_mwh, self._taken = spec.energy_mwh, Energy()
        self._cycles = ChargeCycles()
        self._cycles.add(np.array([spec.first_state_of_charge]))
        self._fade_per_ms, self._ms = (
            spec.calendar_fade_per_year / (365 * MS_PER_DAY),
            0,
        )

    def add(self, block: Block) -> None:
        """Take in a block."""
        super().add(block)
        self._ms += len(block) * block.dt_ms
        self._taken.add(-np.minimum(block.columns["battery_power_w"], 0), block.dt_ms)
        self._cycles.add(block.columns["battery_state_of_charge"])

    def values(self) -> dict[str, float | None]:
        """Return the metrics."""
        found, cycles = super().values(), self._cycles.count()
        moved_mwh = (found["battery.discharged_mwh"] or 0.0) + self._taken.result()
        return {
            "battery.discharged_mwh": found.pop("battery.discharged_mwh"),
            "battery.loss_mwh": found.pop("battery.loss_mwh"),
            "battery.equivalent_full_cycles": moved_mwh / (2 * self._capacity_mwh),
            "battery.cycled_depth": cycles.depths,
            "battery.deepest_cycle": cycles.deepest,
            "battery.calendar_fade": self._ms * self._fade_per_ms,
            **{
                f"battery.cycles_{low}_to_{high}_percent": n
                for (low, high), n in zip(
                    pairwise(DEPTHS_PERCENT), cycles.classes, strict=True
                )
            },
            **found,
        }
