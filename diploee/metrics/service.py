"""The `requests` block of the metrics: what came, what was served, and how long it took."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from diploee.inference import Capacity, ServicePlan, service_labels
from diploee.tables import BoolArray, Float64Array
from diploee.units import S_PER_H

S_PER_DAY = 24 * S_PER_H
LATENCY_PERCENTS = (50, 90, 99)
LIMIT_TOLERANCE = 1e-9
"""Relative rounding by which a latency may pass its cap without violating it."""


def request_metrics(plans: Sequence[ServicePlan]) -> dict[str, Any]:
    """Return the `requests` block.

    Parameters
    ----------
    plans : sequence of ServicePlan
        Plans of all request streams of the facility or of one pool; at least one.

    Returns
    -------
    dict
        ``per_day``, ``incoming_rps``, ``effective_rps`` (served), ``incomplete_rps`` (rejected or
        still waiting at the end), ``rejected_rps``, ``backlog_end_requests``, and ``services``
        with the same per service, beside its capacity, nodes and latency.
    """
    services = {
        label: service_metrics(plan, row)
        for plan, labels in zip(plans, service_labels(plans), strict=True)
        for row, label in enumerate(labels)
    }
    totals = [_volumes(plan, slice(None)) for plan in plans]
    return {
        **{key: sum(of_plan[key] for of_plan in totals) for key in totals[0]},
        "services": services,
    }


def service_metrics(plan: ServicePlan, row: int) -> dict[str, Any]:
    """Return the metrics of one service of a plan; values without a latency curve are None."""
    capacity = plan.capacities[row]
    weight = taken_requests(plan, row)
    violated = cap_violated(plan.latency_s[row], weight, capacity)
    return {
        **_volumes(plan, slice(row, row + 1)),
        "reserved_nodes": int(plan.reserved_nodes[row]),
        "max_request_rate_rps": capacity.max_request_rate_rps,
        "mean_instances": float(np.average(plan.n_instances[row], weights=plan.step_s)),
        "max_instances": int(plan.n_instances[row].max()),
        "latency_s": latency_distribution(plan.latency_s[row], weight),
        "latency_limit_s": capacity.latency_limit_s,
        "hours_over_latency_limit": None
        if violated is None
        else float(plan.step_s[violated].sum() / S_PER_H),
        "hours_with_unserved_requests": float(
            plan.step_s[plan.unserved_rps[row] > 0].sum() / S_PER_H
        ),
    }


def taken_requests(plan: ServicePlan, row: int) -> Float64Array:
    """Return the requests that arrive in each step and are not rejected, shape (T,).

    A step's latency is theirs, even where they are served in a later one.
    """
    taken: Float64Array = (plan.rate_rps[row] - plan.unserved_rps[row]) * plan.step_s
    return np.maximum(taken, 0.0)


def _volumes(plan: ServicePlan, rows: slice) -> dict[str, float]:
    step_s = plan.step_s
    span_s = float(step_s.sum())
    incoming = float((plan.rate_rps[rows] @ step_s).sum())
    served = float((plan.served_rps[rows] @ step_s).sum())
    rejected = float((plan.unserved_rps[rows] @ step_s).sum())
    backlog = float(plan.backlog_requests[rows, -1].sum())
    return {
        "per_day": incoming / (span_s / S_PER_DAY),
        "incoming_rps": incoming / span_s,
        "effective_rps": served / span_s,
        "incomplete_rps": (rejected + backlog) / span_s,
        "rejected_rps": rejected / span_s,
        "backlog_end_requests": backlog,
    }


def latency_distribution(latency_s: Float64Array, weight: Float64Array) -> dict[str, float] | None:
    """Return mean, percentiles and maximum of the latency, weighted by requests.

    Parameters
    ----------
    latency_s : numpy.ndarray, shape (T,), float64
        Latency of the requests that arrive in each step [s].
    weight : numpy.ndarray, shape (T,), float64
        Requests that arrive in each step, less the rejected ones.

    Returns
    -------
    dict or None
        ``mean``, ``p50``, ``p90``, ``p99``, ``max`` [s]; None without latency or requests.
    """
    asked = weight > 0
    if not asked.any() or np.isnan(latency_s).any():
        return None
    latency_s, weight = latency_s[asked], weight[asked]
    values = weighted_percentiles(latency_s, weight, LATENCY_PERCENTS)
    return {
        "mean": float(np.average(latency_s, weights=weight)),
        **{f"p{percent}": value for percent, value in zip(LATENCY_PERCENTS, values, strict=True)},
        "max": float(latency_s.max()),
    }


def weighted_percentiles(
    values: Float64Array, weight: Float64Array, percents: Sequence[float]
) -> list[float]:
    """Return weighted percentiles: the lowest value that the share of the weight does not pass.

    Parameters
    ----------
    values, weight : numpy.ndarray, shape (T,), float64
        Values and their weights, positive.
    percents : sequence of float
        Percentages, 0-100.
    """
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weight[order])
    wanted = np.array(percents) / 100 * reached[-1]
    at = np.minimum(np.searchsorted(reached, wanted), values.size - 1)
    return [float(value) for value in values[order][at]]


def cap_violated(
    latency_s: Float64Array, weight: Float64Array, capacity: Capacity
) -> BoolArray | None:
    """Return the steps whose arrivals' latency passes the cap; None without cap or curve."""
    limit_s = capacity.latency_limit_s
    if limit_s is None or np.isnan(latency_s).any():
        return None
    over: BoolArray = (latency_s > limit_s * (1 + LIMIT_TOLERANCE)) & (weight > 0)
    return over
