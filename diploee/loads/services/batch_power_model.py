"""GPU power of a served model as a function of the requests in flight.

With b sequences in flight in a replica, x gigabytes of active weights per GPU, and
P_warm the power of a GPU with the model loaded and no request:

``P = min(P_warm + D + s (b - 1), 0.985 TDP)``, ``D = k 414 W x / (x + 2.7)``

D is the power at one sequence above P_warm, s the rise per further sequence, and k a
factor of the GPU type (`GPUS`). The coefficients are fitted to twelve measurements on
H200 in which b rises in steps. The error is at most 9 % at each step, 7 % for dense
models of 7e9 parameters or more, and 6 % in energy. For nine in ten of the other traces
the error in energy is at most 12 %, and for all at most 18 %. All traces are of single
nodes with vLLM, averaged over 1 s:
grantwilkins/training_profile (P_warm) and eve123xy/power-traces-browser.
docs/serving_measured.md lists the traces.

See also: docs/models/serving.md
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy

from diploee.base.errors import Brief, InputError
from diploee.base.rng import named_rng
from diploee.base.tables import Float64Array, Int64Array
from diploee.base.units import MS_PER_S, PROFILE_STEP_MS
from diploee.loads.services.curves import LatencyCurve, PowerCurve, PowerSample
from diploee.loads.services.samples import N_SAMPLES, PROVENANCE, average_1s
from diploee.profiles.profile import PowerProfile
from diploee.scenario.serving import BatchPowerModel

# Largest D [W], and the weights per GPU at which D is half of it [GB]; on H200
MAX_D_W, HALF_GB = 414.0, 2.7
# Maximum power of a GPU, as a fraction of its TDP
MAX_OF_TDP = 0.985

GPUS = {
    "H100": (113.0, 0.845, 700.0),
    "H200": (116.0, 1.0, 700.0),
    "A100": (91.0, 0.62, 400.0),
    "L40S": (107.0, 0.535, 350.0),
}
"""P_warm [W], k and TDP [W] of each GPU type. For L40S, k is between 0.45 and 0.62."""

SLOPES_W = ((0.5, 0.6), (1.0, 0.6), (8.0, 2.15), (15.6, 2.5), (72.7, 1.0))
"""Weights per GPU [GB] and slope s [W per sequence], measured on H200. Assumed: s is
linear in the logarithm of the weights, and the same on other GPUs (steps measured on
H100 up to 8 sequences agree)."""

EXPERTS_W = 38.5
"""Added power of a mixture of experts per doubling of b [W]; measured were 35 and 42 W.
Power follows log2(b), as more sequences share the same experts."""

NOISE_W = (1.7, 0.08)
"""Standard deviation of a GPU's 1 s readings at constant b [W]: the first number plus b
times the second. The noise is white; the values lie within the measured ranges."""

# Number of request rates above 0 on a power curve
N_RATES = 24
FEWEST = 0.02
"""Sequences in flight at the lowest request rate of a curve."""


@dataclass(frozen=True)
class ServedPower(Brief):
    """Power of each GPU of a replica by the number of sequences in flight."""

    warm_w: float  # power with the model loaded and no request, P_warm [W]
    first_w: float  # power added by the first sequence, D [W]
    # Power added by each further sequence, s, or by each doubling of their number [W]
    each_w: float
    max_w: float  # maximum power [W]
    # True if `each_w` is per doubling, as for a mixture of experts
    doublings: bool = False

    def power_w(self, sequences: Float64Array) -> Float64Array:
        """Return the power at a number of sequences in flight [W].

        A number below 1 is the fraction of time in which one sequence is in flight.

        Parameters
        ----------
        sequences : numpy.ndarray
            Sequences in flight, 0 or more, as means over a step much shorter than a
            request.
        """
        further = np.log2(np.maximum(sequences, 1)) if self.doublings else sequences - 1
        added_w = self.first_w * np.minimum(sequences, 1) + self.each_w * np.maximum(
            further, 0
        )
        return np.minimum(self.warm_w + added_w, self.max_w)

    def mean_power_w(self, sequences: Float64Array) -> Float64Array:
        """Return the mean power for Poisson numbers of sequences in flight [W].

        `sequences` are the means of these Poisson distributions. The number in flight
        is Poisson if requests arrive at random, are served at once and have independent
        durations.
        """
        max_mean = float(np.max(sequences, initial=1.0))
        numbers = np.arange(
            int(max_mean + 12 * np.sqrt(max_mean) + 12), dtype=np.float64
        )
        probability = scipy.stats.poisson.pmf(numbers, sequences[..., np.newaxis])
        return probability @ self.power_w(numbers)


def served_power(spec: BatchPowerModel) -> ServedPower:
    """Return the power model of a GPU that serves a model."""
    warm_w, k, tdp_w = GPUS[spec.gpu]
    size = spec.active_parameters_b or spec.parameters_b
    gigabytes = (
        size
        * {"fp16": 2.0, "bf16": 2.0, "fp8": 1.0}[spec.precision]
        / spec.gpus_per_replica
    )
    first_w = k * MAX_D_W * gigabytes / (gigabytes + HALF_GB)
    sizes_gb, slopes_w = np.array(SLOPES_W).T
    each_w = float(np.interp(np.log(gigabytes), np.log(sizes_gb), slopes_w))
    has_experts = spec.active_parameters_b is not None
    return ServedPower(
        warm_w,
        first_w,
        EXPERTS_W if has_experts else each_w,
        MAX_OF_TDP * tdp_w,
        has_experts,
    )


def stay_s(spec: BatchPowerModel, input_tokens: Any, output_tokens: Any) -> Any:
    """Return the time that requests are in flight [s].

    The time is that of the prefill plus that of all output tokens. Assumed: the speeds
    of both do not depend on the number of requests in flight, so specify the speeds at
    the usual load.
    """
    assert spec.prefill_tokens_per_s is not None
    assert spec.time_per_token_s is not None
    return (
        input_tokens / spec.prefill_tokens_per_s + output_tokens * spec.time_per_token_s
    )


def sequences_in_flight(
    arrive_s: Float64Array, stays_s: Float64Array, n_steps: int, step_s: float
) -> Float64Array:
    """Return the mean number of sequences in flight in each step from 0 s.

    The result is exact for any step: each request counts with its time in the step.
    """
    edges_s = np.arange(n_steps + 1) * step_s

    def elapsed_s(times_s: Float64Array) -> Float64Array:
        """Return the time since all earlier events, summed, at each edge [s]."""
        times_s = np.sort(times_s)
        n_before = np.searchsorted(times_s, edges_s)
        return n_before * edges_s - np.append(0.0, np.cumsum(times_s))[n_before]

    in_flight = np.diff(elapsed_s(arrive_s) - elapsed_s(arrive_s + stays_s)) / step_s
    return np.maximum(in_flight, 0.0)


_MODEL_PROVENANCE = replace(
    PROVENANCE,
    source=(
        "law of size and sequences in flight, fitted to eve123xy/power-traces-browser"
    ),
    licence="facts; this synthesis BSD-3-Clause",
    gpus_per_node=None,
    gpu_tdp_w=None,
    gpu_model=None,
    notes=(
        "Synthesised by diploee from random arrivals and the noise of readings of 1 "
        "s, not measured; summed over instances, each with its own phase."
    ),
)


def law_curve(
    name: str,
    service: BatchPowerModel,
    highest_rps: float,
    output_tokens: float,
    nodes: int,
    latency: LatencyCurve | None,
) -> PowerCurve:
    """Return the node power of an instance as a function of its request rate.

    The number in flight is the request rate times the time in flight (Little's law).
    That time follows from the two speeds of the model or, without these, from the mean
    end-to-end latency of a latency curve. Each rate has a power sample of three minutes
    of random arrivals, with the measured noise of constant load, and the mean power of
    a Poisson number in flight.
    """
    power_model, n_replicas = served_power(service), service.replicas_per_instance
    stay = (
        float("nan")
        if latency
        else float(stay_s(service, service.input_tokens, output_tokens))
    )
    max_stay_s = float(latency.latency_s[0]) if latency else stay
    lowest_rps = min(FEWEST * n_replicas / max_stay_s, highest_rps / 2)
    rate_rps = np.append(0.0, np.geomspace(lowest_rps, highest_rps, N_RATES))
    stays_s, served_rps = np.full(rate_rps.size, stay), rate_rps
    if latency is not None:
        stays_s = latency.at(rate_rps)
        completed_rps = np.interp(rate_rps, latency.rate_rps, latency.throughput_rps)
        served_rps = np.minimum(rate_rps, completed_rps)
    in_flight = served_rps * stays_s / n_replicas
    n_gpus, other_w = service.gpus_per_replica, service.other_node_power_w
    mean_w = other_w + n_gpus * n_replicas / nodes * power_model.mean_power_w(in_flight)
    samples = []
    for rate, mean, stay in np.stack([rate_rps, in_flight, stays_s], axis=1).tolist():
        rng = named_rng(0, "profiles", "serving", name, f"{rate:g}")
        replicas_w = [
            _sample_w(power_model, mean, stay, rng) for _ in range(n_replicas)
        ]
        power_w = other_w + n_gpus / nodes * np.stack(replicas_w).sum(axis=0)
        samples.append(PowerSample(rate, PROFILE_STEP_MS, power_w, _MODEL_PROVENANCE))
    peak_w = np.array([sample.power_w.max() for sample in samples])
    return PowerCurve(name, rate_rps, mean_w, peak_w, _MODEL_PROVENANCE, tuple(samples))


def _sample_w(
    power_model: ServedPower,
    mean_sequences: float,
    stay_s: float,
    rng: np.random.Generator,
) -> Float64Array:
    """Return three minutes of GPU power at a mean number of sequences [W].

    The sample is periodic: requests that are in flight at its end go on at its start.
    """
    step_s = PROFILE_STEP_MS / MS_PER_S
    length_s = N_SAMPLES * step_s
    arrive_s = rng.random(round(mean_sequences / stay_s * length_s)) * length_s
    period_starts_s = -length_s * np.arange(np.ceil(stay_s / length_s) + 1)
    arrive_s = np.add.outer(period_starts_s, arrive_s).ravel()
    in_flight = sequences_in_flight(
        arrive_s, np.full(arrive_s.size, stay_s), N_SAMPLES, step_s
    )
    return _with_noise_w(power_model, in_flight, rng)


def _with_noise_w(
    power_model: ServedPower, in_flight: Float64Array, rng: np.random.Generator
) -> Float64Array:
    """Return the power for sequences in flight, with measurement noise [W]."""
    noise = average_1s(rng.standard_normal(in_flight.size)) * np.sqrt(
        MS_PER_S / PROFILE_STEP_MS
    )
    noise_w = np.where(in_flight > 0, NOISE_W[0] + NOISE_W[1] * in_flight, 0.0) * noise
    return power_model.power_w(in_flight) + noise_w


def served_profile(
    service: BatchPowerModel,
    requests: Int64Array | None,
    n_nodes: int = 1,
    workload: str = "served",
) -> PowerProfile:
    """Return the power of replicas that serve a request trace, in steps of 0.1 s.

    Assumed: requests go to the replicas in turn, and each is served at once.

    Parameters
    ----------
    service : BatchPowerModel
        The model and its GPUs, with the two speeds; `replicas_per_instance` replicas
        serve the trace.
    requests : numpy.ndarray, shape (3, n), optional
        Requests in the form of `RequestTrace.requests`.
    n_nodes : int
        Nodes of the replicas; each adds `service.other_node_power_w`.
    workload : str
        Name of the workload and of the profile.

    Raises
    ------
    InputError
        If there is no request, or the model has no speeds.
    """
    if not service.has_speeds:
        raise InputError(
            "the law needs prefill_tokens_per_s and time_per_token_s; give both"
        )
    if requests is None or not requests.size:
        raise InputError(
            "the trace has no request with tokens of prompt and answer; give another"
        )
    power_model, step_s = served_power(service), PROFILE_STEP_MS / MS_PER_S
    time_us, input_tokens, output_tokens = requests[
        :, np.argsort(requests[0], kind="stable")
    ]
    arrive_s = (time_us - time_us[0]) / 1e6
    stays_s = stay_s(service, input_tokens, output_tokens)
    n_steps = int(np.ceil((arrive_s + stays_s).max() / step_s)) + 1
    power_w = np.full(n_steps, n_nodes * service.other_node_power_w)
    rng = named_rng(0, "profiles", "serving", workload)
    for replica in range(n := service.replicas_per_instance):
        own_requests = slice(replica, None, n)
        in_flight = sequences_in_flight(
            arrive_s[own_requests], stays_s[own_requests], n_steps, step_s
        )
        power_w += service.gpus_per_replica * _with_noise_w(power_model, in_flight, rng)
    origin = replace(
        _MODEL_PROVENANCE,
        notes=(
            "Synthesised by diploee from the requests of a trace and the noise of "
            "readings of 1 s, not measured; experimental."
        ),
    )
    return PowerProfile(workload, workload, n_nodes, PROFILE_STEP_MS, power_w, origin)
