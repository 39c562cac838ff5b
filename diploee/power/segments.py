"""`Segments`: the one table that every kind of load lowers to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from diploee.profiles import ProfileLibrary
from diploee.schedule import Schedule
from diploee.tables import Float64Array, Int16Array, Int32Array, Int64Array, Table, column
from diploee.workload import JobTable


@dataclass(frozen=True, eq=False)
class Segments(Table):
    """From `start_ms` to `end_ms`, add `weight` times a profile, read from `offset_ms` on.

    Parameters
    ----------
    start_ms, end_ms : numpy.ndarray, int64
        Span of the segment [ms], ``start_ms < end_ms``.
    pool_id : numpy.ndarray, int16
        Pool whose nodes it occupies.
    n_nodes : numpy.ndarray, int32
        Nodes that it occupies.
    profile_id : numpy.ndarray, int32
        Profile, an index into the library.
    offset_ms : numpy.ndarray, int64
        Place in the profile at which the segment starts [ms].
    weight : numpy.ndarray, float64
        Factor on the profile's power.
    """

    start_ms: Int64Array = column("int64")
    end_ms: Int64Array = column("int64")
    pool_id: Int16Array = column("int16")
    n_nodes: Int32Array = column("int32")
    profile_id: Int32Array = column("int32")
    offset_ms: Int64Array = column("int64")
    weight: Float64Array = column("float64")


def job_segments(schedule: Schedule, library: ProfileLibrary) -> Segments:
    """Lower started jobs to segments: one row each, cut at the horizon.

    The weight is the job's nodes over its profile's: 1, unless the profile is scaled linearly.
    """
    rows = np.flatnonzero(schedule.started)
    jobs = schedule.jobs.take(rows)
    return Segments(
        start_ms=schedule.start_ms[rows],
        end_ms=np.minimum(schedule.end_ms[rows], schedule.horizon_ms),
        pool_id=jobs.pool_id,
        n_nodes=jobs.n_nodes,
        profile_id=jobs.profile_id,
        offset_ms=np.zeros(rows.size, dtype=np.int64),
        weight=_weight(jobs, library),
    )


def sorted_by_start(segments: Segments) -> Segments:
    """Return the segments in the order of their starts."""
    if (np.diff(segments.start_ms) >= 0).all():
        return segments
    return segments.take(np.argsort(segments.start_ms, kind="stable"))


def longest_ms(segments: Segments) -> int:
    """Return the length of the longest segment [ms]."""
    return int((segments.end_ms - segments.start_ms).max(initial=0))


def overlapping(segments: Segments, longest_ms: int, t0_ms: int, t1_ms: int) -> Segments:
    """Return a run of sorted segments that holds all that overlap a span, without copying."""
    low, high = np.searchsorted(segments.start_ms, [t0_ms - longest_ms, t1_ms])
    return segments.take(slice(low, high))


def job_energy_j(schedule: Schedule, library: ProfileLibrary) -> Float64Array:
    """Return the energy of each job up to the horizon [J], shape (n,); 0 = never started."""
    jobs = schedule.jobs
    energy_j = np.zeros(len(jobs))
    run_ms = np.where(
        schedule.started, np.minimum(jobs.duration_ms, schedule.horizon_ms - schedule.start_ms), 0
    )
    cut = run_ms < jobs.duration_ms
    total_j = np.zeros(len(library))
    for profile_id in np.unique(jobs.profile_id).tolist():
        profile = library[profile_id]
        total_j[profile_id] = profile.energy_j
        rows = np.flatnonzero(cut & (jobs.profile_id == profile_id))
        edges_ms = np.arange(profile.power_w.size + 1) * profile.dt_ms
        energy_j[rows] = np.interp(run_ms[rows], edges_ms, profile.cumulative_energy_j)
    energy_j[~cut] = total_j[jobs.profile_id[~cut]]
    return energy_j * _weight(jobs, library)


def _weight(jobs: JobTable, library: ProfileLibrary) -> Float64Array:
    profile_n_nodes = np.array([entry.n_nodes for entry in library.entries])
    weight: Float64Array = jobs.n_nodes / profile_n_nodes[jobs.profile_id]
    return weight
