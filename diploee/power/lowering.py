"""Jobs to segments: which stretch of which profile each started job plays, and when."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from diploee.errors import WorkloadError
from diploee.power.segments import Segments, owner_of_jobs
from diploee.profiles import ProfileLibrary
from diploee.profiles.flat import FLAT_ID, FLAT_POWER_W
from diploee.profiles.playing import phases, played_parts
from diploee.scenario import Facility, Scenario
from diploee.schedule import Schedule
from diploee.tables import Float64Array, Int64Array, concat
from diploee.workload import JobTable

MOST_PASSES = 100_000_000
"""Stretches of profiles that jobs of other run times play; each takes some 50 bytes."""


@dataclass(frozen=True, eq=False)
class JobLoad:
    """Segments of jobs, and the job of each.

    Parameters
    ----------
    segments : Segments
        What the jobs draw.
    job : numpy.ndarray, int64
        Row of the job table that each segment belongs to.
    n_jobs : int
        Rows of the job table.
    """

    segments: Segments
    job: Int64Array
    n_jobs: int

    def energy_j(self, library: ProfileLibrary) -> Float64Array:
        """Return the energy of each job within the run [J], shape (n_jobs,)."""
        part_j = segment_energy_j(self.segments, library)
        return np.bincount(self.job, part_j, self.n_jobs).astype(np.float64)


def lower_jobs(schedule: Schedule, library: ProfileLibrary, facility: Facility | None) -> JobLoad:
    """Lower started jobs to segments, cut at the horizon, and keep whose they are.

    Segments that ended before the run are left out; one that runs at its start keeps its own start,
    so that its power is added as in a run that begins earlier, to the last bit.

    A job that runs as long as its profile is one row; another plays the profile as `played_parts`
    says. A start-up is a row of its own at idle power. The weight is the job's nodes over its
    profile's, times the job's power factor.

    Parameters
    ----------
    schedule : Schedule
        Jobs and their start times.
    library : ProfileLibrary
        Profiles that the jobs refer to, such as `JobStreams.library`.
    facility : Facility or None
        Gives the nodes' idle power, where jobs have a start-up.
    """
    jobs = schedule.jobs
    duration_ms = np.array([entry.duration_ms for entry in library.entries])
    play_ms = jobs.duration_ms - jobs.startup_ms
    as_it_is = schedule.started & (play_ms == duration_ms[jobs.profile_id])
    # The usual case first and in one go: millions of jobs, one row each.
    rows = np.flatnonzero(as_it_is)
    loads = [_whole_profiles(schedule, rows, library)]
    filled = np.flatnonzero(schedule.started & ~as_it_is & (play_ms > 0))
    for profile_id in np.unique(jobs.profile_id[filled]).tolist():
        of_profile = filled[jobs.profile_id[filled] == profile_id]
        begin_ms = schedule.start_ms[of_profile] + jobs.startup_ms[of_profile]
        run_ms, weight = play_ms[of_profile], _weight(jobs.take(of_profile), library)
        loads.append(_filled(schedule, of_profile, begin_ms, run_ms, profile_id, weight, library))
    starting = np.flatnonzero(schedule.started & (jobs.startup_ms > 0))
    if starting.size and facility is not None:
        loads.append(_start_ups(schedule, starting, library, facility))
    segments = concat([load.segments for load in loads])
    job = np.concatenate([load.job for load in loads])
    return JobLoad(segments, job, len(jobs))


def absent_nodes(scenario: Scenario) -> Segments | None:
    """Return the nodes that do not stand yet, from when to when; None where there are no phases.

    The rows are no load: they tell which nodes of a pool neither run jobs nor idle.
    """
    if not scenario.facility.has_phases:
        return None
    pools, horizon_ms = scenario.facility.pools.values(), scenario.horizon_ms
    rows = [
        (time_ms, pool_id, n_nodes)
        for pool_id, (pool, stand) in enumerate(
            zip(pools, scenario.standing_nodes().values(), strict=True)
        )
        for time_ms, n_nodes in (*stand.added, (horizon_ms, pool.n_nodes - stand.most))
    ]
    end_ms, pool_id, n_nodes = np.array(rows, dtype=np.int64).T
    none = np.zeros(end_ms.size, dtype=np.int64)
    begin_ms = none + scenario.clock.begin_ms
    return Segments(begin_ms, end_ms, pool_id, n_nodes, none, none, none.astype(float))


def segment_energy_j(segments: Segments, library: ProfileLibrary) -> Float64Array:
    """Return the energy of each segment from the start of the run on [J], shape (n,)."""
    energy_j = np.zeros(len(segments))
    start_ms = np.maximum(segments.start_ms, 0)
    offset_ms, length_ms = (
        segments.offset_ms + start_ms - segments.start_ms, segments.end_ms - start_ms
    )  # fmt: skip
    for profile_id in np.unique(segments.profile_id).tolist():
        profile = library[profile_id]
        rows = np.flatnonzero(segments.profile_id == profile_id)
        whole = (offset_ms[rows] == 0) & (length_ms[rows] == profile.duration_ms)
        energy_j[rows[whole]] = profile.energy_j
        rows = rows[~whole]
        edges_ms = np.arange(profile.power_w.size + 1) * profile.dt_ms
        cumulative_j = profile.cumulative_energy_j
        begin_ms = offset_ms[rows]
        energy_j[rows] = np.interp(begin_ms + length_ms[rows], edges_ms, cumulative_j)
        energy_j[rows] -= np.interp(begin_ms, edges_ms, cumulative_j)
    return energy_j * segments.weight


def _whole_profiles(schedule: Schedule, rows: Int64Array, library: ProfileLibrary) -> JobLoad:
    jobs = schedule.jobs.take(rows)
    start_ms = schedule.start_ms[rows] + jobs.startup_ms
    segments = Segments(
        start_ms=start_ms,
        end_ms=np.minimum(schedule.end_ms[rows], schedule.horizon_ms),
        pool_id=jobs.pool_id,
        n_nodes=jobs.n_nodes,
        profile_id=jobs.profile_id,
        offset_ms=np.zeros(rows.size, dtype=np.int64),
        weight=_weight(jobs, library),
        owner=owner_of_jobs(jobs.job_id, jobs.class_id),
    )
    return _within_run(segments, rows, len(schedule.jobs))


def _start_ups(
    schedule: Schedule, rows: Int64Array, library: ProfileLibrary, facility: Facility
) -> JobLoad:
    """Lower the time between allocation and the profile's start: busy nodes at idle power."""
    jobs = schedule.jobs.take(rows)
    idle_w = np.array([facility.node_type_of(pool).idle_power_w for pool in facility.pools])
    weight = jobs.n_nodes * idle_w[jobs.pool_id] / FLAT_POWER_W
    flat_id, begin_ms = library.ids.index(FLAT_ID), schedule.start_ms[rows]
    run_ms = jobs.startup_ms.astype(np.int64)
    return _filled(schedule, rows, begin_ms, run_ms, flat_id, weight, library)


def _filled(
    schedule: Schedule,
    rows: Int64Array,
    begin_ms: Int64Array,
    run_ms: Int64Array,
    profile_id: int,
    weight: Float64Array,
    library: ProfileLibrary,
) -> JobLoad:
    """Fill run times of jobs with one profile."""
    jobs = schedule.jobs.take(rows)
    of = phases(library[profile_id])
    # Whole loops beyond the horizon are left out: the end of the profile stays beyond it as well.
    loop_ms = of.ending_ms - of.steady_ms
    beyond_ms = run_ms - (schedule.horizon_ms - begin_ms) - of.duration_ms
    run_ms = run_ms - np.maximum(beyond_ms // loop_ms, 0) * loop_ms
    n_passes = float((run_ms / loop_ms).sum())
    if n_passes > MOST_PASSES:
        raise WorkloadError(
            f"the jobs play the steady part of profile '{library.ids[profile_id]}' {n_passes:,.0f} "
            f"times, more than {MOST_PASSES:,} fit the memory; shorten the run, or use profiles "
            "with a longer steady part"
        )
    played = played_parts(run_ms, of)
    start_ms = begin_ms[played.row] + played.into_ms
    segments = Segments(
        start_ms=start_ms,
        end_ms=np.minimum(start_ms + played.length_ms, schedule.horizon_ms),
        pool_id=jobs.pool_id[played.row],
        n_nodes=jobs.n_nodes[played.row],
        profile_id=np.full(played.row.size, profile_id),
        offset_ms=played.offset_ms,
        weight=weight[played.row],
        owner=owner_of_jobs(jobs.job_id, jobs.class_id)[played.row],
    )
    return _within_run(segments, rows[played.row], len(schedule.jobs))


def _within_run(segments: Segments, job: Int64Array, n_jobs: int) -> JobLoad:
    # Ends are cut at the horizon; what ended before the run adds nothing to it.
    inside = segments.end_ms > np.maximum(segments.start_ms, 0)
    if inside.all():
        return JobLoad(segments, job, n_jobs)
    return JobLoad(segments.take(inside), job[inside], n_jobs)


def _weight(jobs: JobTable, library: ProfileLibrary) -> Float64Array:
    profile_n_nodes = np.array([entry.n_nodes for entry in library.entries])
    weight: Float64Array = jobs.n_nodes / profile_n_nodes[jobs.profile_id]
    return weight * jobs.power_factor
