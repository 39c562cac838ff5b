"""`ServicePlan`: what the services of a request stream do in every planning step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from diploee.inference.capacity import Capacity
from diploee.tables import Float64Array, Int64Array
from diploee.units import MS_PER_S


@dataclass(frozen=True)
class RequestMatch:
    """How the mean request rate of a stream came about.

    Parameters
    ----------
    stream : str
        Name of the stream.
    requests_per_day : float
        Daily requests, mean over the span.
    match : {"given", "plan", "replayed"}
        ``plan``: bisected until the instance plan meets the target.
    target_utilization : float or None
        Node occupancy asked for, 0-1.
    matched_utilization : float
        Node occupancy of the plan, 0-1 (Eq. 1).
    residual : float or None
        Matched less target.
    steps : int
        Evaluations of the bisection.
    counts : mapping of str to int
        Rows of a replayed trace left out or changed on import, by cause.
    """

    stream: str
    requests_per_day: float
    match: str
    target_utilization: float | None
    matched_utilization: float
    residual: float | None
    steps: int
    counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class ServicePlan:
    """What the services of one request stream do in every planning step.

    Arrays have one row per service, in the order of the scenario, and one column per step.

    Parameters
    ----------
    stream, pool : str
        Names of the request stream and its pool.
    pool_id : int
        Index of the pool in `Scenario.pool_names`.
    services : tuple of str
        Names of the services.
    nodes_per_instance, reserved_nodes : numpy.ndarray, shape (S,), int64
        Nodes of one instance, and nodes reserved for the service.
    capacities : tuple of Capacity
        Capacity of one instance of each service.
    edges_ms : numpy.ndarray, shape (T + 1,), int64
        Edges of the steps from the start of the run [ms].
    rate_rps, served_rps, unserved_rps : numpy.ndarray, shape (S, T), float64
        Offered, served and rejected requests [1/s].
    backlog_requests : numpy.ndarray, shape (S, T + 1), float64
        Requests that wait at the steps' edges.
    n_instances, n_serving : numpy.ndarray, shape (S, T), int64
        Instances that are up (their nodes are busy), and those of them that serve.
    n_standby_nodes : numpy.ndarray, shape (S, T), int64
        Reserved nodes in warm standby; not busy.
    latency_s : numpy.ndarray, shape (S, T), float64
        Latency at the rate that an instance completes, in the service's metric, with the wait in
        the backlog [s]; NaN without a latency curve.
    match : RequestMatch
        How the mean rate was found.
    """

    stream: str
    pool: str
    pool_id: int
    services: tuple[str, ...]
    nodes_per_instance: Int64Array
    reserved_nodes: Int64Array
    capacities: tuple[Capacity, ...]
    edges_ms: Int64Array
    rate_rps: Float64Array
    served_rps: Float64Array
    unserved_rps: Float64Array
    backlog_requests: Float64Array
    n_instances: Int64Array
    n_serving: Int64Array
    n_standby_nodes: Int64Array
    latency_s: Float64Array
    match: RequestMatch

    @property
    def step_s(self) -> Float64Array:
        """Length of each step [s], shape (T,)."""
        length: Float64Array = np.diff(self.edges_ms) / MS_PER_S
        return length

    @property
    def instance_rate_rps(self) -> Float64Array:
        """Rate that each serving instance completes [1/s] (Eq. 6), shape (S, T); 0 for none."""
        rate: Float64Array = self.served_rps / np.maximum(self.n_serving, 1)
        return rate

    @property
    def busy_nodes(self) -> Int64Array:
        """Nodes of instances that are up, shape (T,)."""
        busy: Int64Array = self.nodes_per_instance @ self.n_instances
        return busy

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the user should know, each with its place."""
        return tuple(
            f"request_streams.{self.stream}.services.{name}: {text}"
            for name, capacity in zip(self.services, self.capacities, strict=True)
            for text in capacity.warnings
        )


def service_labels(plans: Sequence[ServicePlan]) -> list[tuple[str, ...]]:
    """Return the services' names in results: with their stream before a dot where two share one."""
    names = [name for plan in plans for name in plan.services]
    if len(set(names)) == len(names):
        return [plan.services for plan in plans]
    return [tuple(f"{plan.stream}.{name}" for name in plan.services) for plan in plans]
