"""The `replicas` block of the metrics: batch sizes, latency, tokens, passed limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from diploee.loads.services.metrics import weighted_percentiles
from diploee.neighbours.openg2g.replicas.replay import ReplayedModel, ReplicaPlan, replica_labels
from diploee.neighbours.replica_catalogue import OF_STREAM
from diploee.tables import Float64Array
from diploee.units import MS_PER_H, MS_PER_S, S_PER_H, W_PER_MW


def replica_metrics(plans: Sequence[ReplicaPlan]) -> dict[str, Any]:
    """Return the `replicas` block; nothing without replica streams."""
    if not plans:
        return {}
    models = {
        label: _of_model(model, np.diff(plan.edges_ms) / MS_PER_S)
        for plan, labels in zip(plans, replica_labels(list(plans)), strict=True)
        for model, label in zip(plan.models, labels, strict=True)
    }
    streams = {plan.stream: _of_stream(plan) for plan in plans}
    return {"replicas": {"models": models, "streams": streams}}


def _of_model(model: ReplayedModel, step_s: Float64Array) -> dict[str, Any]:
    weight, runs = model.n_replicas * step_s, model.n_replicas > 0
    deadline_s = model.data.setting.itl_deadline_s
    found: dict[str, Any] = {
        "mean_replicas": float(weight.sum() / step_s.sum()),
        "mean_batch_size": None,
        "batch_changes_per_hour": float(
            np.count_nonzero(np.diff(model.batch_size)) / step_s.sum() * S_PER_H
        ),
        "tokens_per_s": float(model.throughput_tps @ step_s / step_s.sum()),
        "itl_s": {"mean": None, "p50": None, "p99": None},
        "itl_deadline_s": deadline_s,
        "hours_over_deadline": None,
    }
    if runs.any():
        itl_s, time_s = model.itl_s[runs], step_s[runs]
        median, most = weighted_percentiles(itl_s, time_s, (50, 99))
        mean = float(np.average(itl_s, weights=weight[runs]))
        found["mean_batch_size"] = float(np.average(model.batch_size, weights=weight))
        found["itl_s"] = {"mean": mean, "p50": median, "p99": most}
        if deadline_s is not None:
            found["hours_over_deadline"] = float(time_s[itl_s > deadline_s].sum() / S_PER_H)
    return found


def _of_stream(plan: ReplicaPlan) -> dict[str, Any]:
    step_h = np.diff(plan.edges_ms) / MS_PER_H
    hours, mean_mw = step_h.sum(), plan.mean_power_w @ step_h / step_h.sum() / W_PER_MW
    found = {"mean_mw": float(mean_mw), "energy_mwh": float(mean_mw * hours)}
    if not plan.signal_kind:
        return found | dict.fromkeys(m.key for m in OF_STREAM if m.key not in found)
    over = np.maximum(plan.excess, 0.0)
    last = slice(-max(over.size // 10, 1), None)
    return found | {
        "violation_h": float(step_h[over > 0].sum()),
        "violation_mean": float(over @ step_h / hours),
        "violation_max": float(over.max()),
        "violation_end": float(np.average(over[last], weights=step_h[last])),
    }
