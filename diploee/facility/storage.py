"""Storage that smooths the supply or follows a dispatch plan, interval by interval.

Smoothing: the request is the load, plus the battery's loss in the previous interval,
plus ``k (e_ref - e)``, which returns the store to its reference. In each interval dt
the target supply follows the request through a first-order lag of time constant tau,
limited to a ramp rate r from the previous supply, ``clip(lagged, P_s - r dt, P_s + r
dt)``. Without a lag, the supply settles at the median of the load, and the store stays
full; the median of a training job is the upper level of its iterations. With a lag of
several iterations, the supply follows the mean of the load. The battery supplies the
difference b = load - supply as far as its power and energy allow. The rest reaches the
grid, and is counted as uncovered. Stored energy e::

    e' = e - b dt / eta_d    (b > 0, discharging)
    e' = e - b dt eta_c      (b < 0, charging)

Symbols: b battery output [W], e energy [J], e_ref reference energy [J], k feedback
[1/s], eta_c and eta_d charge and discharge efficiency, dt interval [s], tau lag [s], r
ramp rate [W/s], P_s supply [W].

The state is passed from block to block, so that results do not depend on how a run is
cut into blocks.
ASSUMPTION: reactive power is unchanged.

See Also
--------
diploee.facility.battery : modes, settings and meter of a battery.
diploee.facility.ramp_limit : ramp limits without storage.

See also: docs/models/node_to_meter.md
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from diploee.base.jit import njit
from diploee.base.tables import Float64Array, Int64Array


class BatteryLimits(NamedTuple):
    """Limits and efficiencies of a battery in W, J and s."""

    power_w: float  # maximum charge and discharge power [W]
    # Minimum, maximum and reference energy [J]
    least_j: float
    most_j: float
    reference_j: float
    # Charge and discharge efficiency, 0-1
    charge: float = 1.0
    discharge: float = 1.0
    # Power requested to return to the reference, per missing energy [1/s]
    feedback_per_s: float = 0.0
    gives_w: float = np.nan  # maximum discharge power [W]; `power_w` if NaN


class SupplyLimits(NamedTuple):
    """Limits on the ramps and the lag of the supply."""

    # Maximum ramp rates [W/s]; infinite for no limit
    up_w_per_s: float = np.inf
    down_w_per_s: float = np.inf
    lag_s: float = 0.0  # time constant of the lag [s]; 0 for none


class StoreState(NamedTuple):
    """State of a battery at the end of an interval."""

    supply_w: float  # supply from the grid side [W]
    stored_j: float  # stored energy [J]
    level_w: float = np.nan  # output of the lag [W]; the supply if NaN
    loss_w: float = 0.0  # loss [W]


@dataclass(frozen=True, eq=False)
class SmoothedSupply:
    """Smoothed supply and battery power of a load, each of shape (n,)."""

    supply_w: Float64Array  # supply from the grid side [W]
    battery_w: Float64Array  # battery output, negative when charging [W]
    stored_j: Float64Array  # stored energy at the end of each interval [J]
    uncovered_w: Float64Array  # deviation from the target supply [W]
    state: StoreState


def smooth_supply(
    load_w: Float64Array,
    dt_s: float,
    store: BatteryLimits,
    limits: SupplyLimits,
    state: StoreState,
) -> SmoothedSupply:
    """Smooth the supply of a load with a store, within ramp limits and a lag."""
    rows = np.empty((4, load_w.size))
    if np.isnan(store.gives_w):
        store = store._replace(gives_w=store.power_w)
    initial = StoreState(*map(float, state))
    if np.isnan(initial.level_w):
        initial = initial._replace(level_w=initial.supply_w)
    parameters = BatteryLimits(*map(float, store)), SupplyLimits(*map(float, limits))
    last = _smooth(load_w, dt_s, *parameters, initial, rows)
    return SmoothedSupply(rows[0], rows[1], rows[2], rows[3], StoreState(*last))


@njit(inline="always")
def _battery_output(
    gives_w: float, dt_s: float, store: BatteryLimits, stored_j: float
) -> tuple[float, float]:
    """Return the battery output for a request [W], and the energy after it [J]."""
    if gives_w > 0:
        available_w = max(stored_j - store.least_j, 0.0) * store.discharge / dt_s
        gives_w = min(gives_w, store.gives_w, available_w)
        return gives_w, stored_j - gives_w * dt_s / store.discharge
    available_w = max(store.most_j - stored_j, 0.0) / store.charge / dt_s
    gives_w = -min(-gives_w, store.power_w, available_w)
    return gives_w, stored_j - gives_w * dt_s * store.charge


@njit()
def _smooth(
    load_w: Float64Array,
    dt_s: float,
    store: BatteryLimits,
    limits: SupplyLimits,
    initial: StoreState,
    rows: Float64Array,
) -> tuple[float, float, float, float]:
    """Fill `rows` with supply, battery output, stored energy and deviation.

    Returns the state at the end.
    """
    supply_w, stored_j, level_w, loss_w = initial
    # Lag of interval means: remainder of a step after an interval, and its mean
    remainder = mean = 0.0
    if limits.lag_s > 0:
        remainder = np.exp(-dt_s / limits.lag_s)
        mean = (1 - remainder) * limits.lag_s / dt_s
    for k in range(load_w.size):
        request_w = (
            load_w[k] + loss_w + store.feedback_per_s * (store.reference_j - stored_j)
        )
        lagged_w = request_w + (level_w - request_w) * mean
        level_w = request_w + (level_w - request_w) * remainder
        lowest_w = supply_w - limits.down_w_per_s * dt_s
        target_w = min(max(lagged_w, lowest_w), supply_w + limits.up_w_per_s * dt_s)
        gives_w = load_w[k] - target_w
        gives_w, stored_j = _battery_output(gives_w, dt_s, store, stored_j)
        loss_w = (
            gives_w * (1 / store.discharge - 1)
            if gives_w > 0
            else gives_w * (store.charge - 1)
        )
        supply_w = load_w[k] - gives_w
        rows[0, k] = supply_w
        rows[1, k] = gives_w
        rows[2, k] = stored_j
        rows[3, k] = abs(supply_w - target_w)
    return supply_w, stored_j, level_w, loss_w


class DispatchState(NamedTuple):
    """State of a battery with peak shaving or time of use, after an interval."""

    stored_j: float  # stored energy [J]
    billed_w: float = 0.0  # maximum billed mean of the month [W]
    drawn_j: float = 0.0  # energy of the clock interval so far [J]
    # Clock interval and month of the previous interval; at the start below all others
    window: int = -(2**62)
    month: int = -(2**62)


class DispatchPlan(NamedTuple):
    """A dispatch plan over the local time of intervals, each of shape (n,)."""

    plan: Float64Array  # 1 to charge, -1 to discharge, 0 to rest
    # Number of the billed clock interval, start of each interval within it [s], and
    # number of the month
    window: Int64Array
    offset_s: Float64Array
    month: Int64Array


@njit()
def dispatch(
    load_w: Float64Array,
    dt_s: float,
    store: BatteryLimits,
    target_w: float,
    window_s: float,
    clock: DispatchPlan,
    state: DispatchState,
    rows: Float64Array,
) -> tuple[float, float, float, int, int]:
    """Dispatch the battery by a target power, a billed mean, or a time-of-use plan.

    `target_w` is infinite for a time-of-use plan. `window_s` is the length of the
    billed intervals, 0 without them.
    """
    stored_j, billed_w, drawn_j, window, month = state
    for k in range(load_w.size):
        load = load_w[k]
        limit_w = max_w = target_w
        if window_s > 0:
            begins = clock.window[k] != window
            if begins:
                billed_w = max(billed_w, drawn_j / window_s)
            if clock.month[k] != month:
                billed_w = 0.0
            window, month = clock.window[k], clock.month[k]
            limit_w = max(billed_w, target_w)
            if begins:  # time before the run counts as at the limit
                drawn_j = limit_w * clock.offset_s[k]
            # Power with which the mean of the clock interval just meets the limit
            max_w = max(
                (limit_w * window_s - drawn_j) / (window_s - clock.offset_s[k]), 0.0
            )
        if np.isfinite(target_w):
            recharging_w = load + store.feedback_per_s * (store.reference_j - stored_j)
            target_supply_w = min(recharging_w, max(load, limit_w), max_w)
        elif clock.plan[k] >= 0:
            target_supply_w = load + clock.plan[k] * store.power_w
        else:
            target_supply_w = max(load - store.power_w, min(load, 0.0))
        gives_w, stored_j = _battery_output(
            load - target_supply_w, dt_s, store, stored_j
        )
        rows[0, k] = load - gives_w
        rows[1, k] = gives_w
        rows[2, k] = stored_j
        rows[3, k] = max(load - gives_w - max_w, 0.0)
        drawn_j += (load - gives_w) * dt_s
    return stored_j, billed_w, drawn_j, window, month
