"""Attribution of power changes between two time intervals to jobs and services.

The devices of a facility draw a constant power if all nodes idle. Each segment adds its
profile's power minus the idle power of its nodes. The change of the devices' mean power
from one interval to a later one is therefore an exact sum over segments: ``change = sum
of (mean over the later interval - mean over the earlier interval)``. The sum is split
by the owners of the segments, and by state: started, ended, or changed phase.

See also: docs/models/metrics.md
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from diploee.base.column_specs import Column
from diploee.base.tables import (
    BoolArray,
    Float64Array,
    Int16Array,
    Int32Array,
    Int64Array,
)
from diploee.base.units import MS_PER_MIN, MS_PER_S, W_PER_MW
from diploee.facility.base import Block, Values
from diploee.loads.jobs.synchronous import PHASE_PREFIX
from diploee.loads.jobs.training_phases import TrainingPhase
from diploee.loads.services.instance_groups import InstanceGroup
from diploee.loads.services.service_plan import (
    PlannedService,
    ServicePlan,
    service_labels,
)
from diploee.metrics.load_changes import Span
from diploee.power.blocks import PowerModel
from diploee.power.direct import add_directly, energies_within
from diploee.power.segments import (
    SERVICE_OWNER,
    Segments,
    node_slots,
    owner_class,
    owner_job,
)
from diploee.profiles.profile import PowerBoundary
from diploee.scenario.models import Scenario

if TYPE_CHECKING:
    from diploee.loads.base import Load
    from diploee.loads.jobs.load import JobsLoad
    from diploee.loads.services.load import ServicesLoad

# Names of the columns by load, before the load's name, and of idle nodes
LOAD, IDLE = "load_power_w", "idle_power_w"
LOAD_COLUMNS = (
    Column(
        LOAD,
        "W",
        "service",
        "mean",
        PowerBoundary.DEVICES,
        "power of a stream's jobs, of a service, or of replicas (with `--by-load`)",
    ),
    Column(
        IDLE,
        "W",
        "facility",
        "mean",
        PowerBoundary.DEVICES,
        "power of idle nodes (with `--by-load`)",
    ),
)
"""Columns by load, which a run writes on request."""

RECENT_MS = 15 * MS_PER_MIN
"""Time before an event within which a running job counts as recently started [ms]."""


class OwnerType(StrEnum):
    """Type of owner of a component of an event's power.

    Components of one job stream, service or stage are printed in one line.
    """

    STREAM = "stream"
    RUNNING_JOBS = "swings within running jobs of stream"
    SERVICE = "service"
    NOISE = "noise of serving samples"
    REPLICAS = "replicas of stream"
    IDLE_NODES = "idle nodes"
    NODES_ADDED = "nodes added"
    NODE_OVERHEAD = "the nodes' supplies, fans and network"
    STAGE = "stage"


class ComponentKind(StrEnum):
    """Kind of a component, by its name in ``metrics.json``.

    A kind has the noun of the counted items, the verb of their action and its owner
    type.
    """

    def __new__(
        cls,
        name: str,
        noun: str = "",
        action: str = "",
        owner_type: OwnerType = OwnerType.STREAM,
    ) -> ComponentKind:
        """Create a member from its name, noun, verb and owner type."""
        member = str.__new__(cls, name)
        member._value_, member.noun, member.action, member.owner_type = (
            name,
            noun,
            action,
            owner_type,
        )
        return member

    noun: str
    action: str
    owner_type: OwnerType

    JOBS = "jobs", "job"
    RAN_ON = "jobs ran on", "job", "", OwnerType.RUNNING_JOBS
    STARTED = "jobs started", "job", "started"
    ENDED = "jobs ended", "job", "ended"
    STARTED_AND_ENDED = "jobs started and ended", "job", "started and ended"
    CHECKPOINTS = "jobs wrote checkpoints", "job", "wrote checkpoints"
    TRAINING = "jobs took up training", "job", "took up training"
    STOPPED = "jobs stopped as planned", "job", "stopped as planned"
    FAILED = "jobs failed", "job", "failed"
    FAILED_AND_TRAINING = (
        "jobs failed and took up training",
        "job",
        "failed and took up training",
    )
    INSTANCES = "instances", "instance", "", OwnerType.SERVICE
    INSTANCES_STARTED = "instances started", "instance", "started", OwnerType.SERVICE
    INSTANCES_STOPPED = "instances stopped", "instance", "stopped", OwnerType.SERVICE
    RATE = "rate per instance", "", "", OwnerType.SERVICE
    NOISE = "noise of serving samples", "", "", OwnerType.NOISE
    REPLICAS = "replicas", "replica", "", OwnerType.REPLICAS
    IDLE_NODES = "idle nodes", "node", "", OwnerType.IDLE_NODES
    NODES_ADDED = "nodes added", "node", "", OwnerType.NODES_ADDED
    NODE_OVERHEAD = "node overhead", "", "", OwnerType.NODE_OVERHEAD
    STAGE = "stage", "", "", OwnerType.STAGE


_JOB_KINDS = (
    ComponentKind.RAN_ON,
    ComponentKind.STARTED,
    ComponentKind.ENDED,
    ComponentKind.STARTED_AND_ENDED,
    ComponentKind.CHECKPOINTS,
    ComponentKind.TRAINING,
    ComponentKind.STOPPED,
    ComponentKind.FAILED,
    ComponentKind.FAILED_AND_TRAINING,
)
"""Kinds of components of jobs, in the order of the indices in `_job_changes`. Jobs that
neither started nor ended have the kind of their last phase change, if any."""


Part = tuple[float, dict[str, Any]]
"""Power of one stream, service or stage in an event [W], and its entry in the
metrics."""


def part(
    power_w: float, kind: ComponentKind, of: str = "", pool: str = "", **more: Any
) -> Part:
    """Return a component of an event.

    `of` and `pool` are empty for the whole facility.
    """
    owner = {key: name for key, name in (("of", of), ("pool", pool)) if name}
    return power_w, {**owner, "what": kind, **more, "mw": power_w / W_PER_MW}


@dataclass(frozen=True)
class _Service:
    """Plan and instance groups of a service, for the attribution of its power."""

    name: str
    plan: ServicePlan
    planned: PlannedService
    groups: tuple[InstanceGroup, ...]
    min_node_w: float  # minimum power of a reserved node [W]

    def mean(self, values: Float64Array | Int32Array, span: Span) -> float:
        """Return the mean of a piecewise constant quantity over an interval."""
        edges_ms = self.planned.served.edges_ms
        low = int(np.searchsorted(edges_ms[1:], span[0], side="right"))
        stop = int(np.searchsorted(edges_ms[:-1], span[1]))
        edges_within_ms: Int64Array = np.clip(edges_ms[low : stop + 1], *span)
        return float(values[low:stop] @ np.diff(edges_within_ms)) / (span[1] - span[0])

    def min_power(self, span: Span) -> float:
        """Return the mean minimum power of reserved nodes above idle [W]."""
        reserved = self.planned.reserved
        is_constant = reserved[0] == reserved[-1]
        return self.min_node_w * (
            reserved[0] if is_constant else self.mean(reserved, span)
        )

    def scaled(self, before: Span, after: Span, instance_w: float) -> dict[str, Any]:
        """Return the number and power [MW] of instances started and stopped."""
        edges_ms = self.planned.served.edges_ms
        low = int(np.searchsorted(edges_ms[1:], before[0], side="right"))
        stop = int(np.searchsorted(edges_ms[:-1], after[1]))
        steps = np.diff(self.planned.served.n_instances[low:stop])
        # A step counts in an interval's mean by the remaining fraction of the interval.
        in_after, in_before = (
            np.clip((end - edges_ms[low + 1 : stop]) / (end - begin), 0, 1)
            for begin, end in (after, before)
        )
        entry: dict[str, Any] = {}
        for action, n in (
            ("started", steps.clip(min=0)),
            ("stopped", steps.clip(max=0)),
        ):
            entry[action] = abs(int(n.sum()))
            entry[f"{action}_mw"] = (
                float(n @ (in_after - in_before)) * instance_w / W_PER_MW
            )
        return entry

    def calendar_means(self, before: Span, after: Span) -> tuple[float, float]:
        """Return the relative calendar mean at the midpoints of two intervals."""
        calendar = self.plan.calendar
        if calendar is None:
            return 1.0, 1.0
        middles_ms = [sum(span) / 2 for span in (before, after)]
        earlier, later = np.interp(
            middles_ms, calendar.times_ms, calendar.relative_mean
        )
        return float(earlier), float(later)


def _profile_phase(profile_id: str) -> int:
    """Return the phase of synchronous jobs to which a profile belongs, or -1."""
    if not profile_id.startswith(PHASE_PREFIX):
        return -1
    return TrainingPhase[
        profile_id.removeprefix(PHASE_PREFIX).partition(":")[0].upper()
    ]


class Attribution:
    """Attribution of device power to job streams, services and replica loads."""

    def __init__(
        self,
        scenario: Scenario,
        model: PowerModel,
        jobs: JobsLoad,
        services: ServicesLoad | None,
        further: Sequence[Load],
    ) -> None:
        # Plan and instance group of each stream of replicas
        self._replicas = [
            (bank.source, bank) for load in further for bank in load.groups
        ]
        self._calendars = jobs.calendars
        # Energy tables for intervals of any length
        self._at_resolution, facility = model.at(scenario.resolution_ms), model.facility
        is_same = model.tables.has_same_grids(model.library, scenario.resolution_ms)
        self._tables = (model if is_same else self._at_resolution).tables
        self._installed_nodes = model.installed_nodes
        self._idle_w = np.array(
            [facility.node_type_of(pool).idle_power_w for pool in facility.pools]
        )
        self._slots = node_slots(facility)
        # What synchronous jobs do while they play each profile; -1 for all other
        # profiles.
        self._phase_of = np.array([_profile_phase(name) for name in model.library.ids])
        self._streams = [(name, spec.pool) for name, spec in scenario.streams.items()]
        names, classes = list(scenario.streams), jobs.streams.classes
        self._stream_of = np.array(
            [names.index(c.stream) for c in classes], dtype=np.int64
        )
        self._services: list[_Service] = []
        if services is None:
            return
        plans = services.plans
        for plan, of_plan in zip(plans, service_labels(plans), strict=True):
            for name, planned in zip(of_plan, plan.services, strict=True):
                number = len(self._services)
                banks = tuple(
                    bank for bank in services.groups if bank.source is planned
                )
                least_w = services.standby_w[number] - self._idle_w[plan.pool_id]
                least_w *= planned.warm
                self._services.append(
                    _Service(name, plan, planned, banks, float(least_w))
                )

    def sum_by_stream(self, class_id: Int16Array, amounts: Int64Array) -> Int64Array:
        """Sum amounts per job by their stream, shape (streams,)."""
        total = np.zeros(len(self._streams), dtype=np.int64)
        np.add.at(total, self._stream_of[class_id], amounts)
        return total

    def change(
        self, segments: Segments, before: Span, after: Span
    ) -> tuple[list[Part], list[dict[str, Any]]]:
        """Split the change of the devices' mean power between two intervals.

        `segments` must include all segments of jobs that overlap the time from the
        start of the earlier interval to the end of the later interval. Returns the
        components, and the changes of the calendar mean of each stream's submissions
        and each service's requests: the relative change, and its effect on the power,
        which is already included in the components.
        """
        parts = list(self._job_changes(segments, before, after))
        n_added = self._mean_nodes(after) - self._mean_nodes(before)
        if n_added.any():
            power_w = float(n_added @ self._idle_w)
            for service in self._services:
                power_w += service.min_power(after) - service.min_power(before)
            parts.append(
                part(
                    power_w,
                    ComponentKind.NODES_ADDED,
                    count=round(float(n_added.sum())),
                )
            )
        calendar = list(self._calendar_changes(segments, before, after))
        for service in self._services:
            (earlier_w, noise_w), (later_w, later_noise_w) = (
                self._net_power(service, span) for span in (before, after)
            )
            net_w = [earlier_w, later_w]
            parts += _service_change(
                service, net_w, later_noise_w - noise_w, before, after
            )
            # Power follows the requests: it is proportional to the calendar mean
            means = service.calendar_means(before, after)
            calendar += calendar_change(
                service.name, service.plan.pool, means, sum(net_w)
            )
        for plan, group in self._replicas:
            group_means = [group.means(self._tables, *span) for span in (before, after)]
            idle_w = float(self._idle_w[group.pool_id])
            earlier_w, later_w = (
                power_w - n_nodes * idle_w for power_w, n_nodes, _ in group_means
            )
            mean_replicas = [plan.mean_replicas(*span) for span in (before, after)]
            change_w = later_w - earlier_w
            parts.append(
                part(
                    change_w,
                    ComponentKind.REPLICAS,
                    plan.stream,
                    plan.pool,
                    replicas=mean_replicas,
                )
            )
        return parts, calendar

    def _calendar_changes(
        self, segments: Segments, before: Span, after: Span
    ) -> Iterator[dict[str, Any]]:
        """Yield the effect of each stream's submission calendar on a change of power.

        Assumed: jobs start when they are submitted, so that the mean power of the jobs
        that start within an interval is proportional to the interval's submission rate.
        Let a and b be the rates of the earlier and the later interval, and E the sum of
        the mean powers of the jobs that start in each. The effect of the calendar on
        the change of power is then ``E (b - a) / (a + b)``.
        """
        powers_w = np.zeros(len(self._streams))
        for span, from_ms in ((before, before[0]), (after, before[1])):
            rows = _segments_by_job(segments, (from_ms, span[1]))
            if not len(rows):
                continue
            first_rows = _first_rows(rows)
            job_w = np.add.reduceat(self._net_w(rows, span), first_rows)
            started = rows.start_ms[first_rows] > from_ms
            stream = self._stream_of[owner_class(rows.owner[first_rows])]
            np.add.at(powers_w, stream[started], job_w[started])
        for (name, pool), power_w in zip(self._streams, powers_w.tolist(), strict=True):
            if name in self._calendars:
                rates = self._calendars[name]
                earlier, later = (
                    float(rates.between(*interval).segment_integrals.sum())
                    / (interval[1] - interval[0])
                    for interval in (before, after)
                )
                yield from calendar_change(name, pool, (earlier, later), power_w)

    def composition(self, segments: Segments, span: Span, it_w: float) -> list[Part]:
        """Split the mean power `it_w` over job streams, services and idle nodes.

        `segments` must include all segments of jobs that overlap the interval.
        """
        jobs = _segments_by_job(segments, span)
        job_w, nodes = self._mean_w(jobs, span)
        stream, size = self._stream_of[owner_class(jobs.owner)], len(self._streams)
        counts = np.bincount(stream[_first_rows(jobs)], minlength=size).tolist()
        jobs_w = np.bincount(stream, job_w, size).tolist()
        n_idle = float(self._mean_nodes(span).sum()) - float(nodes.sum())
        parts = [
            part(jobs_w[k], ComponentKind.JOBS, name, pool, count=counts[k])
            for k, (name, pool) in enumerate(self._streams)
        ]
        for service in self._services:
            power_w, n_busy, _ = self._gross_means(service, span)
            n_idle -= n_busy
            count = round(service.mean(service.planned.served.n_instances, span))
            parts.append(
                part(
                    power_w,
                    ComponentKind.INSTANCES,
                    service.name,
                    service.plan.pool,
                    count=count,
                )
            )
        for plan, group in self._replicas:
            power_w, n_busy, _ = group.means(self._tables, *span)
            n_idle -= n_busy
            count = round(plan.mean_replicas(*span))
            parts.append(
                part(
                    power_w, ComponentKind.REPLICAS, plan.stream, plan.pool, count=count
                )
            )
        idle_w = it_w - sum(power_w for power_w, _ in parts)
        return [*parts, part(idle_w, ComponentKind.IDLE_NODES, count=round(n_idle))]

    def services_w(self, span: Span) -> list[float]:
        """Return the mean power of each service and replica stream [W]."""
        services = [self._gross_means(service, span)[0] for service in self._services]
        return [
            *services,
            *(group.means(self._tables, *span)[0] for _, group in self._replicas),
        ]

    def columns(self, segments: Segments, block: Block) -> Values:
        """Return the `LOAD_COLUMNS` of a block.

        There is a column for each stream, each service and the idle nodes. `segments`
        must include all segments of jobs that overlap the block.
        """
        span, streams = (block.t0_ms, block.end_ms), [name for name, _ in self._streams]
        jobs = segments.take(segments.owner < SERVICE_OWNER)
        stream = self._stream_of[owner_class(jobs.owner)]
        loads = [(name, jobs.take(stream == k)) for k, name in enumerate(streams)]
        groups = [(s.name, group) for s in self._services for group in s.groups]
        groups += [(plan.stream, group) for plan, group in self._replicas]
        loads += [(name, group.within(*span)) for name, group in groups]
        power_columns: dict[str, Float64Array] = {}
        for name, rows in loads:
            energy_j = np.zeros((self._idle_w.size, len(block)))
            add_directly(rows, self._at_resolution.tables, block.t0_ms, energy_j)
            power_w = energy_j.sum(axis=0) * (MS_PER_S / block.dt_ms)
            name = f"{LOAD}.{name}"
            power_columns[name] = power_columns.get(name, 0.0) + power_w
        return power_columns | {
            IDLE: block.columns["it_power_w"] - sum(power_columns.values())
        }

    def _mean_nodes(self, span: Span) -> Float64Array:
        """Return the mean installed nodes of each pool, shape (pools,)."""
        return self._installed_nodes(span[0], span[1] - span[0], 1)[:, 0]

    def _job_changes(
        self, segments: Segments, before: Span, after: Span
    ) -> Iterator[Part]:
        """Yield the change of power of each stream's jobs, by kind."""
        rows = _segments_by_job(segments, (before[0], after[1]))
        if not len(rows):
            return
        change_w = self._net_w(rows, after) - self._net_w(rows, before)
        # The segments of a job are contiguous from its start to its end.
        first_rows = _first_rows(rows)
        has_started = rows.start_ms[first_rows] > before[0]
        has_ended = np.maximum.reduceat(rows.end_ms, first_rows) < after[1]
        stream = self._stream_of[owner_class(rows.owner[first_rows])]
        job_w = np.add.reduceat(change_w, first_rows)
        phase_kind = self._phase_changes(rows, first_rows, before[0], job_w < 0)
        kind_index = np.where(
            has_started | has_ended, 2 * has_ended + has_started, phase_kind
        )
        group = stream * len(_JOB_KINDS) + kind_index
        counts = np.bincount(group, minlength=len(self._streams) * len(_JOB_KINDS))
        # A segment that starts at its profile's start is the first of its job.
        is_recent = (rows.start_ms[first_rows] > before[0] - RECENT_MS) & (
            rows.offset_ms[first_rows] == 0
        )
        is_recent &= self._phase_of[rows.profile_id[first_rows]] < 0
        for k in np.flatnonzero(counts).tolist():
            name, pool = self._streams[k // len(_JOB_KINDS)]
            group_w = job_w[group == k]
            largest_job = np.flatnonzero(group == k)[np.abs(group_w).argmax()]
            row = first_rows[largest_job]
            largest = {
                "job_id": int(owner_job(rows.owner[row])),
                "n_nodes": -(
                    -int(rows.n_nodes[row]) // int(self._slots[rows.pool_id[row]])
                ),
                "mw": float(job_w[largest_job]) / W_PER_MW,
            }
            details: dict[str, Any] = {"count": int(counts[k]), "largest": largest}
            kind = _JOB_KINDS[k % len(_JOB_KINDS)]
            if kind is ComponentKind.RAN_ON:
                is_recent_group = is_recent & (group == k)
                recent_mw = float(job_w[is_recent_group].sum()) / W_PER_MW
                details["recent"] = {
                    "count": int(np.count_nonzero(is_recent_group)),
                    "mw": recent_mw,
                }
            yield part(float(group_w.sum()), kind, name, pool, **details)

    def _phase_changes(
        self, rows: Segments, first_rows: Int64Array, begin_ms: int, is_fall: BoolArray
    ) -> Int64Array:
        """Return the phase change of each running job as an index of `_JOB_KINDS`.

        0 means no change. The end of a phase without a new one is reported only if the
        job's power fell, as it cannot be the cause of a rise.
        """
        phase = self._phase_of[rows.profile_id]
        if (phase < 0).all():
            return np.zeros(first_rows.size, dtype=np.int64)
        has_begun = rows.start_ms >= begin_ms

        def any_of(mask: BoolArray) -> BoolArray:
            """Return True for jobs with any row in a mask."""
            return np.maximum.reduceat(mask, first_rows)

        has_checkpoint = any_of(phase == TrainingPhase.CHECKPOINT)
        # A job trains after loading, unless it fails during loading.
        after_load = (phase[:-1] == TrainingPhase.LOAD) & (np.diff(rows.owner) == 0)
        has_training = any_of(
            (phase == TrainingPhase.TRAIN) & np.append(False, after_load)
        )
        has_stop = any_of(has_begun & (phase == TrainingPhase.PLANNED))
        has_failure = any_of(has_begun & (phase == TrainingPhase.HUNG))
        return np.select(
            [
                has_failure & has_training,
                has_failure & is_fall,
                has_stop & is_fall,
                has_training,
                has_checkpoint,
            ],
            [8, 7, 6, 5, 4],
            0,
        )

    def _net_power(self, service: _Service, span: Span) -> tuple[float, float]:
        """Return a service's power above idle nodes, and its noise [W]."""
        gross_w, n_nodes, steady_w = self._gross_means(service, span)
        idle_w = float(self._idle_w[service.plan.pool_id])
        return steady_w - n_nodes * idle_w - service.min_power(span), gross_w - steady_w

    def _gross_means(self, service: _Service, span: Span) -> tuple[float, float, float]:
        """Return a service's power, busy nodes and steady power over an interval.

        See `InstanceGroup.means`.
        """
        power_w, nodes, steady_w = np.sum(
            [group.means(self._tables, *span) for group in service.groups], axis=0
        ).tolist()
        return power_w, nodes, steady_w

    def _net_w(self, rows: Segments, span: Span) -> Float64Array:
        """Return the mean power of segments above idle nodes [W]."""
        gross_w, nodes = self._mean_w(rows, span)
        return gross_w - nodes * self._idle_w[rows.pool_id]

    def _mean_w(self, rows: Segments, span: Span) -> tuple[Float64Array, Float64Array]:
        """Return the mean power [W] and mean node count of segments."""
        overlap_ms = np.minimum(rows.end_ms, span[1]) - np.maximum(
            rows.start_ms, span[0]
        )
        length_ms = span[1] - span[0]
        energy_j = energies_within(rows, self._tables, *span)
        nodes: Float64Array = rows.n_nodes * (np.maximum(overlap_ms, 0) / length_ms)
        nodes /= self._slots[rows.pool_id]
        return energy_j * (MS_PER_S / length_ms), nodes


def _segments_by_job(segments: Segments, span: Span) -> Segments:
    """Return the segments of jobs that overlap an interval, sorted by job and time."""
    overlaps = (segments.start_ms < span[1]) & (segments.end_ms > span[0])
    rows = segments.take(overlaps & (segments.owner < SERVICE_OWNER))
    return rows.take(np.lexsort((rows.start_ms, rows.owner)))


def _first_rows(rows: Segments) -> Int64Array:
    """Return the index of each job's first row."""
    return np.flatnonzero(np.diff(rows.owner, prepend=-1))


def _service_change(
    service: _Service, net_w: Sequence[float], noise_w: float, before: Span, after: Span
) -> Iterator[Part]:
    """Split the change of a service's power into instance count and power per instance.

    With K1 and K2 instances of power p1 and p2 each in the two intervals, without
    noise, the change is ``K2 p2 - K1 p1 = (K2 - K1) (p1 + p2) / 2 + (p2 - p1) (K1 + K2)
    / 2``.
    """
    served, spans = service.planned.served, (before, after)
    counts = [service.mean(served.n_instances, span) for span in spans]
    # An interval without instances has no power per instance.
    instance_powers_w = [
        power_w / count
        for power_w, count in zip(net_w, counts, strict=True)
        if count > 0
    ]
    mean_w = sum(instance_powers_w) / max(len(instance_powers_w), 1)
    count_change_w = (counts[1] - counts[0]) * mean_w
    rates = [service.mean(served.rate_rps, span) for span in spans]
    scaled, owner = (
        service.scaled(before, after, mean_w),
        (service.name, service.plan.pool),
    )
    yield part(
        count_change_w, ComponentKind.INSTANCES, *owner, instances=counts, **scaled
    )
    yield part(
        net_w[1] - net_w[0] - count_change_w, ComponentKind.RATE, *owner, rate_rps=rates
    )
    yield part(noise_w, ComponentKind.NOISE, *owner)


def calendar_change(
    name: str, pool: str, means: tuple[float, float], power_w: float
) -> Iterator[dict[str, Any]]:
    """Yield the effect of a change of the calendar mean, in proportion to power.

    ``change`` is relative to the earlier mean, so that a fall is at least -1; None if
    the earlier mean is 0.
    """
    earlier, later = means
    if earlier == later:
        return
    effect_w = max(power_w, 0.0) * (later - earlier) / (later + earlier)
    change = later / earlier - 1 if earlier > 0 else None
    yield {"of": name, "pool": pool, "change": change, "mw": effect_w / W_PER_MW}
