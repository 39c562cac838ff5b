"""A generator at this place.

Engines or turbines that run by the clock or above a demand. It starts after a delay,
ramps to its output and back, and is not run steadily below its least load. Output and
fuel are means of what happens within an interval, ramps and the end of the delay
included; it is started and stopped at the start of an interval, by that interval's mean
demand. Its fuel is linear in its output P while it runs (Willans' line), with P_r its
rated power::

    fuel = P_r / efficiency * (no_load_fuel + (1 - no_load_fuel) P / P_r)

ASSUMPTION [J]: it does not fail, gives active power alone, and has no auxiliaries of
its own. The defaults are assumed, from memory of makers' data sheets; the ranges are
those of diesel and gas engines up to simple-cycle gas turbines.

See also: docs/models/node_to_meter.md
"""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

import numpy as np
from pydantic import (
    Field,
    NonNegativeFloat,
    PositiveFloat,
    PrivateAttr,
    model_validator,
)

from diploee.base.clock import WallClock
from diploee.base.jit import njit
from diploee.base.measures.distribution import CountAbove, Energy, RunningMaximum
from diploee.base.model import (
    SCALES,
    PositiveShare,
    Share,
    default,
    optional,
    uncertain,
)
from diploee.base.tables import Float64Array
from diploee.base.units import MS_PER_S, S_PER_MIN, W_PER_MW
from diploee.facility.base import (
    POWER,
    Block,
    Nameable,
    SiteView,
    StageSpec,
    Values,
    tenth_ms,
)
from diploee.facility.declared import COLUMNS, METRICS
from diploee.facility.local_hours import LocalHours, any_hold
from diploee.facility.meters import ColumnMeter


class GeneratorState(NamedTuple):
    """State of a generator behind an interval."""

    on: bool = False  # whether it is to run
    level_w: float = 0.0  # output at the interval's start [W]
    delay_s: float = 0.0  # what is left of its start delay [s]
    since_s: float = np.inf  # time since it was started or stopped [s]


class GeneratorSpec(StageSpec, Nameable):
    """A generator that runs in local hours, or where demand is above a power."""

    columns = COLUMNS["generator"]
    metrics = METRICS["generator"]
    boundary = "behind a generator"
    _wall: WallClock = PrivateAttr()

    kind: Literal["generator"] = default(
        "generator",
        (
            "A generator at this place that runs in hours of local time, at its rated "
            "power, or where demand is above a power, and gives what is above it."
        ),
    )
    power_mw: Annotated[PositiveFloat, SCALES] = Field(description="Rated power [MW].")
    schedule: Annotated[tuple[LocalHours, ...], Field(min_length=1)] | None = optional(
        "Hours in which it runs at its rated power, whatever the demand; or above_mw."
    )
    above_mw: Annotated[NonNegativeFloat | None, SCALES] = optional(
        "Demand at this place above which it is started; it gives what is above [MW]."
    )
    hysteresis_mw: Annotated[NonNegativeFloat, SCALES] = default(
        0.0, "By how much demand must fall below above_mw to stop it [MW]."
    )
    min_load: Share = uncertain(
        0.3, "Least steady output, of its rated power, 0-1", (0.2, 0.6)
    )
    ramp_per_min: PositiveFloat = uncertain(
        1.0, "Its ramp up and down, of its rated power per minute", (0.1, 1)
    )
    start_delay_s: NonNegativeFloat = uncertain(
        60.0, "From the order to start to its first output [s]", (60, 600)
    )
    min_up_time_min: NonNegativeFloat = uncertain(
        30.0, "It is not stopped before, from its start order [min]", (0, 240)
    )
    min_down_time_min: NonNegativeFloat = uncertain(
        15.0, "It is not started again before, from its stop order [min]", (0, 240)
    )
    efficiency: PositiveShare = uncertain(
        0.40, "Output per heat in the fuel at its rated power, 0-1", (0.28, 0.48)
    )
    no_load_fuel: Annotated[float, Field(ge=0, lt=1)] = uncertain(
        0.08,
        (
            "Fuel that it burns without output, of that at its rated power, 0-1; gas "
            "turbines 0.2-0.35"
        ),
        (0.03, 0.12),
    )

    @model_validator(mode="after")
    def _runs_by_one(self) -> GeneratorSpec:
        if (self.schedule is None) == (self.above_mw is None):
            both = "both" if self.schedule is not None else "neither"
            raise ValueError(
                f"runs by schedule or above_mw, found {both}; give one of them"
            )
        if self.schedule is not None and self.hysteresis_mw:
            raise ValueError(
                "hysteresis_mw is of above_mw: leave it out beside a schedule"
            )
        return self

    def needed_step_ms(self) -> int | None:
        """Return a tenth of its start delay, or of a shorter ramp [ms]."""
        return tenth_ms(self.start_delay_s, S_PER_MIN / self.ramp_per_min)

    def open(self, site: SiteView) -> GeneratorSpec:
        """Return the stage, which knows the local time."""
        opened = self.model_copy()
        opened._wall = site.clock.wall
        return opened

    def apply(
        self, block: Block, state: GeneratorState | None
    ) -> tuple[Values, GeneratorState]:
        """Run it, and return what it gives and burns."""
        load_w = block.columns[POWER]
        rated_w = self.power_mw * W_PER_MW
        if self.schedule is not None:
            times_ms = np.append(block.t0_ms - block.dt_ms, block.starts_ms)
            ran, *_ = scheduled = any_hold(self.schedule, self._wall, times_ms)
            # It is wanted where a signal is above the first of two values, until it is
            # not above the second
            signal, bounds = scheduled[1:].astype(np.float64), (0.5, 0.5)
            wish_w = np.full(len(block), rated_w)
            first = GeneratorState(True, rated_w) if ran else GeneratorState()
        else:
            assert self.above_mw is not None
            above_w = self.above_mw * W_PER_MW
            signal, bounds = load_w, (above_w, above_w - self.hysteresis_mw * W_PER_MW)
            wish_w, first = load_w - above_w, GeneratorState()
        rows = np.empty((3, len(block)))
        after = _run(
            signal,
            np.clip(wish_w, self.min_load * rated_w, rated_w),
            block.dt_ms / MS_PER_S,
            bounds,
            (self.min_up_time_min * S_PER_MIN, self.min_down_time_min * S_PER_MIN),
            self.start_delay_s,
            self.ramp_per_min * rated_w / S_PER_MIN,
            first if state is None else state,
            rows,
        )
        given_w, running, starts = rows
        idle = self.no_load_fuel
        columns = {
            "generator_w": given_w,
            "generator_fuel_w": (idle * rated_w * running + (1 - idle) * given_w)
            / self.efficiency,
            "generator_running": running,
            "generator_starts": starts,
            POWER: load_w - given_w,
        }
        return columns, GeneratorState(*after)

    def meter(self) -> ColumnMeter:
        """Return what measures what it gives and burns."""
        return ColumnMeter(
            {
                "generator.energy_mwh": (Energy(), "generator_w"),
                "generator.fuel_mwh": (Energy(), "generator_fuel_w"),
                "generator.starts": (CountAbove(0.5), "generator_starts"),
                "generator.running_h": (
                    Energy(),
                    lambda columns: W_PER_MW * columns["generator_running"],
                ),
                "generator.max_mw": (RunningMaximum(per=W_PER_MW), "generator_w"),
            }
        )


@njit()
def _run(
    signal: Float64Array,
    wish_w: Float64Array,
    dt_s: float,
    bounds: tuple[float, float],
    least_s: tuple[float, float],
    start_delay_s: float,
    ramp_w_per_s: float,
    state: GeneratorState,
    rows: Float64Array,
) -> tuple[bool, float, float, float]:
    """Give mean output [W], share of time run, and starts of each interval."""
    on, level_w, delay_s, since_s = state
    for k in range(signal.size):
        rows[2, k] = 0.0
        wanted = signal[k] > (bounds[1] if on else bounds[0])
        if wanted != on and since_s >= (least_s[0] if on else least_s[1]):
            on, since_s, delay_s = wanted, 0.0, 0.0
            if on and level_w == 0.0:
                delay_s, rows[2, k] = start_delay_s, 1.0
        waits_s = min(delay_s, dt_s)
        delay_s -= waits_s
        left_s = dt_s - waits_s
        goal_w = wish_w[k] if on else 0.0
        gap_w = goal_w - level_w
        ramps_s = abs(gap_w) / ramp_w_per_s
        end_w = goal_w
        if ramps_s > left_s:
            ramps_s = left_s
            end_w = level_w + np.sign(gap_w) * ramp_w_per_s * left_s
        given_j = (level_w + end_w) / 2 * ramps_s + end_w * (left_s - ramps_s)
        rows[0, k] = given_j / dt_s
        rows[1, k] = (left_s if on else ramps_s) / dt_s
        level_w = end_w
        since_s += dt_s
    return on, level_w, delay_s, since_s
