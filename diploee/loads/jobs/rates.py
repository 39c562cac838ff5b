"""Calendar weights of a run in local time: continuous rates with a mean of 1.

`bisect` finds the rate that meets a target utilization, as in the paper.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from diploee.base.clock import RunClock
from diploee.base.errors import WorkloadError
from diploee.base.progress import report
from diploee.base.rng import named_rng
from diploee.base.tables import Float64Array, Int64Array
from diploee.base.units import HOURS_PER_DAY, HOURS_PER_WEEK, MONTHS_PER_YEAR, MS_PER_H
from diploee.scenario.pools import InstalledNodes
from diploee.scenario.times import Calendar, WeekToWeek, public_holidays

EPOCH_HOUR_OF_WEEK = 3 * HOURS_PER_DAY
"""Hour of the week, counted from Monday, of 1970-01-01 00:00, a Thursday."""

MONTH_RAMP_H = 84
"""Duration of the ramp to the neighboring month's factor at either end of a month [h]:
half a week."""

CHAIN = 7
"""Number of correlation times after which a week no longer affects another, at a
correlation of 0.001."""

MAX_STDS = 3.0
"""Maximum deviation of the logarithm of a week's level, in standard deviations."""

MIN_DISPERSION = 1e-300
"""Minimum dispersion; the inverse of a smaller one, the shape of the gamma
distribution, is infinite."""


@dataclass(frozen=True, eq=False)
class HourlyRates:
    """Relative rate over time, with the calendar's mean in each hour.

    The rate is a polygonal line, with steps where nodes are added.
    """

    # Edges of the clock hours since the start of the run [ms], shape (H + 1,); the
    # first and last hour may be cut
    edges_ms: Int64Array
    # Times between which the rate is linear [ms], shape (N,), including the edges; a
    # time that occurs twice is a step, at which nodes are added
    points_ms: Int64Array
    # Rate at these times relative to the mean from `mean_from_ms`, shape (N,)
    point_rates: Float64Array

    @property
    def segment_integrals(self) -> Float64Array:
        """Integral between successive points [ms], shape (N - 1,)."""
        segment_integrals: Float64Array = np.diff(self.points_ms) * (
            self.point_rates[1:] + self.point_rates[:-1]
        )
        return segment_integrals / 2

    @property
    def hour_integrals(self) -> Float64Array:
        """Integral over each hour [ms], shape (H,)."""
        first = np.searchsorted(self.points_ms, self.edges_ms[:-1])
        return np.add.reduceat(self.segment_integrals, first)

    @property
    def relative_rate(self) -> Float64Array:
        """Mean rate of each hour relative to the mean rate of the run, shape (H,)."""
        return self.hour_integrals / np.diff(self.edges_ms)

    def at(self, times_ms: Int64Array) -> Float64Array:
        """Return the relative rate at times within the rates' period.

        At a step of the rate, the result is the rate after the step.
        """
        return np.interp(times_ms, self.points_ms, self.point_rates)

    def cut_at(self, times_ms: Int64Array) -> HourlyRates:
        """Return the same rates with hours also split at the given times [ms]."""
        inner_ms = times_ms[
            (times_ms > self.edges_ms[0]) & (times_ms < self.edges_ms[-1])
        ]
        edges_ms, points_ms = (
            np.setdiff1d(inner_ms, x) for x in (self.edges_ms, self.points_ms)
        )
        rows = np.searchsorted(self.points_ms, points_ms)
        return HourlyRates(
            np.sort(np.concatenate([self.edges_ms, edges_ms])),
            np.insert(self.points_ms, rows, points_ms),
            np.insert(self.point_rates, rows, self.at(points_ms)),
        )

    def between(self, begin_ms: int, end_ms: int) -> HourlyRates:
        """Return the rates between two times [ms].

        Hours that contain either time are partial.
        """
        begin_ms = max(begin_ms, int(self.edges_ms[0]))
        end_ms = min(end_ms, int(self.edges_ms[-1]))
        rows = _covering_slice(self.points_ms, begin_ms, end_ms)
        points_ms, point_rates = self.points_ms[rows], self.point_rates[rows].copy()
        point_rates[[0, -1]] = np.interp([begin_ms, end_ms], points_ms, point_rates)
        edges_ms = self.edges_ms[_covering_slice(self.edges_ms, begin_ms, end_ms)]
        points_ms, edges_ms = (
            np.clip(x, begin_ms, end_ms) for x in (points_ms, edges_ms)
        )
        return HourlyRates(edges_ms, points_ms, point_rates)


def _covering_slice(times_ms: Int64Array, begin_ms: int, end_ms: int) -> slice:
    """Return the slice of sorted times that covers a period.

    The slice is from the last time up to the period's start to the first time at or
    after its end.
    """
    first = int(np.searchsorted(times_ms, begin_ms, side="right")) - 1
    return slice(first, int(np.searchsorted(times_ms, end_ms)) + 1)


def line_with_means(
    edges_ms: Int64Array, means: Float64Array
) -> tuple[Int64Array, Float64Array]:
    """Return the points of a non-negative polygonal line with given means in steps.

    At an edge the line passes through the mean of the two steps, limited to twice the
    smaller one, so that a step of 0 stays 0. A point in the middle of each step
    restores the step's mean. All rates of calendars and replayed traces are such lines.
    Returns times [ms] and values.
    """
    inner_edges = mean_at_edge(means[1:], means[:-1])
    at_edges = np.concatenate([means[:1], inner_edges, means[-1:]])
    middle_ms = (edges_ms[:-1] + edges_ms[1:]) // 2
    length_ms = np.diff(edges_ms)
    first_half_ms = middle_ms - edges_ms[:-1]
    # Trapezoids on both sides of the middle, which is rounded to whole ms
    twice_integrals = 2 * means * length_ms
    at_middles = (
        twice_integrals
        - at_edges[:-1] * first_half_ms
        - at_edges[1:] * (length_ms - first_half_ms)
    ) / length_ms
    points_ms = np.append(
        np.column_stack([edges_ms[:-1], middle_ms]).ravel(), edges_ms[-1]
    )
    values = np.append(
        np.column_stack([at_edges[:-1], at_middles]).ravel(), at_edges[-1]
    )
    is_kept = np.append(True, np.diff(points_ms) > 0)  # a step of 1 ms has no middle
    return points_ms[is_kept], np.maximum(values, 0.0)[is_kept]


def _local_hours(
    clock: RunClock, begin_ms: int, end_ms: int
) -> tuple[Int64Array, Int64Array]:
    """Return the edges of the local clock hours of a period [ms], and their numbers.

    At a daylight-saving change, an hour is missing in spring and repeated in autumn.
    """
    edges_ms, hours = [], []
    for span in clock.wall.constant_offset_spans(begin_ms, end_ms):
        first = (span.begin_ms + span.shift_ms) // MS_PER_H
        span_hours = np.arange(first, -(-(span.end_ms + span.shift_ms) // MS_PER_H))
        edges_ms.append(
            np.maximum(span_hours * MS_PER_H - span.shift_ms, span.begin_ms)
        )
        hours.append(span_hours)
    return np.concatenate([*edges_ms, [end_ms]]), np.concatenate(hours)


def hour_weights(calendar: Calendar, hours: Int64Array) -> Float64Array:
    """Return the calendar weight of local hours: week weight times month weight."""
    return _week_weights(calendar, hours) * month_factors(calendar, hours)


def weekly_variance_ratio(correlation_weeks: float) -> float:
    """Return the variance of weekly means relative to that of the weekly levels, 0-1.

    The factor is linear between the levels at the middles of weeks. The mean of a week
    is therefore (level of the previous week + 6 x its own level + level of the next
    week) / 8. Levels n weeks apart have the correlation ``rho**n``.
    """
    rho = week_correlation(correlation_weeks)
    return float(19 + 12 * rho + rho**2) / 32


def week_correlation(correlation_weeks: float) -> float:
    """Return the correlation between the levels of successive weeks."""
    return float(np.exp(-1 / correlation_weeks)) if correlation_weeks > 0 else 0.0


def _week_factors(
    spec: WeekToWeek | None, hours: Int64Array, seed: int, *name: str
) -> Float64Array:
    """Return the random factor of the week at mid-hours of local time, shape (H,).

    The mean of the factors of each calendar year's weeks is 1.
    """
    if spec is None or not spec.relative_std or not hours.size:
        return np.ones(hours.size)
    middle = (hours + 0.5 + EPOCH_HOUR_OF_WEEK) / HOURS_PER_WEEK
    weeks = np.arange(int(middle.min()) - 1, int(middle.max()) + 2)
    years = [
        int(_middle_of_week(week).astype("datetime64[Y]").astype(int))
        for week in weeks[[0, -1]]
    ]
    parameters = spec.relative_std, spec.correlation_weeks
    levels_by_year = [
        _week_levels(year, *parameters, seed, *name)
        for year in range(years[0], years[1] + 1)
    ]
    level = np.concatenate([levels for _, levels in levels_by_year])
    return np.interp(middle, levels_by_year[0][0] + 0.5 + np.arange(level.size), level)


def _middle_of_week(week: int) -> np.datetime64:
    """Return noon on the Thursday of a week; week 0 contains 1970-01-01."""
    hour = int(week) * HOURS_PER_WEEK + HOURS_PER_WEEK // 2 - EPOCH_HOUR_OF_WEEK
    return np.datetime64(hour, "h")


@lru_cache(maxsize=128)
def _week_levels(
    year: int, relative_std: float, correlation_weeks: float, seed: int, *name: str
) -> tuple[int, Float64Array]:
    """Return a year's first week, counted from 1970, and the levels of its weeks."""
    new_year_h = (
        np.arange(year, year + 2).astype("datetime64[Y]").astype("datetime64[h]")
    )
    middle_h = (new_year_h - _middle_of_week(0)).astype(np.int64)
    first, end = (-(-middle_h // HOURS_PER_WEEK)).tolist()
    # A weighted sum of independent numbers of this and earlier weeks has the
    # correlation exp(-n / tau) of an autoregressive process, without initial value.
    rho = week_correlation(correlation_weeks)
    weights = rho ** np.arange(1 + round(CHAIN * correlation_weeks))
    weights /= np.sqrt(weights @ weights)
    normals = np.array(
        [
            named_rng(seed, *name, "week", week).standard_normal()
            for week in range(first - weights.size + 1, end)
        ]
    )
    normal = np.clip(np.convolve(normals, weights, "valid"), -MAX_STDS, MAX_STDS)
    # ln(1 + v): variance of the logarithm of a log-normal number with mean 1 and
    # variance v
    variance = np.log1p(relative_std**2 / weekly_variance_ratio(correlation_weeks))
    level = np.exp(np.sqrt(variance) * normal - variance / 2)
    return first, level / level.mean()


def mean_from_ms(calendar: Calendar, clock: RunClock) -> int:
    """Return the start of the period over which a calendar's mean is taken [ms].

    The period ends with the run. It starts with the run, or with the warm-up if the run
    is shorter than the day, week or year in which the weights repeat.
    """
    hours = np.array(calendar.week_weights()).reshape(-1, HOURS_PER_DAY)
    cycle_h = HOURS_PER_DAY if np.ptp(hours) else 0
    cycle_h = HOURS_PER_WEEK if np.ptp(hours, axis=0).any() else cycle_h
    cycle_h = HOURS_PER_DAY * 365 if np.ptp(calendar.month_weights()) else cycle_h
    # A day or week with the change to summer time is an hour shorter.
    return clock.begin_ms if clock.horizon_ms < (cycle_h - 1) * MS_PER_H else 0


FactorProcess = tuple[float, int, Callable[[int], np.random.Generator]]
"""Random factors on a rate: their variance, their number per day (24 or 1), and a
function that returns the random generator of a local day, by its number since 1970."""


def hourly_rates(
    calendar: Calendar,
    clock: RunClock,
    seed: int = 0,
    *name: str,
    installed: InstalledNodes | None = None,
    random_factors: Sequence[FactorProcess] = (),
) -> HourlyRates:
    """Return the calendar's rates over a run, continuous except where nodes are added.

    Each clock hour has the mean of its weight times its random factors. The random
    factors, including the weekly factors of the stream `name`, are not part of the mean
    of 1, which is taken over the period from `mean_from_ms`. Rates are proportional to
    the installed nodes.
    """
    # The line also depends on the hours next to the run, so that a run that begins
    # earlier has the same line.
    edges_ms, hours = _local_hours(
        clock, clock.begin_ms - 2 * MS_PER_H, clock.horizon_ms + 2 * MS_PER_H
    )
    weight = hour_weights(calendar, hours)

    def rates_from_hours(hour_means: Float64Array) -> HourlyRates:
        """Return the rates over the run from the means of clock hours."""
        line = HourlyRates(edges_ms, *line_with_means(edges_ms, hour_means))
        if installed is not None and installed.added:
            line = _times_installed(line, installed)
        return line.between(clock.begin_ms, clock.horizon_ms)

    from_ms = mean_from_ms(calendar, clock)
    segment_integrals = (
        rates_from_hours(weight).between(from_ms, clock.horizon_ms).segment_integrals
    )
    mean = segment_integrals.sum() / (clock.horizon_ms - from_ms)
    if not mean > 0:
        raise WorkloadError(
            f"calendar: every hour from {clock.start} on has weight zero; "
            "give the simulated hours and months positive weights"
        )
    weight = weight / mean * _week_factors(calendar.week_to_week, hours, seed, *name)
    for dispersion, per_day, random in random_factors:
        hours_since_1970 = (clock.date_ms(0) + edges_ms[:-1]) // MS_PER_H
        weight = weight * gamma_factors(dispersion, hours_since_1970, random, per_day)
    return rates_from_hours(weight)


def _times_installed(line: HourlyRates, installed: InstalledNodes) -> HourlyRates:
    """Return a line times the installed nodes, with a step where nodes are added."""
    added_ms = np.array([time_ms for time_ms, _ in installed.added])
    added_ms = added_ms[
        (added_ms > line.points_ms[0]) & (added_ms < line.points_ms[-1])
    ]
    points_ms = np.union1d(line.points_ms, added_ms)
    is_step = np.isin(points_ms, added_ms)
    # Of two points at one time, the first one is before the step
    first_of_pair = np.append(0, np.cumsum(1 + is_step)[:-1])
    point_rates = np.repeat(line.at(points_ms), 1 + is_step)
    n_installed = np.repeat(installed.at(points_ms), 1 + is_step)
    n_installed[first_of_pair] = installed.at(points_ms - 1)
    return HourlyRates(
        line.edges_ms, np.repeat(points_ms, 1 + is_step), point_rates * n_installed
    )


def _week_weights(calendar: Calendar, hours: Int64Array) -> Float64Array:
    """Return the weight of the hour of the week, shape (H,).

    Holidays have the weights of `holiday_weekday`.
    """
    hour = (hours + EPOCH_HOUR_OF_WEEK) % HOURS_PER_WEEK
    if calendar.holidays is not None and hours.size:
        days = hours // HOURS_PER_DAY
        first, last = (
            int(np.datetime64(int(day), "D").astype("datetime64[Y]").astype(int)) + 1970
            for day in (days.min(), days.max())
        )
        holiday_hour = calendar.holiday_weekday * HOURS_PER_DAY + hours % HOURS_PER_DAY
        hour = np.where(
            np.isin(days, public_holidays(calendar.holidays, first, last)),
            holiday_hour,
            hour,
        )
    return np.array(calendar.week_weights())[hour]


def month_factors(calendar: Calendar, hours: Int64Array) -> Float64Array:
    """Return the month factor at local hours, continuous across month ends.

    A month has a constant level except within `MONTH_RAMP_H` of either end, where the
    factor is linear to the mean of the two months' weights (at most twice the smaller
    weight, so that a month without load stays at 0). The level preserves the month's
    total load. Assumed: the length of the ramps.
    """
    weights = np.array(calendar.month_weights())
    if not hours.size or (weights == weights[0]).all():
        return np.full(hours.size, weights[0])
    first, last = (
        np.datetime64(int(hour), "h").astype("datetime64[M]")
        for hour in (hours.min(), hours.max())
    )
    months = np.arange(first, last + np.timedelta64(2, "M"))
    edges_h = months.astype("datetime64[h]").astype(np.int64)
    month_weights = weights[months[:-1].astype(np.int64) % MONTHS_PER_YEAR]
    end_factors = [
        mean_at_edge(
            month_weights,
            weights[(months[:-1].astype(np.int64) + step) % MONTHS_PER_YEAR],
        )
        for step in (-1, 1)
    ]
    level = np.array(
        [
            _month_level(
                calendar,
                edges_h[k : k + 2],
                month_weights[k],
                end_factors[0][k],
                end_factors[1][k],
            )
            for k in range(month_weights.size)
        ]
    )
    corners_h = np.column_stack(
        [edges_h[:-1], edges_h[:-1] + MONTH_RAMP_H, edges_h[1:] - MONTH_RAMP_H]
    )
    corners = np.column_stack([end_factors[0], level, level])
    return np.interp(
        hours + 0.5,
        np.append(corners_h.ravel(), edges_h[-1]),
        np.append(corners.ravel(), end_factors[1][-1]),
    )


def mean_at_edge(step: Float64Array, neighbor: Float64Array) -> Float64Array:
    """Return the mean of two adjacent steps, limited to twice the smaller step."""
    return np.minimum((step + neighbor) / 2, 2 * np.minimum(step, neighbor))


def _month_level(
    calendar: Calendar,
    edges_h: Int64Array,
    weight: float,
    at_begin: float,
    at_end: float,
) -> float:
    """Return the level between a month's ramps that preserves the month's total."""
    hours = np.arange(edges_h[0], edges_h[1])
    load = _week_weights(calendar, hours)
    hours_from_begin, hours_to_end = hours + 0.5 - edges_h[0], edges_h[1] - hours - 0.5
    begin_load = load @ np.maximum(0.0, 1 - hours_from_begin / MONTH_RAMP_H)
    end_load = load @ np.maximum(0.0, 1 - hours_to_end / MONTH_RAMP_H)
    total_load = load.sum()
    if not total_load - begin_load - end_load > 0:
        return weight
    level = (weight * total_load - at_begin * begin_load - at_end * end_load) / (
        total_load - begin_load - end_load
    )
    return max(0.0, float(level))


def hour_of_week(hours: npt.NDArray[np.datetime64]) -> Int64Array:
    """Return the hour of the week of local hours, 0 (Monday 00:00) to 167."""
    since_monday: Int64Array = (
        hours.astype("datetime64[h]").astype(np.int64) + EPOCH_HOUR_OF_WEEK
    )
    return since_monday % HOURS_PER_WEEK


def month_of_year(hours: npt.NDArray[np.datetime64]) -> Int64Array:
    """Return the month of local hours, 0 (January) to 11."""
    return hours.astype("datetime64[M]").astype(np.int64) % MONTHS_PER_YEAR


def gamma_factors(
    dispersion: float,
    hours: Int64Array,
    random: Callable[[int], np.random.Generator],
    per_day: int = HOURS_PER_DAY,
) -> Float64Array:
    """Draw a gamma-distributed random factor of mean 1 for every hour or day.

    Poisson counts of rates with such factors are negative binomial, with variance mean
    + dispersion * mean**2. Thinning of the submissions does not change the dispersion.
    """
    scale = max(dispersion, MIN_DISPERSION)
    first, last = hours[0] // HOURS_PER_DAY, hours[-1] // HOURS_PER_DAY
    factors = np.concatenate(
        [
            random(day).gamma(1 / scale, scale, per_day)
            for day in range(int(first), int(last) + 1)
        ]
    )
    return factors[(hours - first * HOURS_PER_DAY) * per_day // HOURS_PER_DAY]


# Maximum number of evaluations of a bisection
MAX_STEPS = 100
# Maximum number of evaluations that interpolation selects
MAX_PREDICTED = 12


def bisect(
    function: Callable[[float], float],
    target: float,
    low: float,
    high: float,
    tolerance: float,
) -> tuple[float, float, int]:
    """Find the argument at which a non-decreasing function is nearest to a target.

    Returns the argument, the function's value and the number of evaluations.
    """
    best, best_value = high, function(high)
    steps, fraction_done = 1, 0.0
    while abs(best_value - target) > tolerance and steps < MAX_STEPS:
        # Either function(low) < target <= function(high), or no value up to high
        # reaches the target. As a step function may jump over the target, the nearest
        # value is stored.
        middle = (low + high) / 2
        if not low < middle < high:
            break
        halvings = math.log2(max(abs(best_value - target) / max(tolerance, 1e-12), 1.0))
        fraction_done = max(fraction_done, steps / (steps + halvings + 1))
        report(fraction_done, "finding the load that meets the target")
        value = function(middle)
        steps += 1
        if abs(value - target) < abs(best_value - target):
            best, best_value = middle, value
        if value < target:
            low = middle
        else:
            high = middle
    return best, best_value, steps


def bisect_rising(
    function: Callable[[float], float],
    target: float,
    low: float,
    high: float,
    tolerance: float,
) -> tuple[float, float, int]:
    """Bisect a costly non-decreasing function with fewer evaluations than `bisect`.

    The points of all remaining bisection steps are predicted by linear interpolation
    between the two evaluated points nearest to the target. The last of these points is
    evaluated next. As the function does not decrease, its value decides most of the
    steps before.
    """
    evaluated = {x: function(x) for x in (low, high)}
    extrapolated: list[float] = []

    def predict(x: float) -> float:
        """Return the evaluated or the interpolated value of a point."""
        if x in evaluated:
            return evaluated[x]
        # Beyond an evaluated point that misses the target
        if not below < x < above:
            return -np.inf if x <= below else np.inf
        extrapolated.append(x)
        return y0 + slope * (x - x0)

    for _ in range(MAX_PREDICTED):
        below = max(
            (x for x, y in evaluated.items() if y < target - tolerance), default=-np.inf
        )
        above = min(
            (x for x, y in evaluated.items() if y > target + tolerance), default=np.inf
        )
        (x0, y0), (x1, y1) = sorted(
            evaluated.items(), key=lambda point: abs(point[1] - target)
        )[:2]
        slope = (y1 - y0) / (x1 - x0)
        extrapolated.clear()
        result = bisect(predict, target, low, high, tolerance)
        if not extrapolated:
            break
        brackets_target = slope * (below - x0) < target - y0 < slope * (above - x0)
        next_x = extrapolated[-1 if brackets_target else 0]
        evaluated[next_x] = function(next_x)
    if not extrapolated and abs(result[1] - target) <= tolerance:
        return result
    return bisect(
        lambda x: evaluated[x] if x in evaluated else function(x),
        target,
        low,
        high,
        tolerance,
    )
