"""Planning of services: `Scenario` to `ServicePlan`.

Instances, served and unserved requests and latency (Eqs. 1-7).
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

MAX_DOUBLINGS = 60
TOLERANCE = 1e-6
"""Accepted distance of the plan's occupancy from its target (absolute)."""

_S_PER_DAY = MS_PER_DAY / MS_PER_S


class ServicePlanner:
    """Everything about one stream that does not depend on its mean rate.

    Flexible services are capped in the spans `events_ms`, in order and apart; their
    mean rate is that without events. A latency cap that can't be kept and a service
    with requests but without nodes are a `WorkloadError`, as is a target utilization
    out of reach.
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
        self.standing, self.horizon_ms = (
            pools[spec.pool].standing(clock),
            clock.horizon_ms,
        )
        self.rates = request_rates(scenario, name, inputs.traces)
        if self.rates.shares:
            of_shares = zip(spec.services.items(), self.rates.shares, strict=True)
            services = {
                key: s.model_copy(update={"probability": p})
                for (key, s), p in of_shares
            }
            spec = spec.model_copy(update={"services": services})
        self.spec, self.name = spec, name
        self.counts: dict[str, int] = {}
        for key, replay in spec.replays(name).items():
            of_service = f"{key.removeprefix(name)[1:]}: " if key != name else ""
            trace = inputs.traces[key]
            as_local = replay.tile == "week" and trace.zone == UTC_ZONE
            self.counts |= trace.counts.by_cause(of_service, as_local)
        self.pool_id = list(pools).index(spec.pool)
        self.latency = [
            inputs.curves[name, service].latency for service in spec.services
        ]
        self.caps = [_cap(service, events_ms) for service in spec.services.values()]
        self.capacities = _capacities(spec, name, self.latency)
        # From when on, and the nodes of each service then, shape (S,).
        self.phases_ms = [
            clock.begin_ms,
            *(time_ms for time_ms, _ in self.standing.added),
        ]
        self.nodes = _nodes_of_phases(
            spec, self.standing, self.phases_ms, self.capacities
        )
        first = next(
            nodes for nodes in self.nodes if nodes.any() or nodes is self.nodes[-1]
        )
        _scaling_rules(spec, name, self.capacities, first, seed)  # refuses too few
        self.rules = _scaling_rules(spec, name, self.capacities, self.nodes[-1], seed)

    def serve(self, mean_rate_rps: float, capped: bool = False) -> list[ServedRequests]:
        """Serve all services at a mean rate of the whole stream [1/s].

        Caps of events hold where `capped`.
        """
        result = []
        for row, (cap, rules) in enumerate(zip(self.caps, self.rules, strict=True)):
            pieces = self._pieces(row, mean_rate_rps, cap if capped else None)
            edges_ms = np.append(pieces[0], self.horizon_ms)
            result.append(serve_requests(edges_ms, pieces[1], rules, *pieces[2:]))
        return result

    def _pieces(
        self, row: int, mean_rate_rps: float, cap: ServiceCap | None
    ) -> tuple[Any, ...]:
        """Return start [ms], rate [1/s], most instances and speed of pieces of time.

        Pieces outside of a cap's windows keep their edges and rates to the last bit;
        one across an edge of a window is split.
        """
        rate_rps = self._rate_rps(row, mean_rate_rps)

        def cut(begin_ms: int, end_ms: int, speed: float) -> tuple[Any, ...]:
            parts = [
                (
                    cut_ms[:-1],
                    cut_rps,
                    *(np.full(cut_rps.size, x) for x in (most, speed)),
                )
                for cut_ms, cut_rps, most in self._cut(
                    row, rate_rps, begin_ms, end_ms, speed
                )
            ]
            return tuple(map(np.concatenate, zip(*parts, strict=True)))

        from_ms, until_ms = self.phases_ms[0], self.horizon_ms
        pieces = cut(from_ms, until_ms, 1.0)
        windows_ms, speed = ((), 1.0) if cap is None else (cap.windows_ms, cap.speed)
        for window_ms in windows_ms:
            begin_ms, end_ms = max(window_ms[0], from_ms), min(window_ms[1], until_ms)
            if begin_ms >= end_ms:
                continue
            first = np.searchsorted(pieces[0], begin_ms)
            last = np.searchsorted(pieces[0], end_ms, side="right") - 1
            last = pieces[0].size if end_ms == until_ms else last
            inside = cut(begin_ms, end_ms, speed)
            after = [of_pieces[last:] for of_pieces in pieces]
            after[0] = np.maximum(after[0], end_ms)
            pieces = tuple(
                np.concatenate([of_pieces[:first], within, later])
                for of_pieces, within, later in zip(pieces, inside, after, strict=True)
            )
        return pieces

    def _rate_rps(self, row: int, mean_rate_rps: float) -> Float64Array:
        """Return the rate of a service at the nodes [1/s]."""
        probability = list(self.spec.services.values())[row].probability or 0.0
        return self.rates.of_service(row, probability, mean_rate_rps)

    def _cut(
        self,
        row: int,
        rate_rps: Float64Array,
        begin_ms: int,
        end_ms: int,
        speed: float = 1.0,
    ) -> Iterator[tuple[Int64Array, Float64Array, int]]:
        """Cut the phases of a span where the rate passes a multiple of an instance's.

        Yield edges [ms] and rates [1/s] of the pieces of each phase, and its most
        instances.
        """
        service, rules = list(self.spec.services.values())[row], self.rules[row]
        full_rps = rules.completion_rate_rps * speed
        edges_ms = [*self.phases_ms, self.horizon_ms]
        for (from_ms, until_ms), nodes in zip(
            pairwise(edges_ms), self.nodes, strict=True
        ):
            span_ms = max(begin_ms, from_ms), min(end_ms, until_ms)
            if span_ms[0] < span_ms[1]:
                most = int(nodes[row]) // service.nodes_per_instance
                over = self.rates.over(rate_rps, *span_ms)
                if service.instance_utilization < 1 and full_rps < np.inf:
                    # All are up before all are full: from there on requests are
                    # unserved.
                    at_ms, _ = cut_at_crossings(*over, full_rps * max(most, 1), 1)
                    over = at_ms, np.interp(at_ms, *over)
                yield *cut_at_crossings(*over, rules.max_rate_rps * speed, most), most

    def utilization(self, mean_rate_rps: float) -> float:
        """Return the mean node occupancy of the pool over the run at a mean rate, 0-1 (Eq. 1)."""  # noqa: E501
        if any(rules.remember for rules in self.rules):
            return self._occupancy(self.serve(mean_rate_rps))
        node_ms = 0.0
        for row, service in enumerate(self.spec.services.values()):
            rate_rps = self._rate_rps(row, mean_rate_rps)
            for cut_ms, cut_rps, most in self._cut(row, rate_rps, 0, self.horizon_ms):
                needed = self.rules[row].needed(cut_rps, most)
                node_ms += service.nodes_per_instance * float(needed @ np.diff(cut_ms))
        return node_ms / self.standing.node_ms(self.horizon_ms)

    def _occupancy(self, served: list[ServedRequests]) -> float:
        served = [of_service.since(0) for of_service in served]
        node_s = sum(
            service.nodes_per_instance
            * float(of_service.n_instances @ of_service.step_s)
            for service, of_service in zip(
                self.spec.services.values(), served, strict=True
            )
        )
        stand_s = self.standing.most * float(served[0].step_s.sum())
        if self.standing.added:
            stand_s = self.standing.node_ms(self.horizon_ms) / MS_PER_S
        return node_s / stand_s

    def match(self, tolerance: float) -> tuple[float, int, str]:
        """Return the mean rate [1/s] given or met, and the evaluations."""
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
        rate_rps, _, more = bisect_rising(utilization, target, 0.0, high, tolerance)
        return rate_rps, steps + more, "plan"

    def plan(self, tolerance: float = TOLERANCE) -> ServicePlan:
        """Find the mean rate and lay out the plan."""
        spec = self.spec
        mean_rps, steps, kind = self.match(tolerance)
        undisturbed = self.serve(mean_rps)
        capped = any(cap is not None and cap.windows_ms for cap in self.caps)
        served = self.serve(mean_rps, capped=True) if capped else undisturbed
        reached, target = self._occupancy(undisturbed), spec.target_utilization
        match = RequestMatch(
            stream=self.name,
            requests_per_day=mean_rps * _S_PER_DAY,
            match=kind,
            target_utilization=target,
            matched_utilization=reached,
            residual=None if target is None else reached - target,
            steps=steps,
            counts=self.counts,
        )
        services = tuple(
            self._planned(row, name, of_service, mean_rps)
            for row, (name, of_service) in enumerate(
                zip(spec.services, served, strict=True)
            )
        )
        place = f"request_streams.{self.name}"
        warnings = [
            f"{place}.services.{name}: {text}"
            for name, capacity in zip(spec.services, self.capacities, strict=True)
            for text in capacity.warnings
        ]
        if (std := spec.minute_jitter_relative_std) > 0:
            warnings.insert(
                0,
                (
                    f"{place}.minute_jitter_relative_std froze one factor per minute "
                    "of the week; it is read as fluctuation: {relative_std: "
                    f"{std:g}}}, which is new in every week; write that"
                ),
            )
        calendar = None if spec.replays(self.name) else replace(self.rates, draws=None)
        return ServicePlan(
            self.name, spec.pool, self.pool_id, services, match, warnings, calendar
        )

    def _planned(
        self, row: int, name: str, served: ServedRequests, mean_rps: float
    ) -> PlannedService:
        """Return a service with its latency and reserved nodes, piece by piece of time."""  # noqa: E501
        service, rules, cap = self.spec.services[name], self.rules[row], self.caps[row]
        starts_ms = served.edges_ms[:-1]
        # Takes no memory where none waits
        wait_s = np.zeros((3, starts_ms.size))
        if self.latency[row] is not None and rules.drain_s > 0:
            full_rps = rules.n_max * rules.completion_rate_rps
            flow = (
                served.edges_ms / MS_PER_S,
                served.rate_rps,
                served.served_rps,
                full_rps,
            )
            wait_s = np.stack([fifo_wait_s(*flow, at) for at in (0, 0.5, 1)])
        phase = np.searchsorted(self.phases_ms, starts_ms, side="right") - 1
        reserved = np.array([nodes[row] for nodes in self.nodes], np.int32)[phase]
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
        """Return the rise of the offered rate over each segment [1/s]."""
        rate_rps = self._rate_rps(row, mean_rps)
        rises = []
        for begin_ms, end_ms in pairwise([*self.phases_ms, self.horizon_ms]):
            of_phase = edges_ms[(edges_ms >= begin_ms) & (edges_ms <= end_ms)]
            over = self.rates.over(rate_rps, begin_ms, end_ms)
            rises.append(np.diff(np.interp(of_phase, *over)))
        return np.concatenate(rises)


def _nodes_of_phases(
    spec: RequestStream,
    standing: InstalledNodes,
    phases_ms: Sequence[int],
    capacities: list[Capacity],
) -> list[Int64Array]:
    """Return the reserved nodes of a stream's services in each phase.

    No service loses any. They are as given, from the first node on (ASSUMPTION [J]);
    services without `reserved_nodes` share by Eq. 7 what the others leave of the pool.
    """
    services = list(spec.services.values())
    per_instance = np.array([s.nodes_per_instance for s in services])
    given = np.array([s.reserved_nodes or 0 for s in services], dtype=np.int64)
    shares = [k for k, service in enumerate(services) if service.reserved_nodes is None]
    result: list[Int64Array] = []
    for n_nodes in standing.at(np.array(phases_ms)).astype(int).tolist():
        nodes = given.copy() if n_nodes else np.zeros_like(given)
        if n_nodes and shares:
            nodes[shares] = reserve_nodes(
                n_nodes - int(given.sum()),
                [services[k].probability or 0.0 for k in shares],
                per_instance[shares].tolist(),
                [capacities[k].max_request_rate_rps for k in shares],
                (result[-1] // per_instance * per_instance)[shares] if result else None,
            )
        result.append(nodes)
    return result


def _capacities(
    spec: RequestStream, name: str, latency: list[LatencyCurve | None]
) -> list[Capacity]:
    result = []
    for (service_name, service), curve in zip(
        spec.services.items(), latency, strict=True
    ):
        try:
            result.append(service_capacity(service, curve, spec))
        except WorkloadError as error:
            key = "latency_cap" if service.latency_cap else "max_request_rate_rps"
            where = f"request_streams.{name}.services.{service_name}.{key}"
            raise WorkloadError(f"{where}: {error}") from error
    return result


def _scaling_rules(
    spec: RequestStream,
    name: str,
    capacities: list[Capacity],
    nodes: Int64Array,
    seed: int,
) -> list[ScalingRules]:
    rules = []
    for (service_name, service), capacity, n_nodes in zip(
        spec.services.items(), capacities, nodes.tolist(), strict=True
    ):
        n_max = n_nodes // service.nodes_per_instance
        interval_ms = round(service.scaling_interval_s * MS_PER_S)
        fewest = max(service.min_instances, 1 if (service.probability or 0) > 0 else 0)
        if n_max < fewest:
            raise WorkloadError(
                f"request_streams.{name}.services.{service_name}: {n_nodes} reserved "
                f"nodes hold {n_max} instances of {service.nodes_per_instance} "
                f"node(s), needed is at least {fewest}; reserve more nodes or enlarge "
                "the pool, its first phase where it has any"
            )
        rng = named_rng(seed, "requests", name, "scaling", service_name)
        rules.append(
            ScalingRules(
                # What an instance gets beyond what it completes would wait beside idle
                # nodes.
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
                # A time of day at which it decides to scale, so that not all services
                # do so at once
                phase_ms=int(rng.integers(0, interval_ms)) if interval_ms > 0 else 0,
                drain_s=spec.overload.drain_time_s,
            )
        )
    return rules


def _cap(service: Service, events_ms: Sequence[tuple[int, int]]) -> ServiceCap | None:
    if service.flexibility is None:
        return None
    levels = CapLevels((1.0, service.flexibility.power_limit))
    return ServiceCap(
        tuple(events_ms), levels.speed("inference", 1), levels.power("inference", 1)
    )
