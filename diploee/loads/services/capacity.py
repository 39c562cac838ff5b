"""Capacity of one model instance: the highest request rate under a latency cap (Eq. 5)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from diploee.errors import WorkloadError
from diploee.loads.services.curves import LatencyCurve
from diploee.scenario import RequestStream, Service


@dataclass(frozen=True)
class Capacity:
    """What one instance of a service takes and completes."""

    max_request_rate_rps: float  # rate that an instance is given at most [1/s], R_max of Eqs. 4-5
    completion_rate_rps: float  # rate that an instance completes at most [1/s]
    latency_limit_s: float | None  # the service's latency cap [s]; None where the rate is given
    # What the user should know, such as a cap that the curve never reaches
    warnings: tuple[str, ...] = ()


def max_request_rate_rps(curve: LatencyCurve, limit_s: float) -> float:
    """Return the highest rate [1/s] that keeps a latency by a curve's running maximum (Eq. 5).

    It is the highest measured rate where the curve stays below the limit. A limit below the lowest
    latency is a `WorkloadError` that says which can be met.
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
        scipy.optimize.brentq(lambda r: float(curve.at(np.array(r))) - limit_s, low_rps, high_rps)
    )


def _out_of_reach(curve: LatencyCurve, limit_s: float) -> str:
    lowest_s, measured_s = float(curve.latency_s[0]), float(curve.measured_latency_s.min())
    raised = (
        f" (measured were down to {measured_s:g} s at higher rates, but latency may not fall with "
        "the rate: a running maximum raised them)"
        if measured_s < lowest_s
        else ""
    )
    return (
        f"a {curve.metric} latency of {limit_s:g} s can't be kept: the lowest that can be met is "
        f"{lowest_s:g} s, at {max_request_rate_rps(curve, lowest_s):g} requests/s{raised}; raise "
        "the cap to that or above"
    )


def service_capacity(
    service: Service, curve: LatencyCurve | None, stream: RequestStream
) -> Capacity:
    """Return the capacity of an instance under the stream's reading of it.

    Under `offered` (the paper) R_max is what an instance is given and, with `reject`, what it
    completes. Under `sustained` R_max is at most the measured throughput. What an instance
    completes beyond R_max is for the stream's way of overload to say.
    """
    warnings: list[str] = []
    limit_s = None
    if service.latency_cap is not None:
        assert curve is not None
        limit_s = service.latency_cap.limit_s
        max_rps = max_request_rate_rps(curve, limit_s)
        if limit_s > curve.latency_s[-1]:
            warnings.append(
                f"the latency cap of {limit_s:g} s lies above all measured latencies (highest "
                f"{curve.latency_s[-1]:g} s); the highest measured rate of {max_rps:g} requests/s "
                "is taken"
            )
    elif service.max_request_rate_rps is None:  # a logistic model without a cap: all it can do
        assert curve is not None
        max_rps = curve.sustained_throughput_rps
    else:
        max_rps = service.max_request_rate_rps
        if curve is not None and max_rps > curve.rate_rps[-1]:
            beyond = f"max_request_rate_rps {max_rps:g} lies above the highest "
            if service.logistic is not None:
                raise WorkloadError(
                    f"{beyond}rate of the logistic throughput, {curve.rate_rps[-1]:.6g} "
                    "requests/s; lower it"
                )
            warnings.append(f"{beyond}measured rate of {curve.rate_rps[-1]:g} requests/s")
    if curve is not None and (
        curve.falls_far or (service.latency_cap is not None and curve.largest_correction_s > 0)
    ):
        warnings.append(
            f"the {curve.metric} latency falls with the rate in places; a running maximum "
            f"raised it by up to {curve.largest_correction_s:.3g} s"
        )
    sustained_rps = max_rps if curve is None else curve.sustained_throughput_rps
    if stream.capacity == "sustained":
        max_rps = min(max_rps, sustained_rps)
    completion_rps = stream.overload.completion_rate_rps(max_rps, sustained_rps)
    return Capacity(max_rps, completion_rps, limit_s, tuple(warnings))
