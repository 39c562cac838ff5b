"""`ServicesLoad`: the load of all services, and their columns at any resolution."""

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
"""Columns of each service in the time series. A service has a latency column if its
latency curve has the mean end-to-end latency, and a backlog column if requests ever
wait."""
# Names of the columns that `_means` computes, in its order
_MEANS = ("incoming_rps", "served_rps", "unserved_rps", "latency_s")


def service_columns(
    plans: Sequence[ServicePlan], t0_ms: int, dt_ms: int, n_steps: int
) -> dict[str, Float32Array | Int32Array]:
    """Return the `SERVICE_COLUMNS` of every service over intervals, each of shape (B,).

    Rates are means over each interval, so that requests are conserved at every
    resolution. Instances and backlog are the values at the start of each interval.
    """
    edges_ms = t0_ms + np.arange(n_steps + 1, dtype=np.int64) * dt_ms
    columns: dict[str, Float32Array | Int32Array] = {}
    for plan, labels in zip(plans, service_labels(plans), strict=True):
        for service, label in zip(plan.services, labels, strict=True):
            # Only the plan's intervals in this time: a year has millions
            bounds_ms, has_backlog = edges_ms[[0, -1]], service.served.has_backlog
            first, last = service.served.edges_ms.searchsorted(bounds_ms, "right") - 1
            service = service.intervals(int(first), int(last) + 1)
            served, latencies_s = service.served, service.latencies_s
            interval = np.searchsorted(served.edges_ms, edges_ms, side="right") - 1
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
                interval,
            )
            has_latency = "mean_e2e" in latencies_s
            names = [f"{name}.{label}" for name in _MEANS[: 3 + has_latency]]
            columns |= zip(names, means, strict=False)
            interval = interval[:-1]
            columns[f"n_instances.{label}"] = served.n_instances[interval].astype(
                np.int32
            )
            if has_backlog:
                backlog = np.interp(
                    edges_ms[:-1], served.edges_ms, served.backlog_requests
                )
                # Requests that came beyond those of a constant rate, if they wait
                after_start_ms, before_end_ms = (
                    edges_ms[:-1] - served.edges_ms[interval + end] for end in (0, 1)
                )
                curvature_rps = (
                    service.rise_rps[interval]
                    * after_start_ms
                    * before_end_ms
                    / (after_start_ms - before_end_ms)
                )
                backlog += np.where(
                    waits[interval], curvature_rps / (2 * MS_PER_S), 0.0
                )
                backlog = np.maximum(backlog, 0.0)
                columns[f"backlog_requests.{label}"] = backlog.astype(np.float32)
    return columns


@njit()
def _means(
    plan_edges_ms: Int64Array,
    rate_rps: Float64Array,
    served_rps: Float64Array,
    unserved_rps: Float64Array,
    rise_rps: Float64Array,
    latency_s: Float64Array,
    has_backlog: BoolArray,
    edges_ms: Int64Array,
    first_row: Int64Array,
) -> Float32Array:
    """Return the means of rates and latency over intervals, shape (4, B).

    The offered rate is a straight line in each interval of the plan. Its deviation from
    the mean changes the served rate, except if requests wait or if some are rejected
    throughout the interval. Each mean is computed independently, so that it has the
    same bits however the intervals are split into blocks. The latency is the mean over
    all requests that arrive and are not rejected.
    """
    means = np.empty((4, edges_ms.size - 1), dtype=np.float32)
    for interval in range(means.shape[1]):
        incoming = served = unserved = n_accepted = latency = 0.0
        for row in range(
            first_row[interval], min(first_row[interval + 1] + 1, rate_rps.size)
        ):
            begin_ms, end_ms = plan_edges_ms[row], plan_edges_ms[row + 1]
            start_ms = max(begin_ms, edges_ms[interval])
            stop_ms = min(end_ms, edges_ms[interval + 1])
            middle = (start_ms + stop_ms - begin_ms - end_ms) / 2 / (end_ms - begin_ms)
            deviation_rps, length_ms = rise_rps[row] * middle, stop_ms - start_ms
            incoming += (rate_rps[row] + deviation_rps) * length_ms
            is_overloaded = unserved_rps[row] > abs(rise_rps[row]) / 2
            served += (
                served_rps[row]
                + (0.0 if has_backlog[row] or is_overloaded else deviation_rps)
            ) * length_ms
            rejected_rps = (
                deviation_rps if is_overloaded and not has_backlog[row] else 0.0
            )
            unserved += (unserved_rps[row] + rejected_rps) * length_ms
            accepted_rps = rate_rps[row] - unserved_rps[row]
            if accepted_rps > 0:
                requests = (
                    max(accepted_rps + deviation_rps - rejected_rps, 0.0) * length_ms
                )
                n_accepted += requests
                latency += latency_s[row] * requests
        length_ms = edges_ms[interval + 1] - edges_ms[interval]
        means[0, interval], means[1, interval], means[2, interval] = (
            incoming / length_ms,
            served / length_ms,
            unserved / length_ms,
        )
        means[3, interval] = latency / n_accepted if n_accepted > 0 else np.nan
    return means


class ServicesLoad(InstanceGroupLoad):
    """Load of the services of all request streams, planned when the run is opened.

    If `answering` is set, flexible services respond to the demand-response events of
    the scenario.
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
        events_ms = (
            flexibility.spans_ms(scenario.clock) if answering and flexibility else ()
        )
        self.plans: Sequence[ServicePlan] = [
            ServicePlanner(scenario, name, inputs, events_ms).plan()
            for name in scenario.request_streams
        ]
        profiles: list[PowerProfile] = []
        ac_profiles: dict[int, PowerProfile] = {}
        groups = list[InstanceGroup]()
        self.standby_w = list[float]()
        """Power of a node in warm standby, for each service of all streams [W]; 0 if
        its standby is not warm."""
        for plan in self.plans:
            node = facility.node_type_of(plan.pool)
            for service in plan.services:
                power_curve = inputs.curves[plan.stream, service.name].power
                for group, group_profiles, group_ac_profiles in ServiceInstanceGroups(
                    plan, service, power_curve, node, seed
                ):
                    first = len(library) + len(profiles)
                    profile_id = (group.profile_id + first).astype(np.int32)
                    ac_profiles.update(enumerate(group_ac_profiles, first))
                    groups.append(replace(group, profile_id=profile_id, source=service))
                    profiles += group_profiles
                self.standby_w.append(
                    (node.warm_power_w if service.warm else None) or 0.0
                )
        super().__init__(groups, library.extended(profiles), ac_profiles)

    @property
    def responds_to_events(self) -> bool:
        """Whether an event changes the operation of any service."""
        return any(
            service.cap is not None for plan in self.plans for service in plan.services
        )

    def values(self, block: Block) -> Values:
        """Return the `SERVICE_COLUMNS` of all services over a block."""
        return service_columns(self.plans, block.t0_ms, block.dt_ms, len(block))

    def metrics(self, pool: str | None = None) -> dict[str, Any]:
        """Return the `requests` block of the metrics, for one pool or for all."""
        plans = [plan for plan in self.plans if pool in (None, plan.pool)]
        return {"requests": request_metrics(plans)} if plans else {}
