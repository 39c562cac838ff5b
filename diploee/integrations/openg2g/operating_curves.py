"""`ServingFits`: power, latency and throughput of a replica, and operating points.

A server with continuous batching processes as many sequences at once as its requests
need. Its batch size is therefore the one at which its throughput equals the request
rate times the tokens of a request (OpenG2G), and determines power and latency: an
operating point. Operating points at many rates form the power and latency curves of a
service, to which the latency cap (Eq. 5) applies as to measured curves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from diploee.base.errors import Brief, InputError
from diploee.base.tables import Float64Array
from diploee.base.units import MS_PER_S
from diploee.integrations.openg2g.logistic import LogisticModel
from diploee.loads.services.curves import LatencyCurve, PowerCurve
from diploee.profiles.profile import Provenance
from diploee.scenario.serving import LatencyMetric, LogisticCurve, LogisticService

POWER_RATES = 20
LATENCY_RATES = 200
"""Number of rates of the sampled curves; latency is inverted, and needs more rates."""


@dataclass(frozen=True)
class ServingFits(Brief):
    """Power, inter-token latency and throughput of one replica against batch size.

    `InputError` if the range of batch sizes is invalid, throughput does not rise,
    latency falls, or a curve is not positive within the range.
    """

    power: LogisticModel  # mean power of the replica's GPUs [W]
    itl: LogisticModel  # inter-token latency [s], not falling with the batch size
    # Output tokens per second [1/s], rising with the batch size
    throughput: LogisticModel
    # Range of the measured batch sizes, in which the curves are valid
    smallest_batch: float
    largest_batch: float

    def __post_init__(self) -> None:
        if not 0 < self.smallest_batch <= self.largest_batch < np.inf:
            raise InputError(
                "batch sizes must be positive, the smallest at most the largest; "
                f"found {self.smallest_batch:g} and {self.largest_batch:g}"
            )
        if not self.throughput.is_rising:
            raise InputError(
                "throughput must rise with the batch size, found L = "
                f"{self.throughput.span:g}; check the measurements, or leave sizes "
                "out of the fit"
            )
        if self.itl.span < 0:
            raise InputError(
                "inter-token latency may not fall with the batch size, found L = "
                f"{self.itl.span:g}; check the measurements, or leave sizes out of "
                "the fit"
            )
        ends = np.array([self.smallest_batch, self.largest_batch])
        for name in ("power", "itl", "throughput"):
            lowest = float(getattr(self, name).eval(ends).min())
            if lowest <= 0:
                raise InputError(
                    f"{name} falls to {lowest:g} within batch sizes {ends[0]:g} to "
                    f"{ends[1]:g}, expected positive values; narrow the range to what "
                    "was measured"
                )

    def max_request_rate_rps(self, output_tokens: float) -> float:
        """Return the maximum request rate of a replica [1/s].

        ``rate = throughput(largest batch size) / output_tokens``, with the mean output
        length `output_tokens` [tokens].
        """
        if not 0 < output_tokens < np.inf:
            raise InputError(
                "mean output tokens per request must be a number above 0, found "
                f"{output_tokens:g}"
            )
        return float(self.throughput.eval(self.largest_batch)) / output_tokens


@dataclass(frozen=True, eq=False)
class OperatingPoints(Brief):
    """Operating points of a replica at request rates; all arrays of one shape."""

    rate_rps: Float64Array  # offered request rate [1/s]
    # Completed request rate [1/s]: the offered rate, at most the maximum rate
    served_rps: Float64Array
    # Sequences served at once, on average (below the smallest measured batch size too)
    batch: Float64Array
    power_w: Float64Array  # mean power [W]
    itl_s: Float64Array  # inter-token latency [s]
    throughput_tps: Float64Array  # output tokens per second [1/s]
    # Mean time that a request spends in the batch, by Little's law: batch over
    # completed rate [s]. The time includes prefill, but no time in a queue.
    latency_s: Float64Array


def operating_points(
    fits: ServingFits,
    rate_rps: npt.ArrayLike,
    output_tokens: float,
    *,
    idle_power_w: float | None = None,
) -> OperatingPoints:
    """Compute the operating points of a replica at request rates.

    Between the smallest and the largest batch size the batch size solves
    ``throughput(batch) = rate * output_tokens``, and the curves give power and latency.
    Above the rate of the largest batch size the replica serves that rate.

    ASSUMPTION: below the throughput of the smallest measured batch size a replica
    alternates between that batch size and idling. Its mean power is linear in the rate,
    from `idle_power_w` without requests to the power at the smallest batch size;
    latencies are those of the smallest batch size. Without `idle_power_w` the power is
    constant below that rate (weights loaded, clocks up), as for measured rate curves.

    Parameters
    ----------
    fits : ServingFits
        Curves of the replica.
    rate_rps : array_like
        Request rates per replica [1/s], 0 or more.
    output_tokens : float
        Mean output length of a request [tokens].
    idle_power_w : float, optional
        Power of the replica's GPUs without requests [W].

    Raises
    ------
    InputError
        If a rate, the tokens or the idle power is out of its range.
    """
    rate_rps = np.asarray(rate_rps, dtype=np.float64)
    max_rps = fits.max_request_rate_rps(output_tokens)
    bad = ~(np.isfinite(rate_rps) & (rate_rps >= 0))
    if bad.any():
        raise InputError(
            "request rates must be numbers of 0 or more, found "
            f"{rate_rps[bad].flat[0]:g} ({int(bad.sum())} such rates)"
        )
    smallest = fits.smallest_batch
    smallest_tps = float(fits.throughput.eval(smallest))
    smallest_power_w = float(fits.power.eval(smallest))
    if idle_power_w is not None and not 0 <= idle_power_w <= smallest_power_w:
        raise InputError(
            "idle_power_w must be from 0 to the power at the smallest batch size of "
            f"{smallest:g}, {smallest_power_w:g} W, found {idle_power_w:g}; it is "
            "that of the replica's GPUs"
        )
    served_rps = np.minimum(rate_rps, max_rps)
    tokens_tps = served_rps * output_tokens
    share = np.minimum(tokens_tps / smallest_tps, 1.0)
    running = np.clip(fits.throughput.inverse(tokens_tps), smallest, fits.largest_batch)
    idle_w = smallest_power_w if idle_power_w is None else idle_power_w
    power_w = fits.power.eval(running) - (1 - share) * (smallest_power_w - idle_w)
    batch = running * share
    min_latency_s = smallest / smallest_tps * output_tokens
    with np.errstate(divide="ignore", invalid="ignore"):
        latency_s = np.where(share < 1, min_latency_s, batch / served_rps)
    return OperatingPoints(
        rate_rps,
        served_rps,
        batch,
        power_w,
        fits.itl.eval(running),
        tokens_tps,
        latency_s,
    )


def sampled_operating_points(
    fits: ServingFits,
    output_tokens: float,
    *,
    idle_power_w: float | None = None,
    n_rates: int = POWER_RATES,
) -> OperatingPoints:
    """Sample the operating points of a replica up to its highest request rate.

    The rates are the multiples of 1 / `n_rates` of the highest rate, and the rate of
    the smallest batch size, where the slope of the power changes. Latencies never
    decrease with the rate.
    """
    max_rps = fits.max_request_rate_rps(output_tokens)
    bend_rps = float(fits.throughput.eval(fits.smallest_batch)) / output_tokens
    rate_rps = np.arange(1, n_rates + 1) / n_rates * max_rps
    rate_rps[-1] = max_rps
    if not np.isclose(rate_rps, bend_rps, rtol=1e-6).any():
        rate_rps = np.sort(np.append(rate_rps, min(bend_rps, max_rps)))
    points = operating_points(fits, rate_rps, output_tokens, idle_power_w=idle_power_w)
    return replace(  # equal values may differ by a rounding
        points,
        itl_s=np.maximum.accumulate(points.itl_s),
        latency_s=np.maximum.accumulate(points.latency_s),
    )


def serving_fits(service: LogisticService) -> ServingFits:
    """Return the curves of one replica from the coefficients of a scenario."""
    return ServingFits(
        power=_model(service.power_w),
        itl=_model(service.itl_ms, 1 / MS_PER_S),
        throughput=_model(service.throughput_tps),
        smallest_batch=service.smallest_batch,
        largest_batch=service.largest_batch,
    )


def logistic_curves(
    name: str,
    service: LogisticService,
    output_tokens: float,
    nodes_per_instance: int,
    metric: LatencyMetric,
) -> tuple[PowerCurve, LatencyCurve]:
    """Return power and latency curves of one instance against its request rate.

    ASSUMPTION: the power fluctuates about the logistic mean as the shipped samples do,
    as benchmarks of this kind publish mean values only.
    """
    fits = serving_fits(service)
    coarse, fine = (
        sampled_operating_points(
            fits, output_tokens, idle_power_w=service.idle_power_w, n_rates=n_rates
        )
        for n_rates in (POWER_RATES, LATENCY_RATES)
    )
    n_replicas = service.replicas_per_instance
    share, others_w = n_replicas / nodes_per_instance, service.other_node_power_w
    source = service.source or "logistic coefficients of the scenario, no source given"
    provenance = Provenance(
        kind="reference",
        source=source,
        licence="unknown",
        sampling_interval_s=0.1,
        averaging_window_s=1.0,
        bandwidth_hz=0.44,
        notes=(
            "Synthesised by diploee about the mean power of a logistic curve, with "
            "the course in time of the shipped serving samples; not measured."
        ),
    )
    rate_rps, power_w = (
        coarse.served_rps * n_replicas,
        coarse.power_w * share + others_w,
    )
    if service.idle_power_w is not None:  # rates below the lowest sample are read there
        rate_rps = np.append(0.0, rate_rps)
        power_w = np.append(service.idle_power_w * share + others_w, power_w)
    power = PowerCurve(name, rate_rps, power_w, power_w, provenance)
    latency_s = fine.itl_s if metric == "mean_itl" else fine.latency_s
    served_rps = fine.served_rps * n_replicas
    end_to_end_s: dict[LatencyMetric, Float64Array] = {"mean_e2e": fine.latency_s}
    return power, LatencyCurve(metric, served_rps, latency_s, served_rps, end_to_end_s)


def _model(curve: LogisticCurve, factor: float = 1.0) -> LogisticModel:
    return LogisticModel(curve.L * factor, curve.k, curve.x0, curve.b0 * factor)
