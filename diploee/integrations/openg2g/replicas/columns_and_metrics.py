"""Columns and metrics of replica loads, importable without the code of the loads."""

from __future__ import annotations

from collections.abc import Mapping

from diploee.base.column_specs import Column, Columns
from diploee.base.metric import Metric
from diploee.integrations.openg2g.replicas.settings import ReplicaStream

REPLICA_COLUMNS = (
    Column("n_replicas", "replicas", "service", "mean", None, "active replicas"),
    Column(
        "batch_size", "sequences", "service", "mean", None, "batch size of the replicas"
    ),
    Column(
        "itl_s",
        "s",
        "service",
        "mean",
        None,
        "mean inter-token latency over replicas; 0 without replicas",
    ),
    Column("tokens_per_s", "1/s", "service", "mean", None, "output tokens"),
)
"""Columns of each model of a replica stream in the series."""
CAP_COLUMN = Column(
    "cap_w", "W", "service", "mean", None, "cap on the replicas; 0 without one"
)
"""Column of each replica stream with a cap in the series."""

OF_MODEL = (
    Metric("mean_replicas", "replicas", "mean replicas", "{:,.1f}", view="table"),
    Metric(
        "mean_batch_size",
        "sequences",
        "mean batch size",
        "{:,.1f}",
        "over replicas and time",
        "table",
    ),
    Metric(
        "batch_changes_per_hour",
        "1/h",
        "changes of batch size",
        "{:,.1f}",
        view="table",
    ),
    Metric(
        "tokens_per_s",
        "1/s",
        "output tokens",
        "{:,.0f}",
        "by the logistic fit",
        "table",
    ),
    Metric(
        "itl_s.mean",
        "s",
        "mean inter-token latency",
        "{:.4f}",
        "over replicas",
        "table",
    ),
    Metric(
        "itl_s.p50",
        "s",
        "median inter-token latency",
        "{:.4f}",
        "of the means over replicas per control interval",
    ),
    Metric(
        "itl_s.p99",
        "s",
        "99th percentile of inter-token latency",
        "{:.4f}",
        "of the means over replicas per control interval",
    ),
    Metric("itl_deadline_s", "s", "latency deadline", "{:.4f}"),
    Metric(
        "hours_over_deadline",
        "h",
        "time over the latency deadline",
        "{:,.3f}",
        "by the mean over replicas",
        "table",
    ),
)
OF_STREAM = (
    Metric(
        "mean_mw",
        "MW",
        "mean power of its GPUs",
        "{:,.3f}",
        "GPUs with replicas only",
        "table",
    ),
    Metric("energy_mwh", "MWh", "energy of its GPUs", "{:,.3f}"),
    Metric(
        "violation_h",
        "h",
        "time above its cap",
        "{:,.3f}",
        "by means over control intervals",
        "table",
    ),
    Metric(
        "violation_mean",
        "1",
        "mean violation",
        "{:.5f}",
        "mean excess per cap over the run; 0 if within the cap",
        "table",
    ),
    Metric(
        "violation_max",
        "1",
        "largest violation",
        "{:.4f}",
        "mean excess per cap of a control interval",
        "table",
    ),
    Metric(
        "violation_end",
        "1",
        "violation in the last tenth of the run",
        "{:.5f}",
        "its mean",
    ),
)
REPLICA_METRICS = tuple(
    Metric(f"replicas.{of}.{m.key}", m.unit, m.label, m.format, m.text, m.view)
    for of, group in (("models.<model>", OF_MODEL), ("streams.<stream>", OF_STREAM))
    for m in group
)


def replica_columns(specs: Mapping[str, ReplicaStream] | None) -> Columns:
    """Return the series columns of replica streams; None for all possible columns."""
    with_cap = specs is None or any(spec.signal for spec in specs.values())
    return (*REPLICA_COLUMNS, CAP_COLUMN) if with_cap else REPLICA_COLUMNS
