"""A binary heap in three rows of an array, the smallest of the first row on top."""

from __future__ import annotations

import numpy as np

from diploee.jit import njit
from diploee.tables import Int64Array


def heap(size: int) -> Int64Array:
    """Return room for a heap."""
    return np.empty((3, size), dtype=np.int64)


@njit()
def sift_up(heap: Int64Array, size: int, key: int, value: int, other: int) -> None:
    """Insert an entry into a heap of `size` entries."""
    place = size
    while place > 0:
        parent = (place - 1) >> 1
        if heap[0, parent] <= key:
            break
        heap[0, place], heap[1, place], heap[2, place] = (
            heap[0, parent], heap[1, parent], heap[2, parent],
        )  # fmt: skip
        place = parent
    heap[0, place], heap[1, place], heap[2, place] = key, value, other


@njit()
def sift_down(heap: Int64Array, size: int) -> None:
    """Fill the root of a heap with its entry at `size`, which leaves the heap."""
    key, place = heap[0, size], 0
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and heap[0, child + 1] < heap[0, child]:
            child += 1
        if heap[0, child] >= key:
            break
        heap[0, place], heap[1, place], heap[2, place] = (
            heap[0, child], heap[1, child], heap[2, child],
        )  # fmt: skip
        place = child
    heap[0, place], heap[1, place], heap[2, place] = key, heap[1, size], heap[2, size]


@njit()
def first_from(rising: Int64Array, n_values: int, least: int) -> int:
    """Return the first index, among the first `n_values`, of a value that is no less."""
    first, end = 0, n_values
    while first < end:
        middle = (first + end) >> 1
        if rising[middle] < least:
            first = middle + 1
        else:
            end = middle
    return first
