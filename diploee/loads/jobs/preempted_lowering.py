"""Lowering of preempted jobs: execution intervals to segments of power.

The pieces of a job are cut, slowed and scaled as the job ran.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from diploee.base.tables import Int32Array, Int64Array, concat, repeated
from diploee.base.units import MS_PER_MIN
from diploee.loads.jobs import StreamClass
from diploee.loads.jobs.lowering import (
    JobLoad,
    PiecesOf,
    ProfileSections,
    cut,
    pieces_of_jobs,
)
from diploee.power.segments import Segments, owner_of_jobs
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

PIECE_MS = MS_PER_MIN
"""A job on fewer nodes than it asks for plays its profile so long a piece at a time."""


@dataclass(frozen=True, eq=False)
class _LevelProfiles:
    """Capped variant of each profile at each cap level, by index."""

    # Index of the profile that stands for each one; itself where nothing is capped
    variant: Int32Array
    # Group of each class of jobs: its kind of work on its kind of nodes
    group: Int64Array


def with_levels(
    library: ProfileLibrary,
    classes: Sequence[StreamClass],
    nodes: Sequence[NodeType],
    kinds: Sequence[WorkKind],
    levels: CapLevels,
) -> tuple[ProfileLibrary, _LevelProfiles]:
    """Add the capped variants of the classes' profiles and a flat profile."""
    added: list[Entry] = [] if FLAT_ID in library.ids else [flat_profile()]
    groups: dict[tuple[int, WorkKind], int] = {}
    group = np.zeros(len(classes), dtype=np.int64)
    n_own = len(library)
    for k, kind in enumerate(kinds):
        group[k] = groups.setdefault((id(nodes[k]), kind), len(groups))
    size = n_own + len(added)
    variant = np.tile(
        np.arange(size, dtype=np.int32), (max(1, len(groups)), len(levels), 1)
    )
    for k, (of_class, kind) in enumerate(zip(classes, kinds, strict=True)):
        for profile_id in of_class.profile_ids:
            for level in range(1, len(levels)):
                if variant[group[k], level, profile_id] == profile_id:
                    variant[group[k], level, profile_id] = n_own + len(added)
                    added.append(
                        CappedProfile(
                            library.entries[profile_id],
                            nodes[k],
                            levels.speed(kind, level),
                            levels.power(kind, level),
                        )
                    )
    return library.extended(added), _LevelProfiles(variant, group)


def lower_runs(
    schedule: PreemptiveSchedule,
    library: ProfileLibrary,
    levels: _LevelProfiles,
    facility: Facility,
    pieces_of: PiecesOf | None = None,
) -> JobLoad:
    """Lower execution intervals of jobs to segments up to the horizon.

    An interval plays the job's pieces between its work at the interval's start and end.
    At a cap level, the profile's capped variant is played, which is slower in the same
    ratio as the job. ASSUMPTION: a job on fewer nodes than requested draws power in
    proportion to its nodes and plays its profile in pieces of a minute, each stretched
    to the time taken [J]. The same holds for a profile without a capped variant. A job
    that is suspended, checkpointing or restarting draws constant power. `library` and
    `levels` come from `with_levels`, and the other arguments are those of `lower_jobs`.
    `JobLoad.job` is the row of `schedule.runs`.
    """
    runs, jobs = schedule.runs, schedule.jobs
    works = np.flatnonzero(runs.kind == RUN)
    needed_ms = np.zeros(len(jobs), dtype=np.int64)
    np.maximum.at(needed_ms, runs.job[works], runs.work_to_ms[works])
    rows = np.unique(runs.job[works])
    pieces = pieces_of_jobs(jobs, rows, needed_ms[rows], library, facility, pieces_of)
    result = [
        _played(schedule, runs, works, pieces, library, levels),
        _held(schedule, runs, np.flatnonzero(runs.kind != RUN), library),
    ]
    segments = concat([part.segments for part in result])
    of_run = np.concatenate([part.job for part in result])
    inside = segments.end_ms > np.maximum(segments.start_ms, 0)
    return JobLoad(segments.take(inside), of_run[inside], len(runs))


def _played(
    schedule: PreemptiveSchedule,
    runs: ExecutionIntervals,
    works: Int64Array,
    pieces: ProfileSections,
    library: ProfileLibrary,
    levels: _LevelProfiles,
) -> JobLoad:
    jobs = schedule.jobs
    pieces = pieces.take(np.lexsort((pieces.into_ms, pieces.job)))
    end_of_row_ms = pieces.into_ms + pieces.length_ms
    # The rows of all jobs on one axis: those of a job adjoin, so that both edges rise.
    span_ms = int(end_of_row_ms.max(initial=0)) + 1
    at_ms = runs.job[works] * span_ms
    # A stretch too short for one ms of work at its rate plays that one all the same.
    from_ms = np.minimum(runs.work_from_ms, np.maximum(runs.work_to_ms - 1, 0))[works]
    work_ms = runs.work_to_ms[works] - from_ms
    low = np.searchsorted(
        pieces.job * span_ms + end_of_row_ms, at_ms + from_ms, side="right"
    )
    high = np.searchsorted(
        pieces.job * span_ms + pieces.into_ms, at_ms + from_ms + work_ms
    )
    nth, row = repeated(np.maximum(high - low, 0))
    row += low[nth]
    begin_ms = np.maximum(pieces.into_ms[row], from_ms[nth])
    end_ms = np.minimum(end_of_row_ms[row], (from_ms + work_ms)[nth])

    job = runs.job[works][nth]
    level, own = runs.level[works][nth], pieces.profile_id[row]
    played = levels.variant[levels.group[jobs.class_id[job]], level, own]
    share = runs.n_nodes[works][nth] / jobs.n_nodes[job]
    # What does not go as fast as its profile is played piece by piece.
    uneven = (share != 1) | ((level > 0) & (played == own))
    piece, into_ms, length_ms = cut(
        end_ms - begin_ms, np.where(uneven, PIECE_MS, end_ms - begin_ms)
    )
    from_own_ms = begin_ms[piece] + into_ms
    upto_own_ms = from_own_ms + length_ms
    nth, row, job, played, share = (
        nth[piece],
        row[piece],
        job[piece],
        played[piece],
        share[piece],
    )

    of_run = works[nth]
    length_ms = runs.end_ms[of_run] - runs.start_ms[of_run]
    own_work_ms = np.maximum(work_ms[nth], 1)
    edges_ms = [
        runs.start_ms[of_run] + (own_ms - from_ms[nth]) * length_ms // own_work_ms
        for own_ms in (from_own_ms, upto_own_ms)
    ]
    duration_ms = np.array([entry.duration_ms for entry in library.entries])
    offset_ms = pieces.offset_ms[row] + from_own_ms - pieces.into_ms[row]
    slower = duration_ms[played] / duration_ms[pieces.profile_id[row]]
    offset_ms = np.rint(offset_ms * slower).astype(np.int64)
    latest_ms = duration_ms[played] - (edges_ms[1] - edges_ms[0])
    segments = Segments(
        start_ms=edges_ms[0],
        end_ms=np.minimum(edges_ms[1], schedule.horizon_ms),
        pool_id=jobs.pool_id[job],
        n_nodes=runs.n_nodes[of_run],
        profile_id=played,
        offset_ms=np.maximum(np.minimum(offset_ms, latest_ms), 0),
        weight=pieces.weight[row] * share,
        owner=owner_of_jobs(jobs.job_id, jobs.class_id)[job],
    )
    return JobLoad(segments, of_run, len(runs))


def _held(
    schedule: PreemptiveSchedule,
    runs: ExecutionIntervals,
    rows: Int64Array,
    library: ProfileLibrary,
) -> JobLoad:
    """Lower intervals that occupy nodes without progress to constant power.

    The segments are pieces of the flat profile.
    """
    jobs = schedule.jobs
    row, into_ms, length_ms = cut(
        runs.end_ms[rows] - runs.start_ms[rows], FLAT_DURATION_MS
    )
    of_run = rows[row]
    start_ms = runs.start_ms[of_run] + into_ms
    job = runs.job[of_run]
    segments = Segments(
        start_ms=start_ms,
        end_ms=start_ms + length_ms,
        pool_id=jobs.pool_id[job],
        n_nodes=runs.n_nodes[of_run],
        profile_id=np.full(of_run.size, library.ids.index(FLAT_ID)),
        offset_ms=np.zeros(of_run.size, dtype=np.int64),
        weight=runs.power_w[of_run] / FLAT_POWER_W,
        owner=owner_of_jobs(jobs.job_id, jobs.class_id)[job],
    )
    return JobLoad(segments, of_run, len(runs))
