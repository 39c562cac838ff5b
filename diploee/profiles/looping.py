"""How a profile fills a run time that is not its own.

Start, steady part in a loop, end. A job whose run time was logged or drawn plays its
profile's start, then its steady part as often as it takes, the last time in part, then
the end. A job too short for start and end has no end. The start takes half of the rest
at most, or the share that it has of the profile if that is more: a job shorter than its
profile's start-up does not idle for all of its life. ASSUMPTION [J]: it starts up
faster than the one that was measured.

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
"""A job is past its start once its one-minute mean has reached this part of its usual
high level, and before its end until the last such minute. ASSUMPTION: no source says
where the phases lie."""
HIGH_QUANTILE = 0.9


@dataclass(frozen=True)
class Phases:
    """The steady part of a profile, and its length."""

    steady_ms: int  # where the start ends and the steady part begins [ms]
    ending_ms: int  # where the steady part ends and the end begins [ms]
    duration_ms: int  # length of the profile [ms]


def phases(profile: PowerProfile) -> Phases:
    """Return where a profile's steady part begins and ends.

    All of it where none stands out.
    """
    n_samples = profile.power_w.size
    if profile.periodic:
        return Phases(0, profile.duration_ms, profile.duration_ms)
    window = min(max(SMOOTHING_MS // profile.dt_ms, 1), n_samples)
    energy_j = profile.cumulative_energy_j
    mean: Float64Array = energy_j[window:] - energy_j[:-window]
    high = np.flatnonzero(mean >= STEADY_LEVEL * np.quantile(mean, HIGH_QUANTILE))
    steady, ending = int(high[0]) + window // 2, int(high[-1]) + window - window // 2
    if not 0 < ending - steady < n_samples or int(high[0]) == 0:
        steady = 0
    if int(high[-1]) + window >= n_samples or ending <= steady:
        ending = n_samples
    return Phases(steady * profile.dt_ms, ending * profile.dt_ms, profile.duration_ms)


@dataclass(frozen=True, eq=False)
class _PlayedParts:
    """Stretches of a profile that jobs play one after the other."""

    row: Int32Array  # the job of each stretch, in the order of the jobs
    into_ms: Int64Array  # start of the stretch since the start of its job [ms]
    offset_ms: Int64Array  # place in the profile at which it starts [ms]
    length_ms: Int64Array  # its length [ms], positive


def played_parts(run_ms: Int64Array, of: Phases) -> _PlayedParts:
    """Return the stretches of one profile that fill run times [ms], all positive.

    A run time equal to the profile's own is one stretch: the profile as it is.
    """
    # run = the profile up to its end part + whole loops + a part of one + the end part.
    # One too short for start and end has no end part; one of the profile's own length
    # is the profile. Where the start is cut, the loops follow it at once.
    tail_ms = of.duration_ms - of.ending_ms
    loop_ms = of.ending_ms - of.steady_ms
    whole = run_ms == of.duration_ms
    tail = np.where(run_ms >= of.steady_ms + tail_ms, tail_ms, 0)
    tail[whole] = 0
    body_ms = run_ms - tail
    start_ms = np.maximum(
        body_ms // 2, of.steady_ms * np.minimum(run_ms / of.duration_ms, 1)
    )
    start_ms = start_ms.astype(np.int64)
    first_ms = np.where(
        start_ms < of.steady_ms, start_ms, np.minimum(body_ms, of.ending_ms)
    )
    first_ms[whole] = run_ms[whole]
    loops, part_ms = np.divmod(body_ms - first_ms, loop_ms)
    n_middle = loops + (part_ms > 0)
    has_first, has_tail = (first_ms > 0).astype(np.int64), (tail > 0).astype(np.int64)
    count = has_first + n_middle + has_tail
    row, nth = repeated(count)
    middle = nth - has_first[row]  # number of the loop; -1 = the first stretch
    is_first, is_tail = middle < 0, middle == n_middle[row]
    is_part = (middle == loops[row]) & ~is_tail

    offset_ms = np.where(is_first, 0, np.where(is_tail, of.ending_ms, of.steady_ms))
    into_ms = np.where(is_tail, body_ms[row], first_ms[row] + middle * loop_ms)
    into_ms[is_first] = 0
    length_ms = np.full(row.size, loop_ms)
    for rows, values_ms in ((is_first, first_ms), (is_tail, tail), (is_part, part_ms)):
        length_ms[rows] = values_ms[row[rows]]
    return _PlayedParts(row.astype(np.int32), into_ms, offset_ms, length_ms)
