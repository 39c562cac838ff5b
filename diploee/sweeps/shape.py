"""The shape of a run's load in some hundred numbers, small enough to keep for every run."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from diploee.metrics import Distribution
from diploee.outputs import Run
from diploee.tables import Float64Array, Int64Array, arrow_numbers, arrow_texts
from diploee.units import HOURS_PER_DAY, HOURS_PER_WEEK, MS_PER_H

SHAPE_FILE = "load_shape.parquet"
KINDS = ("hour_of_week_mean", "hour_of_week_max", "duration_curve")
EXCEEDED = np.concatenate([np.arange(0, 10) / 10_000, np.arange(1, 1001) / 1_000])
"""Fractions of time of the duration curve; finer at the peak."""


def load_shape(run: Run) -> pa.Table:
    """Return the load by hour of the week and its duration curve."""
    total, count = np.zeros(HOURS_PER_WEEK), np.zeros(HOURS_PER_WEEK)
    largest = np.zeros(HOURS_PER_WEEK)
    distribution = Distribution()
    series = run.series()
    for block in series.blocks(["facility_power_w"]):
        power_w = block.columns["facility_power_w"]
        hours = _hours_of_week(series.local_ms(block.starts_ms))
        total += np.bincount(hours, power_w, minlength=HOURS_PER_WEEK)
        count += np.bincount(hours, minlength=HOURS_PER_WEEK)
        np.maximum.at(largest, hours, power_w)
        distribution.add(power_w)
    seen = np.flatnonzero(count)
    levels = np.array(distribution.percentiles(*(100 * (1 - EXCEEDED)).tolist()))
    return pa.concat_tables(
        [
            _rows(KINDS[0], seen, total[seen] / count[seen]),
            _rows(KINDS[1], seen, largest[seen]),
            _rows(KINDS[2], EXCEEDED, levels),
        ]
    )


def _hours_of_week(local_ms: Int64Array) -> Int64Array:
    hours: Int64Array = (local_ms // MS_PER_H + 3 * HOURS_PER_DAY) % HOURS_PER_WEEK
    return hours  # 1970 began on a Thursday


def _rows(kind: str, at: np.ndarray, power_w: Float64Array) -> pa.Table:
    return pa.table(
        {
            "kind": arrow_texts([kind] * len(at)),
            "at": arrow_numbers(at.astype(np.float64)),
            "power_w": arrow_numbers(power_w),
        }
    )
