"""Months of a fit, which step, against those of a scenario, which go over into each other."""

from __future__ import annotations

import numpy as np

from diploee.scenario import Calendar
from diploee.tables import Float64Array, Int64Array
from diploee.workload.rates import month_factors


def laid_over_stepped(
    month_weight: Float64Array, week_weight: Float64Array, month: Int64Array, hour: Int64Array
) -> Float64Array:
    """Return the months as a scenario lays them over the weights that were fitted.

    Parameters
    ----------
    month_weight : numpy.ndarray, shape (12,), float64
        Weights of the months, January first.
    week_weight : numpy.ndarray, shape (168,), float64
        Weights of the hours of the week.
    month, hour : numpy.ndarray, shape (n,), int64
        Month, 0-11, and hour of local time since 1970-01-01 00:00.

    Returns
    -------
    numpy.ndarray, shape (n,), float64
        The factor on what the fit expects; 1 in months of weight 0.
    """
    laid = Calendar(hour_of_week=tuple(week_weight), month=tuple(month_weight))
    hours, of_hour = np.unique(hour, return_inverse=True)
    stepped = month_weight[month]
    smooth = month_factors(laid, hours)[of_hour]
    return np.divide(smooth, stepped, out=np.ones_like(stepped), where=stepped > 0)
