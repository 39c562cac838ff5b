"""On-site generator: engines or turbines that run by schedule or above a demand.

A generator starts after a delay, ramps up to its output and down again, and does not
run steadily below its minimum load. The mean demand of an interval decides whether the
generator starts or stops at the start of that interval. Output and fuel are means over
an interval, in which the delay may end and the output may ramp. While the generator
runs, fuel power is linear in output (Willans line)::

    F = P_r / eta (k + (1 - k) P / P_r)

with F fuel power [W], P output [W], P_r rated power [W], eta `efficiency` at rated
power, and k `no_load_fuel`.

ASSUMPTION: the generator never fails, supplies active power only, and has no auxiliary
power. The defaults are assumed after makers' data sheets; the ranges span diesel and
gas engines and simple-cycle gas turbines.

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
    tenth_of_shortest_ms,
)
from diploee.facility.declared import COLUMNS, METRICS
from diploee.facility.local_hours import LocalHours, in_any_hours
from diploee.facility.stage_meters import ColumnMeter


class GeneratorState(NamedTuple):
    """State of a generator at the end of an interval."""

    on: bool = False  # True if ordered to run
    level_w: float = 0.0  # output [W]
    delay_s: float = 0.0  # remaining start delay [s]
    since_s: float = np.inf  # time since the last start or stop order [s]


class GeneratorSpec(StageSpec, Nameable):
    """A generator that runs in local hours, or when demand exceeds a power.

    See Also
    --------
    SolarSpec, BatterySpec : other on-site sources.
    """

    columns = COLUMNS["generator"]
    metrics = METRICS["generator"]
    boundary = "behind a generator"
    _wall: WallClock = PrivateAttr()

    kind: Literal["generator"] = default(
        "generator",
        (
            "A generator that runs at its rated power in local hours, or supplies the "
            "demand above a power."
        ),
    )
    power_mw: Annotated[PositiveFloat, SCALES] = Field(description="Rated power [MW].")
    schedule: Annotated[tuple[LocalHours, ...], Field(min_length=1)] | None = optional(
        "Local hours of running at rated power, whatever the demand; or above_mw."
    )
    above_mw: Annotated[NonNegativeFloat | None, SCALES] = optional(
        "Demand above which the generator starts, and supplies the excess [MW]."
    )
    hysteresis_mw: Annotated[NonNegativeFloat, SCALES] = default(
        0.0, "Distance below above_mw to which demand must fall for a stop [MW]."
    )
    min_load: Share = uncertain(
        0.3, "Minimum steady output per rated power, 0-1", (0.2, 0.6)
    )
    ramp_per_min: PositiveFloat = uncertain(
        1.0, "Ramp rate up and down per rated power [1/min]", (0.1, 1)
    )
    start_delay_s: NonNegativeFloat = uncertain(
        60.0, "Time from start order to first output [s]", (60, 600)
    )
    min_up_time_min: NonNegativeFloat = uncertain(
        30.0, "Minimum time from start to stop order [min]", (0, 240)
    )
    min_down_time_min: NonNegativeFloat = uncertain(
        15.0, "Minimum time from stop to start order [min]", (0, 240)
    )
    efficiency: PositiveShare = uncertain(
        0.40, "Output per heat in the fuel at rated power, 0-1", (0.28, 0.48)
    )
    no_load_fuel: Annotated[float, Field(ge=0, lt=1)] = uncertain(
        0.08,
        ("Fuel at no load per fuel at rated power, 0-1; gas turbines 0.2-0.35"),
        (0.03, 0.12),
    )

    @model_validator(mode="after")
    def _check_one_trigger(self) -> GeneratorSpec:
        """Refuse none or both of schedule and demand."""
        if (self.schedule is None) == (self.above_mw is None):
            both = "both" if self.schedule is not None else "neither"
            raise ValueError(
                f"runs by schedule or above_mw, found {both}; give one of them"
            )
        if self.schedule is not None and self.hysteresis_mw:
            raise ValueError(
                "hysteresis_mw applies to above_mw only: leave it out with a schedule"
            )
        return self

    def needed_step_ms(self) -> int | None:
        """Return a tenth of the start delay, or of the ramp if shorter [ms]."""
        return tenth_of_shortest_ms(self.start_delay_s, S_PER_MIN / self.ramp_per_min)

    def open(self, site: SiteView) -> GeneratorSpec:
        """Return a copy of the generator that uses the site's local time."""
        opened = self.model_copy()
        opened._wall = site.clock.wall
        return opened

    def apply(
        self, block: Block, state: GeneratorState | None
    ) -> tuple[Values, GeneratorState]:
        """Return the generator's output, fuel and starts, and the remaining power."""
        load_w = block.columns[POWER]
        rated_w = self.power_mw * W_PER_MW
        if self.schedule is not None:
            times_ms = np.append(block.t0_ms - block.dt_ms, block.starts_ms)
            was_running, *_ = scheduled = in_any_hours(
                self.schedule, self._wall, times_ms
            )
            # Hysteresis: on if the signal is above the first bound, off if not above
            # the second
            signal, bounds = scheduled[1:].astype(np.float64), (0.5, 0.5)
            target_w = np.full(len(block), rated_w)
            initial_state = (
                GeneratorState(True, rated_w) if was_running else GeneratorState()
            )
        else:
            assert self.above_mw is not None
            above_w = self.above_mw * W_PER_MW
            signal, bounds = load_w, (above_w, above_w - self.hysteresis_mw * W_PER_MW)
            target_w, initial_state = load_w - above_w, GeneratorState()
        rows = np.empty((3, len(block)))
        next_state = _run_generator(
            signal,
            np.clip(target_w, self.min_load * rated_w, rated_w),
            block.dt_ms / MS_PER_S,
            bounds,
            (self.min_up_time_min * S_PER_MIN, self.min_down_time_min * S_PER_MIN),
            self.start_delay_s,
            self.ramp_per_min * rated_w / S_PER_MIN,
            initial_state if state is None else state,
            rows,
        )
        output_w, running, starts = rows
        no_load = self.no_load_fuel
        columns = {
            "generator_w": output_w,
            "generator_fuel_w": (no_load * rated_w * running + (1 - no_load) * output_w)
            / self.efficiency,
            "generator_running": running,
            "generator_starts": starts,
            POWER: load_w - output_w,
        }
        return columns, GeneratorState(*next_state)

    def meter(self) -> ColumnMeter:
        """Return the meter of energy, fuel, starts and hours."""
        return ColumnMeter(
            {
                "generator.energy_mwh": (Energy(), "generator_w"),
                "generator.fuel_mwh": (Energy(), "generator_fuel_w"),
                "generator.starts": (CountAbove(0.5), "generator_starts"),
                "generator.running_h": (
                    Energy(),
                    lambda columns: W_PER_MW * columns["generator_running"],
                ),
                "generator.max_mw": (RunningMaximum(divisor=W_PER_MW), "generator_w"),
            }
        )


@njit()
def _run_generator(
    signal: Float64Array,
    target_w: Float64Array,
    dt_s: float,
    bounds: tuple[float, float],
    min_times_s: tuple[float, float],
    start_delay_s: float,
    ramp_w_per_s: float,
    state: GeneratorState,
    rows: Float64Array,
) -> tuple[bool, float, float, float]:
    """Fill `rows` with mean output [W], fraction of time running, and starts."""
    on, level_w, delay_s, since_s = state
    for k in range(signal.size):
        rows[2, k] = 0.0
        is_wanted = signal[k] > (bounds[1] if on else bounds[0])
        if is_wanted != on and since_s >= (min_times_s[0] if on else min_times_s[1]):
            on, since_s, delay_s = is_wanted, 0.0, 0.0
            if on and level_w == 0.0:
                delay_s, rows[2, k] = start_delay_s, 1.0
        waits_s = min(delay_s, dt_s)
        delay_s -= waits_s
        running_s = dt_s - waits_s
        goal_w = target_w[k] if on else 0.0
        gap_w = goal_w - level_w
        ramps_s = abs(gap_w) / ramp_w_per_s
        end_w = goal_w
        if ramps_s > running_s:
            ramps_s = running_s
            end_w = level_w + np.sign(gap_w) * ramp_w_per_s * running_s
        output_j = (level_w + end_w) / 2 * ramps_s + end_w * (running_s - ramps_s)
        rows[0, k] = output_j / dt_s
        rows[1, k] = (running_s if on else ramps_s) / dt_s
        level_w = end_w
        since_s += dt_s
    return on, level_w, delay_s, since_s
