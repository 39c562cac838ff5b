"""Columns of replicas in the facility's series, at any resolution."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from diploee.neighbours.openg2g.replicas.replay import ReplicaPlan, replica_labels
from diploee.neighbours.replica_catalogue import SIGNAL_COLUMNS
from diploee.tables import Float32Array, Float64Array


def replica_columns(
    plans: Sequence[ReplicaPlan], t0_ms: int, dt_ms: int, n_steps: int
) -> dict[str, Float32Array]:
    """Return the columns of all streams over a run of intervals, means over each.

    The latency is the mean over replicas and time.
    """
    edges_ms = t0_ms + np.arange(n_steps + 1, dtype=np.int64) * dt_ms
    found: dict[str, Float32Array] = {}
    for plan, labels in zip(plans, replica_labels(list(plans)), strict=True):

        def means(values: Float64Array, plan: ReplicaPlan = plan) -> Float64Array:
            # Of the integral at each edge, which is the same in whatever run of intervals it is.
            steps = values * np.diff(plan.edges_ms)
            integral = np.concatenate(([0.0], np.cumsum(steps)))
            return np.diff(np.interp(edges_ms, plan.edges_ms, integral)) / dt_ms

        for model, label in zip(plan.models, labels, strict=True):
            replicas = means(model.n_replicas.astype(np.float64))
            weighted_s = means(np.where(model.n_replicas > 0, model.itl_s * model.n_replicas, 0.0))
            itl_s = np.divide(weighted_s, replicas, np.zeros(n_steps), where=replicas > 0)
            found |= {
                f"n_replicas.{label}": replicas.astype(np.float32),
                f"batch_size.{label}": means(model.batch_size.astype(np.float64)).astype(
                    np.float32
                ),
                f"itl_s.{label}": itl_s.astype(np.float32),
                f"tokens_per_s.{label}": means(model.throughput_tps).astype(np.float32),
            }
        for column in SIGNAL_COLUMNS.get(plan.signal_kind, ()):
            values = np.where(np.isfinite(plan.signal), plan.signal, 0.0)
            found[f"{column.name}.{plan.stream}"] = means(values).astype(np.float32)
    return found
