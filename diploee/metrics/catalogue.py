"""The catalogue of metrics: what every value in `metrics.json` is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from diploee.base.boundary import check_kind
from diploee.base.clock import WallClock
from diploee.base.errors import Brief, InputError
from diploee.base.measures.series import Measure
from diploee.base.metric import Metric, catalogue, find_metric
from diploee.base.model import Registry, installed
from diploee.facility.base import STAGES
from diploee.loads.jobs.queue import QUEUE_METRICS
from diploee.loads.jobs.synchronous_metrics import SYNCHRONOUS_METRICS
from diploee.loads.services.metrics import REQUEST_METRICS, SERVICE_METRICS
from diploee.metrics.aggregates import AGGREGATE_METRICS
from diploee.metrics.at_step import STEP_METRICS
from diploee.metrics.bands import BANDWIDTH_METRICS, SPECTRUM_METRICS
from diploee.metrics.billing import BILLING_METRICS
from diploee.metrics.causes import CAUSE_METRICS
from diploee.metrics.changes import (
    CHANGE_METRICS,
    HISTOGRAM_METRICS,
    RAINFLOW_METRICS,
    RAMP_METRICS,
    SWING_METRICS,
)
from diploee.metrics.demand import (
    DEMAND_METRICS,
    PEAK_METRICS,
    POWER_METRICS,
    UTILIZATION_METRICS,
)
from diploee.metrics.flexibility import FLEXIBILITY_METRICS
from diploee.metrics.flexible_jobs import FLEXIBLE_JOB_METRICS
from diploee.metrics.part_metrics import LAYOUT_METRICS
from diploee.metrics.poi import POI_METRICS
from diploee.metrics.voltage_change import VOLTAGE_METRICS
from diploee.power.event_windows import EVENT_WINDOW_METRICS
from diploee.scenario.plugged import LOADS

TRANSIENT_METRICS = (
    Metric(
        "grid.transient_h",
        "h",
        "time in which the run filled up",
        "{:.1f}",
        (
            "left out of peaks, demand, ramps, swings, spectrum, event windows and "
            "hours above the contract or of reactive power"
        ),
    ),
)


@dataclass(frozen=True)
class RunMeasure(Brief):
    """A measure of the power of runs, with values in `measures.<name>`."""

    name: str  # of its block
    metrics: tuple[Metric, ...]  # with keys below the block
    # Its result: values by what follows the block in their keys
    open: Callable[[WallClock], Measure]

    def __post_init__(self) -> None:
        def refuse(text: str) -> InputError:
            return InputError(f"measure {self.name}{text}")

        check_kind("metrics", self.metrics, tuple | list, "a tuple of Metric", refuse)
        check_kind("open", self.open, Callable, "a class or function", refuse)


MEASURES: Registry[RunMeasure] = Registry("run", noun="measure")
"""Measures that users add to every run, by name."""


DECLARED = [
    POWER_METRICS,
    POI_METRICS,
    UTILIZATION_METRICS,
    AGGREGATE_METRICS,
    LAYOUT_METRICS,
    QUEUE_METRICS,
    SYNCHRONOUS_METRICS,
    REQUEST_METRICS,
    SERVICE_METRICS,
    TRANSIENT_METRICS,
    DEMAND_METRICS,
    PEAK_METRICS,
    STEP_METRICS,
    VOLTAGE_METRICS,
    CHANGE_METRICS,
    RAMP_METRICS,
    SWING_METRICS,
    RAINFLOW_METRICS,
    SPECTRUM_METRICS,
    BANDWIDTH_METRICS,
    HISTOGRAM_METRICS,
    EVENT_WINDOW_METRICS,
    CAUSE_METRICS,
    BILLING_METRICS,
    FLEXIBILITY_METRICS,
    FLEXIBLE_JOB_METRICS,
]
"""Metrics that each part of a run declares, in the order of the tables; stages follow."""  # noqa: E501


def _declared() -> list[tuple[Metric, ...]]:
    """Return what the core declares, with other loads behind the services, and added measures."""  # noqa: E501
    behind = DECLARED.index(SERVICE_METRICS) + 1
    others = [kind.metrics for kind in installed(LOADS).values()]
    return [*DECLARED[:behind], *others, *DECLARED[behind:], added_metrics()]


def added_metrics() -> tuple[Metric, ...]:
    """Return the metrics of measures from outside."""
    return catalogue(*(measure.metrics for measure in MEASURES.values()))


def declared_metrics() -> tuple[Metric, ...]:
    """Return the metrics of all parts and of the stages that a scenario may name."""
    return catalogue(*_declared(), *(spec.metrics for spec in STAGES.by_name.values()))


ASKED = (
    "grid.maximum_demand.intervals.15min.max_mw",
    "grid.changes.windows.600s.up.max_mw",
    "grid.changes.windows.600s.down.max_mw",
    "grid.ramps.intervals.60s.up.max_mw",
    "grid.ramps.intervals.60s.down.max_mw",
    "grid.ramps.intervals.900s.up.max_mw",
    "grid.ramps.intervals.900s.down.max_mw",
    "grid.headroom.mw",
    "poi.headroom.mva",
)
"""Keys of the metrics that a planner needs first, beside those that are in every table."""  # noqa: E501


def metrics_of_runs(chosen: Iterable[str] = ()) -> list[Metric]:
    """Return the metrics that tables of several runs show.

    Parameters
    ----------
    chosen : iterable of str
        Their keys, shown as they are where nothing is declared; the main ones by
        default.
    """
    known = declared_metrics()
    if chosen:
        return [find_metric(key, known) or Metric(key, "1", key) for key in chosen]
    return [*main_metrics(), *filter(None, (find_metric(key, known) for key in ASKED))]


def own_blocks() -> set[str]:
    """Return the blocks of ``metrics.json`` that are no stage's."""
    return {
        metric.key.partition(".")[0] for group in _declared() for metric in group
    } | {"pools"}


def main_metrics() -> list[Metric]:
    """Return the main metrics of a whole run."""
    return [m for m in declared_metrics() if m.view == "main" and "<" not in m.key]
