"""Request rates over time: the calendar mean times a random fluctuation (Eqs. 2-3).

The fluctuation is a stationary process in continuous time: ``exp(x - var(x) / 2)``,
which is positive and has mean 1. The Gaussian `x` is the sum of three parts:

- a common part of all services of a stream, with the correlation time of the
  fluctuation;
- a part of each service, with the same correlation time: its users act
  independently, so its relative variance falls with the request rate R as ``1 / R``;
- white noise of each service: the Poisson noise of its requests, with relative
  variance ``1 / (R T)`` over a time T.

Rates are sampled at random times and are linear between them, so that the load has no
clock period.

See also: docs/models/serving.md
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from diploee.base.clock import RunClock
from diploee.base.errors import WorkloadError
from diploee.base.jit import njit
from diploee.base.rng import named_rng as random_stream
from diploee.base.tables import Float32Array, Float64Array, Int64Array
from diploee.base.units import MS_PER_H, MS_PER_S
from diploee.loads.jobs.rates import hourly_rates, line_with_means
from diploee.loads.services.request_trace import (
    RequestTrace,
    step_edges_ms,
    trace_rates_rps,
    trace_step_ms,
)
from diploee.scenario.models import Scenario
from diploee.scenario.pools import InstalledNodes
from diploee.scenario.serving import Fluctuation

BLOCK_MS = 6 * MS_PER_H
"""Length of a block of random numbers [ms]. Each block has its own random stream, named
by its start, so that a run which starts whole blocks earlier has the same numbers."""

SPACINGS_S = (60, 30, 20, 15, 12, 10, 6, 5)
"""Mean spacings of the sample times [s]; divisors of a block."""

SAMPLES_PER_CORRELATION_TIME = 5
MINUTE_S = 60.0
# Number of random minutes that the variance of one-minute means is averaged over
MINUTES_TRIED = 300
NEVER_RPS = 1e-100
"""Request rate below which the relative variance is not computed [1/s]."""


Draws = tuple[Float32Array, Float32Array, Float32Array]
"""Standard normal numbers at the sample times of a stream: the common part, the part of
each service, both correlated in time, and the white Poisson noise of each service."""


def _sample_spacing_s(correlation_time_s: float | None) -> int:
    """Return the mean spacing of the sample times [s].

    The spacing is a fifth of the correlation time, 5 s to 60 s.
    """
    if correlation_time_s is None:
        return SPACINGS_S[0]
    max_spacing_s = correlation_time_s / SAMPLES_PER_CORRELATION_TIME
    return next((s for s in SPACINGS_S if s <= max_spacing_s), SPACINGS_S[-1])


def _random_times_ms(
    clock: RunClock, seed: int, name: str, spacing_s: int
) -> Int64Array:
    """Return random sample times, one per spacing, and the run's ends [ms]."""
    spacing_ms = spacing_s * MS_PER_S
    edges_ms = np.arange(BLOCK_MS // spacing_ms, dtype=np.int64) * spacing_ms
    times_ms = np.concatenate(
        [
            block_ms + edges_ms + rng.integers(0, spacing_ms, edges_ms.size)
            for block_ms, rng in _random_blocks(clock, seed, name, "nodes")
        ]
    )
    inner_ms = times_ms[(times_ms > clock.begin_ms) & (times_ms < clock.horizon_ms)]
    return np.concatenate([[clock.begin_ms], inner_ms, [clock.horizon_ms]])


def _draw_fluctuation(
    times_ms: Int64Array,
    clock: RunClock,
    seed: int,
    name: str,
    services: Sequence[str],
    correlation_time_s: float,
) -> Draws:
    """Draw the random numbers of a stream's fluctuation at its sample times."""
    starts_ms = _block_starts_ms(clock)
    n_in_block = np.diff(np.append(np.searchsorted(times_ms, starts_ms), times_ms.size))
    max_in_block = int(n_in_block.max()) + 1

    def normals(*purpose: str) -> Float64Array:
        """Return white standard normal numbers at the sample times."""
        blocks = _random_blocks(clock, seed, name, *purpose)
        # Reversed: if the start of the run cuts a block, its last numbers remain.
        numbers = [
            rng.standard_normal(max_in_block)[:n][::-1]
            for (_, rng), n in zip(blocks, n_in_block.tolist(), strict=True)
        ]
        return np.concatenate(numbers)

    correlation = np.exp(
        -np.diff(times_ms, prepend=times_ms[0]) / (correlation_time_s * MS_PER_S)
    )

    def correlated(*purpose: str) -> Float32Array:
        """Return correlated standard normal numbers at the sample times."""
        values = normals(*purpose)
        _correlate(values, correlation)
        return values.astype(np.float32)

    return (
        correlated("common"),
        np.stack([correlated("own", service) for service in services]),
        np.stack(
            [normals("noise", service).astype(np.float32) for service in services]
        ),
    )


@lru_cache(maxsize=16)
def _minute_variance_ratio(correlation_time_s: float) -> float:
    """Return the variance of one-minute means relative to that of the process, 0-1.

    Between random sample times the process is linear, so a mean is a weighted sum of
    samples, and its variance follows from their correlations. The variance is averaged
    over `MINUTES_TRIED` random minutes.
    """
    spacing_s = _sample_spacing_s(correlation_time_s)
    rng = random_stream(0, "requests", "share between nodes")
    margin_s = 2 * spacing_s
    seconds = np.arange(0, MINUTE_S, 0.5) + 0.25
    ratios = []
    for _ in range(MINUTES_TRIED):
        n = int((MINUTE_S + 2 * margin_s) / spacing_s) + 2
        times_s = (np.arange(n) + rng.random(n) - rng.random()) * spacing_s - margin_s
        index = np.searchsorted(times_s, seconds) - 1
        fraction = (seconds - times_s[index]) / (times_s[index + 1] - times_s[index])
        weight: Float64Array = np.zeros(n)
        np.add.at(weight, index, (1 - fraction) / seconds.size)
        np.add.at(weight, index + 1, fraction / seconds.size)
        correlation = np.exp(-np.abs(times_s[:, None] - times_s) / correlation_time_s)
        ratios.append(float(weight @ correlation @ weight))
    return float(np.mean(ratios))


@njit()
def _correlate(values: Float64Array, correlation: Float64Array) -> None:
    """Correlate white standard normals in place, with a coefficient per time step."""
    for i in range(1, values.size):
        values[i] = (
            correlation[i] * values[i - 1]
            + np.sqrt(1 - correlation[i] ** 2) * values[i]
        )


def _block_starts_ms(clock: RunClock) -> Int64Array:
    """Return the starts of the blocks of random numbers in a run [ms]."""
    first = clock.begin_ms // BLOCK_MS
    return np.arange(first, -(-clock.horizon_ms // BLOCK_MS), dtype=np.int64) * BLOCK_MS


def _random_blocks(
    clock: RunClock, seed: int, name: str, *purpose: str
) -> list[tuple[int, np.random.Generator]]:
    """Return the start [ms] and the random generator of each block in a run."""
    begin_ms = clock.wall.origin_ms
    return [
        (block_ms, random_stream(seed, "requests", name, *purpose, begin_ms + block_ms))
        for block_ms in _block_starts_ms(clock).tolist()
    ]


@dataclass(frozen=True, eq=False)
class RequestRates:
    """Request rate of a stream over time, for any mean rate."""

    # Times since the start of the run [ms], increasing; rates are linear between them
    times_ms: Int64Array
    # Calendar mean, or the trace's rate, relative to its mean over the run, shape (n,)
    relative_mean: Float64Array
    # Mean rate of a replayed trace [1/s]; None if the rates are from a calendar
    trace_rate_rps: float | None = None
    # Random numbers of the fluctuation, and their times [ms]; None without fluctuation
    draws: Draws | None = None
    sample_times_ms: Int64Array | None = None
    fluctuation: Fluctuation | None = None  # parameters of the fluctuation
    # Installed nodes, which the rates are proportional to; None if constant
    installed: InstalledNodes | None = None
    # Rates of services with their own traces, shape (S, n), relative to the stream's
    # mean; their sum is `relative_mean`
    service_rates: Float64Array | None = None
    # Fractions of the run's requests for these services; empty without them
    fractions: tuple[float, ...] = ()

    def service_rate_rps(
        self, row: int, probability: float, mean_rate_rps: float
    ) -> Float64Array:
        """Return a service's rate at `times_ms` [1/s] for the stream's mean rate."""
        if self.service_rates is not None:
            return np.asarray(mean_rate_rps * self.service_rates[row])
        mean_rps = probability * mean_rate_rps * self.relative_mean
        spec = self.fluctuation
        if self.sample_times_ms is None or self.draws is None or spec is None:
            return mean_rps
        if not mean_rate_rps * probability > 0:
            return mean_rps
        sample_rps = np.interp(self.sample_times_ms, self.times_ms, mean_rps)
        relative_variance = spec.relative_std**2 / _minute_variance_ratio(
            spec.correlation_time_s
        )
        rate_rps = np.where(sample_rps > NEVER_RPS, sample_rps, np.inf)
        # Time that a sample represents: half of the gaps to its neighbors
        gaps_s = np.diff(self.sample_times_ms) / MS_PER_S
        sample_period_s = (np.append(gaps_s, 0.0) + np.insert(gaps_s, 0, 0.0)) / 2
        reference_rps = spec.reference_rate_rps or mean_rate_rps
        service_variance = (
            (1 - spec.common_share) * relative_variance * reference_rps / rate_rps
        )
        common, services, noise = self.draws
        exponent = np.zeros(sample_rps.size)
        for part_variance, normal in (
            (spec.common_share * relative_variance, common),
            (service_variance, services[row]),
            (1 / (rate_rps * np.maximum(sample_period_s, 1 / MS_PER_S)), noise[row]),
        ):
            # ln(1 + v): variance of the logarithm of a log-normal number with mean 1
            # and variance v
            variance = np.log1p(part_variance)
            exponent += np.sqrt(variance) * normal - variance / 2
        factor = np.exp(exponent, out=exponent)
        return mean_rps * np.interp(self.times_ms, self.sample_times_ms, factor)

    def between(
        self, rate_rps: Float64Array, begin_ms: int, end_ms: int
    ) -> tuple[Int64Array, Float64Array]:
        """Return times [ms] and rates [1/s] in a period without new nodes."""
        is_within = (self.times_ms > begin_ms) & (self.times_ms < end_ms)
        times_ms = np.concatenate([[begin_ms], self.times_ms[is_within], [end_ms]])
        if self.installed is None:
            return times_ms, np.interp(times_ms, self.times_ms, rate_rps)
        # The rate per installed node has no steps; without nodes it has no value.
        n_installed = self.installed.at(self.times_ms)
        has_nodes = n_installed > 0
        per_node = np.interp(
            times_ms,
            self.times_ms[has_nodes],
            rate_rps[has_nodes] / n_installed[has_nodes],
        )
        return times_ms, per_node * self.installed.at(times_ms[:1])


def request_rates(
    scenario: Scenario, name: str, traces: Mapping[str, RequestTrace]
) -> RequestRates:
    """Return the request rates of a stream over the run.

    Rates follow a calendar with fluctuation, or a trace, which has its own fluctuation.
    `traces` has the keys of `RequestStream.replays`. Rates of a calendar are
    proportional to the installed nodes. Calendar weights that are all zero, and a trace
    without requests in the run, raise a `WorkloadError`.
    """
    spec, clock, seed = scenario.request_streams[name], scenario.clock, scenario.seed
    if replay_by_key := spec.replays(name):
        rates_rps = np.stack(
            [
                trace_rates_rps(replay, traces[key], clock, key)
                for key, replay in replay_by_key.items()
            ]
        )
        edges_ms = step_edges_ms(clock.begin_ms, clock.horizon_ms, trace_step_ms(clock))
        in_run_ms = np.diff(np.maximum(edges_ms, 0))
        means_rps = np.average(rates_rps, axis=1, weights=in_run_ms)
        mean_rps = float(means_rps.sum())
        curves = [
            line_with_means(edges_ms, trace_rps / mean_rps) for trace_rps in rates_rps
        ]
        times_ms, relative = curves[0][0], np.stack([values for _, values in curves])
        fractions = tuple((means_rps / mean_rps).tolist())
        rates = RequestRates(times_ms, relative.sum(axis=0), mean_rps)
        return (
            replace(rates, service_rates=relative, fractions=fractions)
            if spec.has_own_replays
            else rates
        )
    fluctuation = spec.active_fluctuation
    spacing_s = _sample_spacing_s(
        fluctuation.correlation_time_s if fluctuation else None
    )
    sample_times_ms = _random_times_ms(clock, seed, name, spacing_s)
    installed = scenario.facility.pools[spec.pool].installed(clock)
    try:
        calendar = hourly_rates(
            spec.calendar, clock, seed, "requests", name, installed=installed
        )
    except WorkloadError as error:
        raise WorkloadError(f"request_streams.{name}.{error}") from error
    draws = None
    if fluctuation is not None:
        correlation_s = fluctuation.correlation_time_s
        draws = _draw_fluctuation(
            sample_times_ms, clock, seed, name, tuple(spec.services), correlation_s
        )
    growing = installed if installed.added else None
    # Points of the calendar at which its slope changes; a step has no slope.
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.diff(calendar.point_rates) / np.diff(calendar.points_ms)
        is_kink = ~np.isclose(slope[1:], slope[:-1], rtol=1e-9, atol=1e-15)
    all_times_ms = np.concatenate([sample_times_ms, calendar.points_ms[1:-1][is_kink]])
    # With an index `unique` sorts, which is fast for nearly sorted times
    times_ms = np.unique(all_times_ms, return_index=True)[0]
    relative = calendar.at(times_ms)
    return RequestRates(
        times_ms, relative, None, draws, sample_times_ms, fluctuation, growing
    )
