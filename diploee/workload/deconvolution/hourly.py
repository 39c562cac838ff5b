"""An observed series as means over the clock hours of a facility's local time."""

from __future__ import annotations

import numpy as np

from diploee.errors import WorkloadError
from diploee.profiles.importers.observed import ObservedSeries
from diploee.scenario import Scenario
from diploee.tables import Float64Array
from diploee.units import MS_PER_H
from diploee.workload.deconvolution.kernel import Observed


def hourly_means(
    series: ObservedSeries, scenario: Scenario, observed: Observed
) -> tuple[np.datetime64, Float64Array]:
    """Return the means of a series over whole clock hours of the facility's local time.

    Parameters
    ----------
    series : ObservedSeries
        Each value is taken as the mean over its step.
    scenario : Scenario
        Gives the local time.
    observed : {"utilization", "power"}
        What to average.

    Returns
    -------
    first_hour : numpy.datetime64
        The first whole hour, local time.
    means : numpy.ndarray, shape (H,), float64
        Occupancy (0-1), or power [W].

    Raises
    ------
    WorkloadError
        If the series has no such values, or steps above an hour.
    """
    values = series.utilization if observed == "utilization" else series.power_w
    if values is None or bool(np.isnan(values).any()):
        raise WorkloadError(
            f"{series.source}: has no {observed}; name its column, or use the other of "
            "utilization and power"
        )
    if series.step_ms > MS_PER_H:
        raise WorkloadError(
            f"{series.source}: steps of {series.step_ms / MS_PER_H:g} h can't tell the hours of "
            "the week; give a series with steps of at most 1 h"
        )
    start = series.start
    if start.tzinfo is not None:
        start = start.astimezone(scenario.facility.zone).replace(tzinfo=None)
    start_ms = int(np.datetime64(start, "ms").astype(np.int64))
    first, last = -(-start_ms // MS_PER_H), (start_ms + series.duration_ms) // MS_PER_H
    # Differences of the running sum at the hours' edges are exact for any step.
    filled = np.concatenate([[0.0], np.cumsum(values)]) * series.step_ms
    edges = np.arange(first, last + 1) * MS_PER_H - start_ms
    at = np.interp(edges, np.arange(filled.size) * series.step_ms, filled)
    return np.datetime64(first, "h"), np.diff(at) / MS_PER_H
