"""Fits a profile to a different run time: start-up, looped steady state, shutdown.

A job whose run time was logged or sampled plays its profile's start-up, then the steady
part as often as needed, the last time partially, then the shutdown. A job shorter than
start-up plus shutdown has no shutdown. Start-up takes at most half of the time without
shutdown, or the fraction of the profile that it takes there if that is more.
ASSUMPTION: a short job starts up faster than the measured job.

See also: docs/models/training.md
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from diploee.base.tables import Float64Array, Int32Array, Int64Array, repeated
from diploee.base.units import MS_PER_MIN
from diploee.profiles.profile import PowerProfile

SMOOTHING_MS = MS_PER_MIN
STEADY_LEVEL = 0.8
"""Level that delimits the steady part, in per unit of the usual high level: it lasts
from the first to the last one-minute mean above it (ASSUMPTION)."""
HIGH_QUANTILE = 0.9


@dataclass(frozen=True)
class Phases:
    """The boundaries of a profile's steady part, and the profile's length."""

    steady_ms: int  # end of start-up, begin of the steady part [ms]
    ending_ms: int  # end of the steady part, begin of shutdown [ms]
    duration_ms: int  # length of the profile [ms]


def find_phases(profile: PowerProfile) -> Phases:
    """Return the steady part of a profile; the whole profile if none is distinct."""
    n_samples = profile.power_w.size
    if profile.periodic:
        return Phases(0, profile.duration_ms, profile.duration_ms)
    window = min(max(SMOOTHING_MS // profile.dt_ms, 1), n_samples)
    energy_j = profile.cumulative_energy_j
    mean: Float64Array = energy_j[window:] - energy_j[:-window]
    high_steps = np.flatnonzero(mean >= STEADY_LEVEL * np.quantile(mean, HIGH_QUANTILE))
    steady, ending = (
        int(high_steps[0]) + window // 2,
        int(high_steps[-1]) + window - window // 2,
    )
    if not 0 < ending - steady < n_samples or int(high_steps[0]) == 0:
        steady = 0
    if int(high_steps[-1]) + window >= n_samples or ending <= steady:
        ending = n_samples
    return Phases(steady * profile.dt_ms, ending * profile.dt_ms, profile.duration_ms)


@dataclass(frozen=True, eq=False)
class _ProfileSections:
    """Sections of a profile that jobs play one after the other."""

    row: Int32Array  # row of each section's job, ascending
    into_ms: Int64Array  # start of the section since the start of its job [ms]
    offset_ms: Int64Array  # start of the section within the profile [ms]
    length_ms: Int64Array  # length of the section [ms], positive


def fill_run_times(run_ms: Int64Array, steady: Phases) -> _ProfileSections:
    """Return the sections of one profile that fill run times [ms], all positive.

    A run time equal to the profile's length gives one section: the whole profile.
    """
    # Run time = the profile up to shutdown + whole loops + a partial loop + shutdown.
    # A run too short for start-up and shutdown has no shutdown; a run as long as the
    # profile is the profile. If start-up is cut, loops follow immediately.
    tail_ms = steady.duration_ms - steady.ending_ms
    loop_ms = steady.ending_ms - steady.steady_ms
    is_whole = run_ms == steady.duration_ms
    tail = np.where(run_ms >= steady.steady_ms + tail_ms, tail_ms, 0)
    tail[is_whole] = 0
    body_ms = run_ms - tail
    start_ms = np.maximum(
        body_ms // 2, steady.steady_ms * np.minimum(run_ms / steady.duration_ms, 1)
    )
    start_ms = start_ms.astype(np.int64)
    first_ms = np.where(
        start_ms < steady.steady_ms, start_ms, np.minimum(body_ms, steady.ending_ms)
    )
    first_ms[is_whole] = run_ms[is_whole]
    loops, part_ms = np.divmod(body_ms - first_ms, loop_ms)
    n_middle = loops + (part_ms > 0)
    has_first, has_tail = (first_ms > 0).astype(np.int64), (tail > 0).astype(np.int64)
    count = has_first + n_middle + has_tail
    row, nth = repeated(count)
    middle = nth - has_first[row]  # number of the loop; -1 is the first section
    is_first, is_tail = middle < 0, middle == n_middle[row]
    is_part = (middle == loops[row]) & ~is_tail

    offset_ms = np.where(
        is_first, 0, np.where(is_tail, steady.ending_ms, steady.steady_ms)
    )
    into_ms = np.where(is_tail, body_ms[row], first_ms[row] + middle * loop_ms)
    into_ms[is_first] = 0
    length_ms = np.full(row.size, loop_ms)
    for rows, values_ms in ((is_first, first_ms), (is_tail, tail), (is_part, part_ms)):
        length_ms[rows] = values_ms[row[rows]]
    return _ProfileSections(row.astype(np.int32), into_ms, offset_ms, length_ms)
