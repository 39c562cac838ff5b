"""`Segments`: power and nodes of all loads, as replayed parts of profiles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from diploee.base.tables import (
    Float64Array,
    Int16Array,
    Int32Array,
    Int64Array,
    T,
    Table,
    column,
    concat,
)
from diploee.scenario.models import Facility, Scenario


@dataclass(frozen=True, eq=False)
class Segments(Table):
    """Table of power segments: times in which a load replays part of a profile.

    The power of a segment is `weight` times the profile, from `offset_ms` of the
    profile on.
    """

    # Start and end of the segment [ms], start before end
    start_ms: Int64Array = column("int64")
    end_ms: Int64Array = column("int64")
    pool_id: Int16Array = column("int16")  # index of the pool
    # Occupied nodes, or slots in a pool that allocates GPUs, as in `JobTable`
    n_nodes: Int32Array = column("int32")
    profile_id: Int32Array = column("int32")  # index into the library
    # Position in the profile at the segment's start [ms]
    offset_ms: Int64Array = column("int64")
    weight: Float64Array = column("float64")  # factor on the profile's power
    # Owner: a job's number and class as in `job_owners`, or `SERVICE_OWNER`. Segments
    # that start at the same time are summed in the order of their owners
    owner: Int64Array = column("int64", default=0)


SERVICE_OWNER = np.iinfo(np.int64).max
"""Owner of the segments of services; it sorts after all jobs."""

_CLASS_BITS = 16
"""Number of low bits of an owner that are the job class."""


def job_owners(job_id: Int64Array, class_id: Int16Array) -> Int64Array:
    """Return the owner numbers of jobs' segments.

    An owner number encodes the job's number and class, and sorts like the jobs.
    """
    owner: Int64Array = job_id << _CLASS_BITS | class_id
    return owner


def owner_job(owner: Int64Array) -> Int64Array:
    """Return the job number of a segment's owner."""
    return owner >> _CLASS_BITS


def owner_class(owner: Int64Array) -> Int64Array:
    """Return the job class of a segment's owner."""
    return owner & ((1 << _CLASS_BITS) - 1)


def sorted_by_start(table: T) -> T:
    """Return rows sorted by start, and by owner for equal starts.

    This is the order in which power is summed, so it determines the last bits.
    """
    start_ms, owner = table.columns("start_ms", "owner")
    start_diff_ms = np.diff(start_ms)
    if (start_diff_ms > 0).all() or (
        (start_diff_ms >= 0) & ((start_diff_ms > 0) | (np.diff(owner) >= 0))
    ).all():
        return table
    return table.take(np.lexsort((owner, start_ms)))


class ActiveSegments:
    """Segments that may overlap the time still to be computed, sorted by start."""

    def __init__(self) -> None:
        self._set_segments(Segments.empty())

    def add(self, segments: Segments) -> None:
        """Add segments that start after all computed intervals."""
        if len(segments):
            self._set_segments(sorted_by_start(concat([self._segments, segments])))

    def drop_before(self, time_ms: int) -> None:
        """Drop the segments that end at or before a time [ms]."""
        self._set_segments(self._segments.take(self._segments.end_ms > time_ms))

    def _set_segments(self, segments: Segments) -> None:
        """Set the segments."""
        self._segments = segments
        self._max_length_ms = int((segments.end_ms - segments.start_ms).max(initial=0))

    def within(self, t0_ms: int, t1_ms: int) -> Segments:
        """Return a view of the segments that overlap a period, and possibly others."""
        edges_ms = [t0_ms - self._max_length_ms, t1_ms]
        return self._segments.take(
            slice(*np.searchsorted(self._segments.start_ms, edges_ms))
        )


def node_slots(facility: Facility) -> Int64Array:
    """Return the slots per node of each pool: `Facility.slots_per_node`."""
    return np.array(list(facility.slots.values()))


def node_occupancy(
    segments: Segments, n_pools: int, t0_ms: int, step_ms: int, n_steps: int
) -> tuple[Int64Array, Float64Array]:
    """Return busy nodes at interval starts, and their means, by pool."""
    busy = np.empty((n_pools, n_steps), dtype=np.int64)
    mean_busy = np.empty((n_pools, n_steps))
    for pool_id in range(n_pools):
        pool_segments = segments.take(segments.pool_id == pool_id)
        n_nodes = pool_segments.n_nodes.astype(np.int64)
        # Changes of the busy nodes: at interval starts, in each interval, and as node
        # time within that interval
        change_at_start, change_in_interval, node_ms = np.zeros(
            (3, n_steps + 1), dtype=np.int64
        )
        for times_ms, sign_nodes in (
            (pool_segments.start_ms, n_nodes),
            (pool_segments.end_ms, -n_nodes),
        ):
            # Earlier changes count from `t0_ms`
            into_ms = np.clip(times_ms - t0_ms, 0, n_steps * step_ms)
            interval = into_ms // step_ms
            np.add.at(change_at_start, -(-into_ms // step_ms), sign_nodes)
            np.add.at(change_in_interval, interval, sign_nodes)
            np.add.at(
                node_ms, interval, sign_nodes * ((interval + 1) * step_ms - into_ms)
            )
        # Node time of an interval: earlier changes count for the whole interval, and
        # changes within it for its remaining time.
        node_ms += (np.cumsum(change_in_interval) - change_in_interval) * step_ms
        busy[pool_id] = np.cumsum(change_at_start)[:-1]
        mean_busy[pool_id] = node_ms[:-1] / step_ms
    return busy, mean_busy


def absent_nodes(scenario: Scenario) -> Segments | None:
    """Return segments for nodes that are not yet installed, or None without phases.

    The rows are not a load: they count nodes of a pool that neither run jobs nor idle.
    """
    if not scenario.facility.has_phases:
        return None
    pools, horizon_ms = scenario.facility.pools.values(), scenario.horizon_ms
    rows = [
        (time_ms, pool_id, n_nodes)
        for pool_id, (pool, installed) in enumerate(
            zip(pools, scenario.installed_nodes().values(), strict=True)
        )
        for time_ms, n_nodes in (
            *installed.added,
            (horizon_ms, pool.n_nodes - installed.n_at_end),
        )
    ]
    end_ms, pool_id, n_nodes = np.array(rows, dtype=np.int64).T
    zero = np.zeros(end_ms.size, dtype=np.int64)
    begin_ms = zero + scenario.clock.begin_ms
    return Segments(begin_ms, end_ms, pool_id, n_nodes, zero, zero, zero.astype(float))
