"""A store that holds the supply steady, interval by interval.

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

See also: docs/models/node_to_meter.md
"""  # noqa: E501

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from diploee.base.jit import njit
from diploee.base.tables import Float64Array, Int64Array


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


class SupplyLimits(NamedTuple):
    """Limits on the ramps and the lag of the supply."""

    # Largest ramps [W/s]; infinite for none
    up_w_per_s: float = np.inf
    down_w_per_s: float = np.inf
    lag_s: float = 0.0  # time constant of the lag [s]; 0 for none


class StoreState(NamedTuple):
    """State behind an interval."""

    supply_w: float  # what was drawn [W]
    stored_j: float  # energy in it [J]
    level_w: float = np.nan  # of the lag [W]; the supply if NaN
    loss_w: float = 0.0  # what it lost [W]


@dataclass(frozen=True, eq=False)
class SteadiedSupply:
    """Supply, battery and store under a load, each of shape (n,)."""

    supply_w: Float64Array  # what is drawn [W]
    battery_w: Float64Array  # what the battery gives, negative where it takes [W]
    stored_j: Float64Array  # energy in it at the end of each interval [J]
    uncovered_w: Float64Array  # by how much it misses the supply that was asked for [W]
    state: StoreState


def hold(
    load_w: Float64Array,
    dt_s: float,
    store: BatteryLimits,
    asked: SupplyLimits,
    state: StoreState,
) -> SteadiedSupply:
    """Hold the supply of a load by a store."""
    rows = np.empty((4, load_w.size))
    if np.isnan(store.gives_w):
        store = store._replace(gives_w=store.power_w)
    before = StoreState(*map(float, state))
    if np.isnan(before.level_w):
        before = before._replace(level_w=before.supply_w)
    numbers = BatteryLimits(*map(float, store)), SupplyLimits(*map(float, asked))
    last = _hold(load_w, dt_s, *numbers, before, rows)
    return SteadiedSupply(rows[0], rows[1], rows[2], rows[3], StoreState(*last))


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
    asked: SupplyLimits,
    before: StoreState,
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
def dispatch(
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
