"""Request rates in time (Eqs. 2-3): calendar mean times fluctuation, linear between nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from diploee.clock import RunClock
from diploee.errors import WorkloadError
from diploee.loads.jobs.rates import hourly_rates, line_through_means
from diploee.loads.services.fluctuation import (
    FluctuationDraws,
    draw_fluctuation,
    factors,
    node_spacing_s,
    random_nodes_ms,
)
from diploee.loads.services.replayed_rates import step_edges_ms, trace_rates_rps, trace_step_ms
from diploee.loads.services.request_trace import RequestTrace
from diploee.scenario import Fluctuation, RequestStream, StandingNodes
from diploee.tables import Float64Array, Int64Array


@dataclass(frozen=True, eq=False)
class RequestRates:
    """The request rate of a stream in time, for any mean rate."""

    # Times from the start of the run [ms], increasing; rates are linear between them
    nodes_ms: Int64Array
    # Calendar mean, or the trace's rate, relative to its mean over the run
    relative_mean: Float64Array
    # Mean rate of a replayed trace [1/s]; None where a calendar gives the rates
    trace_rate_rps: float | None = None
    # Random numbers of the fluctuation; None where there is none
    draws: FluctuationDraws | None = None
    fluctuation: Fluctuation | None = None  # its size
    # Nodes that the rates are in proportion to, with a step where some are added
    grows_with: StandingNodes | None = None
    # Rates of services with traces of their own, shape (S, n), relative to the mean of them
    # all; they add up to `relative_mean`
    own: Float64Array | None = None
    # Their shares of the requests of the run; empty where there are no such services
    shares: tuple[float, ...] = ()

    def of_service(self, row: int, probability: float, mean_rate_rps: float) -> Float64Array:
        """Return the rate of a service at the nodes [1/s], for a mean rate of the whole stream."""
        if self.own is not None:
            return np.asarray(mean_rate_rps * self.own[row])
        mean_rps = probability * mean_rate_rps * self.relative_mean
        if self.draws is None or self.fluctuation is None or not mean_rate_rps * probability > 0:
            return mean_rps
        reference_rps = self.fluctuation.reference_rate_rps or mean_rate_rps
        return mean_rps * factors(self.draws, row, mean_rps, self.fluctuation, reference_rps)

    def over(
        self, rate_rps: Float64Array, begin_ms: int, end_ms: int
    ) -> tuple[Int64Array, Float64Array]:
        """Return times and rates [1/s] over a span in which no nodes are added, ends included."""
        within = (self.nodes_ms > begin_ms) & (self.nodes_ms < end_ms)
        times_ms = np.concatenate([[begin_ms], self.nodes_ms[within], [end_ms]])
        if self.grows_with is None:
            return times_ms, np.interp(times_ms, self.nodes_ms, rate_rps)
        # Per node that stands a rate has no step; where none stands it has no value.
        standing = self.grows_with.at(self.nodes_ms)
        some = standing > 0
        per_node = np.interp(times_ms, self.nodes_ms[some], rate_rps[some] / standing[some])
        return times_ms, per_node * self.grows_with.at(times_ms[:1])


def request_rates(
    spec: RequestStream,
    name: str,
    clock: RunClock,
    seed: int,
    traces: Mapping[str, RequestTrace] | None = None,
    standing: StandingNodes | None = None,
) -> RequestRates:
    """Lay the calendar and the fluctuation of a request stream, or its trace, over the run.

    A trace, of `traces` by the keys of `RequestStream.replays`, fluctuates by itself; rates that no
    trace gives are in proportion to the `standing` nodes. Weights that are all zero, and a trace
    without requests in the run, are a `WorkloadError`.
    """
    if replays := spec.replays(name):
        assert traces is not None
        rates_rps = np.stack(
            [trace_rates_rps(replay, traces[key], clock, key) for key, replay in replays.items()]
        )
        edges_ms = step_edges_ms(clock.begin_ms, clock.horizon_ms, trace_step_ms(clock))
        in_run_ms = np.diff(np.maximum(edges_ms, 0))
        means_rps = np.average(rates_rps, axis=1, weights=in_run_ms)
        mean_rps = float(means_rps.sum())
        lines = [line_through_means(edges_ms, of_trace / mean_rps) for of_trace in rates_rps]
        nodes_ms, relative = lines[0][0], np.stack([values for _, values in lines])
        shares = tuple((means_rps / mean_rps).tolist())
        rates = RequestRates(nodes_ms, relative.sum(axis=0), mean_rps)
        return replace(rates, own=relative, shares=shares) if spec.has_own_replays else rates
    fluctuation = spec.fluctuating
    spacing_s = node_spacing_s(fluctuation.correlation_time_s if fluctuation else None)
    nodes_ms = random_nodes_ms(clock, seed, name, spacing_s)
    try:
        calendar = hourly_rates(spec.calendar, clock, seed, "requests", name, standing=standing)
    except WorkloadError as error:
        raise WorkloadError(f"request_streams.{name}.{error}") from error
    relative, draws = calendar.at(nodes_ms), None
    if fluctuation is not None:
        correlation_s = fluctuation.correlation_time_s
        draws = draw_fluctuation(nodes_ms, clock, seed, name, tuple(spec.services), correlation_s)
    grows_with = standing if standing is not None and standing.added else None
    return RequestRates(nodes_ms, relative, None, draws, fluctuation, grows_with)
