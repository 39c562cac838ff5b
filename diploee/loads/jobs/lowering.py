"""Conversion of jobs to segments, the profile sections that they replay over time.

`ProfileSections` are the sections that an undisturbed job replays from 0 to its run
time. The conversion ("lowering") shifts the sections to the start of each job.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from diploee.base.errors import WorkloadError
from diploee.base.tables import (
    Float64Array,
    Int32Array,
    Int64Array,
    Table,
    column,
    concat,
    repeated,
)
from diploee.power.segments import Segments, job_owners, node_slots
from diploee.profiles.flat import FLAT_ID, FLAT_POWER_W
from diploee.profiles.library import ProfileLibrary
from diploee.profiles.looping import fill_run_times, find_phases
from diploee.scenario.models import Facility
from diploee.schedule.job_table import JobTable
from diploee.schedule.started import Schedule

MAX_PASSES = 100_000_000
"""Maximum number of profile sections of jobs; each takes some 50 bytes."""


@dataclass(frozen=True, eq=False)
class ProfileSections(Table):
    """Contiguous sections of profiles, in each job's own time."""

    job: Int64Array = column("int64")  # row of the job table
    # Start of the section since the start of the job [ms]
    into_ms: Int64Array = column("int64")
    length_ms: Int64Array = column("int64")  # length of the section [ms], positive
    profile_id: Int32Array = column("int32")  # index of the profile
    # Position in the profile at which the section starts [ms]
    offset_ms: Int64Array = column("int64")
    # Factor on the profile's power, on all nodes of the job
    weight: Float64Array = column("float64")


GetSections = Callable[[int, int], ProfileSections]
"""Function that returns the sections of a synchronous job, by its class and number."""


def job_sections(
    jobs: JobTable,
    rows: Int64Array,
    needed_ms: Int64Array,
    library: ProfileLibrary,
    facility: Facility,
    get_sections: GetSections | None = None,
) -> ProfileSections:
    """Return the profile sections of the jobs in `rows`, in each job's own time.

    A job that runs as long as its profile has one section. Other jobs repeat or cut the
    profile as `fill_run_times` does. A start-up is a separate section at idle power.
    The weight is the job's nodes over the profile's nodes, times the job's power
    factor. Sections after `needed_ms` of each job [ms] may be missing. `get_sections`
    returns the sections of synchronous jobs.
    """
    duration_ms = np.array([entry.duration_ms for entry in library.entries])
    profile_n_nodes = np.array([entry.n_nodes for entry in library.entries])
    if not np.array_equal(rows, np.arange(len(jobs))):  # else nothing to copy
        jobs = jobs.take(rows)
    startup_ms = jobs.startup_ms.astype(np.int64)
    replay_ms = jobs.duration_ms - startup_ms
    n_nodes = jobs.n_nodes / node_slots(facility)[jobs.pool_id]
    weight = n_nodes / profile_n_nodes[jobs.profile_id] * jobs.power_factor
    synchronous = jobs.synchronous_id > 0
    fits_exactly = ~synchronous & (replay_ms == duration_ms[jobs.profile_id])
    # The common case first and at once: millions of jobs, one row each.
    exact = np.flatnonzero(fits_exactly)
    tables = [
        ProfileSections(
            job=rows[exact],
            into_ms=startup_ms[exact],
            length_ms=replay_ms[exact],
            profile_id=jobs.profile_id[exact],
            offset_ms=np.zeros(exact.size, dtype=np.int64),
            weight=weight[exact],
        )
    ]
    for index in np.flatnonzero(synchronous).tolist():
        if get_sections is None:
            break
        sections = get_sections(
            int(jobs.class_id[index]), int(jobs.synchronous_id[index])
        )
        sections = sections.take(sections.into_ms < needed_ms[index])
        tables.append(replace(sections, job=np.full(len(sections), rows[index])))
    looped = np.flatnonzero(~synchronous & ~fits_exactly & (replay_ms > 0))
    for profile_id in np.unique(jobs.profile_id[looped]).tolist():
        in_group = looped[jobs.profile_id[looped] == profile_id]
        begin_ms, played_ms = (
            startup_ms[in_group],
            needed_ms[in_group] - startup_ms[in_group],
        )
        tables.append(
            _looped_sections(
                replay_ms[in_group],
                played_ms,
                profile_id,
                library,
                rows[in_group],
                begin_ms,
                weight[in_group],
            )
        )
    starting = np.flatnonzero(startup_ms > 0)
    if starting.size:
        # From allocation to the profile's start: busy nodes at idle power.
        idle_w = np.array(
            [facility.node_type_of(pool).idle_power_w for pool in facility.pools]
        )
        idle = n_nodes[starting] * idle_w[jobs.pool_id[starting]] / FLAT_POWER_W
        flat_id, run_ms = library.ids.index(FLAT_ID), startup_ms[starting]
        begin_ms, needed_ms, job = (
            np.zeros_like(run_ms),
            needed_ms[starting],
            rows[starting],
        )
        tables.append(
            _looped_sections(run_ms, needed_ms, flat_id, library, job, begin_ms, idle)
        )
    return concat(tables)


def _looped_sections(
    run_ms: Int64Array,
    needed_ms: Int64Array,
    profile_id: int,
    library: ProfileLibrary,
    job: Int64Array,
    begin_ms: Int64Array,
    weight: Float64Array,
) -> ProfileSections:
    """Return the sections of jobs that loop a profile's steady part.

    The sections start at `begin_ms` in each job's time, and fill `run_ms`.
    """
    phases = find_phases(library[profile_id])
    # Whole loops beyond the needed time are left out; the profile's end stays after it.
    loop_ms = phases.ending_ms - phases.steady_ms
    excess_ms = run_ms - needed_ms - phases.duration_ms
    run_ms = run_ms - np.maximum(excess_ms // loop_ms, 0) * loop_ms
    n_passes = float((run_ms / loop_ms).sum())
    if n_passes > MAX_PASSES:
        raise WorkloadError(
            f"the jobs play the steady part of profile '{library.ids[profile_id]}' "
            f"{n_passes:,.0f} times, more than {MAX_PASSES:,} fit the memory; "
            "shorten the run, or use profiles with a longer steady part"
        )
    sections = fill_run_times(run_ms, phases)
    row = sections.row
    return ProfileSections(
        job=job[row],
        into_ms=begin_ms[row] + sections.into_ms,
        length_ms=sections.length_ms,
        profile_id=np.full(row.size, profile_id),
        offset_ms=sections.offset_ms,
        weight=weight[row],
    )


def split_lengths(
    length_ms: Int64Array, max_ms: Int64Array | int
) -> tuple[Int64Array, ...]:
    """Split lengths into pieces of at most `max_ms` [ms].

    Returns the row, start and length of each piece.
    """
    max_ms = np.broadcast_to(np.asarray(max_ms), length_ms.shape)
    row, number = repeated(-(-length_ms // max_ms))
    into_ms = number * max_ms[row]
    return row, into_ms, np.minimum(length_ms[row] - into_ms, max_ms[row])


@dataclass(frozen=True, eq=False)
class JobLoad:
    """Segments of jobs, with the job index of each segment."""

    segments: Segments  # power segments of the jobs
    job: Int64Array  # row in the job table of each segment
    n_jobs: int  # number of rows of the job table

    def energy_j(self, library: ProfileLibrary) -> Float64Array:
        """Return the energy of each job within the run [J], shape (n_jobs,)."""
        segment_j = _segment_energy_j(self.segments, library)
        return np.bincount(self.job, segment_j, self.n_jobs).astype(np.float64)


def lower_jobs(
    schedule: Schedule,
    library: ProfileLibrary,
    facility: Facility,
    get_sections: GetSections | None = None,
) -> JobLoad:
    """Lower started jobs to segments, cut at the horizon, with their job indices.

    The sections of each job from `job_sections` are shifted to its start. Segments that
    end before the run are dropped. A segment that is active at the run's start keeps
    its own start, so that its power is bit-identical to that of a run which begins
    earlier. `get_sections` returns the sections of synchronous jobs, as
    `JobStreams.sections` does.
    """
    jobs, rows = schedule.jobs, np.flatnonzero(schedule.started)
    remaining_ms = schedule.horizon_ms - schedule.start_ms[rows]
    sections = job_sections(jobs, rows, remaining_ms, library, facility, get_sections)
    job = sections.job
    start_ms = schedule.start_ms[job] + sections.into_ms
    segments = Segments(
        start_ms=start_ms,
        end_ms=np.minimum(start_ms + sections.length_ms, schedule.horizon_ms),
        pool_id=jobs.pool_id[job],
        n_nodes=jobs.n_nodes[job],
        profile_id=sections.profile_id,
        offset_ms=sections.offset_ms,
        weight=sections.weight,
        owner=job_owners(jobs.job_id, jobs.class_id)[job],
    )
    # Ends are cut at the horizon; segments that ended before the run are dropped.
    is_in_run = segments.end_ms > np.maximum(segments.start_ms, 0)
    if not is_in_run.all():
        segments, job = segments.take(is_in_run), job[is_in_run]
    return JobLoad(segments, job, len(jobs))


def _segment_energy_j(segments: Segments, library: ProfileLibrary) -> Float64Array:
    """Return the energy of each segment within the run [J], shape (n,)."""
    energy_j = np.zeros(len(segments))
    start_ms = np.maximum(segments.start_ms, 0)
    offset_ms, length_ms = (
        segments.offset_ms + start_ms - segments.start_ms,
        segments.end_ms - start_ms,
    )
    for profile_id in np.unique(segments.profile_id).tolist():
        profile = library[profile_id]
        rows = np.flatnonzero(segments.profile_id == profile_id)
        is_complete = (offset_ms[rows] == 0) & (length_ms[rows] == profile.duration_ms)
        energy_j[rows[is_complete]] = profile.energy_j
        rows = rows[~is_complete]
        if not rows.size:
            continue
        edges_ms = np.arange(profile.power_w.size + 1) * profile.dt_ms
        cumulative_j = profile.cumulative_energy_j
        begin_ms = offset_ms[rows]
        energy_j[rows] = np.interp(begin_ms + length_ms[rows], edges_ms, cumulative_j)
        energy_j[rows] -= np.interp(begin_ms, edges_ms, cumulative_j)
    return energy_j * segments.weight
