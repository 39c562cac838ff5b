"""Computation of the `requests` block of the metrics.

What came, what was served, and how long it took.
"""

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
_Z90 = 1.2815515655446004  # of the standard normal

CLASSES = 4_096
"""Classes of equal width that values are sorted into before they are ranked."""
WAIT_STEP = 0.02
"""Change of the wait within a piece of time that percentiles resolve, over the latency
there."""
LIMIT_TOLERANCE = 1e-9
"""Relative rounding by which a latency may pass its cap without violating it."""


_VOLUMES = (
    "per_day",
    "incoming_rps",
    "effective_rps",
    "incomplete_rps",
    "rejected_rps",
    "backlog_end_requests",
)


def request_metrics(plans: Sequence[ServicePlan]) -> dict[str, Any]:
    """Return the `requests` block of at least one plan.

    All requests together, and each service.
    """
    services = {
        label: service_metrics(service)
        for plan, labels in zip(plans, service_labels(plans), strict=True)
        for service, label in zip(plan.services, labels, strict=True)
    }
    sums = {key: sum(of[key] for of in services.values()) for key in _VOLUMES}
    nodes = sum(
        service.nodes_per_instance * _mean_instances(service.served.since(0))
        for plan in plans
        for service in plan.services
    )
    return {**sums, **_per_node(sums["effective_rps"], nodes), "services": services}


def _mean_instances(served: ServedRequests) -> float:
    return float(np.average(served.n_instances, weights=served.step_s))


def _per_node(served_rps: float, nodes: float) -> dict[str, float | None]:
    return {"per_node_rps": served_rps / nodes if nodes else None}


def service_metrics(service: PlannedService) -> dict[str, Any]:
    """Return the metrics of one service of a plan.

    Latencies that its curve lacks are None.
    """
    service = service.in_run()
    served, latencies_s = service.served, service.latencies_s
    step_s, weight = served.step_s, _taken_requests(served)
    changes = float(np.abs(np.diff(served.n_instances)).sum())
    volumes, mean_instances = _volumes(served), _mean_instances(served)
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
        **_of_cap(service, latencies_s, weight),
        "hours_beyond_measured_rate": _hours(step_s, service.beyond_measured)
        if latencies_s
        else None,
        "hours_with_unserved_requests": _hours(step_s, served.unserved_rps > 0),
    }


def _taken_requests(served: ServedRequests) -> Float64Array:
    """Return the requests accepted in each piece of time, shape (P,).

    A piece's latency is theirs, even where they are served in a later one.
    """
    taken: Float64Array = (served.rate_rps - served.unserved_rps) * served.step_s
    return np.maximum(taken, 0.0)


def _hours(step_s: Float64Array, where: BoolArray) -> float:
    return float(step_s[where].sum() / S_PER_H)


def _volumes(served: ServedRequests) -> dict[str, float]:
    step_s = served.step_s
    span_s = float(step_s.sum())
    incoming = float(served.rate_rps @ step_s)
    rejected = float(served.unserved_rps @ step_s)
    backlog = float(served.backlog_requests[-1])
    return {
        "per_day": incoming / (span_s / S_PER_DAY),
        "incoming_rps": incoming / span_s,
        "effective_rps": float(served.served_rps @ step_s) / span_s,
        "incomplete_rps": (rejected + backlog) / span_s,
        "rejected_rps": rejected / span_s,
        "backlog_end_requests": backlog,
    }


def _latency_distribution(
    service: PlannedService, latencies_s: Latencies, weight: Float64Array
) -> dict[str, Any]:
    """Return mean, percentiles and largest mean of latency [s], by requests.

    All are by the piece of time in which requests arrive, less the rejected ones. What
    the latency curve lacks is None, with the reason.
    """
    taken = weight > 0
    weight = weight[taken]
    # Of the wait from that in the middle
    off_s = (service.wait_s - service.wait_s[1])[:, taken]
    known = (
        {of: latency_s[taken] for of, latency_s in latencies_s.items()}
        if taken.any()
        else {}
    )
    result: dict[str, Any] = dict.fromkeys(("mean", "p50", "p90", "max_mean"))
    if (mean_s := known.get("mean_e2e")) is not None:
        result["mean"] = float(np.average(mean_s, weights=weight))
        result["max_mean"] = float((mean_s + off_s.max(axis=0)).max())
    if "p50_e2e" in known and "p90_e2e" in known:
        # A piece over which the wait changes much is many.
        n = (
            np.ceil(np.ptp(off_s, axis=0) / (WAIT_STEP * known["p50_e2e"]))
            .clip(1)
            .astype(np.int64)
        )
        place = (np.arange(n.sum()) - np.repeat(np.cumsum(n) - n, n) + 0.5) / np.repeat(
            n, n
        )
        first_s, _, last_s = np.repeat(off_s, n, axis=1)
        rise_s = first_s * (1 - 2 * place).clip(0) + last_s * (2 * place - 1).clip(0)
        median_s, p90_s = (
            np.repeat(known[of], n) + rise_s for of in ("p50_e2e", "p90_e2e")
        )
        result["p50"], result["p90"] = mixture_percentiles(
            median_s, p90_s, np.repeat(weight / n, n), (50, 90)
        )
    absent = []
    for key, value in result.items():
        if value is None:
            needed: tuple[LatencyMetric, ...] = ("mean_e2e",)
            if key in ("p50", "p90"):
                needed = ("p50_e2e", "p90_e2e")
            lacks = [LATENCY_COLUMNS[of] for of in needed if of not in latencies_s]
            reason = f"the latency curve has no {' and no '.join(lacks)}"
            if not latencies_s:
                reason = "the service has no latency curve"
            elif not taken.any():
                reason = "no request was served"
            absent.append({"name": key, "reason": reason})
    return {**result, "absent": absent}


def _of_cap(
    service: PlannedService, latencies_s: Latencies, weight: Float64Array
) -> dict[str, Any]:
    """Return the capped latency by its name, and how long it is above its cap."""
    metric, limit_s = service.capacity.latency_metric, service.capacity.latency_limit_s
    if metric is None or limit_s is None:
        return {"latency_cap": {}, "hours_over_latency_limit": None}
    taken, latency_s = weight > 0, latencies_s[metric]
    over = (latency_s > limit_s * (1 + LIMIT_TOLERANCE)) & taken
    of_cap: dict[str, float | None] = {
        "limit_s": limit_s,
        "mean_s": None,
        "max_s": None,
    }
    if taken.any():
        of_cap["mean_s"] = float(np.average(latency_s[taken], weights=weight[taken]))
        of_cap["max_s"] = float(latency_s[taken].max())
    return {
        "latency_cap": {metric: of_cap},
        "hours_over_latency_limit": _hours(service.served.step_s, over),
    }


def mixture_percentiles(
    median: Float64Array,
    p90: Float64Array,
    weight: Float64Array,
    percents: Sequence[float],
) -> list[float]:
    """Return percentiles of a log-normal mixture, given by medians and P90.

    Medians, 90th percentiles and positive weights are of shape (P,), percentages 0-100.
    """
    # Values of like median are one: moments are many, medians change by a few powers of
    # ten.
    place, width = np.log(median), np.log(p90 / median) / _Z90
    scale = (CLASSES - 1) / max(float(np.ptp(place)), 1e-12)
    number = ((place - place.min()) * scale).astype(np.int64)
    sums = np.stack(
        [np.bincount(number, weight * of) for of in (np.ones_like(place), place, width)]
    )
    share = sums[0, sums[0] > 0]
    at, sigma = sums[1:, sums[0] > 0] / share
    sigma = np.maximum(sigma, 1e-12)
    low, high = float((at - 9 * sigma).min()), float((at + 9 * sigma).max())

    def beyond(value: float, percent: float) -> float:
        below = share @ scipy.special.ndtr((value - at) / sigma) / share.sum()
        return float(below) - percent / 100

    return [
        math.exp(scipy.optimize.brentq(beyond, low, high, (percent,)))
        for percent in percents
    ]
