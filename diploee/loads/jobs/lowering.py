"""Jobs to segments: which stretch of which profile each started job plays, and when."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from diploee.loads.jobs.pieces import PiecesOf, pieces_of_jobs
from diploee.power.segments import Segments, owner_of_jobs
from diploee.profiles import ProfileLibrary
from diploee.scenario import Facility
from diploee.schedule import Schedule
from diploee.tables import Float64Array, Int64Array


@dataclass(frozen=True, eq=False)
class JobLoad:
    """Segments of jobs, and the job of each."""

    segments: Segments  # what the jobs draw
    job: Int64Array  # row of the job table that each segment belongs to
    n_jobs: int  # rows of the job table

    def energy_j(self, library: ProfileLibrary) -> Float64Array:
        """Return the energy of each job within the run [J], shape (n_jobs,)."""
        part_j = segment_energy_j(self.segments, library)
        return np.bincount(self.job, part_j, self.n_jobs).astype(np.float64)


def lower_jobs(
    schedule: Schedule,
    library: ProfileLibrary,
    facility: Facility,
    pieces_of: PiecesOf | None = None,
) -> JobLoad:
    """Lower started jobs to segments, cut at the horizon, and keep whose they are.

    The pieces of each job, as `pieces_of_jobs` says, are placed from its start on. Segments that
    ended before the run are left out; one that runs at its start keeps its own start, so that its
    power is added as in a run that begins earlier, to the last bit. `pieces_of` gives those of
    synchronous jobs, such as `JobStreams.pieces`.
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
