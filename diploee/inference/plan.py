"""`Scenario -> ServicePlan`: instances, served and unserved requests and latency (Eqs. 1-7)."""

from __future__ import annotations

from math import ceil

import numpy as np

from diploee.errors import WorkloadError
from diploee.inference.capacity import Capacity, service_capacity
from diploee.inference.curves import Curves, LatencyCurve
from diploee.inference.overload import (
    ScalingRules,
    ServedRequests,
    fifo_wait_s,
    serve_requests,
)
from diploee.inference.replay import trace_counts
from diploee.inference.requests import PLANNING_STEP_MS, RelativeRates, relative_rates
from diploee.inference.reserve import reserve_nodes
from diploee.inference.service_plan import RequestMatch, ServicePlan
from diploee.scenario import RequestStream, Scenario
from diploee.tables import Float64Array, Int64Array
from diploee.units import MS_PER_DAY, MS_PER_S
from diploee.workload.bisection import bisect

MAX_DOUBLINGS = 60
_S_PER_DAY = MS_PER_DAY / MS_PER_S


def plan_services(scenario: Scenario, curves: Curves) -> list[ServicePlan]:
    """Plan instances and served requests of all request streams.

    The planning step is fixed at 60 s, so that the plan does not depend on the resolution.

    Parameters
    ----------
    scenario : Scenario
        What to plan.
    curves : Curves
        Curves of its services, from `load_curves`.

    Returns
    -------
    list of ServicePlan
        One per request stream, in the order of the scenario.

    Raises
    ------
    WorkloadError
        If a latency cap can't be kept, a service with requests has no nodes, or a target
        utilization is out of reach.
    """
    return [_Planner(scenario, name, curves).plan() for name in scenario.request_streams]


class _Planner:
    """Everything about one stream that does not depend on its mean rate."""

    def __init__(self, scenario: Scenario, name: str, curves: Curves) -> None:
        self.name, self.scenario = name, scenario
        self.spec = scenario.request_streams[name]
        self.pool_id = scenario.pool_names().index(self.spec.pool)
        self.pool_n_nodes = scenario.facility.pools[self.spec.pool].n_nodes
        self.rates: RelativeRates = relative_rates(scenario, name)
        self.latency = [curves[name, service].latency for service in self.spec.services]
        self.capacities = _capacities(self.spec, name, self.latency)
        self.nodes = reserved_nodes(self.spec, self.pool_n_nodes, self.capacities)
        self.rules = _scaling_rules(self.spec, name, self.capacities, self.nodes)
        self.nodes_per_instance = np.array(
            [service.nodes_per_instance for service in self.spec.services.values()]
        )

    def serve(self, mean_rate_rps: float) -> list[ServedRequests]:
        """Serve all services at a mean rate of the whole stream [1/s]."""
        rate_rps = mean_rate_rps * self.rates.relative_rate
        return [
            serve_requests(service.probability * rate_rps, self.rates.step_s, rules)
            for service, rules in zip(self.spec.services.values(), self.rules, strict=True)
        ]

    def utilization(self, mean_rate_rps: float) -> float:
        """Return the mean node occupancy of the pool at a mean rate, 0-1 (Eq. 1)."""
        return self._occupancy(self.serve(mean_rate_rps))

    def _occupancy(self, served: list[ServedRequests]) -> float:
        step_s = self.rates.step_s
        node_s = sum(
            float(nodes * (of_service.n_instances @ step_s))
            for nodes, of_service in zip(self.nodes_per_instance, served, strict=True)
        )
        return node_s / (self.pool_n_nodes * float(step_s.sum()))

    def match(self) -> tuple[float, int]:
        """Return the mean rate [1/s] that is given or meets the target, and the evaluations."""
        spec = self.spec
        if spec.request_rate_rps is not None:
            return spec.request_rate_rps, 0
        if spec.requests_per_day is not None:
            return spec.requests_per_day / _S_PER_DAY, 0
        if self.rates.trace_rate_rps is not None and spec.target_utilization is None:
            return self.rates.trace_rate_rps, 0
        target = spec.target_utilization
        assert target is not None
        if self.utilization(0.0) > target:
            raise WorkloadError(
                f"request_streams.{self.name}: target utilization {target:g} can't be reached: "
                f"min_instances alone occupy {self.utilization(0.0):.4f}; lower them"
            )
        high = sum(rules.n_max * rules.max_rate_rps for rules in self.rules)
        steps = 1
        while (reached := self.utilization(high)) < target:
            if steps == MAX_DOUBLINGS:
                raise WorkloadError(
                    f"request_streams.{self.name}: target utilization {target:g} can't be "
                    f"reached: with every request rate it stays at {reached:.4f}; lower the target "
                    "or give the calendar's hours of weight zero some requests"
                )
            high, steps = 2 * high, steps + 1
        rate_rps, _, more = bisect(self.utilization, target, 0.0, high, tolerance=0.0)
        return rate_rps, steps + more

    def _match_kind(self) -> str:
        if self.spec.target_utilization is not None:
            return "plan"
        scaled = self.spec.request_rate_rps or self.spec.requests_per_day
        return "replayed" if self.spec.replay is not None and not scaled else "given"

    def plan(self) -> ServicePlan:
        """Find the mean rate and lay out the plan."""
        spec, rates = self.spec, self.rates
        mean_rps, steps = self.match()
        served = self.serve(mean_rps)
        reached, target = self._occupancy(served), spec.target_utilization
        match = RequestMatch(
            stream=self.name,
            requests_per_day=mean_rps * _S_PER_DAY,
            match=self._match_kind(),
            target_utilization=target,
            matched_utilization=reached,
            residual=None if target is None else reached - target,
            steps=steps,
            counts=trace_counts(self.scenario, self.name) if spec.replay is not None else {},
        )
        probability = np.array([service.probability for service in spec.services.values()])
        rate_rps = probability[:, None] * (mean_rps * rates.relative_rate)
        warm = np.array([service.standby == "warm" for service in spec.services.values()])
        n_instances = np.stack([of_service.n_instances for of_service in served])
        free = self.nodes[:, None] - self.nodes_per_instance[:, None] * n_instances
        latency_s = [
            _latency_s(curve, rates.edges_ms / MS_PER_S, rate, of_service, rules)
            for curve, rate, of_service, rules in zip(
                self.latency, rate_rps, served, self.rules, strict=True
            )
        ]
        return ServicePlan(
            stream=self.name,
            pool=spec.pool,
            pool_id=self.pool_id,
            services=tuple(spec.services),
            nodes_per_instance=self.nodes_per_instance,
            reserved_nodes=self.nodes,
            capacities=tuple(self.capacities),
            edges_ms=rates.edges_ms,
            rate_rps=rate_rps,
            served_rps=np.stack([of_service.served_rps for of_service in served]),
            unserved_rps=np.stack([of_service.unserved_rps for of_service in served]),
            backlog_requests=np.stack([of_service.backlog_requests for of_service in served]),
            n_instances=n_instances,
            n_serving=np.stack([of_service.n_serving for of_service in served]),
            n_standby_nodes=np.where(warm[:, None], free, 0),
            latency_s=np.stack(latency_s),
            match=match,
        )


def reserved_nodes(
    spec: RequestStream, pool_n_nodes: int, capacities: list[Capacity]
) -> Int64Array:
    """Return the reserved nodes of a stream's services: as given, the others by Eq. 7.

    Services without `reserved_nodes` share what the others leave of the pool.
    """
    services = list(spec.services.values())
    nodes = np.array([s.reserved_nodes or 0 for s in services], dtype=np.int64)
    open_ = [k for k, service in enumerate(services) if service.reserved_nodes is None]
    if open_:
        nodes[open_] = reserve_nodes(
            pool_n_nodes - int(nodes.sum()),
            [services[k].probability for k in open_],
            [services[k].nodes_per_instance for k in open_],
            [capacities[k].max_request_rate_rps for k in open_],
        )
    return nodes


def _capacities(
    spec: RequestStream, name: str, latency: list[LatencyCurve | None]
) -> list[Capacity]:
    found = []
    for (service_name, service), curve in zip(spec.services.items(), latency, strict=True):
        try:
            found.append(service_capacity(service, curve, spec))
        except WorkloadError as error:
            key = "latency_cap" if service.latency_cap else "max_request_rate_rps"
            place = f"request_streams.{name}.services.{service_name}.{key}"
            raise WorkloadError(f"{place}: {error}") from error
    return found


def _scaling_rules(
    spec: RequestStream, name: str, capacities: list[Capacity], nodes: Int64Array
) -> list[ScalingRules]:
    rules = []
    for (service_name, service), capacity, n_nodes in zip(
        spec.services.items(), capacities, nodes.tolist(), strict=True
    ):
        n_max = n_nodes // service.nodes_per_instance
        fewest = max(service.min_instances, 1 if service.probability > 0 else 0)
        if n_max < fewest:
            raise WorkloadError(
                f"request_streams.{name}.services.{service_name}: {n_nodes} reserved nodes hold "
                f"{n_max} instances of {service.nodes_per_instance} node(s), needed is at least "
                f"{fewest}; reserve more nodes or enlarge the pool"
            )
        rules.append(
            ScalingRules(
                max_rate_rps=capacity.max_request_rate_rps,
                completion_rate_rps=capacity.completion_rate_rps,
                n_max=n_max,
                n_min=service.min_instances,
                startup_steps=_whole_steps(service.startup_s),
                cooldown_steps=_whole_steps(service.cooldown_s),
                degrade=spec.overload == "degrade",
            )
        )
    return rules


def _whole_steps(time_s: float) -> int:
    return ceil(time_s * MS_PER_S / PLANNING_STEP_MS)


def _latency_s(
    curve: LatencyCurve | None,
    edges_s: Float64Array,
    rate_rps: Float64Array,
    served: ServedRequests,
    rules: ScalingRules,
) -> Float64Array:
    if curve is None:
        return np.full(rate_rps.size, np.nan)
    latency_s = curve.at(served.served_rps / np.maximum(served.n_serving, 1))
    if rules.degrade and not curve.metric.endswith("itl"):  # a queue delays the first token only
        full_rps = rules.n_max * rules.completion_rate_rps
        latency_s = latency_s + fifo_wait_s(edges_s, rate_rps, served.served_rps, full_rps)
    return latency_s
