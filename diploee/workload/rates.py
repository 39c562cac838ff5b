"""Calendar weights over a run, by its local time: rates with a mean of 1, in steps or lines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from diploee.clock import RunClock
from diploee.errors import WorkloadError
from diploee.scenario import Calendar, StandingNodes, WeekToWeek
from diploee.scenario.holidays import holidays_of
from diploee.streams import stream
from diploee.tables import Float64Array, Int64Array
from diploee.units import HOURS_PER_DAY, HOURS_PER_WEEK, MONTHS_PER_YEAR, MS_PER_H

EPOCH_HOUR_OF_WEEK = 3 * HOURS_PER_DAY
"""1970-01-01 00:00 was on a Thursday, day 3 of a week that starts on Monday."""

MONTH_RAMP_H = 84
"""Hours at either end of a month in which its factor goes to that of its neighbour: half a week."""

CHAIN = 7
"""Correlation times after which a week no longer counts for another, at a correlation of 0.001."""

LEAST_DISPERSION = 1e-300
"""Of a smaller one the inverse, the shape of the gamma distribution, is no number."""


@dataclass(frozen=True, eq=False)
class HourlyRates:
    """Relative rate in every clock hour of a span.

    Parameters
    ----------
    edges_ms : numpy.ndarray, shape (H + 1,), int64
        Edges of the clock hours from the start of the run [ms]; the first and last may be partial.
    relative_rate : numpy.ndarray, shape (H,), float64
        Rate in each hour relative to the mean over the run (time-weighted mean 1).
    """

    edges_ms: Int64Array
    relative_rate: Float64Array

    def between(self, begin_ms: int, end_ms: int) -> HourlyRates:
        """Return the part of the span between two times; hours that they cut are partial."""
        begin_ms = max(begin_ms, int(self.edges_ms[0]))
        end_ms = min(end_ms, int(self.edges_ms[-1]))
        first = int(np.searchsorted(self.edges_ms, begin_ms, side="right")) - 1
        stop = int(np.searchsorted(self.edges_ms, end_ms, side="left"))
        edges_ms = self.edges_ms[first : stop + 1].copy()
        edges_ms[0], edges_ms[-1] = begin_ms, end_ms
        return HourlyRates(edges_ms, self.relative_rate[first:stop])


def local_hours(clock: RunClock, begin_ms: int, end_ms: int) -> tuple[Int64Array, Int64Array]:
    """Return the clock hours of a part of a run, as the wall clock has them.

    Where the clock is put forward an hour is missing, where it is put back one comes twice.

    Parameters
    ----------
    clock : RunClock
        The run.
    begin_ms, end_ms : int
        The part [ms since the run's start].

    Returns
    -------
    edges_ms : numpy.ndarray, shape (H + 1,), int64
        Edges of the hours [ms since the run's start]; those that the part cuts are partial.
    hours : numpy.ndarray, shape (H,), int64
        Hours of local time since 1970-01-01 00:00.
    """
    edges_ms, hours = [], []
    for part in clock.wall.stretches(begin_ms, end_ms):
        first = (part.begin_ms + part.shift_ms) // MS_PER_H
        of_part = np.arange(first, -(-(part.end_ms + part.shift_ms) // MS_PER_H))
        edges_ms.append(np.maximum(of_part * MS_PER_H - part.shift_ms, part.begin_ms))
        hours.append(of_part)
    return np.concatenate([*edges_ms, [end_ms]]), np.concatenate(hours)


def hour_weights(calendar: Calendar, hours: Int64Array) -> Float64Array:
    """Return the calendar's weight of hours of local time: that of the week times the month's.

    Parameters
    ----------
    calendar : Calendar
        Weights of the hours of the week and of the months.
    hours : numpy.ndarray, shape (H,), int64
        Hours of local time since 1970-01-01 00:00.
    """
    return _of_week(calendar, hours) * month_factors(calendar, hours)


def week_share(correlation_weeks: float) -> float:
    """Return the variance of weekly means over that of the weeks' levels, 0-1.

    Linear between the middles of the weeks, the mean of a week is (before + 6 x own + after) / 8 of
    the levels; those of weeks n apart have the correlation ``rho**n``.
    """
    rho = week_correlation(correlation_weeks)
    return float(19 + 12 * rho + rho**2) / 32


def week_correlation(correlation_weeks: float) -> float:
    """Return the correlation of the levels of successive weeks."""
    return float(np.exp(-1 / correlation_weeks)) if correlation_weeks > 0 else 0.0


def week_factors(spec: WeekToWeek | None, hours: Int64Array, seed: int, *name: str) -> Float64Array:
    """Return the random factor of the weeks in the middle of hours of local time, shape (H,).

    Its mean over the weeks of each calendar year is 1.

    Parameters
    ----------
    spec : WeekToWeek, optional
        How weeks differ; 1 throughout where they do not.
    hours : numpy.ndarray, shape (H,), int64
        Hours of local time since 1970-01-01 00:00.
    seed : int
        Seed of the run.
    *name : str
        What the factor is for.
    """
    if spec is None or not spec.relative_std or not hours.size:
        return np.ones(hours.size)
    middle = (hours + 0.5 + EPOCH_HOUR_OF_WEEK) / HOURS_PER_WEEK
    weeks = np.arange(int(middle.min()) - 1, int(middle.max()) + 2)
    years = [
        int(middle_of_week(week).astype("datetime64[Y]").astype(int)) for week in weeks[[0, -1]]
    ]
    size = spec.relative_std, spec.correlation_weeks
    of_years = [_week_levels(year, *size, seed, *name) for year in range(years[0], years[1] + 1)]
    level = np.concatenate([levels for _, levels in of_years])
    factors: Float64Array = np.interp(middle, of_years[0][0] + 0.5 + np.arange(level.size), level)
    return factors


def middle_of_week(week: int) -> np.datetime64:
    """Return noon on the Thursday of a week, counted from the one that holds 1970-01-01."""
    hour = int(week) * HOURS_PER_WEEK + HOURS_PER_WEEK // 2 - EPOCH_HOUR_OF_WEEK
    return np.datetime64(hour, "h")


@lru_cache(maxsize=128)
def _week_levels(
    year: int, relative_std: float, correlation_weeks: float, seed: int, *name: str
) -> tuple[int, Float64Array]:
    """Return the first week whose middle lies in a year (from 1970), and the levels of all."""
    new_year_h = np.arange(year, year + 2).astype("datetime64[Y]").astype("datetime64[h]")
    middle_h = (new_year_h - middle_of_week(0)).astype(np.int64)
    first, end = (-(-middle_h // HOURS_PER_WEEK)).tolist()
    # A sum of independent numbers of the week and those before it has the same correlation as a
    # chain of weeks, exp(-n / tau), and needs no first week.
    rho = week_correlation(correlation_weeks)
    kernel = rho ** np.arange(1 + round(CHAIN * correlation_weeks))
    kernel /= np.sqrt(kernel @ kernel)
    drawn = np.array(
        [
            stream(seed, *name, "week", week).standard_normal()
            for week in range(first - kernel.size + 1, end)
        ]
    )
    normal = np.convolve(drawn, kernel, "valid")
    # ln(1 + v) is the variance of the logarithm of a log-normal number of mean 1, variance v.
    variance = np.log1p(relative_std**2 / week_share(correlation_weeks))
    level = np.exp(np.sqrt(variance) * normal - variance / 2)
    return first, level / level.mean()


def hourly_rates(
    calendar: Calendar,
    clock: RunClock,
    seed: int = 0,
    *name: str,
    standing: StandingNodes | None = None,
) -> HourlyRates:
    """Lay calendar weights over a run.

    Parameters
    ----------
    calendar : Calendar
        Weights of the hours of the week and of the months, and how weeks differ.
    clock : RunClock
        The run.
    seed : int
        Seed of the run.
    *name : str
        Stream whose weeks differ.
    standing : StandingNodes, optional
        Nodes that the rates are in proportion to; constant where absent.

    Returns
    -------
    HourlyRates
        One relative rate per clock hour; the weeks' factor is not in the mean of 1.

    Raises
    ------
    WorkloadError
        If every hour of the run has weight zero.
    """
    edges_ms, hours = local_hours(clock, clock.begin_ms, clock.horizon_ms)
    weight = hour_weights(calendar, hours)
    if standing is not None and standing.added:
        weight = weight * standing.at(edges_ms[:-1])
    in_run_ms = np.diff(np.maximum(edges_ms, 0))
    _check_any(weight[in_run_ms > 0], clock)
    mean = np.average(weight, weights=in_run_ms)
    factor = week_factors(calendar.week_to_week, hours, seed, *name)
    return HourlyRates(edges_ms, weight / mean * factor)


def continuous_rates(
    calendar: Calendar,
    clock: RunClock,
    times_ms: Int64Array,
    seed: int = 0,
    *name: str,
    standing: StandingNodes | None = None,
) -> Float64Array:
    """Return the relative rate at times of a run, without a step but where nodes are added.

    The weights of the hours hold at their centres and are linear between them.

    Parameters
    ----------
    calendar, clock, seed, *name, standing
        As of `hourly_rates`.
    times_ms : numpy.ndarray, shape (n,), int64
        Times [ms since the run's start], increasing.

    Returns
    -------
    numpy.ndarray, shape (n,), float64
        Rate over its mean over the run, the weeks' factor not in it.

    Raises
    ------
    WorkloadError
        If every hour of the run has weight zero.
    """
    begin_ms, end_ms = min(int(times_ms[0]), 0), max(int(times_ms[-1]), clock.horizon_ms)
    edges_ms, hours = local_hours(clock, begin_ms - 2 * MS_PER_H, end_ms + 2 * MS_PER_H)
    centres_ms = (edges_ms[1:] + edges_ms[:-1]) / 2
    weight = hour_weights(calendar, hours)
    inside = (edges_ms[1:] > 0) & (edges_ms[:-1] < clock.horizon_ms)
    _check_any(weight[inside], clock)
    within = centres_ms[(centres_ms > 0) & (centres_ms < clock.horizon_ms)]
    corners_ms = np.concatenate([[0], within, [clock.horizon_ms]])
    grows = standing if standing is not None and standing.added else None
    if grows is not None:
        corners_ms = np.union1d(corners_ms, [time_ms for time_ms, _ in grows.added])
    over_run = np.interp(corners_ms, centres_ms, weight)
    total = float(np.trapezoid(over_run, corners_ms))
    if grows is not None:
        of_pieces = np.diff(corners_ms) * (over_run[1:] + over_run[:-1]) / 2
        total = float(of_pieces @ grows.at(corners_ms[:-1]))
        _check_any(np.array([total]), clock)
    mean = total / clock.horizon_ms
    weight *= week_factors(calendar.week_to_week, hours, seed, *name)
    rates: Float64Array = np.interp(times_ms, centres_ms, weight / mean)
    return rates if grows is None else rates * grows.at(times_ms)


def _check_any(weight: Float64Array, clock: RunClock) -> None:
    if not weight.any():
        raise WorkloadError(
            f"calendar: every hour from {clock.start} on has weight zero; "
            "give the simulated hours and months positive weights"
        )


def _of_week(calendar: Calendar, hours: Int64Array) -> Float64Array:
    """Return the weight of the hour of the week, shape (H,); of holidays that of their weekday."""
    slot = (hours + EPOCH_HOUR_OF_WEEK) % HOURS_PER_WEEK
    if calendar.holidays is not None and hours.size:
        days = hours // HOURS_PER_DAY
        first, last = (
            int(np.datetime64(int(day), "D").astype("datetime64[Y]").astype(int)) + 1970
            for day in (days.min(), days.max())
        )
        as_day = calendar.holiday_weekday * HOURS_PER_DAY + hours % HOURS_PER_DAY
        slot = np.where(np.isin(days, holidays_of(calendar.holidays, first, last)), as_day, slot)
    week: Float64Array = np.array(calendar.week_weights())[slot]
    return week


def month_factors(calendar: Calendar, hours: Int64Array) -> Float64Array:
    """Return the factor of the months at hours of local time, continuous over their ends.

    Each month holds a level of its own, but for `MONTH_RAMP_H` at either end, where it goes in a
    straight line to the mean of its own and its neighbour's weight (at most twice the smaller, so
    that next to a month without load there is none). The level is such that the month has as much
    load as its weight on every hour would give it (ASSUMPTION: the ramps' length).

    Parameters
    ----------
    calendar : Calendar
        Its month and week weights.
    hours : numpy.ndarray, shape (H,), int64
        Hours of local time since 1970-01-01 00:00; the factor is that of their middle.

    Returns
    -------
    numpy.ndarray, shape (H,), float64
        The factor, 0 or more.
    """
    weights = np.array(calendar.month_weights())
    if not hours.size or (weights == weights[0]).all():
        return np.full(hours.size, weights[0])
    first, last = (
        np.datetime64(int(hour), "h").astype("datetime64[M]") for hour in (hours.min(), hours.max())
    )
    months = np.arange(first, last + np.timedelta64(2, "M"))
    edges_h = months.astype("datetime64[h]").astype(np.int64)
    own = weights[months[:-1].astype(np.int64) % MONTHS_PER_YEAR]
    ends = [
        _joint(own, weights[(months[:-1].astype(np.int64) + step) % MONTHS_PER_YEAR])
        for step in (-1, 1)
    ]
    level = np.array(
        [
            _month_level(calendar, edges_h[k : k + 2], own[k], ends[0][k], ends[1][k])
            for k in range(own.size)
        ]
    )
    corners_h = np.column_stack(
        [edges_h[:-1], edges_h[:-1] + MONTH_RAMP_H, edges_h[1:] - MONTH_RAMP_H]
    )
    corners = np.column_stack([ends[0], level, level])
    factors: Float64Array = np.interp(
        hours + 0.5,
        np.append(corners_h.ravel(), edges_h[-1]),
        np.append(corners.ravel(), ends[1][-1]),
    )
    return factors


def _joint(own: Float64Array, neighbour: Float64Array) -> Float64Array:
    """Return the factor where two months meet."""
    joint: Float64Array = np.minimum((own + neighbour) / 2, 2 * np.minimum(own, neighbour))
    return joint


def _month_level(
    calendar: Calendar, edges_h: Int64Array, weight: float, at_begin: float, at_end: float
) -> float:
    """Return the level between a month's ramps that keeps its total."""
    hours = np.arange(edges_h[0], edges_h[1])
    load = _of_week(calendar, hours)
    into, left = hours + 0.5 - edges_h[0], edges_h[1] - hours - 0.5
    begin = load @ np.maximum(0.0, 1 - into / MONTH_RAMP_H)
    end = load @ np.maximum(0.0, 1 - left / MONTH_RAMP_H)
    whole = load.sum()
    if not whole - begin - end > 0:
        return weight
    level = (weight * whole - at_begin * begin - at_end * end) / (whole - begin - end)
    return max(0.0, float(level))


def hour_of_week(hours: npt.NDArray[np.datetime64]) -> Int64Array:
    """Return the hour of the week of local hours, 0 on Monday at 00:00, to 167."""
    since_monday: Int64Array = hours.astype("datetime64[h]").astype(np.int64) + EPOCH_HOUR_OF_WEEK
    return since_monday % HOURS_PER_WEEK


def month_of_year(hours: npt.NDArray[np.datetime64]) -> Int64Array:
    """Return the month of local hours, 0 in January, to 11."""
    months: Int64Array = hours.astype("datetime64[M]").astype(np.int64) % MONTHS_PER_YEAR
    return months


def dispersed(
    rates: HourlyRates,
    dispersion: float,
    start_ms: int,
    random: Callable[[int], np.random.Generator],
    per_day: int = HOURS_PER_DAY,
) -> HourlyRates:
    """Multiply the rate of every hour, or day, by a random factor, gamma distributed with mean 1.

    Poisson counts of such rates are negative binomial, with variance mean + dispersion * mean**2.
    Thinning the submissions by any share leaves the dispersion as it is.

    Parameters
    ----------
    rates : HourlyRates
        Rates of the calendar.
    dispersion : float
        Variance of the factor, above 0.
    start_ms : int
        Local time at the start of the run [ms since 1970].
    random : callable
        Where the factors of a local day come from, by its number since 1970.
    per_day : int
        Factors of a day: one per hour, or 1.

    Returns
    -------
    HourlyRates
        Rates whose expectation over the draw has mean 1; their own mean scatters about it.
    """
    least = max(dispersion, LEAST_DISPERSION)
    hours = (start_ms + rates.edges_ms[:-1]) // MS_PER_H
    first, last = hours[0] // HOURS_PER_DAY, hours[-1] // HOURS_PER_DAY
    factors = np.concatenate(
        [random(day).gamma(1 / least, least, per_day) for day in range(int(first), int(last) + 1)]
    )
    at = (hours - first * HOURS_PER_DAY) * per_day // HOURS_PER_DAY
    return HourlyRates(rates.edges_ms, rates.relative_rate * factors[at])
