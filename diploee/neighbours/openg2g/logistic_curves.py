"""A logistic model lowered to the rate curves that services run on.

Request rate and tokens per request give the batch size, that gives power and inter-token latency
(OpenG2G); the latency cap then gives the highest rate by Eq. 5, as for measured curves.
"""

from __future__ import annotations

import numpy as np

from diploee.loads.services.curves import LatencyCurve, PowerCurve
from diploee.neighbours.openg2g import LogisticModel, ServingFits
from diploee.neighbours.openg2g.serving_point import sampled_operating_points
from diploee.profiles import Provenance
from diploee.scenario import LogisticService
from diploee.scenario.serving import LatencyMetric
from diploee.scenario.serving_model import LogisticCurve
from diploee.units import MS_PER_S

POWER_RATES = 20
LATENCY_RATES = 200
"""Rates at which the curves are sampled; latency is inverted, and so is sampled finely."""


def serving_fits(service: LogisticService) -> ServingFits:
    """Return the curves of one replica."""
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
    """Return power and latency of one instance against its request rate.

    ASSUMPTION: the power's course in time is like that of the shipped samples, about the logistic
    mean: benchmarks of this kind publish means alone.
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
        notes="Synthesised by diploee about the mean power of a logistic curve, with the course in "
        "time of the shipped serving samples; not measured.",
    )
    rate_rps, power_w = coarse.served_rps * n_replicas, coarse.power_w * share + others_w
    if service.idle_power_w is not None:  # rates below the lowest sample are read there
        rate_rps = np.append(0.0, rate_rps)
        power_w = np.append(service.idle_power_w * share + others_w, power_w)
    power = PowerCurve(name, rate_rps, power_w, power_w, provenance)
    latency_s = fine.itl_s if metric == "mean_itl" else fine.latency_s
    served_rps = fine.served_rps * n_replicas
    return power, LatencyCurve(metric, served_rps, latency_s, served_rps)


def _model(curve: LogisticCurve, factor: float = 1.0) -> LogisticModel:
    return LogisticModel(curve.L * factor, curve.k, curve.x0, curve.b0 * factor)
