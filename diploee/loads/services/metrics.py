"""The `requests` block of the metrics: request volumes, latencies and instances."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy

from diploee.base.tables import BoolArray, Float64Array
from diploee.base.units import S_PER_H
from diploee.loads.services.curves import LATENCY_COLUMNS
from diploee.loads.services.served_requests import ServedRequests
from diploee.loads.services.service_plan import (
    Latencies,
    PlannedService,
    ServicePlan,
    service_labels,
)
from diploee.scenario.serving import LatencyMetric

S_PER_DAY = 24 * S_PER_H
# 90th percentile of the standard normal distribution
_Z90 = 1.2815515655446004

CLASSES = 4_096
"""Number of classes of equal width that medians are sorted into before percentiles."""
WAIT_STEP = 0.02
"""Change of the waiting time within an interval that percentiles resolve, relative to
the median latency."""
LIMIT_TOLERANCE = 1e-9
"""Relative rounding error by which a latency may exceed its cap."""


# Metrics of a service that are added up over all services
_VOLUMES = (
    "per_day",
    "incoming_rps",
    "effective_rps",
    "incomplete_rps",
    "rejected_rps",
    "backlog_end_requests",
)


def request_metrics(plans: Sequence[ServicePlan]) -> dict[str, Any]:
    """Return the `requests` block: metrics of all requests and of each service.

    There must be at least one plan.
    """
    services = {
        label: service_metrics(service)
        for plan, labels in zip(plans, service_labels(plans), strict=True)
        for service, label in zip(plan.services, labels, strict=True)
    }
    sums = {
        key: sum(service_values[key] for service_values in services.values())
        for key in _VOLUMES
    }
    nodes = sum(
        service.nodes_per_instance * _mean_instances(service.served.from_time(0))
        for plan in plans
        for service in plan.services
    )
    return {**sums, **_per_node(sums["effective_rps"], nodes), "services": services}


def _mean_instances(served: ServedRequests) -> float:
    """Return the mean number of instances."""
    return float(np.average(served.n_instances, weights=served.step_s))


def _per_node(served_rps: float, nodes: float) -> dict[str, float | None]:
    """Return the served requests per node [1/s]; None without nodes."""
    return {"per_node_rps": served_rps / nodes if nodes else None}


def service_metrics(service: PlannedService) -> dict[str, Any]:
    """Return the metrics of one service of a plan.

    Latencies that are not in its latency curve are None.
    """
    service = service.in_run()
    served, latencies_s = service.served, service.latencies_s
    step_s, weight = served.step_s, _accepted_requests(served)
    changes = float(np.abs(np.diff(served.n_instances)).sum())
    volumes, mean_instances = _volume_metrics(served), _mean_instances(served)
    return {
        **volumes,
        **_per_node(
            volumes["effective_rps"], service.nodes_per_instance * mean_instances
        ),
        "reserved_nodes": service.reserved_nodes,
        "max_request_rate_rps": service.capacity.max_request_rate_rps,
        "mean_instances": mean_instances,
        "max_instances": int(served.n_instances.max()),
        "instance_changes_per_hour": changes / (float(step_s.sum()) / S_PER_H),
        "latency_s": _latency_distribution(service, latencies_s, weight),
        **_cap_metrics(service, latencies_s, weight),
        "hours_beyond_measured_rate": _hours_in_mask(step_s, service.beyond_measured)
        if latencies_s
        else None,
        "hours_with_unserved_requests": _hours_in_mask(step_s, served.unserved_rps > 0),
    }


def _accepted_requests(served: ServedRequests) -> Float64Array:
    """Return the number of accepted requests in each interval, shape (P,).

    The latency of an interval applies to the requests accepted in it, also if they are
    served in a later one.
    """
    accepted: Float64Array = (served.rate_rps - served.unserved_rps) * served.step_s
    return np.maximum(accepted, 0.0)


def _hours_in_mask(step_s: Float64Array, mask: BoolArray) -> float:
    """Return the time in intervals where a mask is true [h]."""
    return float(step_s[mask].sum() / S_PER_H)


def _volume_metrics(served: ServedRequests) -> dict[str, float]:
    """Return rates of incoming, served and rejected requests, and the backlog."""
    step_s = served.step_s
    total_s = float(step_s.sum())
    incoming = float(served.rate_rps @ step_s)
    rejected = float(served.unserved_rps @ step_s)
    backlog = float(served.backlog_requests[-1])
    return {
        "per_day": incoming / (total_s / S_PER_DAY),
        "incoming_rps": incoming / total_s,
        "effective_rps": float(served.served_rps @ step_s) / total_s,
        "incomplete_rps": (rejected + backlog) / total_s,
        "rejected_rps": rejected / total_s,
        "backlog_end_requests": backlog,
    }


def _latency_distribution(
    service: PlannedService, latencies_s: Latencies, weight: Float64Array
) -> dict[str, Any]:
    """Return mean, percentiles and largest mean of the latencies of requests [s].

    Requests count in the interval in which they arrive; rejected ones are left out.
    Metrics that need a column which the latency curve lacks are None, with the reason.
    """
    has_requests = weight > 0
    weight = weight[has_requests]
    # Waiting time minus that in the middle of the interval
    wait_deviation_s = (service.wait_s - service.wait_s[1])[:, has_requests]
    accepted_latencies = (
        {metric: latency_s[has_requests] for metric, latency_s in latencies_s.items()}
        if has_requests.any()
        else {}
    )
    result: dict[str, Any] = dict.fromkeys(("mean", "p50", "p90", "max_mean"))
    if (mean_s := accepted_latencies.get("mean_e2e")) is not None:
        result["mean"] = float(np.average(mean_s, weights=weight))
        result["max_mean"] = float((mean_s + wait_deviation_s.max(axis=0)).max())
    if "p50_e2e" in accepted_latencies and "p90_e2e" in accepted_latencies:
        # An interval in which the waiting time changes much is split.
        n_parts = (
            np.ceil(
                np.ptp(wait_deviation_s, axis=0)
                / (WAIT_STEP * accepted_latencies["p50_e2e"])
            )
            .clip(1)
            .astype(np.int64)
        )
        fraction = (
            np.arange(n_parts.sum())
            - np.repeat(np.cumsum(n_parts) - n_parts, n_parts)
            + 0.5
        ) / np.repeat(n_parts, n_parts)
        first_s, _, last_s = np.repeat(wait_deviation_s, n_parts, axis=1)
        added_s = first_s * (1 - 2 * fraction).clip(0) + last_s * (
            2 * fraction - 1
        ).clip(0)
        median_s, p90_s = (
            np.repeat(accepted_latencies[metric], n_parts) + added_s
            for metric in ("p50_e2e", "p90_e2e")
        )
        result["p50"], result["p90"] = mixture_percentiles(
            median_s, p90_s, np.repeat(weight / n_parts, n_parts), (50, 90)
        )
    absent = []
    for key, value in result.items():
        if value is None:
            needed: tuple[LatencyMetric, ...] = ("mean_e2e",)
            if key in ("p50", "p90"):
                needed = ("p50_e2e", "p90_e2e")
            lacks = [
                LATENCY_COLUMNS[metric]
                for metric in needed
                if metric not in latencies_s
            ]
            reason = f"the latency curve has no {' and no '.join(lacks)}"
            if not latencies_s:
                reason = "the service has no latency curve"
            elif not has_requests.any():
                reason = "no request was served"
            absent.append({"name": key, "reason": reason})
    return {**result, "absent": absent}


def _cap_metrics(
    service: PlannedService, latencies_s: Latencies, weight: Float64Array
) -> dict[str, Any]:
    """Return the capped latency by its metric, and the hours above its cap."""
    metric, limit_s = service.capacity.latency_metric, service.capacity.latency_limit_s
    if metric is None or limit_s is None:
        return {"latency_cap": {}, "hours_over_latency_limit": None}
    has_requests, latency_s = weight > 0, latencies_s[metric]
    is_above = (latency_s > limit_s * (1 + LIMIT_TOLERANCE)) & has_requests
    values: dict[str, float | None] = {
        "limit_s": limit_s,
        "mean_s": None,
        "max_s": None,
    }
    if has_requests.any():
        values["mean_s"] = float(
            np.average(latency_s[has_requests], weights=weight[has_requests])
        )
        values["max_s"] = float(latency_s[has_requests].max())
    return {
        "latency_cap": {metric: values},
        "hours_over_latency_limit": _hours_in_mask(service.served.step_s, is_above),
    }


def mixture_percentiles(
    median: Float64Array,
    p90: Float64Array,
    weight: Float64Array,
    percents: Sequence[float],
) -> list[float]:
    """Return percentiles of a log-normal mixture, from the components' medians and P90.

    Medians, 90th percentiles and positive weights have shape (P,); `percents` are
    0-100.
    """
    # Components with medians in the same class become one, with their mean parameters:
    # there are many components, but medians span only a few powers of ten.
    log_median, log_std = np.log(median), np.log(p90 / median) / _Z90
    scale = (CLASSES - 1) / max(float(np.ptp(log_median)), 1e-12)
    class_index = ((log_median - log_median.min()) * scale).astype(np.int64)
    sums = np.stack(
        [
            np.bincount(class_index, weight * values)
            for values in (np.ones_like(log_median), log_median, log_std)
        ]
    )
    class_weight = sums[0, sums[0] > 0]
    class_mean, sigma = sums[1:, sums[0] > 0] / class_weight
    sigma = np.maximum(sigma, 1e-12)
    low, high = (
        float((class_mean - 9 * sigma).min()),
        float((class_mean + 9 * sigma).max()),
    )

    def excess(value: float, percent: float) -> float:
        below = (
            class_weight
            @ scipy.special.ndtr((value - class_mean) / sigma)
            / class_weight.sum()
        )
        return float(below) - percent / 100

    return [
        math.exp(scipy.optimize.brentq(excess, low, high, (percent,)))
        for percent in percents
    ]
