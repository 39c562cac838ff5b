"""Lowering of jobs to segments: the profile section that each job plays, over time.

`ProfileSections` are the sections that an undisturbed job plays from 0 to its run time.
Lowering shifts the sections to the start of each job.
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
from diploee.power.segments import Segments, node_slots, owner_of_jobs
from diploee.profiles.flat import FLAT_ID, FLAT_POWER_W
from diploee.profiles.library import ProfileLibrary
from diploee.profiles.looping import fill_run_times, find_phases
from diploee.scenario.models import Facility
from diploee.schedule.job_table import JobTable
from diploee.schedule.started import Schedule

MAX_PASSES = 100_000_000
"""Stretches of profiles that jobs of other run times play; each takes some 50 bytes."""


@dataclass(frozen=True, eq=False)
class ProfileSections(Table):
    """Contiguous sections of profiles, in each job's own time."""

    job: Int64Array = column("int64")  # row of the job table
    # Start of the piece since the start of the job [ms]
    into_ms: Int64Array = column("int64")
    length_ms: Int64Array = column("int64")  # its length [ms], positive
    profile_id: Int32Array = column("int32")  # profile that is played
    # Place in the profile at which the piece starts [ms]
    offset_ms: Int64Array = column("int64")
    # Factor on the profile's power, on all nodes of the job
    weight: Float64Array = column("float64")


PiecesOf = Callable[[int, int], ProfileSections]
"""Gives the pieces of a synchronous job, by its class and number."""


def pieces_of_jobs(
    jobs: JobTable,
    rows: Int64Array,
    needed_ms: Int64Array,
    library: ProfileLibrary,
    facility: Facility,
    pieces_of: PiecesOf | None = None,
) -> ProfileSections:
    """Return the profile sections of the jobs in `rows`, in each job's own time.

    A job that runs as long as its profile is one piece. Other jobs repeat or cut the
    profile as `fill_run_times` does. A start-up is a separate piece at idle power. A
    piece's weight is the job's nodes over the profile's nodes, times the job's power
    factor. Pieces beyond `needed_ms` of each job [ms] may be missing. `pieces_of`
    returns the pieces of synchronous jobs.
    """
    duration_ms = np.array([entry.duration_ms for entry in library.entries])
    profile_n_nodes = np.array([entry.n_nodes for entry in library.entries])
    if not np.array_equal(rows, np.arange(len(jobs))):  # else nothing to copy
        jobs = jobs.take(rows)
    startup_ms = jobs.startup_ms.astype(np.int64)
    play_ms = jobs.duration_ms - startup_ms
    n_nodes = jobs.n_nodes / node_slots(facility)[jobs.pool_id]
    weight = n_nodes / profile_n_nodes[jobs.profile_id] * jobs.power_factor
    synchronous = jobs.synchronous_id > 0
    as_it_is = ~synchronous & (play_ms == duration_ms[jobs.profile_id])
    # The usual case first and in one go: millions of jobs, one row each.
    whole = np.flatnonzero(as_it_is)
    parts = [
        ProfileSections(
            job=rows[whole],
            into_ms=startup_ms[whole],
            length_ms=play_ms[whole],
            profile_id=jobs.profile_id[whole],
            offset_ms=np.zeros(whole.size, dtype=np.int64),
            weight=weight[whole],
        )
    ]
    for nth in np.flatnonzero(synchronous).tolist():
        if pieces_of is None:
            break
        pieces = pieces_of(int(jobs.class_id[nth]), int(jobs.synchronous_id[nth]))
        pieces = pieces.take(pieces.into_ms < needed_ms[nth])
        parts.append(replace(pieces, job=np.full(len(pieces), rows[nth])))
    filled = np.flatnonzero(~synchronous & ~as_it_is & (play_ms > 0))
    for profile_id in np.unique(jobs.profile_id[filled]).tolist():
        of = filled[jobs.profile_id[filled] == profile_id]
        begin_ms, played_ms = startup_ms[of], needed_ms[of] - startup_ms[of]
        parts.append(
            _filled(
                play_ms[of],
                played_ms,
                profile_id,
                library,
                rows[of],
                begin_ms,
                weight[of],
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
        parts.append(_filled(run_ms, needed_ms, flat_id, library, job, begin_ms, idle))
    return concat(parts)


def _filled(
    run_ms: Int64Array,
    needed_ms: Int64Array,
    profile_id: int,
    library: ProfileLibrary,
    job: Int64Array,
    begin_ms: Int64Array,
    weight: Float64Array,
) -> ProfileSections:
    """Fill the jobs' run times with one profile, from `begin_ms` in each job's time."""
    of = find_phases(library[profile_id])
    # Whole loops beyond what is needed are left out: the end of the profile stays
    # beyond it too.
    loop_ms = of.ending_ms - of.steady_ms
    beyond_ms = run_ms - needed_ms - of.duration_ms
    run_ms = run_ms - np.maximum(beyond_ms // loop_ms, 0) * loop_ms
    n_passes = float((run_ms / loop_ms).sum())
    if n_passes > MAX_PASSES:
        raise WorkloadError(
            f"the jobs play the steady part of profile '{library.ids[profile_id]}' "
            f"{n_passes:,.0f} times, more than {MAX_PASSES:,} fit the memory; "
            "shorten the run, or use profiles with a longer steady part"
        )
    played = fill_run_times(run_ms, of)
    nth = played.row
    return ProfileSections(
        job=job[nth],
        into_ms=begin_ms[nth] + played.into_ms,
        length_ms=played.length_ms,
        profile_id=np.full(nth.size, profile_id),
        offset_ms=played.offset_ms,
        weight=weight[nth],
    )


def cut(length_ms: Int64Array, most_ms: Int64Array | int) -> tuple[Int64Array, ...]:
    """Split lengths into pieces of at most `most_ms` [ms].

    Returns the row, start and length of each piece.
    """
    most_ms = np.broadcast_to(np.asarray(most_ms), length_ms.shape)
    row, nth = repeated(-(-length_ms // most_ms))
    into_ms = nth * most_ms[row]
    return row, into_ms, np.minimum(length_ms[row] - into_ms, most_ms[row])


@dataclass(frozen=True, eq=False)
class JobLoad:
    """Segments of jobs, with the job index of each segment."""

    segments: Segments  # what the jobs draw
    job: Int64Array  # row of the job table that each segment belongs to
    n_jobs: int  # rows of the job table

    def energy_j(self, library: ProfileLibrary) -> Float64Array:
        """Return the energy of each job within the run [J], shape (n_jobs,)."""
        part_j = _segment_energy_j(self.segments, library)
        return np.bincount(self.job, part_j, self.n_jobs).astype(np.float64)


def lower_jobs(
    schedule: Schedule,
    library: ProfileLibrary,
    facility: Facility,
    pieces_of: PiecesOf | None = None,
) -> JobLoad:
    """Lower started jobs to segments, cut at the horizon, with their job indices.

    The pieces of each job from `pieces_of_jobs` are shifted to its start. Segments that
    end before the run are dropped. A segment that is active at the run's start keeps
    its own start, so that its power is bit-identical to a run that begins earlier.
    `pieces_of` returns the pieces of synchronous jobs, as `JobStreams.pieces` does.
    """
    jobs, rows = schedule.jobs, np.flatnonzero(schedule.started)
    left_ms = schedule.horizon_ms - schedule.start_ms[rows]
    pieces = pieces_of_jobs(jobs, rows, left_ms, library, facility, pieces_of)
    job = pieces.job
    start_ms = schedule.start_ms[job] + pieces.into_ms
    segments = Segments(
        start_ms=start_ms,
        end_ms=np.minimum(start_ms + pieces.length_ms, schedule.horizon_ms),
        pool_id=jobs.pool_id[job],
        n_nodes=jobs.n_nodes[job],
        profile_id=pieces.profile_id,
        offset_ms=pieces.offset_ms,
        weight=pieces.weight,
        owner=owner_of_jobs(jobs.job_id, jobs.class_id)[job],
    )
    # Ends are cut at the horizon; what ended before the run adds nothing to it.
    inside = segments.end_ms > np.maximum(segments.start_ms, 0)
    if not inside.all():
        segments, job = segments.take(inside), job[inside]
    return JobLoad(segments, job, len(jobs))


def _segment_energy_j(segments: Segments, library: ProfileLibrary) -> Float64Array:
    """Return the energy of each segment from the run's start on [J], shape (n,)."""
    energy_j = np.zeros(len(segments))
    start_ms = np.maximum(segments.start_ms, 0)
    offset_ms, length_ms = (
        segments.offset_ms + start_ms - segments.start_ms,
        segments.end_ms - start_ms,
    )
    for profile_id in np.unique(segments.profile_id).tolist():
        profile = library[profile_id]
        rows = np.flatnonzero(segments.profile_id == profile_id)
        whole = (offset_ms[rows] == 0) & (length_ms[rows] == profile.duration_ms)
        energy_j[rows[whole]] = profile.energy_j
        rows = rows[~whole]
        if not rows.size:
            continue
        edges_ms = np.arange(profile.power_w.size + 1) * profile.dt_ms
        cumulative_j = profile.cumulative_energy_j
        begin_ms = offset_ms[rows]
        energy_j[rows] = np.interp(begin_ms + length_ms[rows], edges_ms, cumulative_j)
        energy_j[rows] -= np.interp(begin_ms, edges_ms, cumulative_j)
    return energy_j * segments.weight
