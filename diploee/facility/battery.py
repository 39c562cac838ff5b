"""Battery storage: ramp limits, smoothing, peak shaving, time of use; cycle counting.

See `diploee.facility.storage` for the equations.

See also: docs/models/node_to_meter.md
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import (
    Field,
    NonNegativeFloat,
    PositiveFloat,
    PrivateAttr,
    model_validator,
)

from diploee.base.clock import WallClock
from diploee.base.measures.distribution import Energy, HoursAbove, Mean, RunningMaximum
from diploee.base.measures.ramps_and_swings import TurningPoints
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
    tenth_of_shortest_ms,
)
from diploee.facility.declared import COLUMNS, METRICS
from diploee.facility.local_hours import LocalHours, in_any_hours
from diploee.facility.stage_meters import ColumnMeter
from diploee.facility.storage import (
    BatteryLimits,
    DispatchPlan,
    DispatchState,
    StoreState,
    SupplyLimits,
    dispatch,
    smooth_supply,
)

ROUNDING_W = 1e-3
"""Threshold below which a shortfall is rounding [W]."""

DEPTHS_PERCENT = (1, 10, 20, 50, 100)
"""Edges of the depth classes of cycles [% of the nominal energy]."""

_UNITS = 10**9
"""Units of the state of charge per nominal energy, for exact integer counts."""


@dataclass(frozen=True)
class _CycleCount:
    """Rainflow cycles of a state of charge, with half-cycles (ASTM E1049-85, 5.4.4)."""

    # Number of cycles by class of `DEPTHS_PERCENT`; the last includes both edges
    classes: tuple[float, ...]
    deepest: float  # depth of the deepest cycle or half-cycle, 0-1
    # Sum of the depths of all cycles, of any depth, in full cycles
    depths: float


class ChargeCycles:
    """Counter of the rainflow cycles of a state of charge, added in consecutive blocks.

    Depths are whole billionths of the nominal energy, so that counts do not depend on
    how a run is cut into blocks.
    """

    def __init__(self) -> None:
        self._points = TurningPoints(1)
        self._classes = np.zeros(len(DEPTHS_PERCENT) + 1, dtype=np.int64)
        self._deepest = self._depths = 0

    def add(self, charge: Float64Array) -> None:
        """Add consecutive states of charge, 0-1."""
        parts = np.rint(charge * _UNITS).astype(np.int64)
        for closed_swings in self._points.add(parts, 0, 0):
            self._classes += 2 * _count_by_depth(closed_swings[0])
            self._depths += 2 * int(closed_swings[0].sum())
            self._deepest = max(self._deepest, int(closed_swings[0].max(initial=0)))

    def count(self) -> _CycleCount:
        """Return the cycles of the state of charge added so far, by depth."""
        halves = np.abs(np.diff(self._points.residue))
        classes = self._classes + _count_by_depth(halves)
        classes[-2] += classes[-1]
        return _CycleCount(
            tuple((classes[1:-1] / 2).tolist()),
            max(self._deepest, int(halves.max(initial=0))) / _UNITS,
            (self._depths + int(halves.sum())) / 2 / _UNITS,
        )


def _count_by_depth(depths: Int64Array) -> Int64Array:
    """Return the number of depths in each class between the class edges."""
    edges = np.array(DEPTHS_PERCENT) * (_UNITS // 100)
    class_index = np.searchsorted(edges, depths, side="right")
    return np.bincount(class_index, minlength=edges.size + 1)


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
"""Modes of a battery by key, each with an example."""

Rate = PositiveFloat


State = StoreState | None
"""State of a battery; None at the start of a run."""


class RampRates(Model):
    """Maximum ramp rates of the supply."""

    up_mw_per_min: Annotated[Rate | None, SCALES] = unset("Maximum rise [MW/min].")
    down_mw_per_min: Annotated[Rate | None, SCALES] = unset("Maximum fall [MW/min].")

    @model_validator(mode="after")
    def _check_any(self) -> RampRates:
        """Refuse ramp rates that limit neither rises nor falls."""
        if self.up_mw_per_min is None and self.down_mw_per_min is None:
            raise ValueError("give up_mw_per_min, down_mw_per_min or both")
        return self

    def supply_limits(self) -> SupplyLimits:
        """Return the ramp limits converted from MW/min to W/s."""
        up, down = (
            np.inf if rate is None else rate * W_PER_MW / S_PER_MIN
            for rate in (self.up_mw_per_min, self.down_mw_per_min)
        )
        return SupplyLimits(up, down)


class PeakShaving(Model):
    """Peak shaving: a power above which the battery discharges."""

    target_mw: Annotated[PositiveFloat, SCALES] = Field(
        description=(
            "Power above which the battery discharges, and up to which it charges [MW]."
        )
    )


class DemandCharge(PeakShaving):
    """Demand-charge management: a limit on means over clock intervals.

    If a mean exceeds the limit, that mean is the new limit for the rest of the month.
    """

    target_mw: Annotated[PositiveFloat, SCALES] = Field(
        description=(
            "Limit on the mean over a clock interval at the start of each month; a "
            "higher mean is billed anyway and is the limit for the rest of the month "
            "[MW]."
        )
    )
    interval_min: Literal[15, 30, 60] = default(15, "The clock interval [min].")


class TimeOfUse(Model):
    """Time-of-use schedule: charging at rated power, discharging up to the load."""

    charge: Annotated[tuple[LocalHours, ...], Field(min_length=1)] = Field(
        description="Hours of charging."
    )
    discharge: Annotated[tuple[LocalHours, ...], Field(min_length=1)] = Field(
        description="Hours of discharging, except in hours of charging."
    )


class BatterySpec(StageSpec, Nameable):
    """A battery for ramp limits, smoothing, peak shaving, or time of use.

    See Also
    --------
    diploee.facility.storage : equations of the supply, the store and its losses.
    RampLimitSpec : a ramp limit without storage.
    """

    columns = COLUMNS["battery"]
    metrics = METRICS["battery"]
    boundary = "behind a battery"
    _wall: WallClock = PrivateAttr()

    kind: Literal["battery"] = default(
        "battery",
        (
            "A battery that limits ramps, smooths the power, shaves peaks, or charges "
            "and discharges by schedule."
        ),
    )
    power_mw: Annotated[PositiveFloat, SCALES] = Field(
        description="Maximum charge and discharge power [MW]."
    )
    energy_mwh: Annotated[PositiveFloat, SCALES] = Field(
        description="Nominal energy [MWh]; usable between min_ and "
        "max_state_of_charge, 80 % by default."
    )
    ramp_limit: RampRates | None = unset("Maximum ramps of the supply; or smoothing_s.")
    smoothing_s: PositiveFloat | None = unset(
        "Time constant of the lag with which the supply follows the load [s]; with "
        "ramp_limit, a minute makes it follow the mean over a job's iterations."
    )
    peak_shaving: PeakShaving | None = optional(
        "Limit on the supply; the battery recharges below it."
    )
    demand_charge: DemandCharge | None = optional(
        "Limit on the supply's means over clock intervals, the month's highest billed "
        "mean so far."
    )
    time_of_use: TimeOfUse | None = optional("Local hours of charging and discharging.")
    charge_efficiency: PositiveShare = uncertain(
        0.95, "Stored energy per charged energy, 0-1", (0.92, 0.98)
    )
    discharge_efficiency: PositiveShare = uncertain(
        0.95, "Discharged energy per energy taken from the store, 0-1", (0.92, 0.98)
    )
    auxiliary_kw: Annotated[NonNegativeFloat, SCALES] = default(
        0.0, "Constant auxiliary power of the battery [kW]."
    )
    min_state_of_charge: Share = uncertain(
        0.1, "Minimum energy per nominal energy, 0-1", (0.05, 0.2)
    )
    max_state_of_charge: Share = uncertain(
        0.9, "Maximum energy per nominal energy, 0-1", (0.85, 1)
    )
    reference_state_of_charge: Share = uncertain(
        0.5,
        (
            "State of charge at the start, to which the battery returns, 0-1; for peak "
            "shaving the maximum takes its place"
        ),
        (0.4, 0.6),
    )
    feedback_per_h: NonNegativeFloat = uncertain(
        1.0,
        "Fraction of the missing energy that is requested per hour [1/h]",
        (0.5, 2),
    )
    calendar_fade_per_year: Share = uncertain(
        0.02,
        (
            "Fraction of the nominal energy lost per year by age alone, 0-1; reported, "
            "without effect on the energy within the run"
        ),
        (0.01, 0.04),
    )

    @model_validator(mode="before")
    @classmethod
    def _check_one_mode(cls, value: Any) -> Any:
        """Raise an error unless exactly one mode is set."""
        # Before the other keys are validated, so that an entry without any is shown
        # the modes
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
    def _check_states_of_charge(self) -> BatterySpec:
        """Refuse states of charge that are not in ascending order."""
        low, middle, high = (
            self.min_state_of_charge,
            self.reference_state_of_charge,
            self.max_state_of_charge,
        )
        if not low <= middle <= high or low == high:
            raise ValueError(
                "min_, reference_ and max_state_of_charge must rise, found "
                f"{low:g}, {middle:g}, {high:g}"
            )
        return self

    @property
    def first_state_of_charge(self) -> float:
        """State of charge at the start, to which the battery returns."""
        is_filled = self.peak_shaving or self.demand_charge
        return self.max_state_of_charge if is_filled else self.reference_state_of_charge

    def open(self, site: SiteView) -> BatterySpec:
        """Return a copy of the battery that uses the site's local time."""
        opened = self.model_copy()
        opened._wall = site.clock.wall
        return opened

    def start(self) -> DispatchState | None:
        """Return the dispatch state at a run's start; None for ramps and smoothing."""
        if any((self.peak_shaving, self.demand_charge, self.time_of_use)):
            return DispatchState(self.store().reference_j)
        return None

    def store(self) -> BatteryLimits:
        """Return the battery's limits in W, J and s."""
        capacity_j = self.energy_mwh * J_PER_MWH
        return BatteryLimits(
            self.power_mw * W_PER_MW,
            self.min_state_of_charge * capacity_j,
            self.max_state_of_charge * capacity_j,
            self.first_state_of_charge * capacity_j,
            self.charge_efficiency,
            self.discharge_efficiency,
            self.feedback_per_h / (MS_PER_H / MS_PER_S),
        )

    def supply_limits(self) -> SupplyLimits:
        """Return the limits on ramps and lag of the supply."""
        ramps = (
            SupplyLimits()
            if self.ramp_limit is None
            else self.ramp_limit.supply_limits()
        )
        return ramps._replace(lag_s=self.smoothing_s or 0.0)

    def needed_step_ms(self) -> int | None:
        """Return a tenth of the shortest time that the mode depends on [ms].

        These times are the lag, the minute of ramp rates, and the billed interval.
        """
        if self.demand_charge is not None:
            return tenth_of_shortest_ms(self.demand_charge.interval_min * S_PER_MIN)
        return tenth_of_shortest_ms(
            self.smoothing_s or 0.0, S_PER_MIN if self.ramp_limit else 0.0
        )

    def apply(
        self, block: Block, state: State | DispatchState
    ) -> tuple[Values, State | DispatchState]:
        """Return the power after the battery, and the battery's own columns."""
        load_w, dt_s, store = block.columns[POWER], block.dt_ms / MS_PER_S, self.store()
        if isinstance(state, DispatchState):
            rows = np.empty((4, len(block)))
            store = store._replace(gives_w=store.power_w)
            request = self._dispatch_inputs(block)
            next_state = dispatch(load_w, dt_s, store, *request, state, rows)
            return self.values(*rows), DispatchState(*next_state)
        initial = (
            StoreState(float(load_w[0]), store.reference_j) if state is None else state
        )
        supply = smooth_supply(load_w, dt_s, store, self.supply_limits(), initial)
        return self.values(
            supply.supply_w, supply.battery_w, supply.stored_j, supply.uncovered_w
        ), supply.state

    def _dispatch_inputs(self, block: Block) -> tuple[float, float, DispatchPlan]:
        """Return the target [W], the billed interval's length [s], and local clock."""
        target_w, window_ms, wall = np.inf, MS_PER_DAY, self._wall
        plan = np.zeros(len(block))
        if mode := self.peak_shaving or self.demand_charge:
            # The battery's auxiliary power counts toward the target too
            target_w = mode.target_mw * W_PER_MW - self.auxiliary_kw * W_PER_KW
        elif self.time_of_use is not None:
            charges, discharges = (
                in_any_hours(hours, wall, block.starts_ms)
                for hours in (self.time_of_use.charge, self.time_of_use.discharge)
            )
            plan = np.where(charges, 1.0, np.where(discharges, -1.0, 0.0))
        if self.demand_charge is not None:
            window_ms = self.demand_charge.interval_min * MS_PER_MIN
        local_ms = wall.local_ms(block.starts_ms)
        months = local_ms.astype("datetime64[ms]").astype("datetime64[M]")
        clock = DispatchPlan(
            plan,
            local_ms // window_ms,
            local_ms % window_ms / MS_PER_S,
            months.astype(np.int64),
        )
        return target_w, window_ms / MS_PER_S if self.demand_charge else 0.0, clock

    def values(
        self,
        supply_w: Float64Array,
        battery_w: Float64Array,
        stored_j: Float64Array,
        uncovered_w: Float64Array,
    ) -> Values:
        """Return the columns of the battery; arguments as in `SmoothedSupply`."""
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
        """Return the meter of the battery."""
        return _BatteryMeter(self)


class _BatteryMeter(ColumnMeter):
    """Meter of a battery: energy, losses, shortfall, state of charge, cycles."""

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
                    RunningMaximum(-np.inf, divisor=-1),
                    lambda columns: -columns[charge],
                ),
                "battery.most_state_of_charge": (RunningMaximum(-np.inf), charge),
                "battery.mean_state_of_charge": (Mean(), charge),
            }
        )
        self._capacity_mwh, self._charged = spec.energy_mwh, Energy()
        self._cycles = ChargeCycles()
        self._cycles.add(np.array([spec.first_state_of_charge]))
        self._fade_per_ms, self._ms = (
            spec.calendar_fade_per_year / (365 * MS_PER_DAY),
            0,
        )

    def add(self, block: Block) -> None:
        """Add a block to all statistics and to the cycle count."""
        super().add(block)
        self._ms += len(block) * block.dt_ms
        self._charged.add(-np.minimum(block.columns["battery_power_w"], 0), block.dt_ms)
        self._cycles.add(block.columns["battery_state_of_charge"])

    def values(self) -> dict[str, float | None]:
        """Return the values by metric key."""
        result, cycles = super().values(), self._cycles.count()
        moved_mwh = (result["battery.discharged_mwh"] or 0.0) + self._charged.result()
        return {
            "battery.discharged_mwh": result.pop("battery.discharged_mwh"),
            "battery.loss_mwh": result.pop("battery.loss_mwh"),
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
            **result,
        }
