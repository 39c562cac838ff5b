"""Nodes for what is scheduled: which ones of a pool each load holds, from when to when.

A schedule says how many nodes a job holds from when to when; that they are free, the queue has seen
to. Which ones follows from these times alone, whatever engine found them: at each instant nodes
are given back, then taken in the order of the owners. A stretch that begins where one of its owner
ends keeps its nodes, gives back those that it took last, or takes more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from diploee.errors import WorkloadError
from diploee.jit import njit
from diploee.scenario.layout import MOST_IN_RACK
from diploee.scenario.models import StandingNodes
from diploee.schedule.compiled_gpus import (
    Gpus,
    add_to,
    first_with,
    free_gpus,
    open_gpus,
    take_gpus,
    tree_of,
)
from diploee.schedule.compiled_plan import NEVER_MS, heap, sift_down, sift_up
from diploee.tables import Int64Array, Table, column, concat
from diploee.units import SLOTS_PER_GPU

ABSENT = np.iinfo(np.int64).min
"""Owner of the nodes that phases add later; those of the next phases follow it."""

GROUP = MOST_IN_RACK
"""Nodes of a leaf at most: the free ones are the bits of a number."""


@dataclass(frozen=True, eq=False)
class Stretches(Table):
    """Spans of time in which an owner holds a number of slots; the nodes' where none share."""

    start_ms: Int64Array = column("int64")
    end_ms: Int64Array = column("int64")
    n_slots: Int64Array = column("int64")
    owner: Int64Array = column("int64")


@dataclass(frozen=True, eq=False)
class HeldNodes(Table):
    """Nodes side by side that an owner holds from when to when."""

    start_ms: Int64Array = column("int64")
    end_ms: Int64Array = column("int64")
    owner: Int64Array = column("int64")
    first: Int64Array = column("int64")  # number of the first node in its pool
    n_nodes: Int64Array = column("int64")
    n_slots: Int64Array = column("int64")  # slots that it holds on them
    into: Int64Array = column("int64")  # slots that it held before it took these
    pool_id: Int64Array = column("int64", default=0)  # index of the pool


START, END, OWNER, FIRST, COUNT, SLOTS, INTO, NEXT = range(8)
GIVEN_BACK = -2
"""Next of rows that are given back; that of others is another row of their stretch, or -1."""


class _Nodes(NamedTuple):
    """The free nodes of a pool."""

    group: int  # nodes of a leaf
    by_rack: bool  # whether a job gets the fewest leaves
    free: Int64Array  # those of each leaf, as bits
    tree: Int64Array  # their number, see `tree_of`


class PlacedPool:
    """The nodes of one pool; those that do not stand are held by `ABSENT` until they do."""

    def __init__(
        self,
        standing: StandingNodes,
        n_nodes: int,
        begin_ms: int = 0,
        n_gpus: int = 0,
        group: int = GROUP,
        by_rack: bool = False,
    ) -> None:
        n_free = np.clip(standing.first - np.arange(0, n_nodes, group), 0, group)
        self._gpus = open_gpus(n_nodes, n_gpus) if n_gpus else None
        self._nodes = _Nodes(group, by_rack, (1 << n_free) - 1, tree_of(n_free))
        later = [*standing.added, (NEVER_MS, n_nodes - standing.most)]  # as in `absent_nodes`
        end_ms, added = np.array(later, dtype=np.int64).T
        begins, owner = np.full(added.size, begin_ms), ABSENT + np.arange(added.size)
        first = standing.first + np.cumsum(added) - added
        none, last = np.zeros_like(added), np.full(added.size, -1)
        rows = (begins, end_ms, owner, first, added, added, none, last)
        self._rows = np.column_stack(rows)
        self._stretches = Stretches(begins, end_ms, added, owner)
        self._head = np.arange(added.size)
        self._running = heap(added.size)
        self._running[:] = np.array([end_ms, self._head, none])

    @property
    def held(self) -> HeldNodes:
        """The nodes that are held, until when their stretches end."""
        return HeldNodes(*self._rows.T[:NEXT])

    def place(self, new: Stretches, adjoin: bool = False) -> HeldNodes:
        """Place stretches that start after all before, in order of their starts and owners.

        Those of an owner may `adjoin`. Returns the nodes given back since the last call.
        """
        n_before = len(self._stretches)
        of = concat([self._stretches, new])
        room = heap(len(of) + 1)
        room[:, :n_before] = self._running[:, :n_before]
        head = np.full(len(of), -1)
        head[:n_before] = self._head
        before, after = np.full((2, len(of)), -1)
        if adjoin:
            order = np.lexsort((of.start_ms, of.owner))
            one, next_ = order[:-1], order[1:]
            follows = (of.owner[one] == of.owner[next_]) & (of.end_ms[one] == of.start_ms[next_])
            after[one[follows]], before[next_[follows]] = next_[follows], one[follows]
        rows, n_rows, n_running = _place(
            self._nodes, self._gpus, room, n_before, of.start_ms, of.end_ms, of.n_slots, of.owner,
            before, after, head, self._rows,
        )  # fmt: skip
        if n_rows < 0:
            raise WorkloadError(
                f"nodes can't be placed: loads hold {-n_rows} more than their pool has at once; "
                "give loads of your own a pool of their own, or leave out the nodes' file"
            )
        rows = rows[:n_rows]
        kept = rows[:, NEXT] != GIVEN_BACK
        number = np.append(np.cumsum(kept) - 1, -1)  # the last of it, for a next of -1
        gone, self._rows = rows[~kept], rows[kept]
        self._rows[:, NEXT] = number[self._rows[:, NEXT]]
        running = room[1, :n_running]
        self._stretches, self._head = of.take(running), number[head[running]]
        self._running = room[:, :n_running].copy()
        self._running[1] = np.arange(n_running)
        return HeldNodes(*gone.T[:NEXT])


@njit()
def _place(
    of: _Nodes,
    gpus: Gpus | None,
    running: Int64Array,
    n_running: int,
    start_ms: Int64Array,
    end_ms: Int64Array,
    n_slots: Int64Array,
    owner: Int64Array,
    before: Int64Array,
    after: Int64Array,
    head: Int64Array,
    rows: Int64Array,
) -> tuple[Int64Array, int, int]:
    """Place stretches in turn; return rows, their number and that of stretches that run on."""
    n_rows = rows.shape[0]
    rows = _with_room(rows, n_rows, 3 * (start_ms.size - n_running))
    for new in range(n_running, start_ms.size):
        now_ms, wanted = start_ms[new], n_slots[new]
        rows = _with_room(rows, n_rows, wanted + n_running)
        while n_running and running[0, 0] <= now_ms:
            old, place = running[1, 0], running[2, 0]
            n_running -= 1
            sift_down(running, n_running)
            then = after[old]
            more = n_slots[old] if then < 0 else max(n_slots[old] - n_slots[then], 0)
            if gpus is not None:
                free_gpus(gpus, place)
            n_rows, row = _give_back(of, gpus, rows, n_rows, head[old], more)
            if then >= 0:
                head[then] = row
                while row >= 0:
                    rows[row, END] = end_ms[then]
                    row = rows[row, NEXT]
        held = place = 0
        if before[new] >= 0:
            held = min(n_slots[before[new]], wanted)
        first_new = n_rows
        if gpus is not None:
            place = take_gpus(gpus, wanted)
            n_rows = _rows_of_gpus(gpus, place, wanted, rows, n_rows)
        else:
            n_rows = _take(of, rows, n_rows, wanted - held)
            if n_rows < 0:
                return rows, n_rows, 0
        for row in range(first_new, n_rows):
            rows[row, START], rows[row, END], rows[row, OWNER] = now_ms, end_ms[new], owner[new]
            rows[row, INTO], rows[row, NEXT] = held, head[new]
            held += rows[row, SLOTS]
            head[new] = row
        sift_up(running, n_running, end_ms[new], new, place)
        n_running += 1
    return rows, n_rows, n_running


@njit()
def _with_room(rows: Int64Array, n_rows: int, n_more: int) -> Int64Array:
    """Return rows with room for n more."""
    if n_rows + n_more <= rows.shape[0]:
        return rows
    room = np.empty((2 * (n_rows + n_more), rows.shape[1]), dtype=np.int64)
    room[:n_rows] = rows[:n_rows]
    return room


@njit()
def _take(of: _Nodes, rows: Int64Array, n_rows: int, wanted: int) -> int:
    """Take free nodes and add their rows; return the number of rows."""
    n_leaves, first_new = of.tree.size // 2, n_rows
    while wanted > 0:
        if not of.tree[1]:
            return -wanted
        leaf = first_with(of.tree, min(wanted, of.tree[1]) if of.by_rack else 1)
        n_taken = min(wanted, of.tree[n_leaves + leaf])
        add_to(of.tree, leaf, -n_taken)
        wanted -= n_taken
        while n_taken:
            first = _lowest(of.free[leaf])
            count = min(_lowest(~(of.free[leaf] >> first)), n_taken)
            of.free[leaf] ^= ((1 << count) - 1) << first
            n_taken -= count
            node, last = leaf * of.group + first, n_rows - 1
            if n_rows == first_new or rows[last, FIRST] + rows[last, COUNT] != node:
                rows[n_rows, FIRST], rows[n_rows, COUNT] = node, 0
                last, n_rows = n_rows, n_rows + 1
            rows[last, COUNT] += count
            rows[last, SLOTS] = rows[last, COUNT]
    return n_rows


@njit()
def _lowest(bits: int) -> int:
    """Return the place of the lowest bit that is set: the exponent of that bit as a double."""
    return int((np.float64(bits & -bits).view(np.int64) >> 52) - 1023)


@njit()
def _give_back(
    of: _Nodes, gpus: Gpus | None, rows: Int64Array, n_rows: int, row: int, wanted: int
) -> tuple[int, int]:
    """Give back the slots that a stretch took last; return the number of rows, and its last."""
    while wanted > 0:
        given, row = row, rows[row, NEXT]
        if rows[given, SLOTS] > wanted:  # of a row of nodes, as jobs on GPUs keep what they have
            row, given, n_rows = given, n_rows, n_rows + 1
            rows[given] = rows[row]
            n_kept = rows[row, COUNT] - wanted
            rows[row, COUNT] = rows[row, SLOTS] = n_kept
            rows[given, FIRST] += n_kept
            rows[given, INTO] += n_kept
            rows[given, COUNT] = rows[given, SLOTS] = wanted
        wanted -= rows[given, SLOTS]
        rows[given, NEXT] = GIVEN_BACK
        if gpus is None:
            node, end = rows[given, FIRST], rows[given, FIRST] + rows[given, COUNT]
            while node < end:
                leaf = node // of.group
                count = min((leaf + 1) * of.group, end) - node
                of.free[leaf] |= ((1 << count) - 1) << (node - leaf * of.group)
                add_to(of.tree, leaf, count)
                node += count
    return n_rows, row


@njit()
def _rows_of_gpus(gpus: Gpus, place: int, n_slots: int, rows: Int64Array, n_rows: int) -> int:
    """Add a row for each node that a job has GPUs of; return the number of rows."""
    gpu, left, last = place // (SLOTS_PER_GPU + 1), n_slots, -1
    while gpu >= 0:
        node, n_here = gpu // gpus.per_node, min(left, SLOTS_PER_GPU)
        if last < 0 or rows[last, FIRST] != node:
            last, n_rows = n_rows, n_rows + 1
            rows[last, FIRST], rows[last, COUNT], rows[last, SLOTS] = node, 1, 0
        rows[last, SLOTS] += n_here
        left -= n_here
        gpu = gpus.next_gpu[gpu] if n_slots >= SLOTS_PER_GPU else -1
    return n_rows
