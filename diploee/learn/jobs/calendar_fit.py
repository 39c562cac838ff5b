"""Calendar weights from hourly counts: how the rate varies over the week and the months.

The expected count of an hour is a product, rate x weight of its hour of the week x weight of its
month. Its maximum-likelihood estimate for Poisson counts matches the total of every hour of the
week and of every month; iterative proportional fitting finds it (Deming and Stephan 1940).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import stats

from diploee.errors import WorkloadError
from diploee.learn.jobs.hours import HourCounts
from diploee.learn.poisson import poisson_limits, proportional_fit
from diploee.tables import Float64Array, Int64Array
from diploee.units import HOURS_PER_DAY, HOURS_PER_WEEK, MONTHS_PER_YEAR

Detail = Literal["hour_of_week", "hour_of_day", "uniform"]

N_SLOTS: dict[Detail, int] = {
    "hour_of_week": HOURS_PER_WEEK,
    "hour_of_day": HOURS_PER_DAY,
    "uniform": 1,
}
"""Weights of a week by detail."""

MIN_SIGHTINGS = 2
"""Times that an hour of the week (or of the day) must have been observed to get its own weight."""

MIN_DAYS_OF_MONTH = 27
"""Days of every calendar month that must have been observed to fit weights of months."""

ROUNDING = 1e-6
"""Parts of hours that add up to a whole one may miss it by so much."""


@dataclass(frozen=True, eq=False)
class CalendarFit:
    """Fitted calendar weights and the counts that they expect.

    Parameters
    ----------
    detail : {"hour_of_week", "hour_of_day", "uniform"}
        What the span allows: weights of 168 hours, of 24 hours, or one rate.
    week_weight : numpy.ndarray, shape (168,), float64
        Weights of the hours of the week, Monday 00:00 first, mean 1.
    month_weight : numpy.ndarray, shape (12,), float64, or None
        Weights of the months, January first, mean 1 over the days of a year of 365; None where the
        span does not cover every month.
    jobs_per_hour : float
        Mean rate over a week and a year.
    expected : numpy.ndarray, shape (H,), float64
        Expected count of every hour of the span.
    n_parameters : int
        Free parameters that counts above zero determined.
    """

    detail: Detail
    week_weight: Float64Array
    month_weight: Float64Array | None
    jobs_per_hour: float
    expected: Float64Array
    n_parameters: int


DAYS_OF_MONTH = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])


def fit_calendar(hours: HourCounts, months: bool | None = None) -> CalendarFit:
    """Fit calendar weights to hourly counts.

    Parameters
    ----------
    hours : HourCounts
        The counts.
    months : bool, optional
        Fit weights of the months; by default where each was observed for `MIN_DAYS_OF_MONTH` days.

    Returns
    -------
    CalendarFit
        The most likely weights of Poisson counts.

    Raises
    ------
    WorkloadError
        If weights of the months are asked for, but a month was not observed at all.
    """
    detail, slot = week_slots(hours)
    month = hours.month
    months = wants_months(hours, months)
    group = month if months else np.zeros_like(month)
    total = np.zeros((int(slot.max()) + 1, int(group.max()) + 1))
    exposure = np.zeros_like(total)
    np.add.at(total, (slot, group), hours.counts)
    np.add.at(exposure, (slot, group), hours.coverage)
    of_slot, of_group = proportional_fit(total, exposure)
    expected = of_slot[slot] * of_group[group] * hours.coverage

    week = of_slot[_slots_of_week(detail)]
    month_weight = None
    scale = float(of_group[0])
    if months:
        scale = float(of_group @ DAYS_OF_MONTH / DAYS_OF_MONTH.sum())
        month_weight = of_group / scale
    n_parameters = int((of_slot > 0).sum() + (of_group > 0).sum() - 1)
    return CalendarFit(
        detail, week / week.mean(), month_weight, scale * float(week.mean()), expected, n_parameters
    )


def week_slots(hours: HourCounts) -> tuple[Detail, Int64Array]:
    """Return the finest detail that the span allows, and the slot of every hour of the span."""
    slot = hours.hour_of_week
    enough = MIN_SIGHTINGS - ROUNDING
    if np.bincount(slot, hours.coverage, HOURS_PER_WEEK).min() >= enough:
        return "hour_of_week", slot
    slot = slot % HOURS_PER_DAY
    if np.bincount(slot, hours.coverage, HOURS_PER_DAY).min() >= enough:
        return "hour_of_day", slot
    return "uniform", np.zeros_like(slot)


def wants_months(hours: HourCounts, months: bool | None) -> bool:
    """Return whether to fit weights of the months: as asked, or where the span covers them.

    Raises
    ------
    WorkloadError
        If it is asked for, but a month was not observed at all.
    """
    if months and (missing := sorted(set(range(MONTHS_PER_YEAR)) - set(hours.month.tolist()))):
        raise WorkloadError(
            f"weights of the months: the span does not hold month {missing[0] + 1} "
            f"({len(missing)} of 12 are missing); give a longer span, or leave the months out"
        )
    return covers_all_months(hours) if months is None else months


def covers_all_months(hours: HourCounts) -> bool:
    """Return whether every calendar month was observed for `MIN_DAYS_OF_MONTH` days."""
    seen = np.bincount(hours.month, hours.coverage, MONTHS_PER_YEAR)
    return bool(seen.min() >= MIN_DAYS_OF_MONTH * HOURS_PER_DAY - ROUNDING)


def week_limits(
    hours: HourCounts, fit: CalendarFit, dispersion: float, confidence: float
) -> tuple[Float64Array, Float64Array]:
    """Return the confidence limits of the weights of the hours of the week.

    The total of a slot is Poisson, or negative binomial with a shape of (number of its hours) /
    dispersion; the limits are exact, as Garwood's (1936) and as Clopper and Pearson's (1934). Hours
    are taken as independent; the uncertainty of the overall rate, far smaller, is left out.

    Parameters
    ----------
    hours : HourCounts
        The counts.
    fit : CalendarFit
        Weights fitted to them.
    dispersion : float
        Variance of the hours' random factor; 0 for Poisson counts.
    confidence : float
        Level of the limits.

    Returns
    -------
    low, high : numpy.ndarray, shape (168,), float64
        Limits on the scale of `CalendarFit.week_weight`.
    """
    _, slot = week_slots(hours)
    n_slots = int(slot.max()) + 1
    total = np.bincount(slot, hours.counts, n_slots).astype(np.float64)
    # What a weight of 1 would have brought in each hour, seasons included.
    unit = fit.jobs_per_hour * month_factor(hours, fit) * hours.coverage
    of_slot = np.bincount(slot, unit, n_slots)
    if dispersion > 0:
        sightings = of_slot**2 / np.bincount(slot, unit**2, n_slots)
        low, high = _negative_binomial_limits(total, sightings / dispersion, confidence)
    else:
        low, high = poisson_limits(total, 1.0, confidence)
    of_week = _slots_of_week(fit.detail)
    return (low / of_slot)[of_week], (high / of_slot)[of_week]


def month_limits(
    hours: HourCounts, fit: CalendarFit, confidence: float
) -> tuple[Float64Array, Float64Array]:
    """Return the confidence limits of the months' weights, from the scatter of daily counts.

    Parameters
    ----------
    hours, fit, confidence
        As in `week_limits`; the fit has months.

    Returns
    -------
    low, high : numpy.ndarray, shape (12,), float64
        Limits on the scale of `CalendarFit.month_weight`.
    """
    assert fit.month_weight is not None
    total = np.bincount(hours.month, hours.counts, MONTHS_PER_YEAR).astype(np.float64)
    factor = max(daily_scatter(hours, fit), 1.0)
    low, high = poisson_limits(total, factor, confidence)
    unit = np.bincount(
        hours.month,
        fit.jobs_per_hour * fit.week_weight[hours.hour_of_week] * hours.coverage,
        MONTHS_PER_YEAR,
    )
    return low / unit, high / unit


def daily_scatter(hours: HourCounts, fit: CalendarFit) -> float:
    """Return the variance of daily counts about the calendar over their mean; 1 for Poisson."""
    n_days = hours.n_hours // HOURS_PER_DAY
    if n_days < 2:
        return 1.0
    whole = n_days * HOURS_PER_DAY
    seen = hours.counts[:whole].reshape(n_days, -1).sum(axis=1)
    expected = fit.expected[:whole].reshape(n_days, -1).sum(axis=1)
    busy = expected > 0
    freedom = max(1.0, busy.sum() * (1 - fit.n_parameters / hours.n_hours))
    return float(((seen - expected)[busy] ** 2 / expected[busy]).sum() / freedom)


def month_factor(hours: HourCounts, fit: CalendarFit) -> Float64Array:
    """Return the weight of the month of every hour; 1 where months have none."""
    return np.ones(hours.n_hours) if fit.month_weight is None else fit.month_weight[hours.month]


def _negative_binomial_limits(
    total: Float64Array, shape: Float64Array, confidence: float
) -> tuple[Float64Array, Float64Array]:
    """Return limits of the mean; the distribution's tails are incomplete beta functions."""
    tail = (1 - confidence) / 2
    chance = stats.beta.isf(tail, shape, np.maximum(total, 1e-9))
    low = np.where(total > 0, shape * (1 - chance) / chance, 0.0)
    chance = stats.beta.ppf(tail, shape, total + 1)
    with np.errstate(divide="ignore"):
        return low, shape * (1 - chance) / chance


def _slots_of_week(detail: Detail) -> Int64Array:
    """Return for every hour of the week the slot that its weight comes from."""
    week = np.arange(HOURS_PER_WEEK)
    return week % N_SLOTS[detail]
