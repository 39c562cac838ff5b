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
"""1970-01-01 00:00 was on a Thursday, day 3 of a week that starts on Monday."""

MONTH_RAMP_H = 84
"""Hours at either end of a month in which its factor goes to that of its neighbour:
half a week."""

CHAIN = 7
"""Correlation times after which a week no longer counts for another, at a correlation
of 0.001."""

MAX_STDS = 3.0
"""Standard deviations of its logarithm by which a week's level differs at most."""

MIN_DISPERSION = 1e-300
"""Of a smaller one the inverse, the shape of the gamma distribution, is no number."""


@dataclass(frozen=True, eq=False)
class HourlyRates:
    """Relative rate over time, with the calendar's mean in each hour."""

    # Edges of the clock hours from the start of the run, (H + 1,), the first and last
    # one cut
    edges_ms: Int64Array
    # Times between which the rate is linear, (N,), the edges among them; one that comes
    # twice is a step, where nodes are added
    nodes_ms: Int64Array
    at_nodes: Float64Array  # rate there relative to the mean from `mean_from_ms` on

    @property
    def of_pieces(self) -> Float64Array:
        """Integral between successive knots [ms], shape (N - 1,)."""
        of_pieces: Float64Array = np.diff(self.nodes_ms) * (
            self.at_nodes[1:] + self.at_nodes[:-1]
        )
        return of_pieces / 2

    @property
    def of_hours(self) -> Float64Array:
        """Integral over each hour [ms], shape (H,)."""
        first = np.searchsorted(self.nodes_ms, self.edges_ms[:-1])
        return np.add.reduceat(self.of_pieces, first)

    @property
    def relative_rate(self) -> Float64Array:
        """Mean rate of each hour over the mean rate of the run, shape (H,)."""
        return self.of_hours / np.diff(self.edges_ms)

    def at(self, times_ms: Int64Array) -> Float64Array:
        """Return the right-continuous relative rate at times within the span."""
        return np.interp(times_ms, self.nodes_ms, self.at_nodes)

    def cut_at(self, times_ms: Int64Array) -> HourlyRates:
        """Return the same rates with hours also split at the given times."""
        inside = times_ms[
            (times_ms > self.edges_ms[0]) & (times_ms < self.edges_ms[-1])
        ]
        edges_ms, nodes_ms = (
            np.setdiff1d(inside, x) for x in (self.edges_ms, self.nodes_ms)
        )
        at = np.searchsorted(self.nodes_ms, nodes_ms)
        return HourlyRates(
            np.sort(np.concatenate([self.edges_ms, edges_ms])),
            np.insert(self.nodes_ms, at, nodes_ms),
            np.insert(self.at_nodes, at, self.at(nodes_ms)),
        )

    def between(self, begin_ms: int, end_ms: int) -> HourlyRates:
        """Return the rates between two times.

        Hours that contain either time are partial.
        """
        begin_ms = max(begin_ms, int(self.edges_ms[0]))
        end_ms = min(end_ms, int(self.edges_ms[-1]))
        span = _over(self.nodes_ms, begin_ms, end_ms)
        nodes_ms, at_nodes = self.nodes_ms[span], self.at_nodes[span].copy()
        at_nodes[[0, -1]] = np.interp([begin_ms, end_ms], nodes_ms, at_nodes)
        edges_ms = self.edges_ms[_over(self.edges_ms, begin_ms, end_ms)]
        nodes_ms, edges_ms = (
            np.clip(x, begin_ms, end_ms) for x in (nodes_ms, edges_ms)
        )
        return HourlyRates(edges_ms, nodes_ms, at_nodes)


def _over(times_ms: Int64Array, begin_ms: int, end_ms: int) -> slice:
    """Return the slice of the times needed to cover a span.

    It runs from the last time up to the span's start to the first time from its end on.
    """
    first = int(np.searchsorted(times_ms, begin_ms, side="right")) - 1
    return slice(first, int(np.searchsorted(times_ms, end_ms)) + 1)


def line_through_means(
    edges_ms: Int64Array, means: Float64Array
) -> tuple[Int64Array, Float64Array]:
    """Return the knots of a non-negative line with the given mean in each step.

    At an edge, the line passes through the mean of the two steps, limited to twice the
    smaller one, so that a step of 0 stays 0. A knot in the middle of each step restores
    the step's mean. All rates of calendars and replayed traces are such lines.
    """
    within = joint(means[1:], means[:-1])
    at_edges = np.concatenate([means[:1], within, means[-1:]])
    middle_ms = (edges_ms[:-1] + edges_ms[1:]) // 2
    length_ms = np.diff(edges_ms)
    first_ms = middle_ms - edges_ms[:-1]
    # Trapezoids on both sides of the middle, which need not be the exact half in whole
    # ms.
    total = 2 * means * length_ms
    in_middle = (
        total - at_edges[:-1] * first_ms - at_edges[1:] * (length_ms - first_ms)
    ) / length_ms
    nodes_ms = np.append(
        np.column_stack([edges_ms[:-1], middle_ms]).ravel(), edges_ms[-1]
    )
    values = np.append(
        np.column_stack([at_edges[:-1], in_middle]).ravel(), at_edges[-1]
    )
    kept = np.append(True, np.diff(nodes_ms) > 0)  # a step of 1 ms has no middle
    return nodes_ms[kept], np.maximum(values, 0.0)[kept]


def _local_hours(
    clock: RunClock, begin_ms: int, end_ms: int
) -> tuple[Int64Array, Int64Array]:
    """Return the hours of part of a run by the wall clock.

    At a daylight-saving change, an hour is missing in spring and repeated in autumn.
    """
    edges_ms, hours = [], []
    for part in clock.wall.constant_offset_spans(begin_ms, end_ms):
        first = (part.begin_ms + part.shift_ms) // MS_PER_H
        of_part = np.arange(first, -(-(part.end_ms + part.shift_ms) // MS_PER_H))
        edges_ms.append(np.maximum(of_part * MS_PER_H - part.shift_ms, part.begin_ms))
        hours.append(of_part)
    return np.concatenate([*edges_ms, [end_ms]]), np.concatenate(hours)


def hour_weights(calendar: Calendar, hours: Int64Array) -> Float64Array:
    """Return the calendar weight of local hours: week weight times month weight."""
    return _of_week(calendar, hours) * month_factors(calendar, hours)


def week_share(correlation_weeks: float) -> float:
    """Return the variance of weekly means over that of the weekly levels (0-1).

    The factor is linear between the middles of weeks, so the mean of a week is
    (previous + 6 x own + next) / 8 of the levels. Levels of weeks n apart have the
    correlation ``rho**n``.
    """
    rho = week_correlation(correlation_weeks)
    return float(19 + 12 * rho + rho**2) / 32


def week_correlation(correlation_weeks: float) -> float:
    """Return the correlation of the levels of successive weeks."""
    return float(np.exp(-1 / correlation_weeks)) if correlation_weeks > 0 else 0.0


def _week_factors(
    spec: WeekToWeek | None, hours: Int64Array, seed: int, *name: str
) -> Float64Array:
    """Return the random factor of weeks at mid-hours of local time, shape (H,).

    Its mean over the weeks of each calendar year is 1.
    """
    if spec is None or not spec.relative_std or not hours.size:
        return np.ones(hours.size)
    middle = (hours + 0.5 + EPOCH_HOUR_OF_WEEK) / HOURS_PER_WEEK
    weeks = np.arange(int(middle.min()) - 1, int(middle.max()) + 2)
    years = [
        int(_middle_of_week(week).astype("datetime64[Y]").astype(int))
        for week in weeks[[0, -1]]
    ]
    size = spec.relative_std, spec.correlation_weeks
    of_years = [
        _week_levels(year, *size, seed, *name) for year in range(years[0], years[1] + 1)
    ]
    level = np.concatenate([levels for _, levels in of_years])
    return np.interp(middle, of_years[0][0] + 0.5 + np.arange(level.size), level)


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
    # A sum of independent numbers of the week and those before it has the same
    # correlation as a chain of weeks, exp(-n / tau), and needs no first week.
    rho = week_correlation(correlation_weeks)
    kernel = rho ** np.arange(1 + round(CHAIN * correlation_weeks))
    kernel /= np.sqrt(kernel @ kernel)
    drawn = np.array(
        [
            named_rng(seed, *name, "week", week).standard_normal()
            for week in range(first - kernel.size + 1, end)
        ]
    )
    normal = np.clip(np.convolve(drawn, kernel, "valid"), -MAX_STDS, MAX_STDS)
    # ln(1 + v) is the variance of the logarithm of a log-normal number of mean 1,
    # variance v.
    variance = np.log1p(relative_std**2 / week_share(correlation_weeks))
    level = np.exp(np.sqrt(variance) * normal - variance / 2)
    return first, level / level.mean()


def mean_from_ms(calendar: Calendar, clock: RunClock) -> int:
    """Return the start of the span over which a calendar's mean is taken [ms].

    The span ends with the run. It starts with the run, or with the warm-up if the run
    is shorter than the period of the weights (day, week or year): a run of a weekend
    does not determine the days before the run.
    """
    hours = np.array(calendar.week_weights()).reshape(-1, HOURS_PER_DAY)
    cycle_h = HOURS_PER_DAY if np.ptp(hours) else 0
    cycle_h = HOURS_PER_WEEK if np.ptp(hours, axis=0).any() else cycle_h
    cycle_h = HOURS_PER_DAY * 365 if np.ptp(calendar.month_weights()) else cycle_h
    # A day or week in which clocks are put forward is an hour shorter.
    return clock.begin_ms if clock.horizon_ms < (cycle_h - 1) * MS_PER_H else 0


Scatter = tuple[float, int, Callable[[int], np.random.Generator]]
"""Random factors on a rate: their variance, how many a day (24 or 1), and where those
of a local day come from, by its number since 1970."""


def hourly_rates(
    calendar: Calendar,
    clock: RunClock,
    seed: int = 0,
    *name: str,
    standing: InstalledNodes | None = None,
    scatters: Sequence[Scatter] = (),
) -> HourlyRates:
    """Return the calendar's rates over a run, continuous except where nodes are added.

    Each clock hour has the mean of its weight and random factors. The random factors,
    including the weekly factors of the stream `name`, are not part of the mean of 1,
    which is taken from `mean_from_ms` on. Rates are proportional to installed nodes.
    """
    # A run that begins earlier has the same line: it goes by the hours around the run
    # as well.
    edges_ms, hours = _local_hours(
        clock, clock.begin_ms - 2 * MS_PER_H, clock.horizon_ms + 2 * MS_PER_H
    )
    weight = hour_weights(calendar, hours)

    def laid(of_hours: Float64Array) -> HourlyRates:
        line = HourlyRates(edges_ms, *line_through_means(edges_ms, of_hours))
        if standing is not None and standing.added:
            line = _per_node(line, standing)
        return line.between(clock.begin_ms, clock.horizon_ms)

    from_ms = mean_from_ms(calendar, clock)
    of_pieces = laid(weight).between(from_ms, clock.horizon_ms).of_pieces
    mean = of_pieces.sum() / (clock.horizon_ms - from_ms)
    if not mean > 0:
        raise WorkloadError(
            f"calendar: every hour from {clock.start} on has weight zero; "
            "give the simulated hours and months positive weights"
        )
    weight = weight / mean * _week_factors(calendar.week_to_week, hours, seed, *name)
    for dispersion, per_day, random in scatters:
        since_1970 = (clock.date_ms(0) + edges_ms[:-1]) // MS_PER_H
        weight = weight * gamma_factors(dispersion, since_1970, random, per_day)
    return laid(weight)


def _per_node(line: HourlyRates, standing: InstalledNodes) -> HourlyRates:
    """Multiply a line by the installed nodes, with a step where nodes are added."""
    added_ms = np.array([time_ms for time_ms, _ in standing.added])
    added_ms = added_ms[(added_ms > line.nodes_ms[0]) & (added_ms < line.nodes_ms[-1])]
    nodes_ms = np.union1d(line.nodes_ms, added_ms)
    twice = np.isin(nodes_ms, added_ms)
    # Of two at one time, the one before the step
    begins = np.append(0, np.cumsum(1 + twice)[:-1])
    at_nodes = np.repeat(line.at(nodes_ms), 1 + twice)
    standing_at = np.repeat(standing.at(nodes_ms), 1 + twice)
    standing_at[begins] = standing.at(nodes_ms - 1)
    return HourlyRates(
        line.edges_ms, np.repeat(nodes_ms, 1 + twice), at_nodes * standing_at
    )


def _of_week(calendar: Calendar, hours: Int64Array) -> Float64Array:
    """Return the weight of the hour of the week, shape (H,).

    Holidays have the weight of `holiday_weekday`.
    """
    hour = (hours + EPOCH_HOUR_OF_WEEK) % HOURS_PER_WEEK
    if calendar.holidays is not None and hours.size:
        days = hours // HOURS_PER_DAY
        first, last = (
            int(np.datetime64(int(day), "D").astype("datetime64[Y]").astype(int)) + 1970
            for day in (days.min(), days.max())
        )
        as_day = calendar.holiday_weekday * HOURS_PER_DAY + hours % HOURS_PER_DAY
        hour = np.where(
            np.isin(days, public_holidays(calendar.holidays, first, last)), as_day, hour
        )
    return np.array(calendar.week_weights())[hour]


def month_factors(calendar: Calendar, hours: Int64Array) -> Float64Array:
    """Return the month factor at local hours, continuous across month ends.

    A month has a constant level except within `MONTH_RAMP_H` of either end, where the
    factor is linear to the mean of the two months' weights (at most twice the smaller
    weight, so that a month without load stays at 0). The level preserves the month's
    total load (ASSUMPTION: the length of the ramps).
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
    own = weights[months[:-1].astype(np.int64) % MONTHS_PER_YEAR]
    ends = [
        joint(own, weights[(months[:-1].astype(np.int64) + step) % MONTHS_PER_YEAR])
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
    return np.interp(
        hours + 0.5,
        np.append(corners_h.ravel(), edges_h[-1]),
        np.append(corners.ravel(), ends[1][-1]),
    )


def joint(own: Float64Array, neighbour: Float64Array) -> Float64Array:
    """Return the mean of two adjacent steps, limited to twice the smaller step."""
    return np.minimum((own + neighbour) / 2, 2 * np.minimum(own, neighbour))


def _month_level(
    calendar: Calendar,
    edges_h: Int64Array,
    weight: float,
    at_begin: float,
    at_end: float,
) -> float:
    """Return the level between a month's ramps that preserves the month's total."""
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
    + dispersion * mean**2. Thinning the submissions leaves the dispersion unchanged.
    """
    least = max(dispersion, MIN_DISPERSION)
    first, last = hours[0] // HOURS_PER_DAY, hours[-1] // HOURS_PER_DAY
    factors = np.concatenate(
        [
            random(day).gamma(1 / least, least, per_day)
            for day in range(int(first), int(last) + 1)
        ]
    )
    return factors[(hours - first * HOURS_PER_DAY) * per_day // HOURS_PER_DAY]


MAX_STEPS = 100
MAX_PREDICTED = 12


def bisect(
    function: Callable[[float], float],
    target: float,
    low: float,
    high: float,
    tolerance: float,
) -> tuple[float, float, int]:
    """Find the argument at which a non-decreasing function is nearest to a target."""
    best, best_value = high, function(high)
    steps, done = 1, 0.0
    while abs(best_value - target) > tolerance and steps < MAX_STEPS:
        # function(low) < target <= function(high) holds, or nothing up to high reaches
        # the target. A function of steps may jump over it: the nearest value tried is
        # kept.
        middle = (low + high) / 2
        if not low < middle < high:
            break
        halvings = math.log2(max(abs(best_value - target) / max(tolerance, 1e-12), 1.0))
        done = max(done, steps / (steps + halvings + 1))
        report(done, "finding the load that meets the target")
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

    The remaining bisection steps are predicted by linear interpolation between the two
    evaluated points nearest to the target. The last predicted point is evaluated next,
    since this point and its neighbours decide all earlier steps.
    """
    known = {x: function(x) for x in (low, high)}
    unknown: list[float] = []

    def predicted(x: float) -> float:
        if x in known:
            return known[x]
        # Further off than a known point that misses the target
        if not below < x < above:
            return -np.inf if x <= below else np.inf
        unknown.append(x)
        return y0 + slope * (x - x0)

    for _ in range(MAX_PREDICTED):
        below = max(
            (x for x, y in known.items() if y < target - tolerance), default=-np.inf
        )
        above = min(
            (x for x, y in known.items() if y > target + tolerance), default=np.inf
        )
        (x0, y0), (x1, y1) = sorted(
            known.items(), key=lambda point: abs(point[1] - target)
        )[:2]
        slope = (y1 - y0) / (x1 - x0)
        unknown.clear()
        result = bisect(predicted, target, low, high, tolerance)
        if not unknown:
            break
        crosses = slope * (below - x0) < target - y0 < slope * (above - x0)
        next_x = unknown[-1 if crosses else 0]
        known[next_x] = function(next_x)
    if not unknown and abs(result[1] - target) <= tolerance:
        return result
    return bisect(
        lambda x: known[x] if x in known else function(x), target, low, high, tolerance
    )
