"""`ServicePlan`: instances, requests and latency of a stream's services over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from diploee.base.tables import BoolArray, Float64Array, Int32Array, Int64Array
from diploee.loads.services.capacity import Capacity
from diploee.loads.services.curves import LatencyCurve
from diploee.loads.services.request_rates import RequestRates
from diploee.loads.services.served_requests import ROUNDING, ServedRequests
from diploee.scenario.serving import BETWEEN_TOKENS, LatencyMetric

Latencies = dict[LatencyMetric, Float64Array]
"""Latency in each piece of time [s], by what it is of."""


@dataclass(frozen=True)
class RequestMatch:
    """How the mean request rate of a stream came about."""

    stream: str  # name of the stream
    requests_per_day: float  # daily requests, mean over the span
    # ``given``, ``replayed``, or ``plan``: bisected until the instance plan meets the
    # target
    match: str
    target_utilization: float | None  # node occupancy to reach, 0-1
    matched_utilization: float  # node occupancy of the plan, 0-1 (Eq. 1)
    residual: float | None  # matched less target
    steps: int  # evaluations of the bisection
    # Rows of a replayed trace left out or changed on import, by cause
    counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ServiceCap:
    """A cap on a service's GPUs during events."""

    # From when to when it holds [ms], in order and apart
    windows_ms: tuple[tuple[int, int], ...]
    # What an instance does, and what its GPUs draw, over those without a cap
    speed: float
    power: float

    def holds(self, times_ms: Int64Array) -> BoolArray:
        """Return whether it holds at times [ms]."""
        result = np.zeros(times_ms.shape, dtype=np.bool_)
        for begin_ms, end_ms in self.windows_ms:
            result |= (begin_ms <= times_ms) & (times_ms < end_ms)
        return result

    def speed_at(self, times_ms: Int64Array) -> Float64Array:
        """Return an instance's work at times [ms] over that without a cap."""
        return np.where(self.holds(times_ms), self.speed, 1.0)


@dataclass(frozen=True, eq=False)
class PlannedService:
    """Instances and requests of one service in time, from the run's start on.

    Arrays are of shape (P,), by the pieces of time of `served`.
    """

    name: str  # its name in the stream
    nodes_per_instance: int  # nodes of one instance
    reserved_nodes: int  # nodes reserved for it, with the last phase of its pool
    capacity: Capacity  # capacity of one instance
    # Whether reserved nodes without an instance stand by warm rather than idle
    warm: bool
    # Instances and requests, piece by piece of time, with edges of its own
    served: ServedRequests
    latency: LatencyCurve | None  # of an instance, where it is known
    reserved: Int32Array  # nodes reserved for the service
    # What the offered rate rises by over each piece, of which `served` has the mean
    # [1/s]
    rise_rps: Float64Array
    # Wait at the start, in the middle and at the end of each piece [s], shape (3, P)
    wait_s: Float64Array
    # Cap of its GPUs during events; one without windows where it could be capped and is
    # not
    cap: ServiceCap | None = None

    @property
    def capped(self) -> BoolArray:
        """Whether its GPUs are capped in each piece, shape (P,)."""
        starts_ms = self.served.edges_ms[:-1]
        if self.cap is None:
            return np.zeros(starts_ms.size, dtype=np.bool_)
        return self.cap.holds(starts_ms)

    @property
    def uncapped_rate_rps(self) -> Float64Array:
        """Rate that keeps an uncapped instance as busy as others [1/s], shape (P,)."""
        return self.instance_rate_rps / self._speed

    @property
    def _speed(self) -> Float64Array | float:
        cap, starts_ms = self.cap, self.served.edges_ms[:-1]
        return 1.0 if cap is None else cap.speed_at(starts_ms)

    @property
    def latencies_s(self) -> Latencies:
        """Latencies that the latency curve has, end to end and the capped one [s].

        At the rate that an instance gets, with the wait where it delays them.
        """
        known = {} if self.latency is None else self.latency.by_metric
        each_rps = self.uncapped_rate_rps
        return {
            metric: of.at(each_rps) / self._speed
            + (0 if metric in BETWEEN_TOKENS else self.wait_s[1])
            for metric, of in known.items()
        }

    @property
    def beyond_measured(self) -> BoolArray:
        """Whether an instance gets more than the highest measured rate, shape (P,).

        The latency is that one's.
        """
        highest_rps = np.inf if self.latency is None else self.latency.rate_rps[-1]
        beyond: BoolArray = self.uncapped_rate_rps > highest_rps * (1 + ROUNDING)
        return beyond

    def in_run(self) -> PlannedService:
        """Return what it does from the start of the run on, without the warm-up."""
        served = self.served.since(0)
        n_pieces = self.reserved.size
        later = self.pieces(n_pieces - served.rate_rps.size, n_pieces)
        return replace(later, served=served)

    def pieces(self, first: int, stop: int) -> PlannedService:
        """Return what it does in the pieces of time from one to before another."""
        return replace(
            self,
            served=self.served.pieces(first, stop),
            reserved=self.reserved[first:stop],
            rise_rps=self.rise_rps[first:stop],
            wait_s=self.wait_s[:, first:stop],
        )

    @property
    def instance_rate_rps(self) -> Float64Array:
        """Rate that each serving instance completes [1/s] (Eq. 6), shape (P,).

        0 for none.
        """
        return self.served.served_rps / np.maximum(self.served.n_serving, 1)

    @property
    def n_standby_nodes(self) -> Int32Array:
        """Reserved nodes in warm standby, which are not busy, shape (P,)."""
        free: Int32Array = (
            self.reserved - self.nodes_per_instance * self.served.n_instances
        )
        return free if self.warm else np.zeros_like(free)


@dataclass(frozen=True, eq=False)
class ServicePlan:
    """Plans of the services of one request stream."""

    stream: str  # name of the request stream
    pool: str  # name of its pool
    pool_id: int  # index of the pool in `Scenario.pool_names`
    services: tuple[PlannedService, ...]  # in the order of the scenario
    match: RequestMatch  # how the mean rate was found
    warnings: Sequence[str] = ()  # each with its key
    # The rate without its fluctuation; None where a trace gives it
    calendar: RequestRates | None = None


def service_labels(plans: Sequence[ServicePlan]) -> list[tuple[str, ...]]:
    """Return the services' names in results, dotted where two share one."""
    names = [service.name for plan in plans for service in plan.services]
    if len(set(names)) == len(names):
        return [tuple(service.name for service in plan.services) for plan in plans]
    return [
        tuple(f"{plan.stream}.{service.name}" for service in plan.services)
        for plan in plans
    ]
