"""`Segments`: the common power representation of all loads, and their nodes."""

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
    """Table of power segments: `weight` times a profile from `offset_ms` on."""

    # Span of the segment [ms], start before end
    start_ms: Int64Array = column("int64")
    end_ms: Int64Array = column("int64")
    pool_id: Int16Array = column("int16")  # pool whose nodes it occupies
    # Nodes that it occupies; slots in a pool that allocates GPUs, as in `JobTable`
    n_nodes: Int32Array = column("int32")
    profile_id: Int32Array = column("int32")  # index into the library
    # Place in the profile at which it starts [ms]
    offset_ms: Int64Array = column("int64")
    weight: Float64Array = column("float64")  # factor on the profile's power
    # Whose it is: a job's number and class as in `owner_of_jobs`, or `OF_SERVICES`.
    # Segments that start together are summed in the order of their owners
    owner: Int64Array = column("int64", default=0)


OF_SERVICES = np.iinfo(np.int64).max
"""Owner of the segments of services: after those of all jobs."""

_CLASS_BITS = 16


def owner_of_jobs(job_id: Int64Array, class_id: Int16Array) -> Int64Array:
    """Return the owner numbers of jobs' segments.

    They encode job number and class, and sort like the jobs.
    """
    owner: Int64Array = job_id << _CLASS_BITS | class_id
    return owner


def job_of_owner(owner: Int64Array) -> Int64Array:
    """Return the job number of a segment's owner."""
    return owner >> _CLASS_BITS


def class_of_owner(owner: Int64Array) -> Int64Array:
    """Return the job class of a segment's owner."""
    return owner & ((1 << _CLASS_BITS) - 1)


def sorted_by_start(table: T) -> T:
    """Return rows sorted by start time, simultaneous rows by owner.

    The order determines the order in which power is summed, and so its last bits.
    """
    start_ms, owner = table.columns("start_ms", "owner")
    later = np.diff(start_ms)
    if (later > 0).all() or (
        (later >= 0) & ((later > 0) | (np.diff(owner) >= 0))
    ).all():
        return table
    return table.take(np.lexsort((owner, start_ms)))


class ActiveSegments:
    """Segments that may overlap the time still to be computed, sorted by start."""

    def __init__(self) -> None:
        self._hold(Segments.empty())

    def add(self, segments: Segments) -> None:
        """Add segments that start after all computed intervals."""
        if len(segments):
            self._hold(sorted_by_start(concat([self._segments, segments])))

    def drop_before(self, time_ms: int) -> None:
        """Drop the segments that end by a time [ms]."""
        self._hold(self._segments.take(self._segments.end_ms > time_ms))

    def _hold(self, segments: Segments) -> None:
        self._segments = segments
        self._longest_ms = int((segments.end_ms - segments.start_ms).max(initial=0))

    def within(self, t0_ms: int, t1_ms: int) -> Segments:
        """Return all segments that overlap a span, and possibly others, uncopied."""
        edges_ms = [t0_ms - self._longest_ms, t1_ms]
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
        of_pool = segments.take(segments.pool_id == pool_id)
        n_nodes = of_pool.n_nodes.astype(np.int64)
        # Changes of the level: as seen at interval starts, and in node ms within the
        # interval itself.
        at_start, level, own_ms = np.zeros((3, n_steps + 1), dtype=np.int64)
        for times_ms, change in (
            (of_pool.start_ms, n_nodes),
            (of_pool.end_ms, -n_nodes),
        ):
            # Earlier ones count from `t0_ms`
            into_ms = np.clip(times_ms - t0_ms, 0, n_steps * step_ms)
            interval = into_ms // step_ms
            np.add.at(at_start, -(-into_ms // step_ms), change)
            np.add.at(level, interval, change)
            np.add.at(own_ms, interval, change * ((interval + 1) * step_ms - into_ms))
        # Node time of interval k: what changed before it counts over the whole
        # interval, what changed within it over the rest of it.
        own_ms += (np.cumsum(level) - level) * step_ms
        busy[pool_id] = np.cumsum(at_start)[:-1]
        mean_busy[pool_id] = own_ms[:-1] / step_ms
    return busy, mean_busy


def absent_nodes(scenario: Scenario) -> Segments | None:
    """Return segments for nodes that are not yet installed.

    None if there are no build-out phases. The rows are no load: they count nodes of a
    pool that neither run jobs nor idle.
    """
    if not scenario.facility.has_phases:
        return None
    pools, horizon_ms = scenario.facility.pools.values(), scenario.horizon_ms
    rows = [
        (time_ms, pool_id, n_nodes)
        for pool_id, (pool, stand) in enumerate(
            zip(pools, scenario.installed_nodes().values(), strict=True)
        )
        for time_ms, n_nodes in (*stand.added, (horizon_ms, pool.n_nodes - stand.most))
    ]
    end_ms, pool_id, n_nodes = np.array(rows, dtype=np.int64).T
    none = np.zeros(end_ms.size, dtype=np.int64)
    begin_ms = none + scenario.clock.begin_ms
    return Segments(begin_ms, end_ms, pool_id, n_nodes, none, none, none.astype(float))
