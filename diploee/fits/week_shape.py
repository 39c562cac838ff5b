"""Selection of the weekly seasonality: flat, 24 hours, days x hours, or 168 hours.

The weights of 168 hours are smoothed, as they would otherwise follow the noise of each
hour. Cross-validation selects the level of detail: the coarsest whose Poisson deviance
for held-out weeks is within a standard error of the lowest (Hastie, Tibshirani and
Friedman 2009, section 7.10).
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

DETAIL_NAMES: dict[Detail, str] = {
    "uniform": "flat",
    "hour_of_day": "24 hours",
    "day_and_hour": "7 days x 24 hours",
    "hour_of_week": "168 hours, smoothed",
}
"""Names of details in text, from the coarsest to the finest."""

MAX_FOLDS = 10
ROUNDING = 1e-6
MIN_RATE = 1e-3
"""Minimum predicted rate as a fraction of the mean, for hours without counts."""

MAX_ROUNDS = 500
TOLERANCE = 1e-12


@dataclass(frozen=True, eq=False)
class WeekShape:
    """Fitted rate of each hour of the week, and a factor for each group (month)."""

    detail: Detail  # detail of the weights
    # Rate per unit of exposure in each hour of the week, Monday 00:00 first
    rate: Float64Array
    of_group: Float64Array  # factor of each group
    n_parameters: int  # free parameters; smoothed ones count as fractions
    # Mean Poisson deviance of held-out hours by detail; empty if there is no choice
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
    """Fit weekly rates in the level of detail that best predicts held-out weeks.

    Arrays have an entry per hour of the log: `counts`, `exposure`, hour of the week
    (`slot`), `group` (month) and `week`. `allowed` are the details for which all hours
    were observed.
    """
    if choice != "auto" and choice not in allowed:
        raise WorkloadError(
            f"calendar {choice}: hours of the {'week' if len(allowed) > 1 else 'day'} "
            f"were seen less than twice, the span allows "
            f"{DETAIL_NAMES[allowed[-1]]} at most; "
            "give a longer span or another calendar"
        )
    n_groups = int(group.max()) + 1
    folds, fold = np.unique(week, return_inverse=True)
    n_folds = min(MAX_FOLDS, folds.size)
    cell = ((fold.ravel() % n_folds) * HOURS_PER_WEEK + slot) * n_groups + group
    shape = (n_folds, HOURS_PER_WEEK, n_groups)
    fold_counts, fold_exposure = (
        np.bincount(cell, x, n_folds * HOURS_PER_WEEK * n_groups).reshape(shape)
        for x in (counts, exposure)
    )
    total, seen = fold_counts.sum(axis=0), fold_exposure.sum(axis=0)
    finest = _fit_product(total, seen, allowed[-1])
    expected = finest[0][slot] * finest[1][group] * exposure
    used = expected > 0
    index = float(((counts - expected)[used] ** 2 / expected[used]).sum())
    index = max(1.0, index / max(1, int(used.sum()) - finest[2]))

    deviance: dict[Detail, float] = {}
    candidates = allowed if choice == "auto" else (choice,)
    best = candidates[-1]
    if len(candidates) > 1 and n_folds > 1:
        weight = finest[1]  # group factors of the whole span
        gains = np.empty((len(candidates), n_folds))
        for k in range(n_folds):
            counted, rest = (
                fold_counts[k].sum(axis=1),
                (total - fold_counts[k]).sum(axis=1),
            )
            fold_weight, seen_rest = (
                fold_exposure[k] @ weight,
                (seen - fold_exposure[k]) @ weight,
            )
            min_rate = MIN_RATE * counts.sum() / max(float(exposure.sum()), ROUNDING)
            for row, detail in enumerate(candidates):
                rate = _fit_detail(rest[:, None], seen_rest[:, None], detail, index)[0]
                rate = np.maximum(rate, min_rate)
                gains[row, k] = (
                    special.xlogy(counted, rate) - rate * fold_weight
                ).sum()
        hour_terms = (
            special.xlogy(counts, counts / np.maximum(exposure, ROUNDING)) - counts
        )
        constant = float(hour_terms.sum() - special.xlogy(total, weight).sum())
        deviance = dict(
            zip(
                candidates,
                (2 * (constant - gains.sum(axis=1)) / counts.size).tolist(),
                strict=True,
            )
        )
        # The coarsest within a standard error of the best
        deficits = gains[np.argmax(gains.sum(axis=1))] - gains
        error = deficits.std(axis=1, ddof=1) * np.sqrt(n_folds)
        best = candidates[int(np.argmax(deficits.sum(axis=1) <= error))]
    return WeekShape(best, *_fit_detail(total, seen, best, index), deviance)


def _fit_product(
    total: Float64Array, seen: Float64Array, detail: Detail
) -> tuple[Float64Array, Float64Array, int]:
    """Return rates by hour of the week (168,), factors by group, and parameter count.

    `total` and `seen` are counts and exposure by hour of the week and group. A fitted
    rate is an hourly rate times a group factor, and reproduces the total count of each
    hour and of each group. A coarser `detail` has fewer distinct hourly rates.
    """
    n_groups = total.shape[1]
    by_day_shape = (DAYS_PER_WEEK, HOURS_PER_DAY, n_groups)
    summed_axes: tuple[int, ...] = ()
    if detail == "uniform":
        summed_axes = (0, 1)
    elif detail == "hour_of_day":
        summed_axes = (0,)
    if detail == "hour_of_week":
        factors = _proportional_fit(total, seen)
        rate, of_group = factors[0], factors[1]
    else:
        factors = _proportional_fit(
            *(
                x.reshape(by_day_shape).sum(axis=summed_axes, keepdims=True)
                for x in (total, seen)
            )
        )
        of_group = factors[2]
        rate = np.outer(
            np.broadcast_to(factors[0], DAYS_PER_WEEK),
            np.broadcast_to(factors[1], HOURS_PER_DAY),
        ).ravel()
    n_parameters = sum(int((f > 0).sum()) - 1 for f in factors) + 1
    return rate, of_group, max(1, n_parameters)


def _fit_detail(
    total: Float64Array, seen: Float64Array, detail: Detail, index: float
) -> tuple[Float64Array, Float64Array, int]:
    """Return hourly rates, group factors, and number of parameters of a detail.

    Rates of 168 hours are shrunk towards the product of day and hour factors. With an
    hour's total T, its expectation E from this product, and the dispersion `index`, the
    variance of T - E is index x E + t**2 E**2, where t**2 is estimated from the totals.
    The best linear prediction of T / E is 1 + w (T / E - 1) with w = E t**2 / (index +
    E t**2) (Bühlmann 1967). No rate is changed by more than its standard error (limited
    translation, Efron and Morris 1972).
    """
    if detail != "hour_of_week":
        return _fit_product(total, seen, detail)
    rate, of_group, n_parameters = _fit_product(total, seen, "day_and_hour")
    expected, slot_totals = rate * (seen @ of_group), total.sum(axis=1)
    freedom = max(1, HOURS_PER_WEEK - n_parameters) / HOURS_PER_WEEK
    squares = ((slot_totals - expected) ** 2).sum() / freedom - index * expected.sum()
    variance = max(0.0, float(squares / max((expected**2).sum(), 1e-300)))
    weight = expected * variance / (index + expected * variance)
    ratio = np.divide(slot_totals, expected, out=np.ones_like(rate), where=expected > 0)
    error = np.sqrt(index * np.maximum(slot_totals, 1.0)) / np.maximum(
        expected, ROUNDING
    )
    shift = np.clip((1 - weight) * (ratio - 1), -error, error)
    rate = rate * np.maximum(ratio - shift, 0.0)
    rate *= slot_totals.sum() / max(float(rate @ (seen @ of_group)), ROUNDING)
    return rate, of_group, n_parameters + round(float(weight.sum()))


def _proportional_fit(
    total: Float64Array, exposure: Float64Array
) -> tuple[Float64Array, ...]:
    """Return factors of each axis whose products match the totals along each axis.

    The factors maximise the likelihood of Poisson counts whose mean is their product
    times exposure (iterative proportional fitting, Deming and Stephan 1940).
    """
    # Each factor in turn is its total over the total that the other factors give
    axes = range(total.ndim)
    factors = [np.ones(n) for n in total.shape]

    def axis_factor(axis: int) -> Float64Array:
        others = exposure
        for other in reversed(axes):
            if other != axis:
                others = np.tensordot(others, factors[other], (other, 0))
        axis_total = total.sum(axis=tuple(k for k in axes if k != axis))
        return np.asarray(
            np.divide(
                axis_total, others, out=np.zeros_like(axis_total), where=others > 0
            )
        )

    for _ in range(MAX_ROUNDS):
        previous = factors[-1]
        for axis in axes:
            factors[axis] = axis_factor(axis)
        if float(np.abs(factors[-1] - previous).max()) <= TOLERANCE * float(
            factors[-1].max()
        ):
            break
    factors[0] = axis_factor(0)
    return tuple(factors)
