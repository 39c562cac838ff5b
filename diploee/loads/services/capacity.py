"""Capacity of a model instance: its highest rate under a latency cap (Eq. 5).

Nodes reserved for each service follow from it (Eq. 7).

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
    """Request rates that one instance of a service takes and completes."""

    # Rate that an instance is given at most [1/s], R_max of Eqs. 4-5
    max_request_rate_rps: float
    completion_rate_rps: float  # rate that an instance completes at most [1/s]
    # The service's latency cap [s]; None where the rate is given
    latency_limit_s: float | None
    # What the user should know, such as a cap that the curve never reaches
    warnings: tuple[str, ...] = ()
    latency_metric: LatencyMetric | None = None  # latency that is capped


def max_request_rate_rps(curve: LatencyCurve, limit_s: float) -> float:
    """Return the highest rate [1/s] that keeps a latency on a curve (Eq. 5).

    It is the highest measured rate where the curve stays below the limit. A limit below
    the lowest latency is a `WorkloadError` that says which can be met.
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
    """Return the capacity of an instance under the stream's reading of it.

    Under `offered` (the paper) R_max is what an instance is given and, with `reject`,
    what it completes. Under `sustained` R_max is at most the measured throughput. What
    an instance completes beyond R_max is for the stream's way of overload to say.
    """
    warnings: list[str] = []
    if (law := service.batch_power_model) is not None:
        of = ", of mixtures of experts two" if law.active_parameters_b else ""
        warnings.append(
            "batch_power_model is experimental: energy within 12 % of open traces of "
            f"vLLM on single nodes{of}, levels of nine in ten; give power_samples of "
            "your own where you have them"
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
            beyond = f"max_request_rate_rps {max_rps:g} lies above the highest "
            if service.logistic is not None:
                raise WorkloadError(
                    f"{beyond}rate of the logistic throughput, "
                    f"{curve.rate_rps[-1]:.6g} requests/s; lower it"
                )
            warnings.append(
                f"{beyond}measured rate of {curve.rate_rps[-1]:g} requests/s"
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
    """Return each service's share of the nodes, by the right form of Eq. 7.

    They sum to 1. The paper prints N_total * (p_i n_i / R_i) * sum_j (R_j / (p_j n_j)),
    which does not sum to N_total; meant is ``(p_i n_i / R_i) / sum_j (p_j n_j / R_j)``
    with the share of the requests p_i, nodes of one instance n_i and its highest
    request rate R_i.
    """
    need: Float64Array = probability * nodes_per_instance / max_rate_rps
    total = need.sum()
    return need / total if total > 0 else np.full(need.size, 1 / need.size)


def reserve_nodes(
    n_nodes: int,
    probability: Sequence[float],
    nodes_per_instance: Sequence[int],
    max_rate_rps: Sequence[float],
    least: Int64Array | None = None,
) -> Int64Array:
    """Share out all nodes of a pool in whole instances (Eq. 7).

    Every service gets the whole instances within its share; what is left goes, an
    instance at a time, to the service furthest below its share among those whose
    instance still fits. Nodes too few for any instance go to the service furthest below
    its share and stay idle. `least` is what each service has already and keeps,
    together no more than `n_nodes`.
    """
    per_instance = np.asarray(nodes_per_instance, dtype=np.int64)
    asked = np.asarray(probability, dtype=np.float64)
    share = reserved_node_shares(
        asked, per_instance, np.asarray(max_rate_rps, np.float64)
    )
    exact = n_nodes * share
    # A share that is whole but for rounding counts as whole.
    whole = np.floor(exact / per_instance + 1e-9).astype(np.int64)
    nodes: Int64Array = whole * per_instance
    if least is not None:
        # An instance more than its share, as a remainder gave it, may leave others
        # short.
        kept = np.maximum(nodes, least)
        nodes = kept if kept.sum() <= n_nodes else least.copy()
    wanted = asked > 0 if (asked > 0).any() else np.ones(per_instance.size, dtype=bool)
    left = n_nodes - int(nodes.sum())
    while left > 0:
        fits = wanted & (per_instance <= left)
        short = np.where(fits if fits.any() else wanted, exact - nodes, -np.inf)
        service = int(np.argmax(short))
        given = int(per_instance[service]) if fits.any() else left
        nodes[service] += given
        left -= given
    return nodes
