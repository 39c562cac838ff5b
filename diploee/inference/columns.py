"""Per-service columns of the facility's series, at any resolution."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from diploee.columns import Column
from diploee.inference.service_plan import ServicePlan, service_labels
from diploee.jit import njit
from diploee.tables import Float32Array, Float64Array, Int32Array, Int64Array

SERVICE_COLUMNS = (
    Column("incoming_rps", "requests/s", "service", "mean", None, "requests offered"),
    Column("served_rps", "requests/s", "service", "mean", None, "requests completed"),
    Column("unserved_rps", "requests/s", "service", "mean", None, "requests rejected"),
    Column("n_instances", "model instances", "service", "instant", None, "instances that are up"),
    Column("backlog_requests", "requests", "service", "instant", None, "requests that wait"),
)
"""What each service adds to the series; the backlog only where requests can wait."""


def service_columns(
    plans: Sequence[ServicePlan], t0_ms: int, dt_ms: int, n_steps: int
) -> dict[str, Float32Array | Int32Array]:
    """Return request rates and instances of every service over a run of intervals.

    Rates are means over each interval, so that requests are conserved at every resolution;
    instances and backlog hold at the interval's start.

    Parameters
    ----------
    plans : sequence of ServicePlan
        Plans of all request streams.
    t0_ms, dt_ms : int
        Start of the first interval and length of each [ms].
    n_steps : int
        Number of intervals, B.

    Returns
    -------
    dict of str to numpy.ndarray, shape (B,)
        ``incoming_rps.<service>``, ``served_rps.``, ``unserved_rps.`` (float32), ``n_instances.``
        (int32); ``backlog_requests.`` (float32) where requests can wait.
    """
    edges_ms = t0_ms + np.arange(n_steps + 1, dtype=np.int64) * dt_ms
    columns: dict[str, Float32Array | Int32Array] = {}
    for plan, labels in zip(plans, service_labels(plans), strict=True):
        for service, label in zip(plan.services, labels, strict=True):
            served = service.served
            piece = np.searchsorted(served.edges_ms, edges_ms, side="right") - 1
            for name, rate_rps in (
                ("incoming_rps", served.rate_rps),
                ("served_rps", served.served_rps),
                ("unserved_rps", served.unserved_rps),
            ):
                columns[f"{name}.{label}"] = means = np.empty(n_steps, dtype=np.float32)
                _mean_rates(served.edges_ms, rate_rps, edges_ms, piece, means)
            piece = piece[:-1]
            columns[f"n_instances.{label}"] = served.n_instances[piece].astype(np.int32)
            if served.backlog_requests.any():
                at_start = np.interp(edges_ms[:-1], served.edges_ms, served.backlog_requests)
                columns[f"backlog_requests.{label}"] = at_start.astype(np.float32)
    return columns


@njit()
def _mean_rates(
    piece_edges_ms: Int64Array,
    rate_rps: Float64Array,
    edges_ms: Int64Array,
    piece: Int64Array,
    means: Float32Array,
) -> None:
    """Find the means over intervals of a rate that is constant in each piece of time.

    Each is a sum of its own, so that it has the same bits in whatever run of intervals it is.
    """
    for k in range(means.size):
        requests = 0.0
        for p in range(piece[k], min(piece[k + 1] + 1, rate_rps.size)):
            from_ms = max(piece_edges_ms[p], edges_ms[k])
            until_ms = min(piece_edges_ms[p + 1], edges_ms[k + 1])
            requests += rate_rps[p] * (until_ms - from_ms)
        means[k] = requests / (edges_ms[k + 1] - edges_ms[k])
