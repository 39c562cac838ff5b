"""Registry of metrics: the declaration of every value in `metrics.json`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from diploee.base.boundary import check_type
from diploee.base.clock import WallClock
from diploee.base.errors import Brief, InputError
from diploee.base.measures.series import Measure
from diploee.base.metric import Metric, catalogue, find_metric, read_metrics
from diploee.base.model import Registry, entry_point_objects
from diploee.facility.base import STAGES
from diploee.scenario.plugged import LOADS


@dataclass(frozen=True)
class RunMeasure(Brief):
    """Extension measure of runs' power, reported as `measures.<name>`."""

    name: str  # of its block
    metrics: tuple[Metric, ...]  # with keys below the block
    # Its result: values by what follows the block in their keys
    open: Callable[[WallClock], Measure]

    def __post_init__(self) -> None:
        def refuse(text: str) -> InputError:
            return InputError(f"measure {self.name}{text}")

        check_type("metrics", self.metrics, tuple | list, "a tuple of Metric", refuse)
        check_type("open", self.open, Callable, "a class or function", refuse)


MEASURES: Registry[RunMeasure] = Registry("run", noun="measure")
"""Measures that users add to every run, by name."""


DECLARED = read_metrics(Path(__file__).with_name("catalogue.csv"))
"""Metrics of the core, in the order of the tables."""


def _core_metrics() -> list[Metric]:
    """Return the metrics of all modules except stages; loads after services."""
    behind = max(k for k, m in enumerate(DECLARED) if m.key.startswith("requests.")) + 1
    others = [
        metric
        for kind in entry_point_objects(LOADS).values()
        for metric in kind.metrics
    ]
    return [*DECLARED[:behind], *others, *DECLARED[behind:], *added_metrics()]


def added_metrics() -> tuple[Metric, ...]:
    """Return the metrics of extension measures."""
    return catalogue(*(measure.metrics for measure in MEASURES.values()))


def declared_metrics() -> tuple[Metric, ...]:
    """Return the metrics of all modules and of all stages."""
    return catalogue(
        _core_metrics(), *(spec.metrics for spec in STAGES.by_name.values())
    )


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
        Keys of metrics, the main metrics by default. Undeclared keys are shown as they
        are.
    """
    known = declared_metrics()
    if chosen:
        return [find_metric(key, known) or Metric(key, "1", key) for key in chosen]
    return [*main_metrics(), *filter(None, (find_metric(key, known) for key in ASKED))]


def core_blocks() -> set[str]:
    """Return the blocks of ``metrics.json`` that do not belong to a stage."""
    return {metric.key.partition(".")[0] for metric in _core_metrics()} | {"pools"}


def main_metrics() -> list[Metric]:
    """Return the main metrics of a whole run."""
    return [m for m in declared_metrics() if m.view == "main" and "<" not in m.key]
