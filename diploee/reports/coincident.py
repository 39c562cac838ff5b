"""Demand at coincident peaks.

A run's mean power in the intervals that a system's peaks fell into. Transmission
charges are set by 1CP, 4CP or 12CP: by the demand of a load in the hours, or quarters
of an hour, of the system's yearly or monthly peaks. Those intervals come from a file; a
run knows no system.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from diploee.base.clock import NamedSpan
from diploee.base.errors import InputError
from diploee.base.units import W_PER_MW
from diploee.runs.reader import RunFolder


@dataclass(frozen=True)
class _CoincidentDemand:
    """The demand of a run in one interval."""

    name: str  # name of the interval
    start: datetime  # its begin, in the facility's zone
    mw: float  # mean power [MW]
    # Mean reactive power, drawn positive [Mvar]; None where the run models none
    mvar: float | None
    # The run's largest demand over clock intervals of the same length where its metrics
    # have it (15, 30 and 60 min), else its largest interval mean [MW]
    own_peak_mw: float

    @property
    def share(self) -> float:
        """Demand over the run's own peak [1]; 0 for a run that draws nothing."""
        return self.mw / self.own_peak_mw if self.own_peak_mw > 0 else 0.0


def coincident_demand(
    run: RunFolder, intervals: Sequence[NamedSpan]
) -> list[_CoincidentDemand]:
    """Return the demand of a run in each interval."""
    series, metrics = run.series(), run.values
    names = {column.name for column in run.columns}
    reactive = [n for n in ("poi_reactive_var", "facility_reactive_var") if n in names][
        :1
    ]
    found = []
    for interval in intervals:
        first = series.row_at(interval.start, f"{interval.where}: start")
        end = interval.end
        if interval.duration is not None:
            end = series.at(first).astimezone(UTC) + interval.duration
        rows = first, series.row_at(end, f"{interval.where}: end", is_end=True)
        length = timedelta(milliseconds=(rows[1] - rows[0]) * series.step_ms)
        if length != (interval.duration or interval.end - interval.start):
            raise InputError(
                f"{interval.where}: the clock is changed within the interval; give "
                "both times with their offset from UTC"
            )
        block = series.read(["facility_power_w", *reactive], rows)
        mw, *mvar = (
            float(values.mean()) / W_PER_MW for values in block.columns.values()
        )
        minutes = length / timedelta(minutes=1)
        keys = (
            f"grid.maximum_demand.intervals.{minutes:g}min.max_mw",
            "grid.peak.max_mw",
        )
        own_mw = next((metrics[k] for k in keys if metrics.get(k) is not None), None)
        own_mw = run.metrics["power"]["max_mw"] if own_mw is None else own_mw
        mean_mvar = mvar[0] if mvar else None
        at = series.at(first)
        found.append(_CoincidentDemand(interval.name, at, mw, mean_mvar, own_mw))
    return found
