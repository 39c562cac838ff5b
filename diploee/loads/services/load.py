"""`ServicesLoad`: all services, and their columns at any resolution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from diploee.base.column_specs import Column
from diploee.base.jit import njit
from diploee.base.tables import (
    BoolArray,
    Float32Array,
    Float64Array,
    Int32Array,
    Int64Array,
)
from diploee.base.units import MS_PER_S
from diploee.facility.base import Block, Values
from diploee.loads.services.instance_groups import (
    InstanceGroup,
    InstanceGroupLoad,
    ServiceInstanceGroups,
)
from diploee.loads.services.metrics import request_metrics
from diploee.loads.services.plan import ServicePlanner
from diploee.loads.services.service_plan import ServicePlan, service_labels
from diploee.profiles.library import ProfileLibrary
from diploee.profiles.profile import PowerProfile
from diploee.scenario.models import Scenario

if TYPE_CHECKING:
    from diploee.loads.inputs import Inputs


SERVICE_COLUMNS = (
    Column("incoming_rps", "requests/s", "service", "mean", None, "requests offered"),
    Column("served_rps", "requests/s", "service", "mean", None, "requests completed"),
    Column("unserved_rps", "requests/s", "service", "mean", None, "requests rejected"),
    Column(
        "n_instances",
        "model instances",
        "service",
        "instant",
        None,
        "active instances",
    ),
    Column(
        "backlog_requests", "requests", "service", "instant", None, "waiting requests"
    ),
    Column(
        "latency_s",
        "s",
        "service",
        "mean",
        None,
        (
            "mean end-to-end latency of arriving requests that are not rejected, "
            "including waiting time; missing without such requests"
        ),
    ),
)
"""Columns that each service adds to the series.

The latency only where the latency curve has it, the backlog only where requests wait.
"""
_MEANS = ("incoming_rps", "served_rps", "unserved_rps", "latency_s")


def service_columns(
    plans: Sequence[ServicePlan], t0_ms: int, dt_ms: int, n_steps: int
) -> dict[str, Float32Array | Int32Array]:
    """Return the `SERVICE_COLUMNS` of every service over a run of intervals.

    Shape (B,). Rates are means over each interval, so that requests are conserved at
    every resolution; instances and backlog are those at its start.
    """
    edges_ms = t0_ms + np.arange(n_steps + 1, dtype=np.int64) * dt_ms
    columns: dict[str, Float32Array | Int32Array] = {}
    for plan, labels in zip(plans, service_labels(plans), strict=True):
        for service, label in zip(plan.services, labels, strict=True):
            # Only pieces of this time, of which a year has millions
            span_ms, has_backlog = edges_ms[[0, -1]], service.served.has_backlog
            first, last = service.served.edges_ms.searchsorted(span_ms, "right") - 1
            service = service.pieces(int(first), int(last) + 1)
            served, latencies_s = service.served, service.latencies_s
            piece = np.searchsorted(served.edges_ms, edges_ms, side="right") - 1
            waiting = served.backlog_requests > 0
            waits = waiting[:-1] | waiting[1:]
            means = _means(
                served.edges_ms,
                served.rate_rps,
                served.served_rps,
                served.unserved_rps,
                service.rise_rps,
                latencies_s.get("mean_e2e", np.full(served.rate_rps.size, np.nan)),
                waits,
                edges_ms,
                piece,
            )
            has_latency = "mean_e2e" in latencies_s
            names = [f"{name}.{label}" for name in _MEANS[: 3 + has_latency]]
            columns |= zip(names, means, strict=False)
            piece = piece[:-1]
            columns[f"n_instances.{label}"] = served.n_instances[piece].astype(np.int32)
            if has_backlog:
                at_start = np.interp(
                    edges_ms[:-1], served.edges_ms, served.backlog_requests
                )
                # What came by then beyond an even rate, where it waits.
                since_ms, until_ms = (
                    edges_ms[:-1] - served.edges_ms[piece + end] for end in (0, 1)
                )
                bend = (
                    service.rise_rps[piece]
                    * since_ms
                    * until_ms
                    / (since_ms - until_ms)
                )
                at_start += np.where(waits[piece], bend / (2 * MS_PER_S), 0.0)
                at_start = np.maximum(at_start, 0.0)
                columns[f"backlog_requests.{label}"] = at_start.astype(np.float32)
    return columns


@njit()
def _means(
    piece_edges_ms: Int64Array,
    rate_rps: Float64Array,
    served_rps: Float64Array,
    unserved_rps: Float64Array,
    rise_rps: Float64Array,
    latency_s: Float64Array,
    waits: BoolArray,
    edges_ms: Int64Array,
    piece: Int64Array,
) -> Float32Array:
    """Return means over intervals of the rates and the latency, shape (4, B).

    What is offered is a line in each piece of time. What it lies off its mean is
    served, unless it waits or the piece has unserved requests throughout. Each mean is
    a sum of its own, so that it has the same bits in whatever run of intervals it is.
    The latency is the mean over the requests that arrive and are not rejected.
    """
    means = np.empty((4, edges_ms.size - 1), dtype=np.float32)
    for k in range(means.shape[1]):
        incoming = served = unserved = taken = latency = 0.0
        for p in range(piece[k], min(piece[k + 1] + 1, rate_rps.size)):
            begin_ms, end_ms = piece_edges_ms[p], piece_edges_ms[p + 1]
            from_ms = max(begin_ms, edges_ms[k])
            until_ms = min(end_ms, edges_ms[k + 1])
            middle = (from_ms + until_ms - begin_ms - end_ms) / 2 / (end_ms - begin_ms)
            off, length_ms = rise_rps[p] * middle, until_ms - from_ms
            incoming += (rate_rps[p] + off) * length_ms
            beyond = unserved_rps[p] > abs(rise_rps[p]) / 2
            served += (served_rps[p] + (0.0 if waits[p] or beyond else off)) * length_ms
            lost = off if beyond and not waits[p] else 0.0
            unserved += (unserved_rps[p] + lost) * length_ms
            of_piece = rate_rps[p] - unserved_rps[p]
            if of_piece > 0:
                requests = max(of_piece + off - lost, 0.0) * length_ms
                taken += requests
                latency += latency_s[p] * requests
        length_ms = edges_ms[k + 1] - edges_ms[k]
        means[0, k], means[1, k], means[2, k] = (
            incoming / length_ms,
            served / length_ms,
            unserved / length_ms,
        )
        means[3, k] = latency / taken if taken > 0 else np.nan
    return means


class ServicesLoad(InstanceGroupLoad):
    """The services of all request streams, planned for the run when opened.

    Flexible services answer the scenario's events where they are `answering`.
    """

    columns = SERVICE_COLUMNS

    def __init__(
        self,
        scenario: Scenario,
        inputs: Inputs,
        library: ProfileLibrary,
        answering: bool = False,
    ) -> None:
        flexibility, facility, seed = (
            scenario.flexibility,
            scenario.facility,
            scenario.seed,
        )
        capped = (
            flexibility.spans_ms(scenario.clock) if answering and flexibility else ()
        )
        self.plans: Sequence[ServicePlan] = [
            ServicePlanner(scenario, name, inputs, capped).plan()
            for name in scenario.request_streams
        ]
        profiles: list[PowerProfile] = []
        ac_profiles: dict[int, PowerProfile] = {}
        banks = list[InstanceGroup]()
        self.standby_w = list[float]()
        """Power of a warm node of each service [W], stream after stream; 0 where they
        are cold."""
        for plan in self.plans:
            node = facility.node_type_of(plan.pool)
            for service in plan.services:
                curve = inputs.curves[plan.stream, service.name].power
                for bank, own, of_ac in ServiceInstanceGroups(
                    plan, service, curve, node, seed
                ):
                    first = len(library) + len(profiles)
                    profile_id = (bank.profile_id + first).astype(np.int32)
                    ac_profiles.update(enumerate(of_ac, first))
                    banks.append(replace(bank, profile_id=profile_id, of=service))
                    profiles += own
                self.standby_w.append(
                    (node.warm_power_w if service.warm else None) or 0.0
                )
        super().__init__(banks, library.extended(profiles), ac_profiles)

    @property
    def bend(self) -> bool:
        """Whether an event changes what any service does."""
        return any(
            service.cap is not None for plan in self.plans for service in plan.services
        )

    def values(self, block: Block) -> Values:
        """Return request rates, instances and backlog of each service over a block."""
        return service_columns(self.plans, block.t0_ms, block.dt_ms, len(block))

    def metrics(self, pool: str | None = None) -> dict[str, Any]:
        """Return the `requests` block of one pool or of all."""
        plans = [plan for plan in self.plans if pool in (None, plan.pool)]
        return {"requests": request_metrics(plans)} if plans else {}
