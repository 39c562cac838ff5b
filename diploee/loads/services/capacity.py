"""Capacity of a model instance: its highest request rate under a latency cap (Eq. 5).

The capacities determine the nodes that are reserved for each service (Eq. 7).

See also: docs/models/serving.md
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from diploee.base.errors import WorkloadError
from diploee.base.tables import Float64Array, Int64Array
from diploee.loads.services.curves import LatencyCurve
from diploee.scenario.serving import LatencyMetric, RequestStream, Service


@dataclass(frozen=True)
class Capacity:
    """Request rates that one instance of a service accepts and completes."""

    # Highest rate offered to an instance [1/s], R_max of Eqs. 4-5
    max_request_rate_rps: float
    completion_rate_rps: float  # highest rate that an instance completes [1/s]
    # Latency cap of the service [s]; None if the scenario sets the rate
    latency_limit_s: float | None
    # Warnings for the user, such as a cap that the curve never reaches
    warnings: tuple[str, ...] = ()
    latency_metric: LatencyMetric | None = None  # latency that is capped


def max_request_rate_rps(curve: LatencyCurve, limit_s: float) -> float:
    """Return the highest request rate that meets a latency limit [1/s] (Eq. 5).

    If the whole curve is below the limit, the result is the highest measured rate. A
    limit below the lowest latency raises a `WorkloadError` that names the lowest
    feasible limit.
    """
    rate_rps, latency_s = curve.rate_rps, curve.latency_s
    if limit_s < latency_s[0]:
        raise WorkloadError(_out_of_reach(curve, limit_s))
    if limit_s >= latency_s[-1]:
        return float(rate_rps[-1])
    low = int(np.searchsorted(latency_s, limit_s, side="right")) - 1
    low_rps, high_rps = float(rate_rps[low]), float(rate_rps[low + 1])
    if limit_s == latency_s[low]:
        return low_rps
    return float(
        scipy.optimize.brentq(
            lambda r: float(curve.at(np.array(r))) - limit_s, low_rps, high_rps
        )
    )


def _out_of_reach(curve: LatencyCurve, limit_s: float) -> str:
    """Return the error message for a latency limit below the lowest latency."""
    lowest_s, measured_s = (
        float(curve.latency_s[0]),
        float(curve.measured_latency_s.min()),
    )
    raised = (
        (
            f" (measured were down to {measured_s:g} s at higher rates, but latency "
            "may not fall with the rate: a running maximum raised them)"
        )
        if measured_s < lowest_s
        else ""
    )
    return (
        f"a {curve.metric} latency of {limit_s:g} s can't be kept: the lowest that "
        f"can be met is {lowest_s:g} s, at {max_request_rate_rps(curve, lowest_s):g} "
        f"requests/s{raised}; raise the cap to that or above"
    )


def service_capacity(
    service: Service, curve: LatencyCurve | None, stream: RequestStream
) -> Capacity:
    """Return the capacity of an instance of a service in a request stream.

    With `capacity: offered` (the paper), R_max is the highest rate offered to an
    instance and, with `overload: reject`, also the rate that it completes. With
    `sustained`, R_max is at most the measured throughput. The rate completed above
    R_max depends on the stream's `overload`.
    """
    warnings: list[str] = []
    if (model := service.batch_power_model) is not None:
        experts_text = (
            ", of mixtures of experts two" if model.active_parameters_b else ""
        )
        warnings.append(
            "batch_power_model is experimental: energy within 12 % of open traces of "
            f"vLLM on single nodes{experts_text}, levels of nine in ten; "
            "give power_samples of your own where you have them"
        )
    limit_s = metric = None
    if service.latency_cap is not None:
        assert curve is not None
        limit_s, metric = service.latency_cap.limit_s, service.latency_cap.metric
        max_rps = max_request_rate_rps(curve, limit_s)
        if limit_s > curve.latency_s[-1]:
            warnings.append(
                f"the latency cap of {limit_s:g} s lies above all measured latencies "
                f"(highest {curve.latency_s[-1]:g} s); the highest measured rate of "
                f"{max_rps:g} requests/s is taken"
            )
    # A logistic model without a cap: all it can do
    elif service.max_request_rate_rps is None:
        assert curve is not None
        max_rps = curve.sustained_throughput_rps
    else:
        max_rps = service.max_request_rate_rps
        if curve is not None and max_rps > curve.rate_rps[-1]:
            lies_above = f"max_request_rate_rps {max_rps:g} lies above the highest "
            if service.logistic is not None:
                raise WorkloadError(
                    f"{lies_above}rate of the logistic throughput, "
                    f"{curve.rate_rps[-1]:.6g} requests/s; lower it"
                )
            warnings.append(
                f"{lies_above}measured rate of {curve.rate_rps[-1]:g} requests/s"
            )
    if curve is not None and (
        curve.falls_far
        or (service.latency_cap is not None and curve.largest_correction_s > 0)
    ):
        warnings.append(
            f"the {curve.metric} latency falls with the rate in places; a running "
            f"maximum raised it by up to {curve.largest_correction_s:.3g} s"
        )
    sustained_rps = max_rps if curve is None else curve.sustained_throughput_rps
    if stream.capacity == "sustained":
        max_rps = min(max_rps, sustained_rps)
    completion_rps = stream.overload.completion_rate_rps(max_rps, sustained_rps)
    return Capacity(max_rps, completion_rps, limit_s, tuple(warnings), metric)


def reserved_node_shares(
    probability: Float64Array,
    nodes_per_instance: Int64Array,
    max_rate_rps: Float64Array,
) -> Float64Array:
    """Return the fraction of a pool's nodes for each service, by Eq. 7; sum 1.

    Eq. 7 as printed, N_total * (p_i n_i / R_i) * sum_j (R_j / (p_j n_j)), does not sum
    to N_total. Used here is ``(p_i n_i / R_i) / sum_j (p_j n_j / R_j)``, with p_i the
    fraction of requests for the service, n_i the nodes of an instance and R_i the
    highest request rate of an instance.
    """
    need: Float64Array = probability * nodes_per_instance / max_rate_rps
    total = need.sum()
    return need / total if total > 0 else np.full(need.size, 1 / need.size)


def reserve_nodes(
    n_nodes: int,
    probability: Sequence[float],
    nodes_per_instance: Sequence[int],
    max_rate_rps: Sequence[float],
    min_nodes: Int64Array | None = None,
) -> Int64Array:
    """Allot all nodes of a pool to services in whole instances (Eq. 7).

    Each service gets the whole instances within its fraction of the nodes. The
    remaining nodes are allotted one instance at a time, to the service that is furthest
    below its fraction among those for whose instance enough nodes remain. If an
    instance of no service fits, the last nodes are allotted to the service furthest
    below its fraction, and are idle. `min_nodes` are
    the nodes that each service already has and retains; their sum is at most `n_nodes`.
    """
    per_instance = np.asarray(nodes_per_instance, dtype=np.int64)
    probabilities = np.asarray(probability, dtype=np.float64)
    fraction = reserved_node_shares(
        probabilities, per_instance, np.asarray(max_rate_rps, np.float64)
    )
    exact = n_nodes * fraction
    # A number of instances that is whole except for rounding counts as whole.
    whole = np.floor(exact / per_instance + 1e-9).astype(np.int64)
    nodes: Int64Array = whole * per_instance
    if min_nodes is not None:
        # A service may have one more instance than its fraction, from an earlier
        # remainder; then others may not get theirs.
        enlarged = np.maximum(nodes, min_nodes)
        nodes = enlarged if enlarged.sum() <= n_nodes else min_nodes.copy()
    is_eligible = (
        probabilities > 0
        if (probabilities > 0).any()
        else np.ones(per_instance.size, dtype=bool)
    )
    n_left = n_nodes - int(nodes.sum())
    while n_left > 0:
        fits = is_eligible & (per_instance <= n_left)
        missing_nodes = np.where(
            fits if fits.any() else is_eligible, exact - nodes, -np.inf
        )
        service = int(np.argmax(missing_nodes))
        n_added = int(per_instance[service]) if fits.any() else n_left
        nodes[service] += n_added
        n_left -= n_added
    return nodes
