"""Direct summation of segments over intervals, with exact energy.

The energy of a segment in an interval is the difference of its profile's cumulative
energy at the interval's edges. Cumulative energy is linear between the points of a
grid, the common divisor of interval and sample length. A segment that starts between
two grid points therefore has the weighted mean of the interval energies for starts at
these two points. Interval energies are tabulated once per profile, one row per start
point within an interval, and the whole intervals of a segment are a weighted sum of two
adjacent rows. If the grid is the interval itself, or a profile is no longer than an
interval, the differences are computed without a table.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd
from typing import NamedTuple

import numpy as np

from diploee.base.jit import njit
from diploee.base.tables import Float64Array, Int32Array, Int64Array
from diploee.power.segments import Segments
from diploee.profiles.library import ProfileLibrary
from diploee.profiles.profile import PowerProfile


class EnergyTables(NamedTuple):
    """Cumulative and interval energies of profiles for one interval length."""

    step_ms: int  # interval [ms]
    grid_ms: Int64Array  # common grid of each profile and the interval [ms]
    # Energy since the profile's start at each grid point [J], profile after profile
    cumulative_j: Float64Array
    cumulative_at: Int64Array  # index of each profile's start in `cumulative_j`
    # Energy per interval [J], row ``p`` for a start ``p`` grid points after an
    # interval's edge
    interval_j: Float64Array
    interval_at: Int64Array  # index of each profile's start in `interval_j`
    # Length of the rows of each profile, which exist if an interval has several grid
    # points; 0 for profiles no longer than an interval, which have no rows
    n_intervals: Int64Array

    @classmethod
    def build(
        cls, library: ProfileLibrary, profile_ids: Iterable[int], step_ms: int
    ) -> EnergyTables:
        """Build the energy tables of profiles given by library index.

        Profiles are read one by one, so that no two are in memory at once.
        """
        used = sorted(profile_ids)
        n_profiles = used[-1] + 1 if used else 0
        grid_ms = np.ones(n_profiles, dtype=np.int64)
        n_points_by_profile, row_values, n_intervals = np.zeros(
            (3, n_profiles), dtype=np.int64
        )
        for index in used:
            entry = library.entries[index]
            grid_ms[index] = common_ms = gcd(step_ms, entry.dt_ms)
            n_points_by_profile[index] = n_points = entry.duration_ms // common_ms + 1
            # A profile no longer than an interval overlaps at most two: no table needed
            if n_points - 1 > (per_step := step_ms // common_ms):
                n_intervals[index] = -(-(n_points - 1) // per_step) + 1
                row_values[index] = (
                    (per_step + 1) * n_intervals[index] if per_step > 1 else 0
                )
        cumulative_at = np.concatenate([[0], np.cumsum(n_points_by_profile)])
        interval_at = np.cumsum(row_values) - row_values
        cumulative_j, interval_j = (
            np.empty(int(n_points_by_profile.sum())),
            np.empty(int(row_values.sum())),
        )
        for index in used:
            first = cumulative_at[index]
            energy_j = _cumulative_on_grid(library[index], int(grid_ms[index]))
            cumulative_j[first : first + n_points_by_profile[index]] = energy_j
            begin, size = interval_at[index], row_values[index]
            if size:
                rows_j = interval_j[begin : begin + size].reshape(
                    -1, n_intervals[index]
                )
                _fill_rows(energy_j, rows_j)
        return cls(
            step_ms,
            grid_ms,
            cumulative_j,
            cumulative_at,
            interval_j,
            interval_at,
            n_intervals,
        )

    def has_same_grids(self, library: ProfileLibrary, step_ms: int) -> bool:
        """Return True if tables for another interval have the same grid points."""
        used = np.flatnonzero(np.diff(self.cumulative_at))
        return all(
            gcd(step_ms, library.entries[k].dt_ms) == self.grid_ms[k]
            for k in used.tolist()
        )


def _cumulative_on_grid(profile: PowerProfile, grid_ms: int) -> Float64Array:
    """Return the cumulative energy of a profile at grid points [J]."""
    per_sample = profile.dt_ms // grid_ms
    if per_sample == 1:
        return profile.compute_cumulative_j()
    n_points = profile.power_w.size * per_sample + 1
    return np.interp(
        np.arange(n_points),
        np.arange(profile.power_w.size + 1) * per_sample,
        profile.compute_cumulative_j(),
    )


def _fill_rows(cumulative_j: Float64Array, rows_j: Float64Array) -> None:
    """Fill the table of interval energies: one row per start point in an interval."""
    # Row p, column k: E((k + 1) s - p) - E(k s - p) on the grid, with s points per
    # interval. In the array of all differences over s points, which starts at -s, its
    # index is (k + 1) s - p.
    per_step, n_intervals = rows_j.shape[0] - 1, rows_j.shape[1]
    leading, trailing = (
        np.full(per_step, cumulative_j[0]),
        np.full(2 * per_step, cumulative_j[-1]),
    )
    size = (n_intervals + 1) * per_step + 1
    padded_j = np.concatenate([leading, cumulative_j, trailing])[:size]
    differences_j = padded_j[per_step:] - padded_j[:-per_step]
    rows_j[0] = differences_j[per_step::per_step]
    rows_j[1:] = differences_j[:-1].reshape(n_intervals, per_step)[:, ::-1].T


@njit()
def _energy_until(
    time_ms: int, cumulative_j: Float64Array, first: int, last: int, grid_ms: int
) -> float:
    """Return the energy of a profile from its start to a local time [J]."""
    if time_ms <= 0:
        return 0.0
    point = time_ms // grid_ms
    if first + point >= last:
        return float(cumulative_j[last])
    # Power is constant within a sample, so that E is linear between grid points.
    fraction = (time_ms - point * grid_ms) / grid_ms
    low = cumulative_j[first + point]
    return float(low + fraction * (cumulative_j[first + point + 1] - low))


@njit()
def _add_segments(
    t0_ms: int,
    tables: EnergyTables,
    energy_j: Float64Array,
    output_row: Int64Array,
    start_ms: Int64Array,
    end_ms: Int64Array,
    profile_id: Int32Array,
    offset_ms: Int64Array,
    weight: Float64Array,
) -> None:
    """Add the energy of segments to rows of intervals."""
    # An interval gets the same bits in every block, since edges are those of the
    # segment, never those of the block.
    step_ms, cumulative_j, interval_j = (
        tables.step_ms,
        tables.cumulative_j,
        tables.interval_j,
    )
    n_steps = energy_j.shape[1]
    for row in range(start_ms.size):
        begin_ms, finish_ms = start_ms[row], end_ms[row]
        low = (begin_ms - t0_ms) // step_ms
        high = (finish_ms - 1 - t0_ms) // step_ms
        if high < 0 or low >= n_steps:
            continue
        profile = profile_id[row]
        grid = tables.grid_ms[profile]
        first, last = (
            tables.cumulative_at[profile],
            tables.cumulative_at[profile + 1] - 1,
        )
        # Start of the profile on the run's clock, possibly before the run
        origin_ms = begin_ms - offset_ms[row]
        factor = weight[row]
        out = energy_j[output_row[row]]

        # First and last interval, which the segment may fill in part.
        if low >= 0:
            edge_ms = min(t0_ms + (low + 1) * step_ms, finish_ms)
            out[low] += factor * (
                _energy_until(edge_ms - origin_ms, cumulative_j, first, last, grid)
                - _energy_until(begin_ms - origin_ms, cumulative_j, first, last, grid)
            )
        if high == low:
            continue
        if high < n_steps:
            edge_ms = t0_ms + high * step_ms
            out[high] += factor * (
                _energy_until(finish_ms - origin_ms, cumulative_j, first, last, grid)
                - _energy_until(edge_ms - origin_ms, cumulative_j, first, last, grid)
            )

        # Whole intervals between them, from the rows of the two nearest sample phases.
        first_full, stop = max(low + 1, 0), min(high, n_steps)
        length = tables.n_intervals[profile]
        if length == 0:
            for k in range(first_full, stop):
                edge_ms = t0_ms + k * step_ms - origin_ms
                out[k] += factor * (
                    _energy_until(edge_ms + step_ms, cumulative_j, first, last, grid)
                    - _energy_until(edge_ms, cumulative_j, first, last, grid)
                )
            continue
        # A start u of a grid point after phase p, 0 <= u < 1, has (1 - u) row[p] + u
        # row[p + 1].
        origin_step = (origin_ms - t0_ms) // step_ms
        phase_ms = origin_ms - t0_ms - origin_step * step_ms
        phase = phase_ms // grid
        upper = factor * ((phase_ms - phase * grid) / grid)
        lower = factor - upper
        shift = first_full - origin_step
        n_full = min(stop - first_full, length - shift)
        # The two rows are the energies after and before each grid point
        if grid == step_ms:
            index = min(first + shift, last)  # at the first grid point
            present_j = cumulative_j[index]
            previous_diff_j = present_j - cumulative_j[index - 1]
            for k in range(n_full):
                next_j = cumulative_j[min(index + 1 + k, last)]
                next_diff_j = next_j - present_j
                out[first_full + k] += lower * next_diff_j + upper * previous_diff_j
                present_j, previous_diff_j = next_j, next_diff_j
            continue
        near = tables.interval_at[profile] + phase * length
        far = near + length
        for k in range(n_full):
            out[first_full + k] += (
                lower * interval_j[near + shift + k]
                + upper * interval_j[far + shift + k]
            )


def energies_within(
    segments: Segments, tables: EnergyTables, begin_ms: int, end_ms: int
) -> Float64Array:
    """Return the energy of each segment between two times [J]."""
    energy_j = np.zeros((len(segments), 1))
    if begin_ms < end_ms:  # a single interval, for which there are no rows
        single = tables._replace(
            step_ms=end_ms - begin_ms, n_intervals=0 * tables.n_intervals
        )
        _add_to_row(segments, single, begin_ms, energy_j, np.arange(len(segments)))
    return energy_j[:, 0]


def steady_energies_within(
    segments: Segments, tables: EnergyTables, begin_ms: int, end_ms: int
) -> Float64Array:
    """Return segments' energy between two times at their profiles' mean power [J]."""
    index = segments.profile_id
    first, last = tables.cumulative_at[index], tables.cumulative_at[index + 1] - 1
    profile_j = tables.cumulative_j[last] - tables.cumulative_j[first]
    length_ms = (last - first) * tables.grid_ms[index]
    duration_ms = np.minimum(segments.end_ms, end_ms) - np.maximum(
        segments.start_ms, begin_ms
    )
    return np.asarray(
        segments.weight * profile_j * np.maximum(duration_ms, 0) / length_ms
    )


NS_PER_ADDITION = 1.4
"""Cost of adding one segment to one interval [ns], measured."""


def direct_cost_s(segments: Segments, t0_ms: int, t1_ms: int, step_ms: int) -> float:
    """Estimate the time to add segments directly on one core [s]."""
    covered_ms = np.minimum(segments.end_ms, t1_ms) - np.maximum(
        segments.start_ms, t0_ms
    )
    return float(np.maximum(covered_ms, 0).sum()) / step_ms * NS_PER_ADDITION * 1e-9


def add_directly(
    segments: Segments, tables: EnergyTables, t0_ms: int, energy_j: Float64Array
) -> None:
    """Add the energy of segments to intervals."""
    _add_to_row(segments, tables, t0_ms, energy_j, segments.pool_id.astype(np.int64))


def _add_to_row(
    segments: Segments,
    tables: EnergyTables,
    t0_ms: int,
    energy_j: Float64Array,
    row: Int64Array,
) -> None:
    """Add the energy of each segment to a row of intervals."""
    names = ("start_ms", "end_ms", "profile_id", "offset_ms", "weight")
    _add_segments(t0_ms, tables, energy_j, row, *segments.columns(*names))
