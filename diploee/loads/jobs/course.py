"""The course of a job: what it plays in its own time, from 0 to its run time, undisturbed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from diploee.errors import WorkloadError
from diploee.loads.jobs import CourseRows
from diploee.power.occupancy import slots_of
from diploee.profiles import ProfileLibrary
from diploee.profiles.flat import FLAT_ID, FLAT_POWER_W
from diploee.profiles.playing import phases, played_parts
from diploee.scenario import Facility
from diploee.schedule.job_table import JobTable
from diploee.tables import Float64Array, Int32Array, Int64Array, Table, column, concat

Courses = Callable[[int, int], CourseRows]
"""Gives the rows of a job with a course of its own, by its class and number."""

MOST_PASSES = 100_000_000
"""Stretches of profiles that jobs of other run times play; each takes some 50 bytes."""


@dataclass(frozen=True, eq=False)
class Course(Table):
    """What jobs play in their own time; the rows of a job adjoin."""

    job: Int64Array = column("int64")  # row of the job table
    into_ms: Int64Array = column("int64")  # start of the row since the start of the job [ms]
    length_ms: Int64Array = column("int64")  # its length [ms], positive
    profile_id: Int32Array = column("int32")  # profile that is played
    offset_ms: Int64Array = column("int64")  # place in the profile at which the row starts [ms]
    # Factor on the profile's power, on all nodes of the job
    weight: Float64Array = column("float64")


def course_of_jobs(
    jobs: JobTable,
    rows: Int64Array,
    needed_ms: Int64Array,
    library: ProfileLibrary,
    facility: Facility,
    courses: Courses | None = None,
) -> Course:
    """Return what some jobs, `rows` of the table, play in their own time.

    A job that runs as long as its profile is one row; another plays the profile as `played_parts`
    says. A start-up is a row of its own at idle power. The weight is the job's nodes over its
    profile's, times the job's power factor. Rows beyond the own time `needed_ms` of each job [ms]
    may lack; `courses` gives those of jobs with a course of their own.
    """
    duration_ms = np.array([entry.duration_ms for entry in library.entries])
    profile_n_nodes = np.array([entry.n_nodes for entry in library.entries])
    if not np.array_equal(rows, np.arange(len(jobs))):  # else nothing to copy
        jobs = jobs.take(rows)
    startup_ms = jobs.startup_ms.astype(np.int64)
    play_ms = jobs.duration_ms - startup_ms
    n_nodes = jobs.n_nodes / slots_of(facility)[jobs.pool_id]
    weight = n_nodes / profile_n_nodes[jobs.profile_id] * jobs.power_factor
    own = jobs.course_id > 0
    as_it_is = ~own & (play_ms == duration_ms[jobs.profile_id])
    # The usual case first and in one go: millions of jobs, one row each.
    whole = np.flatnonzero(as_it_is)
    parts = [
        Course(
            job=rows[whole],
            into_ms=startup_ms[whole],
            length_ms=play_ms[whole],
            profile_id=jobs.profile_id[whole],
            offset_ms=np.zeros(whole.size, dtype=np.int64),
            weight=weight[whole],
        )
    ]
    if courses is not None:
        parts += [_own(jobs, nth, rows, needed_ms, courses) for nth in np.flatnonzero(own).tolist()]
    filled = np.flatnonzero(~own & ~as_it_is & (play_ms > 0))
    for profile_id in np.unique(jobs.profile_id[filled]).tolist():
        of = filled[jobs.profile_id[filled] == profile_id]
        played_ms = needed_ms[of] - startup_ms[of]
        filling = _filled(play_ms[of], played_ms, profile_id, library)
        parts.append(_placed(filling, rows[of], startup_ms[of], weight[of]))
    starting = np.flatnonzero(startup_ms > 0)
    if starting.size:
        # From allocation to the profile's start: busy nodes at idle power.
        idle_w = np.array([facility.node_type_of(pool).idle_power_w for pool in facility.pools])
        idle = n_nodes[starting] * idle_w[jobs.pool_id[starting]] / FLAT_POWER_W
        flat_id, run_ms = library.ids.index(FLAT_ID), startup_ms[starting]
        filling = _filled(run_ms, needed_ms[starting], flat_id, library)
        parts.append(_placed(filling, rows[starting], np.zeros_like(run_ms), idle))
    return concat(parts)


def _own(
    jobs: JobTable, nth: int, rows: Int64Array, needed_ms: Int64Array, courses: Courses
) -> Course:
    course = courses(int(jobs.class_id[nth]), int(jobs.course_id[nth]))
    course = course.take(course.into_ms < needed_ms[nth])
    return Course(
        job=np.full(len(course), rows[nth]),
        into_ms=course.into_ms,
        length_ms=course.length_ms,
        profile_id=course.profile_id,
        offset_ms=course.offset_ms,
        weight=course.weight,
    )


def _placed(
    filling: Course, rows: Int64Array, begin_ms: Int64Array, weight: Float64Array
) -> Course:
    """Return rows of the n-th run time as those of its job, from a time of its own on."""
    nth = filling.job
    return Course(
        job=rows[nth],
        into_ms=begin_ms[nth] + filling.into_ms,
        length_ms=filling.length_ms,
        profile_id=filling.profile_id,
        offset_ms=filling.offset_ms,
        weight=weight[nth],
    )


def _filled(
    run_ms: Int64Array, needed_ms: Int64Array, profile_id: int, library: ProfileLibrary
) -> Course:
    """Fill run times with one profile; `job` is the number of the run time, the weight 1."""
    of = phases(library[profile_id])
    # Whole loops beyond what is needed are left out: the end of the profile stays beyond it too.
    loop_ms = of.ending_ms - of.steady_ms
    beyond_ms = run_ms - needed_ms - of.duration_ms
    run_ms = run_ms - np.maximum(beyond_ms // loop_ms, 0) * loop_ms
    n_passes = float((run_ms / loop_ms).sum())
    if n_passes > MOST_PASSES:
        raise WorkloadError(
            f"the jobs play the steady part of profile '{library.ids[profile_id]}' {n_passes:,.0f} "
            f"times, more than {MOST_PASSES:,} fit the memory; shorten the run, or use profiles "
            "with a longer steady part"
        )
    played = played_parts(run_ms, of)
    return Course(
        job=played.row.astype(np.int64),
        into_ms=played.into_ms,
        length_ms=played.length_ms,
        profile_id=np.full(played.row.size, profile_id),
        offset_ms=played.offset_ms,
        weight=np.ones(played.row.size),
    )
