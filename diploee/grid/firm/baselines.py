"""Customer baselines of utilities, and the battery that could replace load relief."""

from __future__ import annotations

import numpy as np

from diploee.base.jit import njit
from diploee.base.tables import Float64Array, Int64Array
from diploee.base.units import MS_PER_H, W_PER_MW
from diploee.facility.battery import BatterySpec
from diploee.grid.firm.undisturbed import UndisturbedYear

HIGHEST, DAYS, REACH_DAYS = 5, 10, 45
"""High 5 of 10: of the last ten days of the same type (weekday or weekend), none older
than `REACH_DAYS`, the five with the highest energy."""
MAX_ADJUSTMENT = 0.2
"""Largest same-day adjustment, up or down."""
ADJUSTED_H = (4, 1)
"""Hours before a day's first call whose power sets the adjustment."""
WEEKS = 4

EFFICIENCY = BatterySpec(power_mw=1.0, energy_mwh=1.0, smoothing_s=1.0)
"""A battery with the default efficiencies of the stage."""


def settlement_errors(
    year: UndisturbedYear, firm_w: Float64Array, spans: Int64Array
) -> tuple[float | None, float | None]:
    """Return the errors of two baselines, high 5 of 10 and same weekday's mean [MWh].

    An error is the baseline's energy minus that of the undisturbed year, over the hours
    in calls that have enough earlier days for the baseline; None if there are no such
    hours.
    """
    shift_h = int(year.wall.local_ms(np.zeros(1, dtype=np.int64))[0] // MS_PER_H)
    twin_w, metered_w, called = (
        _by_day(values, year.step_ms, shift_h % 24)
        for values in (year.power_w, firm_w, _called_steps(spans, firm_w.size))
    )
    monday = (shift_h // 24 + 3) % 7  # 1970-01-01 was a Thursday
    weekday = (np.arange(twin_w.shape[0]) + monday) % 7
    errors_wh, is_settled = np.zeros(2), np.zeros(2, dtype=np.bool_)
    for day in np.flatnonzero(np.nansum(called, axis=1) > 0).tolist():
        hours = np.flatnonzero(called[day] > 0)
        for row, baseline_w in enumerate(
            (
                _high_5_of_10(day, hours, metered_w, called, weekday),
                _same_weekday_mean(day, metered_w),
            )
        ):
            if baseline_w is not None and not np.isnan(baseline_w[hours]).any():
                errors_wh[row] += (baseline_w - twin_w[day])[hours].sum()
                is_settled[row] = True
    high, weekly = (
        float(wh) / W_PER_MW if known else None
        for wh, known in zip(errors_wh, is_settled, strict=True)
    )
    return high, weekly


def _called_steps(spans: Int64Array, n_steps: int) -> Float64Array:
    called = np.zeros(n_steps)
    for first, last in spans.tolist():
        called[first:last] = 1.0
    return called


def _by_day(values: Float64Array, step_ms: int, first_h: int) -> Float64Array:
    """Return hourly means by day of local standard time; NaN outside of the run."""
    per_h = MS_PER_H // step_ms
    hourly = values[: values.size // per_h * per_h].reshape(-1, per_h).mean(axis=1)
    padded = np.concatenate([np.full(first_h, np.nan), hourly])
    return np.append(padded, np.full(-padded.size % 24, np.nan)).reshape(-1, 24)


def _high_5_of_10(
    day: int,
    hours: Int64Array,
    metered_w: Float64Array,
    called: Float64Array,
    weekday: Int64Array,
) -> Float64Array | None:
    """Return the baseline of a day, adjusted by the hours before its first call."""
    days = np.arange(day - 1, -1, -1)
    days = days[(weekday[days] > 4) == (weekday[day] > 4)]
    days = days[~np.isnan(metered_w[days]).any(axis=1)]
    free = days[(called[days] == 0).all(axis=1) & (day - days <= REACH_DAYS)]
    days = (free if free.size >= HIGHEST else days)[:DAYS]
    if days.size < HIGHEST:
        return None
    energy = metered_w[days][:, hours].sum(axis=1)
    result: Float64Array = metered_w[days[np.argsort(-energy)[:HIGHEST]]].mean(axis=0)
    before = slice(hours[0] - ADJUSTED_H[0], hours[0] - ADJUSTED_H[1])
    if before.start >= 0 and result[before].sum() > 0:
        ratio = metered_w[day, before].sum() / result[before].sum()
        if not np.isnan(ratio):
            result = result * np.clip(ratio, 1 - MAX_ADJUSTMENT, 1 + MAX_ADJUSTMENT)
    return result


def _same_weekday_mean(day: int, metered_w: Float64Array) -> Float64Array | None:
    days = day - 7 * np.arange(1, WEEKS + 1)
    if days[-1] < 0:
        return None
    result: Float64Array = metered_w[days].mean(axis=0)
    return result


MAX_BATTERY_H = 24.0
"""ASSUMPTION: longest duration of a battery at its power that is considered [h]."""


def battery_mwh(
    above_w: Float64Array, room_w: Float64Array, step_ms: int
) -> float | None:
    """Return the energy of a battery that covers all power above a level [MWh].

    The battery charges with the power left below the level in calls, and below the
    undisturbed peak outside of calls. None if its energy divided by its power is more
    than `MAX_BATTERY_H`.
    """
    power_w = float(above_w.max(initial=0.0))
    charge, discharge = EFFICIENCY.charge_efficiency, EFFICIENCY.discharge_efficiency
    hours = step_ms / MS_PER_H
    charged_w = np.minimum(room_w, power_w) * charge
    energy_mwh = _max_shortfall(above_w / discharge - charged_w) * hours / W_PER_MW
    return energy_mwh if energy_mwh <= MAX_BATTERY_H * power_w / W_PER_MW else None


@njit()
def _max_shortfall(net: Float64Array) -> float:
    """Return the largest energy missing from a store that starts full [W x steps]."""
    short = deepest = 0.0
    for k in range(net.size):
        short = max(short + net[k], 0.0)
        deepest = max(deepest, short)
    return deepest
