"""Planning of services: from a `Scenario` to a `ServicePlan`.

A plan has instances, served and unserved requests, and latency (Eqs. 1-7).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from diploee.base.clock import UTC_ZONE
from diploee.base.errors import WorkloadError
from diploee.base.rng import named_rng
from diploee.base.tables import Float64Array, Int64Array
from diploee.base.units import MS_PER_DAY, MS_PER_S
from diploee.loads.jobs.rates import bisect_rising
from diploee.loads.services.capacity import Capacity, reserve_nodes, service_capacity
from diploee.loads.services.curves import LatencyCurve
from diploee.loads.services.request_rates import request_rates
from diploee.loads.services.served_requests import (
    ScalingRules,
    ServedRequests,
    cut_at_crossings,
    fifo_wait_s,
    serve_requests,
)
from diploee.loads.services.service_plan import (
    PlannedService,
    RequestMatch,
    ServiceCap,
    ServicePlan,
)
from diploee.profiles.derived import CapLevels
from diploee.scenario.models import Scenario
from diploee.scenario.pools import InstalledNodes
from diploee.scenario.serving import RequestStream, Service

if TYPE_CHECKING:
    from diploee.loads.inputs import Inputs

# Maximum number of doublings of the mean rate in search of an upper bound
MAX_DOUBLINGS = 60
TOLERANCE = 1e-6
"""Accepted difference between the plan's utilization and its target (absolute)."""

_S_PER_DAY = MS_PER_DAY / MS_PER_S


class ServicePlanner:
    """Planner of one request stream's services, for any mean request rate.

    Flexible services are capped in the time windows `events_ms`, sorted and disjoint;
    the mean rate is matched without events. A latency cap that can't be met, a service
    with requests but without nodes and a target utilization out of reach raise a
    `WorkloadError`.
    """

    def __init__(
        self,
        scenario: Scenario,
        name: str,
        inputs: Inputs,
        events_ms: Sequence[tuple[int, int]],
    ) -> None:
        spec, clock, seed = (
            scenario.request_streams[name],
            scenario.clock,
            scenario.seed,
        )
        pools = scenario.facility.pools
        self.installed, self.horizon_ms = (
            pools[spec.pool].installed(clock),
            clock.horizon_ms,
        )
        self.rates = request_rates(scenario, name, inputs.traces)
        if self.rates.fractions:
            fractions = zip(spec.services.items(), self.rates.fractions, strict=True)
            services = {
                key: s.model_copy(update={"probability": p})
                for (key, s), p in fractions
            }
            spec = spec.model_copy(update={"services": services})
        self.spec, self.name = spec, name
        self.counts: dict[str, int] = {}
        for key, replay in spec.replays(name).items():
            prefix = f"{key.removeprefix(name)[1:]}: " if key != name else ""
            trace = inputs.traces[key]
            is_local = replay.tile == "week" and trace.zone == UTC_ZONE
            self.counts |= trace.counts.by_cause(prefix, is_local)
        self.pool_id = list(pools).index(spec.pool)
        self.latency = [
            inputs.curves[name, service].latency for service in spec.services
        ]
        self.caps = [
            _service_cap(service, events_ms) for service in spec.services.values()
        ]
        self.capacities = _capacities(spec, name, self.latency)
        # Start of each phase, and the nodes of each service in it, shape (S,)
        self.phases_ms = [
            clock.begin_ms,
            *(time_ms for time_ms, _ in self.installed.added),
        ]
        self.nodes = _reserved_nodes_by_phase(
            spec, self.installed, self.phases_ms, self.capacities
        )
        first = next(
            nodes for nodes in self.nodes if nodes.any() or nodes is self.nodes[-1]
        )
        _scaling_rules(spec, name, self.capacities, first, seed)  # checks the minimum
        self.rules = _scaling_rules(spec, name, self.capacities, self.nodes[-1], seed)

    def serve(
        self, mean_rate_rps: float, with_event_caps: bool = False
    ) -> list[ServedRequests]:
        """Return each service's served requests for a mean rate of the stream [1/s].

        With `with_event_caps`, services are capped during demand-response events.
        """
        result = []
        for row, (cap, rules) in enumerate(zip(self.caps, self.rules, strict=True)):
            intervals = self._intervals(
                row, mean_rate_rps, cap if with_event_caps else None
            )
            edges_ms = np.append(intervals[0], self.horizon_ms)
            result.append(serve_requests(edges_ms, intervals[1], rules, *intervals[2:]))
        return result

    def _intervals(
        self, row: int, mean_rate_rps: float, cap: ServiceCap | None
    ) -> tuple[Any, ...]:
        """Return start [ms], rate [1/s], maximum instances and speed of each interval.

        Intervals outside of the windows of a cap have the same edges and rates, to the
        last bit, as without it; an interval across the edge of a window is split.
        """
        rate_rps = self._rate_rps(row, mean_rate_rps)

        def intervals_within(
            begin_ms: int, end_ms: int, speed: float
        ) -> tuple[Any, ...]:
            phases = [
                (
                    cut_ms[:-1],
                    cut_rps,
                    *(np.full(cut_rps.size, x) for x in (n_max, speed)),
                )
                for cut_ms, cut_rps, n_max in self._crossings(
                    row, rate_rps, begin_ms, end_ms, speed
                )
            ]
            return tuple(map(np.concatenate, zip(*phases, strict=True)))

        start_ms, stop_ms = self.phases_ms[0], self.horizon_ms
        intervals = intervals_within(start_ms, stop_ms, 1.0)
        windows_ms, speed = ((), 1.0) if cap is None else (cap.windows_ms, cap.speed)
        for window_ms in windows_ms:
            begin_ms, end_ms = max(window_ms[0], start_ms), min(window_ms[1], stop_ms)
            if begin_ms >= end_ms:
                continue
            first = np.searchsorted(intervals[0], begin_ms)
            last = np.searchsorted(intervals[0], end_ms, side="right") - 1
            last = intervals[0].size if end_ms == stop_ms else last
            capped = intervals_within(begin_ms, end_ms, speed)
            after = [values[last:] for values in intervals]
            after[0] = np.maximum(after[0], end_ms)
            intervals = tuple(
                np.concatenate([values[:first], during, later])
                for values, during, later in zip(intervals, capped, after, strict=True)
            )
        return intervals

    def _rate_rps(self, row: int, mean_rate_rps: float) -> Float64Array:
        """Return the request rate of a service at the times of `rates` [1/s]."""
        probability = list(self.spec.services.values())[row].probability or 0.0
        return self.rates.service_rate_rps(row, probability, mean_rate_rps)

    def _crossings(
        self,
        row: int,
        rate_rps: Float64Array,
        begin_ms: int,
        end_ms: int,
        speed: float = 1.0,
    ) -> Iterator[tuple[Int64Array, Float64Array, int]]:
        """Yield the intervals of each phase, cut at crossings of the rate.

        At a crossing the rate equals a multiple of an instance's rate. Yields edges
        [ms] and rates [1/s] of the intervals, and the maximum number of instances.
        """
        service, rules = list(self.spec.services.values())[row], self.rules[row]
        full_rps = rules.completion_rate_rps * speed
        edges_ms = [*self.phases_ms, self.horizon_ms]
        for (phase_start_ms, phase_end_ms), nodes in zip(
            pairwise(edges_ms), self.nodes, strict=True
        ):
            span_ms = max(begin_ms, phase_start_ms), min(end_ms, phase_end_ms)
            if span_ms[0] < span_ms[1]:
                n_max = int(nodes[row]) // service.nodes_per_instance
                rates = self.rates.between(rate_rps, *span_ms)
                if service.instance_utilization < 1 and full_rps < np.inf:
                    # Also cut at the capacity of all instances, which are up before.
                    cut_ms, _ = cut_at_crossings(*rates, full_rps * max(n_max, 1), 1)
                    rates = cut_ms, np.interp(cut_ms, *rates)
                yield (
                    *cut_at_crossings(*rates, rules.max_rate_rps * speed, n_max),
                    n_max,
                )

    def utilization(self, mean_rate_rps: float) -> float:
        """Return the mean node occupancy of the pool over the run, 0-1 (Eq. 1)."""
        if any(rules.has_memory for rules in self.rules):
            return self._occupancy(self.serve(mean_rate_rps))
        node_ms = 0.0
        for row, service in enumerate(self.spec.services.values()):
            rate_rps = self._rate_rps(row, mean_rate_rps)
            for cut_ms, cut_rps, n_max in self._crossings(
                row, rate_rps, 0, self.horizon_ms
            ):
                needed = self.rules[row].needed(cut_rps, n_max)
                node_ms += service.nodes_per_instance * float(needed @ np.diff(cut_ms))
        return node_ms / self.installed.node_ms(self.horizon_ms)

    def _occupancy(self, served: list[ServedRequests]) -> float:
        """Return the fraction of the pool's installed node time used by instances."""
        served = [requests.from_time(0) for requests in served]
        node_s = sum(
            service.nodes_per_instance * float(requests.n_instances @ requests.step_s)
            for service, requests in zip(
                self.spec.services.values(), served, strict=True
            )
        )
        installed_s = self.installed.n_at_end * float(served[0].step_s.sum())
        if self.installed.added:
            installed_s = self.installed.node_ms(self.horizon_ms) / MS_PER_S
        return node_s / installed_s

    def match(self, tolerance: float) -> tuple[float, int, str]:
        """Return the mean request rate [1/s], the number of evaluations and its origin.

        The origin is `RequestMatch.match`: ``given``, ``replayed`` or ``plan``.
        """
        spec = self.spec
        if spec.request_rate_rps is not None:
            return spec.request_rate_rps, 0, "given"
        if spec.requests_per_day is not None:
            return spec.requests_per_day / _S_PER_DAY, 0, "given"
        if self.rates.trace_rate_rps is not None and spec.target_utilization is None:
            return (
                self.rates.trace_rate_rps,
                0,
                "replayed" if spec.replay is not None else "given",
            )
        target = spec.target_utilization
        assert target is not None
        utilization = cache(self.utilization)
        if utilization(0.0) > target:
            raise WorkloadError(
                f"request_streams.{self.name}: target utilization {target:g} can't be "
                f"reached: min_instances alone occupy {utilization(0.0):.4f}; lower "
                "them"
            )
        high = sum(rules.n_max * rules.max_rate_rps for rules in self.rules)
        steps = 1
        while (reached := utilization(high)) < target:
            if steps == MAX_DOUBLINGS:
                raise WorkloadError(
                    f"request_streams.{self.name}: target utilization {target:g} "
                    "can't be reached: with every request rate it stays at "
                    f"{reached:.4f}; lower the target or give the calendar's hours of "
                    "weight zero some requests"
                )
            high, steps = 2 * high, steps + 1
        rate_rps, _, n_evaluations = bisect_rising(
            utilization, target, 0.0, high, tolerance
        )
        return rate_rps, steps + n_evaluations, "plan"

    def plan(self, tolerance: float = TOLERANCE) -> ServicePlan:
        """Return the plan of the stream at the mean rate of `match`."""
        spec = self.spec
        mean_rps, steps, kind = self.match(tolerance)
        uncapped = self.serve(mean_rps)
        capped = any(cap is not None and cap.windows_ms for cap in self.caps)
        served = self.serve(mean_rps, with_event_caps=True) if capped else uncapped
        utilization, target = self._occupancy(uncapped), spec.target_utilization
        match = RequestMatch(
            stream=self.name,
            requests_per_day=mean_rps * _S_PER_DAY,
            match=kind,
            target_utilization=target,
            matched_utilization=utilization,
            residual=None if target is None else utilization - target,
            steps=steps,
            counts=self.counts,
        )
        services = tuple(
            self._plan_service(row, name, requests, mean_rps)
            for row, (name, requests) in enumerate(
                zip(spec.services, served, strict=True)
            )
        )
        key = f"request_streams.{self.name}"
        warnings = [
            f"{key}.services.{name}: {text}"
            for name, capacity in zip(spec.services, self.capacities, strict=True)
            for text in capacity.warnings
        ]
        if (std := spec.minute_jitter_relative_std) > 0:
            warnings.insert(
                0,
                (
                    f"{key}.minute_jitter_relative_std froze one factor per minute "
                    "of the week; it is read as fluctuation: {relative_std: "
                    f"{std:g}}}, which is new in every week; write that"
                ),
            )
        calendar = None if spec.replays(self.name) else replace(self.rates, draws=None)
        return ServicePlan(
            self.name, spec.pool, self.pool_id, services, match, warnings, calendar
        )

    def _plan_service(
        self, row: int, name: str, served: ServedRequests, mean_rps: float
    ) -> PlannedService:
        """Return the plan of one service, with its latency and reserved nodes."""
        service, rules, cap = self.spec.services[name], self.rules[row], self.caps[row]
        starts_ms = served.edges_ms[:-1]
        # An array of zeros takes no memory
        wait_s = np.zeros((3, starts_ms.size))
        if self.latency[row] is not None and rules.drain_s > 0:
            full_rps = rules.n_max * rules.completion_rate_rps
            queue = (
                served.edges_ms / MS_PER_S,
                served.rate_rps,
                served.served_rps,
                full_rps,
            )
            wait_s = np.stack(
                [fifo_wait_s(*queue, fraction) for fraction in (0, 0.5, 1)]
            )
        phase_index = np.searchsorted(self.phases_ms, starts_ms, side="right") - 1
        reserved = np.array([nodes[row] for nodes in self.nodes], np.int32)[phase_index]
        return PlannedService(
            name,
            service.nodes_per_instance,
            int(reserved[-1]),
            self.capacities[row],
            service.standby == "warm",
            served,
            self.latency[row],
            reserved,
            self._rise_rps(row, mean_rps, served.edges_ms),
            wait_s,
            cap,
        )

    def _rise_rps(
        self, row: int, mean_rps: float, edges_ms: Int64Array
    ) -> Float64Array:
        """Return the rise of the offered rate over each interval [1/s]."""
        rate_rps = self._rate_rps(row, mean_rps)
        rises = []
        for begin_ms, end_ms in pairwise([*self.phases_ms, self.horizon_ms]):
            phase_edges_ms = edges_ms[(edges_ms >= begin_ms) & (edges_ms <= end_ms)]
            rates = self.rates.between(rate_rps, begin_ms, end_ms)
            rises.append(np.diff(np.interp(phase_edges_ms, *rates)))
        return np.concatenate(rises)


def _reserved_nodes_by_phase(
    spec: RequestStream,
    installed: InstalledNodes,
    phases_ms: Sequence[int],
    capacities: list[Capacity],
) -> list[Int64Array]:
    """Return the nodes reserved for each service in each phase of the pool.

    No service loses nodes in a later phase. `reserved_nodes` applies from the first
    phase with nodes (assumed); services without it share the other nodes of the pool by
    Eq. 7.
    """
    services = list(spec.services.values())
    per_instance = np.array([s.nodes_per_instance for s in services])
    specified = np.array([s.reserved_nodes or 0 for s in services], dtype=np.int64)
    sharing = [
        k for k, service in enumerate(services) if service.reserved_nodes is None
    ]
    result: list[Int64Array] = []
    for n_nodes in installed.at(np.array(phases_ms)).astype(int).tolist():
        nodes = specified.copy() if n_nodes else np.zeros_like(specified)
        if n_nodes and sharing:
            nodes[sharing] = reserve_nodes(
                n_nodes - int(specified.sum()),
                [services[k].probability or 0.0 for k in sharing],
                per_instance[sharing].tolist(),
                [capacities[k].max_request_rate_rps for k in sharing],
                (result[-1] // per_instance * per_instance)[sharing]
                if result
                else None,
            )
        result.append(nodes)
    return result


def _capacities(
    spec: RequestStream, name: str, latency: list[LatencyCurve | None]
) -> list[Capacity]:
    """Return the capacity of an instance of each service."""
    result = []
    for (service_name, service), curve in zip(
        spec.services.items(), latency, strict=True
    ):
        try:
            result.append(service_capacity(service, curve, spec))
        except WorkloadError as error:
            last_key = "latency_cap" if service.latency_cap else "max_request_rate_rps"
            key = f"request_streams.{name}.services.{service_name}.{last_key}"
            raise WorkloadError(f"{key}: {error}") from error
    return result


def _scaling_rules(
    spec: RequestStream,
    name: str,
    capacities: list[Capacity],
    nodes: Int64Array,
    seed: int,
) -> list[ScalingRules]:
    """Return the scaling rules of each service, for its reserved nodes.

    Reserved nodes for less than the minimum number of instances raise a
    `WorkloadError`.
    """
    rules = []
    for (service_name, service), capacity, n_nodes in zip(
        spec.services.items(), capacities, nodes.tolist(), strict=True
    ):
        n_max = n_nodes // service.nodes_per_instance
        interval_ms = round(service.scaling_interval_s * MS_PER_S)
        min_instances = max(
            service.min_instances, 1 if (service.probability or 0) > 0 else 0
        )
        if n_max < min_instances:
            raise WorkloadError(
                f"request_streams.{name}.services.{service_name}: {n_nodes} reserved "
                f"nodes hold {n_max} instances of {service.nodes_per_instance} "
                f"node(s), needed is at least {min_instances}; reserve more "
                "nodes or enlarge the pool, its first phase where it has any"
            )
        rng = named_rng(seed, "requests", name, "scaling", service_name)
        rules.append(
            ScalingRules(
                # Requests beyond the completed rate would wait although nodes are idle.
                max_rate_rps=min(
                    capacity.max_request_rate_rps, capacity.completion_rate_rps
                )
                * service.instance_utilization,
                completion_rate_rps=capacity.completion_rate_rps,
                n_max=n_max,
                n_min=service.min_instances,
                startup_ms=round(service.startup_s * MS_PER_S),
                cooldown_ms=round(service.cooldown_s * MS_PER_S),
                interval_ms=interval_ms,
                # A random time of the decisions, so that not all services scale at once
                phase_ms=int(rng.integers(0, interval_ms)) if interval_ms > 0 else 0,
                drain_s=spec.overload.drain_time_s,
            )
        )
    return rules


def _service_cap(
    service: Service, events_ms: Sequence[tuple[int, int]]
) -> ServiceCap | None:
    """Return the power cap of a flexible service during events, or None."""
    if service.flexibility is None:
        return None
    cap_levels = CapLevels((1.0, service.flexibility.power_limit))
    return ServiceCap(
        tuple(events_ms),
        cap_levels.speed("inference", 1),
        cap_levels.power("inference", 1),
    )
