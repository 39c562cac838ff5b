"""Selection of the weekly calendar with the best prediction.

Flat, by the hour, day times hour, or all 168 hours, smoothed. Free weights of 168 hours
follow the noise of each hour, and most of all bursts. The calendar is chosen by what it
says of weeks that it was not fitted to: the least Poisson deviance of held-out weeks
(cross-validation, Hastie, Tibshirani and Friedman 2009, section 7.10).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import special

from diploee.base.errors import WorkloadError
from diploee.base.tables import Float64Array, Int64Array
from diploee.base.units import DAYS_PER_WEEK, HOURS_PER_DAY, HOURS_PER_WEEK

Detail = Literal["uniform", "hour_of_day", "day_and_hour", "hour_of_week"]
CalendarChoice = Literal[
    "auto", "uniform", "hour_of_day", "day_and_hour", "hour_of_week"
]

IN_WORDS: dict[Detail, str] = {
    "uniform": "flat",
    "hour_of_day": "24 hours",
    "day_and_hour": "7 days x 24 hours",
    "hour_of_week": "168 hours, smoothed",
}
"""Details from the coarsest to the finest."""

MAX_FOLDS = 10
ROUNDING = 1e-6
MIN_RATE = 1e-3
"""Of the mean rate: what is predicted at least, for hours in which nothing was seen."""

MAX_ROUNDS = 500
TOLERANCE = 1e-12


@dataclass(frozen=True, eq=False)
class WeekShape:
    """Fitted rates of the hours of the week, and factors of groups of steps."""

    detail: Detail  # which weights the hours have
    # Rate per unit of exposure in each hour of the week, Monday 00:00 first
    rate: Float64Array
    of_group: Float64Array  # factor of each group
    n_parameters: int  # free parameters, those that smoothing holds counted in part
    # Mean Poisson deviance of an hour that the fit had not seen, by detail; empty where
    # the detail was given, or the span allows but one
    deviance: dict[Detail, float]


def fit_week_shape(
    counts: Float64Array,
    exposure: Float64Array,
    slot: Int64Array,
    group: Int64Array,
    week: Int64Array,
    allowed: tuple[Detail, ...],
    choice: CalendarChoice = "auto",
) -> WeekShape:
    """Fit the weights of the week, in the detail that predicts best."""
    if choice != "auto" and choice not in allowed:
        raise WorkloadError(
            f"calendar {choice}: hours of the {'week' if len(allowed) > 1 else 'day'} "
            f"were seen less than twice, the span allows {IN_WORDS[allowed[-1]]} at "
            "most; give a longer span or another calendar"
        )
    n_groups = int(group.max()) + 1
    folds, fold = np.unique(week, return_inverse=True)
    n_folds = min(MAX_FOLDS, folds.size)
    cell = ((fold.ravel() % n_folds) * HOURS_PER_WEEK + slot) * n_groups + group
    shape = (n_folds, HOURS_PER_WEEK, n_groups)
    of_folds, seen_in_folds = (
        np.bincount(cell, x, n_folds * HOURS_PER_WEEK * n_groups).reshape(shape)
        for x in (counts, exposure)
    )
    total, seen = of_folds.sum(axis=0), seen_in_folds.sum(axis=0)
    finest = _product(total, seen, allowed[-1])
    expected = finest[0][slot] * finest[1][group] * exposure
    used = expected > 0
    index = float(((counts - expected)[used] ** 2 / expected[used]).sum())
    index = max(1.0, index / max(1, int(used.sum()) - finest[2]))

    deviance: dict[Detail, float] = {}
    candidates = allowed if choice == "auto" else (choice,)
    best = candidates[-1]
    if len(candidates) > 1 and n_folds > 1:
        weight = finest[1]  # groups are those of the whole span, seen or not in a fold
        gains = np.empty((len(candidates), n_folds))
        for k in range(n_folds):
            counted, rest = of_folds[k].sum(axis=1), (total - of_folds[k]).sum(axis=1)
            held, seen_rest = (
                seen_in_folds[k] @ weight,
                (seen - seen_in_folds[k]) @ weight,
            )
            least = MIN_RATE * counts.sum() / max(float(exposure.sum()), ROUNDING)
            for row, detail in enumerate(candidates):
                rate = _fitted(rest[:, None], seen_rest[:, None], detail, index)[0]
                rate = np.maximum(rate, least)
                gains[row, k] = (special.xlogy(counted, rate) - rate * held).sum()
        of_counts = (
            special.xlogy(counts, counts / np.maximum(exposure, ROUNDING)) - counts
        )
        constant = float(of_counts.sum() - special.xlogy(total, weight).sum())
        deviance = dict(
            zip(
                candidates,
                (2 * (constant - gains.sum(axis=1)) / counts.size).tolist(),
                strict=True,
            )
        )
        # The coarsest that is no worse than the best by more than a standard error.
        lost = gains[np.argmax(gains.sum(axis=1))] - gains
        error = lost.std(axis=1, ddof=1) * np.sqrt(n_folds)
        best = candidates[int(np.argmax(lost.sum(axis=1) <= error))]
    return WeekShape(best, *_fitted(total, seen, best, index), deviance)


def _product(
    total: Float64Array, seen: Float64Array, detail: Detail
) -> tuple[Float64Array, Float64Array, int]:
    """Return rates of 168 hours and factors of groups that match all totals."""
    n_groups = total.shape[1]
    of_days = (DAYS_PER_WEEK, HOURS_PER_DAY, n_groups)
    summed: tuple[int, ...] = ()
    if detail == "uniform":
        summed = (0, 1)
    elif detail == "hour_of_day":
        summed = (0,)
    if detail == "hour_of_week":
        factors = _proportional_fit(total, seen)
        rate, of_group = factors[0], factors[1]
    else:
        factors = _proportional_fit(
            *(x.reshape(of_days).sum(axis=summed, keepdims=True) for x in (total, seen))
        )
        of_group = factors[2]
        rate = np.outer(
            np.broadcast_to(factors[0], DAYS_PER_WEEK),
            np.broadcast_to(factors[1], HOURS_PER_DAY),
        ).ravel()
    n_parameters = sum(int((f > 0).sum()) - 1 for f in factors) + 1
    return rate, of_group, max(1, n_parameters)


def _fitted(
    total: Float64Array, seen: Float64Array, detail: Detail, index: float
) -> tuple[Float64Array, Float64Array, int]:
    """Return the fit of a detail; that of 168 hours is drawn towards days times hours.

    An hour's total T about the product's E has the variance index x E, and its own
    departure from the product t**2 E**2: the best linear prediction of T / E is 1 + w
    (T / E - 1) with w = E t**2 / (index + E t**2) (Bühlmann 1967). t**2 is estimated
    from the totals. No hour is drawn by more than its standard error (limited
    translation, Efron and Morris 1972).
    """
    if detail != "hour_of_week":
        return _product(total, seen, detail)
    rate, of_group, n_parameters = _product(total, seen, "day_and_hour")
    expected, of_slot = rate * (seen @ of_group), total.sum(axis=1)
    freedom = max(1, HOURS_PER_WEEK - n_parameters) / HOURS_PER_WEEK
    squares = ((of_slot - expected) ** 2).sum() / freedom - index * expected.sum()
    variance = max(0.0, float(squares / max((expected**2).sum(), 1e-300)))
    weight = expected * variance / (index + expected * variance)
    ratio = np.divide(of_slot, expected, out=np.ones_like(rate), where=expected > 0)
    error = np.sqrt(index * np.maximum(of_slot, 1.0)) / np.maximum(expected, ROUNDING)
    drawn = np.clip((1 - weight) * (ratio - 1), -error, error)
    rate = rate * np.maximum(ratio - drawn, 0.0)
    rate *= of_slot.sum() / max(float(rate @ (seen @ of_group)), ROUNDING)
    return rate, of_group, n_parameters + round(float(weight.sum()))


def _proportional_fit(
    total: Float64Array, exposure: Float64Array
) -> tuple[Float64Array, ...]:
    """Return the factors of each axis whose products match the totals along it."""
    # Most likely for Poisson counts of mean (product of factors) * exposure: each
    # factor is its total over what the others give it, in turn (iterative proportional
    # fitting, Deming and Stephan 1940).
    axes = range(total.ndim)
    factors = [np.ones(n) for n in total.shape]

    def fitted(axis: int) -> Float64Array:
        others = exposure
        for other in reversed(axes):
            if other != axis:
                others = np.tensordot(others, factors[other], (other, 0))
        own = total.sum(axis=tuple(k for k in axes if k != axis))
        return np.asarray(
            np.divide(own, others, out=np.zeros_like(own), where=others > 0)
        )

    for _ in range(MAX_ROUNDS):
        before = factors[-1]
        for axis in axes:
            factors[axis] = fitted(axis)
        if float(np.abs(factors[-1] - before).max()) <= TOLERANCE * float(
            factors[-1].max()
        ):
            break
    factors[0] = fitted(0)
    return tuple(factors)
