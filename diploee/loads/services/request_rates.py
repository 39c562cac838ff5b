"""Request rates over time (Eqs. 2-3).

Calendar mean times fluctuation, linear between nodes. The fluctuation is a stationary
process in continuous time: ``exp(x - var(x) / 2)``, which is positive and has mean 1.
The Gaussian `x` is the sum of three parts:

- one that all services of a stream share, with the correlation time of the fluctuation;
- one of the service's own users, with the same correlation time; they act
  independently, so that its relative variance falls with the request rate as ``1 / R``;
- the Poisson noise of the requests themselves, white, with relative variance
  ``1 / (R T)`` over a time T.

It is sampled at nodes that lie at random in time, so that no clock shows in the load.

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
from diploee.loads.jobs.rates import hourly_rates, line_through_means
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
"""Random numbers come a block at a time, from streams named by the block's instant: a
run that begins whole blocks earlier meets the same ones."""

SPACINGS_S = (60, 30, 20, 15, 12, 10, 6, 5)
"""Mean distances of the nodes [s], divisors of a block."""

NODES_PER_CORRELATION_TIME = 5
MINUTE_S = 60.0
MINUTES_TRIED = 300
NEVER_RPS = 1e-100
"""A rate up to which no request comes, whose relative variance might be infinite."""


Draws = tuple[Float32Array, Float32Array, Float32Array]
"""Standard normals at the nodes of a stream: the part that all services share and that
of each service's users, both correlated in time, and the white Poisson noise of each
service."""


def _node_spacing_s(correlation_time_s: float | None) -> int:
    """Return the mean distance of the nodes [s].

    A fifth of the correlation time, 5 s to 60 s.
    """
    if correlation_time_s is None:
        return SPACINGS_S[0]
    wanted_s = correlation_time_s / NODES_PER_CORRELATION_TIME
    return next((s for s in SPACINGS_S if s <= wanted_s), SPACINGS_S[-1])


def _random_nodes_ms(
    clock: RunClock, seed: int, name: str, spacing_s: int
) -> Int64Array:
    """Return times at random, one in each `spacing_s`, from the run's begin to its end [ms]."""  # noqa: E501
    spacing_ms = spacing_s * MS_PER_S
    edges_ms = np.arange(BLOCK_MS // spacing_ms, dtype=np.int64) * spacing_ms
    nodes_ms = np.concatenate(
        [
            block_ms + edges_ms + rng.integers(0, spacing_ms, edges_ms.size)
            for block_ms, rng in _blocks(clock, seed, name, "nodes")
        ]
    )
    inside = nodes_ms[(nodes_ms > clock.begin_ms) & (nodes_ms < clock.horizon_ms)]
    return np.concatenate([[clock.begin_ms], inside, [clock.horizon_ms]])


def _draw_fluctuation(
    nodes_ms: Int64Array,
    clock: RunClock,
    seed: int,
    name: str,
    services: Sequence[str],
    correlation_time_s: float,
) -> Draws:
    """Draw the random numbers of a stream's fluctuation at its nodes."""
    starts_ms = _block_starts_ms(clock)
    n_in_block = np.diff(np.append(np.searchsorted(nodes_ms, starts_ms), nodes_ms.size))
    most = int(n_in_block.max()) + 1

    def normals(*purpose: str) -> Float64Array:
        blocks = _blocks(clock, seed, name, *purpose)
        # From the end: where the run's begin cuts a block, its last nodes are those
        # that remain.
        drawn = [
            rng.standard_normal(most)[:n][::-1]
            for (_, rng), n in zip(blocks, n_in_block.tolist(), strict=True)
        ]
        return np.concatenate(drawn)

    kept = np.exp(
        -np.diff(nodes_ms, prepend=nodes_ms[0]) / (correlation_time_s * MS_PER_S)
    )

    def correlated(*purpose: str) -> Float32Array:
        values = normals(*purpose)
        _correlate(values, kept)
        return values.astype(np.float32)

    return (
        correlated("common"),
        np.stack([correlated("own", service) for service in services]),
        np.stack(
            [normals("noise", service).astype(np.float32) for service in services]
        ),
    )


@lru_cache(maxsize=16)
def _share_between_nodes(correlation_time_s: float) -> float:
    """Return the variance of means over a minute against that of the instants, 0-1.

    Of straight lines between nodes at random: a mean of them is a weighted sum of the
    nodes, whose variance follows from their correlations; it is averaged over some
    hundred minutes.
    """
    spacing_s = _node_spacing_s(correlation_time_s)
    rng = random_stream(0, "requests", "share between nodes")
    margin_s = 2 * spacing_s
    seconds = np.arange(0, MINUTE_S, 0.5) + 0.25
    shares = []
    for _ in range(MINUTES_TRIED):
        n = int((MINUTE_S + 2 * margin_s) / spacing_s) + 2
        nodes_s = (np.arange(n) + rng.random(n) - rng.random()) * spacing_s - margin_s
        place = np.searchsorted(nodes_s, seconds) - 1
        upper = (seconds - nodes_s[place]) / (nodes_s[place + 1] - nodes_s[place])
        weight: Float64Array = np.zeros(n)
        np.add.at(weight, place, (1 - upper) / seconds.size)
        np.add.at(weight, place + 1, upper / seconds.size)
        correlation = np.exp(-np.abs(nodes_s[:, None] - nodes_s) / correlation_time_s)
        shares.append(float(weight @ correlation @ weight))
    return float(np.mean(shares))


@njit()
def _correlate(values: Float64Array, kept: Float64Array) -> None:
    """Correlate white normals by `kept` from node to node, in place."""
    for i in range(1, values.size):
        values[i] = kept[i] * values[i - 1] + np.sqrt(1 - kept[i] ** 2) * values[i]


def _block_starts_ms(clock: RunClock) -> Int64Array:
    first = clock.begin_ms // BLOCK_MS
    return np.arange(first, -(-clock.horizon_ms // BLOCK_MS), dtype=np.int64) * BLOCK_MS


def _blocks(
    clock: RunClock, seed: int, name: str, *purpose: str
) -> list[tuple[int, np.random.Generator]]:
    begin_ms = clock.wall.origin_ms
    return [
        (block_ms, random_stream(seed, "requests", name, *purpose, begin_ms + block_ms))
        for block_ms in _block_starts_ms(clock).tolist()
    ]


@dataclass(frozen=True, eq=False)
class RequestRates:
    """The request rate of a stream in time, for any mean rate."""

    # Times from the start of the run [ms], increasing; rates are linear between them
    nodes_ms: Int64Array
    # Calendar mean, or the trace's rate, relative to its mean over the run
    relative_mean: Float64Array
    # Mean rate of a replayed trace [1/s]; None where a calendar gives the rates
    trace_rate_rps: float | None = None
    # Random numbers of the fluctuation, and their times [ms]; None where there is none
    draws: Draws | None = None
    drawn_ms: Int64Array | None = None
    fluctuation: Fluctuation | None = None  # its size
    # Nodes that the rates are in proportion to, with a step where some are added
    grows_with: InstalledNodes | None = None
    # Rates of services with traces of their own, shape (S, n), relative to the mean of
    # them all; they add up to `relative_mean`
    own: Float64Array | None = None
    # Their shares of the requests of the run; empty where there are no such services
    shares: tuple[float, ...] = ()

    def of_service(
        self, row: int, probability: float, mean_rate_rps: float
    ) -> Float64Array:
        """Return a service's rate at the nodes [1/s] for the stream's mean rate."""
        if self.own is not None:
            return np.asarray(mean_rate_rps * self.own[row])
        mean_rps = probability * mean_rate_rps * self.relative_mean
        spec = self.fluctuation
        if self.drawn_ms is None or self.draws is None or spec is None:
            return mean_rps
        if not mean_rate_rps * probability > 0:
            return mean_rps
        drawn_rps = np.interp(self.drawn_ms, self.nodes_ms, mean_rps)
        of_minute = spec.relative_std**2 / _share_between_nodes(spec.correlation_time_s)
        rate_rps = np.where(drawn_rps > NEVER_RPS, drawn_rps, np.inf)
        # Requests that a node stands for: its share of the time to its neighbours.
        gaps_s = np.diff(self.drawn_ms) / MS_PER_S
        cell_s = (np.append(gaps_s, 0.0) + np.insert(gaps_s, 0, 0.0)) / 2
        reference_rps = spec.reference_rate_rps or mean_rate_rps
        users = (1 - spec.common_share) * of_minute * reference_rps / rate_rps
        common, own, noise = self.draws
        exponent = np.zeros(drawn_rps.size)
        for relative_variance, normal in (
            (spec.common_share * of_minute, common),
            (users, own[row]),
            (1 / (rate_rps * np.maximum(cell_s, 1 / MS_PER_S)), noise[row]),
        ):
            # ln(1 + v): variance of the logarithm of a log-normal number of mean 1,
            # variance v.
            variance = np.log1p(relative_variance)
            exponent += np.sqrt(variance) * normal - variance / 2
        factor = np.exp(exponent, out=exponent)
        return mean_rps * np.interp(self.nodes_ms, self.drawn_ms, factor)

    def over(
        self, rate_rps: Float64Array, begin_ms: int, end_ms: int
    ) -> tuple[Int64Array, Float64Array]:
        """Return times and rates [1/s] over a span without new nodes."""
        within = (self.nodes_ms > begin_ms) & (self.nodes_ms < end_ms)
        times_ms = np.concatenate([[begin_ms], self.nodes_ms[within], [end_ms]])
        if self.grows_with is None:
            return times_ms, np.interp(times_ms, self.nodes_ms, rate_rps)
        # Per node that stands a rate has no step; where none stands it has no value.
        standing = self.grows_with.at(self.nodes_ms)
        some = standing > 0
        per_node = np.interp(
            times_ms, self.nodes_ms[some], rate_rps[some] / standing[some]
        )
        return times_ms, per_node * self.grows_with.at(times_ms[:1])


def request_rates(
    scenario: Scenario, name: str, traces: Mapping[str, RequestTrace]
) -> RequestRates:
    """Lay a request stream's calendar and fluctuation, or trace, over the run.

    A trace, of `traces` by the keys of `RequestStream.replays`, fluctuates by itself;
    rates that no trace gives are in proportion to the nodes that stand. Weights that
    are all zero, and a trace without requests in the run, are a `WorkloadError`.
    """
    spec, clock, seed = scenario.request_streams[name], scenario.clock, scenario.seed
    if replays := spec.replays(name):
        rates_rps = np.stack(
            [
                trace_rates_rps(replay, traces[key], clock, key)
                for key, replay in replays.items()
            ]
        )
        edges_ms = step_edges_ms(clock.begin_ms, clock.horizon_ms, trace_step_ms(clock))
        in_run_ms = np.diff(np.maximum(edges_ms, 0))
        means_rps = np.average(rates_rps, axis=1, weights=in_run_ms)
        mean_rps = float(means_rps.sum())
        lines = [
            line_through_means(edges_ms, of_trace / mean_rps) for of_trace in rates_rps
        ]
        nodes_ms, relative = lines[0][0], np.stack([values for _, values in lines])
        shares = tuple((means_rps / mean_rps).tolist())
        rates = RequestRates(nodes_ms, relative.sum(axis=0), mean_rps)
        return (
            replace(rates, own=relative, shares=shares)
            if spec.has_own_replays
            else rates
        )
    fluctuation = spec.active_fluctuation
    spacing_s = _node_spacing_s(fluctuation.correlation_time_s if fluctuation else None)
    drawn_ms = _random_nodes_ms(clock, seed, name, spacing_s)
    standing = scenario.facility.pools[spec.pool].standing(clock)
    try:
        calendar = hourly_rates(
            spec.calendar, clock, seed, "requests", name, standing=standing
        )
    except WorkloadError as error:
        raise WorkloadError(f"request_streams.{name}.{error}") from error
    draws = None
    if fluctuation is not None:
        correlation_s = fluctuation.correlation_time_s
        draws = _draw_fluctuation(
            drawn_ms, clock, seed, name, tuple(spec.services), correlation_s
        )
    grows_with = standing if standing.added else None
    # The calendar's line bends at nodes of its own; a step there has no slope.
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.diff(calendar.at_nodes) / np.diff(calendar.nodes_ms)
        bends = ~np.isclose(slope[1:], slope[:-1], rtol=1e-9, atol=1e-15)
    both_ms = np.concatenate([drawn_ms, calendar.nodes_ms[1:-1][bends]])
    # With the index it sorts, which is fast where most is in order; else it hashes
    nodes_ms = np.unique(both_ms, return_index=True)[0]
    relative = calendar.at(nodes_ms)
    return RequestRates(
        nodes_ms, relative, None, draws, drawn_ms, fluctuation, grows_with
    )
