"""Registry of metrics: the declaration of every value in `metrics.json`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from diploee.base.boundary import check_type
from diploee.base.clock import WallClock
from diploee.base.errors import Brief, InputError
from diploee.base.measures.streaming import Measure
from diploee.base.metric import Metric, catalogue, find_metric, read_metrics
from diploee.base.model import Registry, entry_point_objects
from diploee.facility.base import STAGES
from diploee.scenario.extension_loads import LOADS


@dataclass(frozen=True)
class RunMeasure(Brief):
    """Extension measure of a run's power, reported as `measures.<name>`."""

    name: str  # name of its block
    metrics: tuple[Metric, ...]  # metrics, with keys after the block
    # Function that opens the measure; the result has values by the rest of their keys
    open: Callable[[WallClock], Measure]

    def __post_init__(self) -> None:
        def make_error(text: str) -> InputError:
            """Return an error that names the measure."""
            return InputError(f"measure {self.name}{text}")

        check_type(
            "metrics", self.metrics, tuple | list, "a tuple of Metric", make_error
        )
        check_type("open", self.open, Callable, "a class or function", make_error)


MEASURES: Registry[RunMeasure] = Registry("run", noun="measure")
"""Extension measures of every run, by name."""


DECLARED = read_metrics(Path(__file__).with_name("catalogue.csv"))
"""Metrics of the core, in the order of the tables."""


def _core_metrics() -> list[Metric]:
    """Return the metrics of all modules except stages."""
    first_after_services = (
        max(k for k, m in enumerate(DECLARED) if m.key.startswith("requests.")) + 1
    )
    load_metrics = [
        metric
        for kind in entry_point_objects(LOADS).values()
        for metric in kind.metrics
    ]
    return [
        *DECLARED[:first_after_services],
        *load_metrics,
        *DECLARED[first_after_services:],
        *added_metrics(),
    ]


def added_metrics() -> tuple[Metric, ...]:
    """Return the metrics of extension measures."""
    return catalogue(*(measure.metrics for measure in MEASURES.values()))


def declared_metrics() -> tuple[Metric, ...]:
    """Return the metrics of all modules and of all stages."""
    return catalogue(
        _core_metrics(), *(spec.metrics for spec in STAGES.by_name.values())
    )


PLANNER_METRICS = (
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
"""Keys of the metrics that a planner needs first, in addition to the main metrics."""


def metrics_of_runs(chosen: Iterable[str] = ()) -> list[Metric]:
    """Return the metrics that tables of several runs show.

    Parameters
    ----------
    chosen : iterable of str
        Keys of metrics, the main metrics by default. Undeclared keys are shown as they
        are.
    """
    declared = declared_metrics()
    if chosen:
        return [find_metric(key, declared) or Metric(key, "1", key) for key in chosen]
    return [
        *main_metrics(),
        *filter(None, (find_metric(key, declared) for key in PLANNER_METRICS)),
    ]


def core_blocks() -> set[str]:
    """Return the blocks of ``metrics.json`` that do not belong to a stage."""
    return {metric.key.partition(".")[0] for metric in _core_metrics()} | {"pools"}


def main_metrics() -> list[Metric]:
    """Return the main metrics of a whole run."""
    return [m for m in declared_metrics() if m.view == "main" and "<" not in m.key]
