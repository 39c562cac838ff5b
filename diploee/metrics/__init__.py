"""Metrics: pure functions and accumulators over power blocks and schedules."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from diploee.base.metric import Metric as Metric
    from diploee.base.metric import find_metric as find_metric
    from diploee.metrics.catalogue import MEASURES as MEASURES
    from diploee.metrics.catalogue import RunMeasure as RunMeasure
    from diploee.metrics.catalogue import declared_metrics as declared_metrics
    from diploee.metrics.catalogue import metrics_of_runs as metrics_of_runs
else:
    from diploee.base.fronts import front

    __all__, __getattr__, __dir__ = front(__name__)
