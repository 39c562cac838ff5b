"""GPU power of a served model, by size, precision, GPU and sequences in flight.

Of each GPU, with b sequences in flight in its replica, x gigabytes of active weights on
it and no request at all at P_warm:

``P = min(P_warm + D + s (b - 1), 0.985 TDP)``, ``D = k 414 W x / (x + 2.7)``

Fitted to twelve measured staircases of b on H200: single levels lie within 9 %, dense
models from 7e9 parameters on within 7 %, energy within 6 %; of other traces nine in ten
within 12 %, all within 18 %. They are of single nodes with vLLM, read as means of 1 s:
grantwilkins/training_profile (warm levels) and eve123xy/power-traces-browser.
docs/serving_measured.md has them one by one.

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

MAX_D_W, HALF_GB = 414.0, 2.7
MAX_OF_TDP = 0.985

GPUS = {
    "H100": (113.0, 0.845, 700.0),
    "H200": (116.0, 1.0, 700.0),
    "A100": (91.0, 0.62, 400.0),
    "L40S": (107.0, 0.535, 350.0),
}
"""P_warm [W], k and TDP [W]. k of L40S is between 0.45 and 0.62."""

SLOPES_W = ((0.5, 0.6), (1.0, 0.6), (8.0, 2.15), (15.6, 2.5), (72.7, 1.0))
"""Gigabytes on a GPU and s [W per sequence], measured on H200. ASSUMPTION: between them
linear in the logarithm, and the same on other GPUs (levels of H100 up to 8 sequences
agree)."""

EXPERTS_W = 38.5
"""Of a mixture of experts, per doubling of b: not a line, as experts fill up (35 and 42
W)."""

NOISE_W = (1.7, 0.08)
"""Standard deviation of a GPU's 1 s readings at constant b: the first, and b times the
second [W]; between the least and the most that was measured at each level, white from
second to second."""

N_RATES = 24
FEWEST = 0.02
"""Sequences in flight at the lowest rate of a curve."""


@dataclass(frozen=True)
class ServedPower(Brief):
    """Power of each GPU of a replica against the sequences in flight in it."""

    warm_w: float  # with the model loaded and no request [W]
    first_w: float  # what one sequence adds, D [W]
    each_w: float  # what each further sequence adds, s, or each doubling of them [W]
    most_w: float  # what is passed by none [W]
    # Whether `each_w` is of a doubling, as of a mixture of experts
    doublings: bool = False

    def power_w(self, sequences: Float64Array) -> Float64Array:
        """Return the power [W] at sequences in flight.

        Below one it is the share of time with one.

        Parameters
        ----------
        sequences : numpy.ndarray
            Sequences in flight, 0 or more, such as means over a step that is short
            beside a stay.
        """
        beyond = np.log2(np.maximum(sequences, 1)) if self.doublings else sequences - 1
        added_w = self.first_w * np.minimum(sequences, 1) + self.each_w * np.maximum(
            beyond, 0
        )
        return np.minimum(self.warm_w + added_w, self.most_w)

    def mean_power_w(self, sequences: Float64Array) -> Float64Array:
        """Return mean power [W] for Poisson sequences in flight of given means.

        So they are where requests come at random and stay for their own time, each
        served at once.
        """
        most = float(np.max(sequences, initial=1.0))
        numbers = np.arange(int(most + 12 * np.sqrt(most) + 12), dtype=np.float64)
        share = scipy.stats.poisson.pmf(numbers, sequences[..., np.newaxis])
        return share @ self.power_w(numbers)


def served_power(spec: BatchPowerModel) -> ServedPower:
    """Return the power of each GPU that serves a model."""
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
    experts = spec.active_parameters_b is not None
    return ServedPower(
        warm_w, first_w, EXPERTS_W if experts else each_w, MAX_OF_TDP * tdp_w, experts
    )


def stay_s(spec: BatchPowerModel, input_tokens: Any, output_tokens: Any) -> Any:
    """Return how long requests stay in flight [s].

    The prefill, then one token after the other. ASSUMPTION: neither depends on how many
    others are in flight; give those of the usual load.
    """
    assert spec.prefill_tokens_per_s is not None
    assert spec.time_per_token_s is not None
    return (
        input_tokens / spec.prefill_tokens_per_s + output_tokens * spec.time_per_token_s
    )


def sequences_in_flight(
    arrive_s: Float64Array, stays_s: Float64Array, n_steps: int, step_s: float
) -> Float64Array:
    """Return the mean number of sequences in flight in each step from 0 s on.

    Exact whatever the step: what steps add up to is the time that requests stay within
    them.
    """
    edges_s = np.arange(n_steps + 1) * step_s

    def since(times_s: Float64Array) -> Float64Array:
        """Return the sum of times passed at each edge since all before it [s]."""
        times_s = np.sort(times_s)
        before = np.searchsorted(times_s, edges_s)
        return before * edges_s - np.append(0.0, np.cumsum(times_s))[before]

    in_flight = np.diff(since(arrive_s) - since(arrive_s + stays_s)) / step_s
    return np.maximum(in_flight, 0.0)


_OF_LAW = replace(
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
    """Return the power of each node of an instance against the instance's request rate.

    Sequences in flight are the rate times the stay (Little), the stay by the law's two
    speeds or, without them, by the mean end-to-end latency of a curve. Each rate's
    sample is three minutes of random arrivals with the measured noise of constant load;
    it has a mean of its own, by Poisson.
    """
    law, n_replicas = served_power(service), service.replicas_per_instance
    stay = (
        float("nan")
        if latency
        else float(stay_s(service, service.input_tokens, output_tokens))
    )
    longest_s = float(latency.latency_s[0]) if latency else stay
    lowest_rps = min(FEWEST * n_replicas / longest_s, highest_rps / 2)
    rate_rps = np.append(0.0, np.geomspace(lowest_rps, highest_rps, N_RATES))
    stays_s, served_rps = np.full(rate_rps.size, stay), rate_rps
    if latency is not None:
        stays_s = latency.at(rate_rps)
        completed_rps = np.interp(rate_rps, latency.rate_rps, latency.throughput_rps)
        served_rps = np.minimum(rate_rps, completed_rps)
    in_flight = served_rps * stays_s / n_replicas
    n_gpus, others_w = service.gpus_per_replica, service.other_node_power_w
    mean_w = others_w + n_gpus * n_replicas / nodes * law.mean_power_w(in_flight)
    samples = []
    for rate, mean, stay in np.stack([rate_rps, in_flight, stays_s], axis=1).tolist():
        rng = named_rng(0, "profiles", "serving", name, f"{rate:g}")
        of_each_w = [_sample_w(law, mean, stay, rng) for _ in range(n_replicas)]
        power_w = others_w + n_gpus / nodes * np.stack(of_each_w).sum(axis=0)
        samples.append(PowerSample(rate, PROFILE_STEP_MS, power_w, _OF_LAW))
    peak_w = np.array([sample.power_w.max() for sample in samples])
    return PowerCurve(name, rate_rps, mean_w, peak_w, _OF_LAW, tuple(samples))


def _sample_w(
    law: ServedPower, mean: float, stay: float, rng: np.random.Generator
) -> Float64Array:
    """Return the power of a GPU [W] where a mean of sequences is in flight.

    It repeats.
    """
    step_s = PROFILE_STEP_MS / MS_PER_S
    length_s = N_SAMPLES * step_s
    arrive_s = rng.random(round(mean / stay * length_s)) * length_s
    rounds = -length_s * np.arange(np.ceil(stay / length_s) + 1)
    arrive_s = np.add.outer(rounds, arrive_s).ravel()
    in_flight = sequences_in_flight(
        arrive_s, np.full(arrive_s.size, stay), N_SAMPLES, step_s
    )
    return _with_noise_w(law, in_flight, rng)


def _with_noise_w(
    law: ServedPower, in_flight: Float64Array, rng: np.random.Generator
) -> Float64Array:
    noise = average_1s(rng.standard_normal(in_flight.size)) * np.sqrt(
        MS_PER_S / PROFILE_STEP_MS
    )
    noise_w = np.where(in_flight > 0, NOISE_W[0] + NOISE_W[1] * in_flight, 0.0) * noise
    return law.power_w(in_flight) + noise_w


def served_profile(
    service: BatchPowerModel,
    requests: Int64Array | None,
    n_nodes: int = 1,
    workload: str = "served",
) -> PowerProfile:
    """Return the power of replicas that serve the requests of a trace, in steps of 0.1 s.

    ASSUMPTION: requests go to the replicas in turn, and each is served at once.

    Parameters
    ----------
    service : PowerLaw
        The model and its GPUs, with the two speeds; `replicas_per_instance` serve the
        trace.
    requests : numpy.ndarray, shape (3, n), optional
        As `RequestTrace.requests`.
    n_nodes : int
        Nodes that the replicas are on; their other devices are counted as the law says.
    workload : str
        Name of the work.

    Raises
    ------
    InputError
        If there is no request, or the law has no speeds.
    """  # noqa: E501
    if not service.has_speeds:
        raise InputError(
            "the law needs prefill_tokens_per_s and time_per_token_s; give both"
        )
    if requests is None or not requests.size:
        raise InputError(
            "the trace has no request with tokens of prompt and answer; give another"
        )
    law, step_s = served_power(service), PROFILE_STEP_MS / MS_PER_S
    time_us, input_tokens, output_tokens = requests[
        :, np.argsort(requests[0], kind="stable")
    ]
    arrive_s = (time_us - time_us[0]) / 1e6
    stays_s = stay_s(service, input_tokens, output_tokens)
    n_steps = int(np.ceil((arrive_s + stays_s).max() / step_s)) + 1
    power_w = np.full(n_steps, n_nodes * service.other_node_power_w)
    rng = named_rng(0, "profiles", "serving", workload)
    for replica in range(n := service.replicas_per_instance):
        in_turn = slice(replica, None, n)
        in_flight = sequences_in_flight(
            arrive_s[in_turn], stays_s[in_turn], n_steps, step_s
        )
        power_w += service.gpus_per_replica * _with_noise_w(law, in_flight, rng)
    origin = replace(
        _OF_LAW,
        notes=(
            "Synthesised by diploee from the requests of a trace and the noise of "
            "readings of 1 s, not measured; experimental."
        ),
    )
    return PowerProfile(workload, workload, n_nodes, PROFILE_STEP_MS, power_w, origin)
