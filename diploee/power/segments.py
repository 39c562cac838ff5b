"""`Segments`: the one table that every kind of load lowers to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from diploee.tables import Float64Array, Int16Array, Int32Array, Int64Array, Table, column


@dataclass(frozen=True, eq=False)
class Segments(Table):
    """From `start_ms` to `end_ms`, add `weight` times a profile, read from `offset_ms` on.

    Parameters
    ----------
    start_ms, end_ms : numpy.ndarray, int64
        Span of the segment [ms], ``start_ms < end_ms``.
    pool_id : numpy.ndarray, int16
        Pool whose nodes it occupies.
    n_nodes : numpy.ndarray, int32
        Nodes that it occupies.
    profile_id : numpy.ndarray, int32
        Profile, an index into the library.
    offset_ms : numpy.ndarray, int64
        Place in the profile at which the segment starts [ms].
    weight : numpy.ndarray, float64
        Factor on the profile's power.
    """

    start_ms: Int64Array = column("int64")
    end_ms: Int64Array = column("int64")
    pool_id: Int16Array = column("int16")
    n_nodes: Int32Array = column("int32")
    profile_id: Int32Array = column("int32")
    offset_ms: Int64Array = column("int64")
    weight: Float64Array = column("float64")


def sorted_by_start(segments: Segments) -> Segments:
    """Return the segments in the order of their starts."""
    if (np.diff(segments.start_ms) >= 0).all():
        return segments
    return segments.take(np.argsort(segments.start_ms, kind="stable"))


def longest_ms(segments: Segments) -> int:
    """Return the length of the longest segment [ms]."""
    return int((segments.end_ms - segments.start_ms).max(initial=0))


def overlapping(segments: Segments, longest_ms: int, t0_ms: int, t1_ms: int) -> Segments:
    """Return a run of sorted segments that holds all that overlap a span, without copying."""
    low, high = np.searchsorted(segments.start_ms, [t0_ms - longest_ms, t1_ms])
    return segments.take(slice(low, high))
