"""Which GPU a row belongs to, where only the rhythm of the rows tells: all GPUs of a tick in turn.

Rows of one tick follow each other within milliseconds, ticks an interval apart, and a tick has one
row per GPU. Of all GPU counts the largest is taken whose longest waits, as many as there would be
ticks, stand out from the others and come regularly.
"""

from __future__ import annotations

import numpy as np

from diploee.tables import Float64Array, Int64Array

MOST_GPUS = 32
LOOK_AT_ROWS = 20_000
STAND_OUT = 1.5
"""The waits between ticks are longer than those within by this factor, or more."""
TOLERATED = 0.02
"""Part of the waits, on either side, that may be late or early."""
REGULAR = 0.9
"""Least part of the ticks that must have a row of every GPU."""


def gpu_of_rows(t_us: Int64Array, n_gpus: int | None = None) -> tuple[Int64Array, int] | None:
    """Return the GPU of each row from 0 on, -1 in incomplete ticks, and the number of GPUs."""
    if t_us.size == 0:
        return np.zeros(0, dtype=np.int64), n_gpus or 1
    waits = np.abs(np.diff(t_us)).astype(np.float64)
    sample = waits[:LOOK_AT_ROWS]
    shown = _shown_gpus(sample)
    if n_gpus is None or n_gpus == shown:
        return _split(waits, shown, _threshold(sample, shown))
    threshold = _threshold(sample, n_gpus)
    return None if shown > 1 and threshold is None else _split(waits, n_gpus, threshold)


def _shown_gpus(waits: Float64Array) -> int:
    """Return how many GPUs the ticks show, 1 where there are no ticks of several rows."""
    for candidate in range(min(MOST_GPUS, (waits.size + 1) // 2), 1, -1):
        threshold = _threshold(waits, candidate)
        if threshold is not None and _split(waits, candidate, threshold) is not None:
            return candidate
    return 1


def _threshold(waits: Float64Array, n_gpus: int) -> float | None:
    """Return a wait between those within a tick and those between ticks; None if they don't part.

    `n_gpus` GPUs make one in `n_gpus` waits a wait between ticks.
    """
    n_between = max(1, round((waits.size + 1) / n_gpus) - 1)
    if n_gpus == 1 or waits.size <= n_between:
        return None
    ordered = np.sort(waits)
    within, between = ordered[:-n_between], ordered[-n_between:]
    high = float(np.quantile(within, 1 - TOLERATED))
    low = float(np.quantile(between, TOLERATED))
    return (high + low) / 2 if low > STAND_OUT * high else None


def _split(
    waits: Float64Array, n_gpus: int, threshold: float | None
) -> tuple[Int64Array, int] | None:
    if n_gpus == 1:
        return np.zeros(waits.size + 1, dtype=np.int64), 1
    n_rows = waits.size + 1
    if threshold is None:  # the ticks can't be seen, so every row is believed to be there
        gpu = np.arange(n_rows) % n_gpus
        gpu[n_rows - n_rows % n_gpus :] = -1
        return gpu, n_gpus
    starts = np.concatenate(([0], np.flatnonzero(waits > threshold) + 1))
    sizes = np.diff(starts, append=n_rows)
    whole = sizes == n_gpus
    if np.count_nonzero(whole) < REGULAR * sizes.size:
        return None
    nth = np.arange(n_rows) - np.repeat(starts, sizes)
    return np.where(np.repeat(whole, sizes), nth, -1), n_gpus
