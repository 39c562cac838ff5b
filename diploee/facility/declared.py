"""Declared columns and metrics of the built-in stages, read from CSV tables."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from diploee.base.column_specs import Columns, read_columns
from diploee.base.metric import Metric, read_metrics

COLUMNS: dict[str, Columns] = read_columns(Path(__file__).with_name("columns.csv"))

METRICS: dict[str, tuple[Metric, ...]] = {
    stage: tuple(metrics)
    for stage, metrics in groupby(
        read_metrics(Path(__file__).with_name("metrics.csv")),
        key=lambda metric: metric.key.partition(".")[0],
    )
}
