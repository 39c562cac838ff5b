"""Conversion of the execution intervals of preempted jobs to segments of power.

The profile sections of a job are cut, slowed and scaled according to its intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from diploee.base.tables import Int32Array, Int64Array, concat, repeated
from diploee.base.units import MS_PER_MIN
from diploee.loads.jobs import StreamClass
from diploee.loads.jobs.lowering import (
    GetSections,
    JobLoad,
    ProfileSections,
    job_sections,
    split_lengths,
)
from diploee.power.segments import Segments, job_owners
from diploee.profiles.derived import CapLevels, CappedProfile, WorkKind
from diploee.profiles.flat import FLAT_DURATION_MS, FLAT_ID, FLAT_POWER_W, flat_profile
from diploee.profiles.library import Entry, ProfileLibrary
from diploee.scenario.models import Facility
from diploee.scenario.pools import NodeType
from diploee.schedule.execution_intervals import (
    RUN,
    ExecutionIntervals,
    PreemptiveSchedule,
)

SHORT_SECTION_MS = MS_PER_MIN
"""Length of the profile sections of a job on fewer nodes than it requests [ms]."""


@dataclass(frozen=True, eq=False)
class _LevelProfiles:
    """Capped variant of each profile at each cap level, by index."""

    # Profile index by group, level and profile; unchanged without a capped variant
    variant: Int32Array
    # Group of each job class: classes with equal kind of work and node type
    group: Int64Array


def with_levels(
    library: ProfileLibrary,
    classes: Sequence[StreamClass],
    nodes: Sequence[NodeType],
    kinds: Sequence[WorkKind],
    levels: CapLevels,
) -> tuple[ProfileLibrary, _LevelProfiles]:
    """Return a library with the capped variants of the classes' profiles.

    Also added is a flat profile. The second result has the variants' indices.
    """
    added: list[Entry] = [] if FLAT_ID in library.ids else [flat_profile()]
    groups: dict[tuple[int, WorkKind], int] = {}
    group = np.zeros(len(classes), dtype=np.int64)
    n_library = len(library)
    for k, kind in enumerate(kinds):
        group[k] = groups.setdefault((id(nodes[k]), kind), len(groups))
    size = n_library + len(added)
    variant = np.tile(
        np.arange(size, dtype=np.int32), (max(1, len(groups)), len(levels), 1)
    )
    for k, (stream_class, kind) in enumerate(zip(classes, kinds, strict=True)):
        for profile_id in stream_class.profile_ids:
            for level in range(1, len(levels)):
                if variant[group[k], level, profile_id] == profile_id:
                    variant[group[k], level, profile_id] = n_library + len(added)
                    added.append(
                        CappedProfile(
                            library.entries[profile_id],
                            nodes[k],
                            levels.speed(kind, level),
                            levels.power(kind, level),
                        )
                    )
    return library.extended(added), _LevelProfiles(variant, group)


def lower_preempted_jobs(
    schedule: PreemptiveSchedule,
    library: ProfileLibrary,
    levels: _LevelProfiles,
    facility: Facility,
    get_sections: GetSections | None = None,
) -> JobLoad:
    """Lower execution intervals of jobs to segments up to the horizon.

    In an interval a job replays the part of its sections from the work done at the
    interval's start to that at its end. At a cap level, the profile's capped variant is
    replayed, which is slower in the same ratio as the job. Assumed (judgement): a job
    on fewer nodes than requested draws power in proportion to its nodes, and replays
    its profile in sections of a minute, each stretched to the time that the work takes.
    The same applies to a job at a cap level whose profile has no capped variant. A job
    that is suspended, checkpointing or restarting draws constant power. `library` and
    `levels` come from `with_levels`, and the other arguments are those of `lower_jobs`.
    `JobLoad.job` is the row of the schedule's execution intervals.
    """
    intervals, jobs = schedule.runs, schedule.jobs
    running = np.flatnonzero(intervals.kind == RUN)
    needed_ms = np.zeros(len(jobs), dtype=np.int64)
    np.maximum.at(needed_ms, intervals.job[running], intervals.work_to_ms[running])
    rows = np.unique(intervals.job[running])
    sections = job_sections(
        jobs, rows, needed_ms[rows], library, facility, get_sections
    )
    loads = [
        _running_segments(schedule, intervals, running, sections, library, levels),
        _stopped_segments(
            schedule, intervals, np.flatnonzero(intervals.kind != RUN), library
        ),
    ]
    segments = concat([load.segments for load in loads])
    interval_row = np.concatenate([load.job for load in loads])
    is_in_run = segments.end_ms > np.maximum(segments.start_ms, 0)
    return JobLoad(segments.take(is_in_run), interval_row[is_in_run], len(intervals))


def _running_segments(
    schedule: PreemptiveSchedule,
    intervals: ExecutionIntervals,
    running: Int64Array,
    sections: ProfileSections,
    library: ProfileLibrary,
    levels: _LevelProfiles,
) -> JobLoad:
    """Lower intervals of running jobs to segments."""
    jobs = schedule.jobs
    sections = sections.take(np.lexsort((sections.into_ms, sections.job)))
    section_end_ms = sections.into_ms + sections.length_ms
    # All sections on one increasing axis, on which each job has its own origin
    job_spacing_ms = int(section_end_ms.max(initial=0)) + 1
    job_origin_ms = intervals.job[running] * job_spacing_ms
    # An interval too short for 1 ms of work replays that ms nevertheless.
    from_ms = np.minimum(
        intervals.work_from_ms, np.maximum(intervals.work_to_ms - 1, 0)
    )[running]
    work_ms = intervals.work_to_ms[running] - from_ms
    low = np.searchsorted(
        sections.job * job_spacing_ms + section_end_ms,
        job_origin_ms + from_ms,
        side="right",
    )
    high = np.searchsorted(
        sections.job * job_spacing_ms + sections.into_ms,
        job_origin_ms + from_ms + work_ms,
    )
    interval_index, section_row = repeated(np.maximum(high - low, 0))
    section_row += low[interval_index]
    begin_ms = np.maximum(sections.into_ms[section_row], from_ms[interval_index])
    end_ms = np.minimum(
        section_end_ms[section_row], (from_ms + work_ms)[interval_index]
    )

    job = intervals.job[running][interval_index]
    level, profile_id = (
        intervals.level[running][interval_index],
        sections.profile_id[section_row],
    )
    variant_id = levels.variant[levels.group[jobs.class_id[job]], level, profile_id]
    node_fraction = intervals.n_nodes[running][interval_index] / jobs.n_nodes[job]
    # Sections slower than their profile are replayed in short pieces.
    is_stretched = (node_fraction != 1) | ((level > 0) & (variant_id == profile_id))
    piece, into_ms, length_ms = split_lengths(
        end_ms - begin_ms, np.where(is_stretched, SHORT_SECTION_MS, end_ms - begin_ms)
    )
    work_begin_ms = begin_ms[piece] + into_ms
    work_end_ms = work_begin_ms + length_ms
    interval_index, section_row, job, variant_id, node_fraction = (
        interval_index[piece],
        section_row[piece],
        job[piece],
        variant_id[piece],
        node_fraction[piece],
    )

    interval_row = running[interval_index]
    length_ms = intervals.end_ms[interval_row] - intervals.start_ms[interval_row]
    interval_work_ms = np.maximum(work_ms[interval_index], 1)
    edges_ms = [
        intervals.start_ms[interval_row]
        + (job_work_ms - from_ms[interval_index]) * length_ms // interval_work_ms
        for job_work_ms in (work_begin_ms, work_end_ms)
    ]
    duration_ms = np.array([entry.duration_ms for entry in library.entries])
    offset_ms = (
        sections.offset_ms[section_row] + work_begin_ms - sections.into_ms[section_row]
    )
    slowdown = duration_ms[variant_id] / duration_ms[sections.profile_id[section_row]]
    offset_ms = np.rint(offset_ms * slowdown).astype(np.int64)
    latest_ms = duration_ms[variant_id] - (edges_ms[1] - edges_ms[0])
    segments = Segments(
        start_ms=edges_ms[0],
        end_ms=np.minimum(edges_ms[1], schedule.horizon_ms),
        pool_id=jobs.pool_id[job],
        n_nodes=intervals.n_nodes[interval_row],
        profile_id=variant_id,
        offset_ms=np.maximum(np.minimum(offset_ms, latest_ms), 0),
        weight=sections.weight[section_row] * node_fraction,
        owner=job_owners(jobs.job_id, jobs.class_id)[job],
    )
    return JobLoad(segments, interval_row, len(intervals))


def _stopped_segments(
    schedule: PreemptiveSchedule,
    intervals: ExecutionIntervals,
    rows: Int64Array,
    library: ProfileLibrary,
) -> JobLoad:
    """Lower intervals of jobs that do not run to constant power.

    The segments are sections of the flat profile.
    """
    jobs = schedule.jobs
    row, into_ms, length_ms = split_lengths(
        intervals.end_ms[rows] - intervals.start_ms[rows], FLAT_DURATION_MS
    )
    interval_row = rows[row]
    start_ms = intervals.start_ms[interval_row] + into_ms
    job = intervals.job[interval_row]
    segments = Segments(
        start_ms=start_ms,
        end_ms=start_ms + length_ms,
        pool_id=jobs.pool_id[job],
        n_nodes=intervals.n_nodes[interval_row],
        profile_id=np.full(interval_row.size, library.ids.index(FLAT_ID)),
        offset_ms=np.zeros(interval_row.size, dtype=np.int64),
        weight=intervals.power_w[interval_row] / FLAT_POWER_W,
        owner=job_owners(jobs.job_id, jobs.class_id)[job],
    )
    return JobLoad(segments, interval_row, len(intervals))
