"""`ServicePlan`: instances, requests and latency of a stream's services over time.

A plan divides time into intervals between events, such as the start of an instance or a
change of the trend of the request rate. Arrays of shape (P,) have one value per
interval.
"""

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
"""Latency in each interval of a plan [s], by latency metric."""


@dataclass(frozen=True)
class RequestMatch:
    """Mean request rate of a stream, and its match with the target utilization."""

    stream: str  # name of the stream
    requests_per_day: float  # daily requests, mean over the span
    # ``given``, ``replayed``, or ``plan``: bisected until the plan meets the target
    match: str
    target_utilization: float | None  # node occupancy to reach, 0-1
    matched_utilization: float  # node occupancy of the plan, 0-1 (Eq. 1)
    residual: float | None  # matched minus target utilization
    steps: int  # evaluations of the bisection
    # Rows of a replayed trace that were dropped or repaired on import, by cause
    counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ServiceCap:
    """Power cap on a service's GPUs during demand-response events."""

    # Start and end of each time window with the cap [ms], sorted and disjoint
    windows_ms: tuple[tuple[int, int], ...]
    speed: float  # speed of an instance under the cap, relative to no cap
    power: float  # GPU power under the cap, relative to no cap

    def is_active(self, times_ms: Int64Array) -> BoolArray:
        """Return True for times in a window of the cap [ms]."""
        is_capped = np.zeros(times_ms.shape, dtype=np.bool_)
        for begin_ms, end_ms in self.windows_ms:
            is_capped |= (begin_ms <= times_ms) & (times_ms < end_ms)
        return is_capped

    def speed_at(self, times_ms: Int64Array) -> Float64Array:
        """Return the speed of an instance at times [ms], relative to no cap."""
        return np.where(self.is_active(times_ms), self.speed, 1.0)


@dataclass(frozen=True, eq=False)
class PlannedService:
    """Instances and requests of one service over time, warm-up included.

    Arrays have shape (P,), one value per interval of `served`.
    """

    name: str  # name of the service in the stream
    nodes_per_instance: int  # nodes of one instance
    # Nodes reserved for the service in the last construction phase of its pool
    reserved_nodes: int
    capacity: Capacity  # capacity of one instance
    # True if reserved nodes without an instance are in warm standby, not idle
    warm: bool
    served: ServedRequests  # instances and requests in each interval, and its edges
    latency: LatencyCurve | None  # latency curve of an instance, if known
    reserved: Int32Array  # nodes reserved for the service
    # Rise of the offered rate from start to end of each interval [1/s]
    rise_rps: Float64Array
    # Waiting time at the start, middle and end of each interval [s], shape (3, P)
    wait_s: Float64Array
    # Power cap during events, without windows if none applies; None if not flexible
    cap: ServiceCap | None = None

    @property
    def capped(self) -> BoolArray:
        """Intervals in which the GPUs are capped, as a mask of shape (P,)."""
        starts_ms = self.served.edges_ms[:-1]
        if self.cap is None:
            return np.zeros(starts_ms.size, dtype=np.bool_)
        return self.cap.is_active(starts_ms)

    @property
    def uncapped_rate_rps(self) -> Float64Array:
        """Rate that loads an uncapped instance equally [1/s], shape (P,).

        Under a cap an instance is slower, so the same rate loads it like a higher one.
        """
        return self.instance_rate_rps / self._instance_speed

    @property
    def _instance_speed(self) -> Float64Array | float:
        """Speed of an instance in each interval, relative to no cap."""
        cap, starts_ms = self.cap, self.served.edges_ms[:-1]
        return 1.0 if cap is None else cap.speed_at(starts_ms)

    @property
    def latencies_s(self) -> Latencies:
        """Latencies in each interval [s]: the end-to-end and the capped latency.

        A latency is read from its curve at the request rate of an instance. The waiting
        time in the queue is added, except to latencies between tokens.
        """
        curves = {} if self.latency is None else self.latency.by_metric
        each_rps = self.uncapped_rate_rps
        return {
            metric: curve.at(each_rps) / self._instance_speed
            + (0 if metric in BETWEEN_TOKENS else self.wait_s[1])
            for metric, curve in curves.items()
        }

    @property
    def beyond_measured(self) -> BoolArray:
        """Mask of intervals with an instance rate above all measured rates, shape (P,).

        In such intervals the latency is that of the highest measured rate.
        """
        highest_rps = np.inf if self.latency is None else self.latency.rate_rps[-1]
        is_beyond: BoolArray = self.uncapped_rate_rps > highest_rps * (1 + ROUNDING)
        return is_beyond

    def in_run(self) -> PlannedService:
        """Return the plan without the warm-up, from the start of the run."""
        served = self.served.from_time(0)
        n_intervals = self.reserved.size
        later = self.intervals(n_intervals - served.rate_rps.size, n_intervals)
        return replace(later, served=served)

    def intervals(self, first: int, stop: int) -> PlannedService:
        """Return the plan of the intervals `first` to `stop` - 1."""
        return replace(
            self,
            served=self.served.intervals(first, stop),
            reserved=self.reserved[first:stop],
            rise_rps=self.rise_rps[first:stop],
            wait_s=self.wait_s[:, first:stop],
        )

    @property
    def instance_rate_rps(self) -> Float64Array:
        """Rate that each serving instance completes [1/s] (Eq. 6), shape (P,).

        The rate is 0 in intervals without a serving instance.
        """
        return self.served.served_rps / np.maximum(self.served.n_serving, 1)

    @property
    def n_standby_nodes(self) -> Int32Array:
        """Reserved nodes in warm standby, which do not count as busy, shape (P,)."""
        free_nodes: Int32Array = (
            self.reserved - self.nodes_per_instance * self.served.n_instances
        )
        return free_nodes if self.warm else np.zeros_like(free_nodes)


@dataclass(frozen=True, eq=False)
class ServicePlan:
    """Plans of all services of one request stream."""

    stream: str  # name of the request stream
    pool: str  # name of its pool
    pool_id: int  # index of the pool in `Scenario.pool_names`
    services: tuple[PlannedService, ...]  # in the order of the scenario
    match: RequestMatch  # mean request rate, and its match with the target
    warnings: Sequence[str] = ()  # warnings, each with its scenario key
    # Request rates without fluctuation; None if the rates are from a trace
    calendar: RequestRates | None = None


def service_labels(plans: Sequence[ServicePlan]) -> list[tuple[str, ...]]:
    """Return the labels of services in results.

    A label is the service's name, preceded by the stream's if two services share a
    name.
    """
    all_names = [service.name for plan in plans for service in plan.services]
    if len(set(all_names)) == len(all_names):
        return [tuple(service.name for service in plan.services) for plan in plans]
    return [
        tuple(f"{plan.stream}.{service.name}" for service in plan.services)
        for plan in plans
    ]
