"""Operating point of a replica: a request rate gives the batch size, that gives power and latency.

A continuously batching server runs as many sequences at once as its requests need: the batch size
at which its throughput equals the tokens asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from diploee.errors import InputError
from diploee.neighbours.openg2g.serving_fits import ServingFits
from diploee.tables import Float64Array

DEFAULT_RATES = 20
"""Rates of a sampled curve: steps of 5 % of the highest."""


@dataclass(frozen=True, eq=False)
class OperatingPoints:
    """How a replica runs at given request rates; all arrays of one shape."""

    rate_rps: Float64Array  # offered request rate [1/s]
    served_rps: Float64Array  # completed request rate [1/s]: the offered one, at most the highest
    # Sequences served at once, on average (below the smallest measured batch size too)
    batch: Float64Array
    power_w: Float64Array  # mean power [W]
    itl_s: Float64Array  # inter-token latency [s]
    throughput_tps: Float64Array  # output tokens per second [1/s]
    # Mean time that a request spends in the batch, by Little's law: batch over completed rate [s].
    # It holds prefill, but no time in a queue.
    latency_s: Float64Array


def operating_points(
    fits: ServingFits,
    rate_rps: npt.ArrayLike,
    output_tokens: float,
    *,
    itl_deadline_s: float | None = None,
    idle_power_w: float | None = None,
) -> OperatingPoints:
    """Return how a replica runs at request rates.

    Between the smallest and the largest batch size the batch solves
    ``throughput(batch) = rate * output_tokens``; the curves give the rest. Above the highest rate
    (largest batch size, or the largest that keeps the deadline) the replica stays at that rate.

    ASSUMPTION: below the throughput of the smallest measured batch size a replica alternates
    between that batch size and idling, so that its mean power runs linearly from `idle_power_w` at
    no request to the curve's power there; latencies stay those of the smallest batch size. Without
    `idle_power_w` the power stays the smallest batch size's down to no request (weights loaded,
    clocks up), as rate curves are read below their lowest rate.

    Parameters
    ----------
    fits : ServingFits
        Curves of the replica.
    rate_rps : array_like
        Request rates per replica [1/s], 0 or more.
    output_tokens : float
        Mean output length of a request [tokens].
    itl_deadline_s : float, optional
        Highest inter-token latency [s], which limits the batch size (Eq. 5).
    idle_power_w : float, optional
        Power of the replica's GPUs without requests [W].

    Raises
    ------
    InputError
        If a rate, the tokens or the idle power is out of its range.
    WorkloadError
        If the deadline can't be kept.
    """
    rate_rps = np.asarray(rate_rps, dtype=np.float64)
    max_rps = fits.max_request_rate_rps(output_tokens, itl_deadline_s)
    bad = ~(np.isfinite(rate_rps) & (rate_rps >= 0))
    if bad.any():
        raise InputError(
            f"request rates must be numbers of 0 or more, found {rate_rps[bad].flat[0]:g} "
            f"({int(bad.sum())} such rates)"
        )
    smallest = fits.smallest_batch
    smallest_tps, smallest_power_w = _at(fits, smallest)
    _check_idle(idle_power_w, smallest_power_w, smallest)

    served_rps = np.minimum(rate_rps, max_rps)
    tokens_tps = served_rps * output_tokens
    share = np.minimum(tokens_tps / smallest_tps, 1.0)
    largest = fits.largest_batch_within(itl_deadline_s)
    running = np.clip(fits.throughput.inverse(tokens_tps), smallest, largest)
    at_rest_w = smallest_power_w if idle_power_w is None else idle_power_w
    power_w = fits.power.eval(running) - (1 - share) * (smallest_power_w - at_rest_w)
    batch = running * share
    least_s = smallest / smallest_tps * output_tokens
    with np.errstate(divide="ignore", invalid="ignore"):
        latency_s = np.where(share < 1, least_s, batch / served_rps)
    return OperatingPoints(
        rate_rps, served_rps, batch, power_w, fits.itl.eval(running), tokens_tps, latency_s
    )


def sampled_operating_points(
    fits: ServingFits,
    output_tokens: float,
    *,
    itl_deadline_s: float | None = None,
    idle_power_w: float | None = None,
    n_rates: int = DEFAULT_RATES,
) -> OperatingPoints:
    """Sample the operating points of a replica up to its highest request rate.

    Rates are evenly spaced from the highest over `n_rates` to the highest; the rate of the smallest
    batch size is added, as the power has a bend there. Latencies do not fall.
    """
    max_rps = fits.max_request_rate_rps(output_tokens, itl_deadline_s)
    bend_rps = _at(fits, fits.smallest_batch)[0] / output_tokens
    rate_rps = np.arange(1, n_rates + 1) / n_rates * max_rps
    rate_rps[-1] = max_rps
    if not np.isclose(rate_rps, bend_rps, rtol=1e-6).any():
        rate_rps = np.sort(np.append(rate_rps, min(bend_rps, max_rps)))
    points = operating_points(
        fits, rate_rps, output_tokens, itl_deadline_s=itl_deadline_s, idle_power_w=idle_power_w
    )
    return replace(  # equal values may differ by a rounding
        points,
        itl_s=np.maximum.accumulate(points.itl_s),
        latency_s=np.maximum.accumulate(points.latency_s),
    )


def _at(fits: ServingFits, batch: float) -> tuple[float, float]:
    """Return throughput [tokens/s] and power [W] at a batch size."""
    return float(fits.throughput.eval(batch)), float(fits.power.eval(batch))


def _check_idle(idle_power_w: float | None, smallest_power_w: float, smallest: float) -> None:
    if idle_power_w is not None and not 0 <= idle_power_w <= smallest_power_w:
        raise InputError(
            f"idle_power_w must be from 0 to the power at the smallest batch size of {smallest:g}, "
            f"{smallest_power_w:g} W, found {idle_power_w:g}; it is that of the replica's GPUs"
        )
