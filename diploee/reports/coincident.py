"""Coincident demand: a run's mean power in the intervals of a system's peaks.

Transmission charges use 1CP, 4CP or 12CP: the demand of a load in the hours or
quarter-hours of the system's yearly or monthly peaks. A file gives these intervals, as
a run does not know its power system.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from diploee.base.clock import NamedSpan
from diploee.base.units import W_PER_MW
from diploee.runs.formatting import format_time
from diploee.runs.reader import RunFolder

if TYPE_CHECKING:
    import pandas as pd

UNITS = {"demand": "MW", "reactive": "Mvar", "own peak": "MW", "of own peak": "%"}
"""Columns of the table, with their units.

The own peak is the largest demand over clock intervals of the same length if the
metrics have it (15, 30 and 60 min), else the largest mean over a step.
"""


def coincident_demand(run: RunFolder, intervals: Sequence[NamedSpan]) -> pd.DataFrame:
    """Return the demand of a run in each interval, with a row per interval.

    Columns are those of `UNITS`. Reactive power, positive if consumed, is left out if
    the run does not model it.
    """
    import pandas as pd

    series, values = run.series(), run.values
    names = {column.name for column in run.columns}
    reactive = [n for n in ("poi_reactive_var", "facility_reactive_var") if n in names]
    rows = {}
    for interval in intervals:
        first, last = series.rows_of(interval)
        length = timedelta(milliseconds=(last - first) * series.step_ms)
        block = series.read(["facility_power_w", *reactive[:1]], (first, last))
        means = [
            float(values_w.mean()) / W_PER_MW for values_w in block.columns.values()
        ]
        keys = (
            "grid.maximum_demand.intervals."
            f"{length / timedelta(minutes=1):g}min.max_mw",
            "grid.peak.max_mw",
            "power.max_mw",
        )
        own_mw = next(values[key] for key in keys if values.get(key) is not None)
        row = dict(zip(UNITS, means, strict=False))
        row["own peak"] = own_mw
        row["of own peak"] = 100 * (means[0] / own_mw) if own_mw > 0 else 0.0
        rows[f"{interval.name} {format_time(series.at(first).isoformat())}".strip()] = (
            row
        )
    return pd.DataFrame.from_dict(rows, orient="index")
