"""Stamps that jump back: which rows to keep so that time goes on."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from diploee.tables import Int64Array


def longest_increasing(t_us: Int64Array) -> Int64Array:
    """Return the rows of the longest increasing run of stamps; of equal stamps the first."""
    if (t_us[1:] > t_us[:-1]).all():
        return np.arange(t_us.size)
    # Patience sorting: of all increasing runs of k + 1 stamps so far, the lowest last one.
    last_us: list[int] = []
    last_row: list[int] = []
    row_before = np.full(t_us.size, -1)
    for row, stamp_us in enumerate(t_us.tolist()):
        k = bisect_left(last_us, stamp_us)
        if k < len(last_us) and last_us[k] == stamp_us:
            continue
        last_us[k : k + 1] = [stamp_us]
        last_row[k : k + 1] = [row]
        if k:
            row_before[row] = last_row[k - 1]
    kept = np.empty(len(last_row), dtype=np.int64)
    row = last_row[-1]
    for k in reversed(range(kept.size)):
        kept[k] = row
        row = int(row_before[row])
    return kept
