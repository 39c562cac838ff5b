"""The shape of a run's load in some hundred numbers, small enough to keep for every run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from diploee.metrics import Distribution
from diploee.outputs.facility_file import FACILITY_FILE
from diploee.scenario import Scenario
from diploee.tables import Float64Array
from diploee.units import HOURS_PER_DAY, HOURS_PER_WEEK, MS_PER_H

SHAPE_FILE = "load_shape.parquet"
KINDS = ("hour_of_week_mean", "hour_of_week_max", "duration_curve")
EXCEEDED = np.concatenate([np.arange(0, 10) / 10_000, np.arange(1, 1001) / 1_000])
"""Fractions of time of the duration curve; finer at the peak."""


def load_shape(folder: Path, scenario: Scenario) -> pa.Table:
    """Return the load by hour of the week and its duration curve.

    Parameters
    ----------
    folder : pathlib.Path
        A run folder with its power series, as stored.
    scenario : Scenario
        Its scenario.

    Returns
    -------
    pyarrow.Table
        ``kind``; ``at``: hour of the week in local time, 0 = Monday 00:00-01:00, or the fraction
        of time for which the load exceeds the value; ``power_w``: facility power [W], mean or
        largest interval mean of the hour, or the level exceeded.
    """
    total, count = np.zeros(HOURS_PER_WEEK), np.zeros(HOURS_PER_WEEK)
    largest = np.zeros(HOURS_PER_WEEK)
    distribution = Distribution()
    first = 0
    with pq.ParquetFile(folder / FACILITY_FILE) as file:
        groups = range(file.num_row_groups)  # one at a time: all at once would load the file
        columns = ["facility_power_w"]
        for batch in (
            b for g in groups for b in file.iter_batches(row_groups=[g], columns=columns)
        ):
            power_w = batch.column(0).to_numpy().astype(np.float64)
            hours = _hours_of_week(scenario, first, power_w.size)
            total += np.bincount(hours, power_w, minlength=HOURS_PER_WEEK)
            count += np.bincount(hours, minlength=HOURS_PER_WEEK)
            np.maximum.at(largest, hours, power_w)
            distribution.add(power_w)
            first += power_w.size
    seen = np.flatnonzero(count)
    levels = np.array(distribution.percentiles(*(100 * (1 - EXCEEDED)).tolist()))
    return pa.concat_tables(
        [
            _rows(KINDS[0], seen, total[seen] / count[seen]),
            _rows(KINDS[1], seen, largest[seen]),
            _rows(KINDS[2], EXCEEDED, levels),
        ]
    )


def _hours_of_week(scenario: Scenario, first: int, count: int) -> np.ndarray[tuple[int], np.dtype]:
    start = scenario.start
    offset_ms = (start.weekday() * HOURS_PER_DAY + start.hour) * MS_PER_H
    offset_ms += (start.minute * 60 + start.second) * 1_000 + start.microsecond // 1_000
    times_ms = (first + np.arange(count, dtype=np.int64)) * scenario.resolution_ms + offset_ms
    return times_ms // MS_PER_H % HOURS_PER_WEEK


def _rows(kind: str, at: np.ndarray, power_w: Float64Array) -> pa.Table:
    return pa.table(
        {
            "kind": pa.array([kind] * len(at)),
            "at": pa.array(at.astype(np.float64)),
            "power_w": pa.array(power_w),
        }
    )
