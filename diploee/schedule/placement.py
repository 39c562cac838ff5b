"""Nodes for what is scheduled: which ones of a pool each load holds, from when to when.

A schedule says how many nodes a job holds from when to when; that they are free, the
queue has seen to. Which ones follows from these times alone, whatever engine found
them: at each instant nodes are given back, then taken in the order of the owners. A
stretch that begins where one of its owner ends keeps its nodes, gives back those that
it took last, or takes more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from diploee.base.errors import WorkloadError
from diploee.base.jit import njit
from diploee.base.tables import Int64Array, Table, column, concat
from diploee.base.units import SLOTS_PER_GPU
from diploee.scenario.layout import MOST_IN_RACK
from diploee.scenario.pools import StandingNodes
from diploee.schedule.compiled_gpus import (
    Gpus,
    add_to,
    first_with,
    free_gpus,
    open_gpus,
    take_gpus,
    tree_of,
)
from diploee.schedule.compiled_plan import NEVER_MS

ABSENT = np.iinfo(np.int64).min
"""Owner of the nodes that phases add later; those of the next phases follow it."""

GROUP = MOST_IN_RACK
"""Nodes of a leaf at most: the free ones are the bits of a number."""


@dataclass(frozen=True, eq=False)
class Stretches(Table):
    """Spans of time in which an owner holds a number of slots.

    The nodes' where none share.
    """

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
SPARE = -1
"""Slots of a row that holds nothing; its next is another spare row, that of others
another row of their stretch, or -1."""


class _Leaves(NamedTuple):
    """Free nodes of a pool, and room for the pieces that a stretch takes."""

    group: int  # nodes of a leaf
    by_rack: bool  # whether a stretch gets the fewest leaves
    free: Int64Array  # free nodes of each leaf, as bits
    tree: Int64Array  # a `tree_of` their numbers
    pieces: Int64Array  # first nodes, nodes and slots, shape (3, nodes)


class _Chain(NamedTuple):
    """Stretches, and of each the one of its owner that it follows and that follows."""

    start_ms: Int64Array
    end_ms: Int64Array
    n_slots: Int64Array
    owner: Int64Array
    before: Int64Array
    after: Int64Array


class PlacedPool:
    """The nodes of one pool, those that do not stand held by `ABSENT`.

    The free nodes of each leaf of `group` nodes are bits, their numbers a `tree_of`
    them; `by_rack` a job gets the fewest leaves.
    """

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
        pieces = np.empty((3, n_nodes), dtype=np.int64)
        free, tree = (1 << n_free) - 1, tree_of(n_free)
        self._leaves = _Leaves(group, by_rack, free, tree, pieces)
        self._gpus = open_gpus(n_nodes, n_gpus) if n_gpus else None
        # As in `absent_nodes`
        later = [*standing.added, (NEVER_MS, n_nodes - standing.most)]
        end_ms, added = np.array(later, dtype=np.int64).T
        begins, owner = np.full(added.size, begin_ms), ABSENT + np.arange(added.size)
        first = standing.first + np.cumsum(added) - added
        none, last = np.zeros_like(added), np.full(added.size, -1)
        self._rows = np.column_stack(
            (begins, end_ms, owner, first, added, added, none, last)
        )
        self._spare = -1
        self._most_rows = added.size + n_nodes * (n_gpus * SLOTS_PER_GPU or 1)
        self._make_room(added.size + n_nodes)
        self._stretches = Stretches(begins, end_ms, added, owner)  # that run on
        self._places = np.array(
            [np.arange(added.size), none]
        )  # their last rows, and places on GPUs

    @property
    def held(self) -> HeldNodes:
        """The nodes that are held, until when their stretches end."""
        return HeldNodes(*self._rows[self._rows[:, SLOTS] != SPARE].T[:NEXT])

    def place(self, new: Stretches, adjoin: bool = False) -> HeldNodes:
        """Place stretches that start after all before, by start and owner.

        Those of an owner may `adjoin`. Returns the nodes given back since the last
        call, in the order of their ends.
        """
        n_before = len(self._stretches)
        of = concat([self._stretches, new])
        places = np.full((2, len(of)), -1)
        places[:, :n_before] = self._places
        before, after = np.full((2, len(of)), -1)
        if adjoin:
            order = np.lexsort((of.start_ms, of.owner))
            one, next_ = order[:-1], order[1:]
            follows = (of.owner[one] == of.owner[next_]) & (
                of.end_ms[one] == of.start_ms[next_]
            )
            after[one[follows]], before[next_[follows]] = next_[follows], one[follows]
        # The numbers below times: sorted in a third of argsort's time
        bits = len(of).bit_length()
        keys = np.minimum(of.end_ms, NEVER_MS >> bits) << bits | np.arange(len(of))
        ends = np.sort(keys) & ((1 << bits) - 1)
        per_node = 1 if self._gpus is None else SLOTS_PER_GPU
        # Rows, if each were one node
        n_most = int((-(-of.n_slots // per_node)).sum()) + 1
        self._make_room(min(n_most, self._most_rows))
        gone = np.empty((NEXT, n_most), np.int64)
        n_ended, self._spare, n_gone = _place(
            self._leaves,
            self._gpus,
            n_before,
            _Chain(of.start_ms, of.end_ms, of.n_slots, of.owner, before, after),
            ends,
            places,
            self._rows,
            self._spare,
            gone,
        )
        if n_ended < 0:
            raise WorkloadError(
                f"nodes can't be placed: loads hold {-n_ended} more than their pool "
                "has at once; give loads of your own a pool of their own, or leave "
                "out the nodes' file"
            )
        running = ends[n_ended:]
        self._stretches, self._places = of.take(running), places[:, running]
        return HeldNodes(*gone[:, :n_gone])

    def _make_room(self, n_rows: int) -> None:
        """Add spare rows until there are n."""
        begin = len(self._rows)
        if n_rows > begin:
            more = np.full((n_rows - begin, NEXT + 1), SPARE)
            more[:, NEXT] = np.append(np.arange(begin + 1, n_rows), self._spare)
            self._rows, self._spare = np.concatenate([self._rows, more]), begin


@njit()
def _place(
    leaves: _Leaves,
    gpus: Gpus | None,
    n_before: int,
    stretches: _Chain,
    ends: Int64Array,
    places: Int64Array,
    rows: Int64Array,
    spare: int,
    gone: Int64Array,
) -> tuple[int, int, int]:
    """Place stretches in turn, whose `ends` are in order.

    Fill `rows`, and `gone` as they end. Returns how many ended, the first spare row,
    and the number of those gone. No array is made or replaced in here: numba would
    count who holds it at each turn of the loop.
    """
    start_ms, end_ms, n_slots, owner, before, after = stretches
    head, place, pieces = places[0], places[1], leaves.pieces
    n_ended = n_gone = 0
    for new in range(n_before, start_ms.size):
        now_ms, wanted = start_ms[new], n_slots[new]
        while end_ms[ends[n_ended]] <= now_ms:
            old = ends[n_ended]
            n_ended += 1
            then, row = after[old], head[old]
            more = n_slots[old] if then < 0 else max(n_slots[old] - n_slots[then], 0)
            if gpus is not None:
                free_gpus(gpus, place[old])
            while more > 0:  # what it took last
                given, row = row, rows[row, NEXT]
                # Of a row of nodes: jobs on GPUs keep what they have
                if rows[given, SLOTS] > more:
                    row = given
                    given, spare = spare, rows[spare, NEXT]
                    rows[given] = rows[row]
                    n_kept = rows[row, COUNT] - more
                    rows[row, COUNT] = rows[row, SLOTS] = n_kept
                    rows[given, FIRST] += n_kept
                    rows[given, INTO] += n_kept
                    rows[given, COUNT] = rows[given, SLOTS] = more
                more -= rows[given, SLOTS]
                if gpus is None:
                    _give_back(leaves, rows[given, FIRST], rows[given, COUNT])
                for k in range(NEXT):
                    gone[k, n_gone] = rows[given, k]
                n_gone += 1
                rows[given, SLOTS], rows[given, NEXT], spare = SPARE, spare, given
            if then >= 0:
                head[then] = row
                while row >= 0:
                    rows[row, END] = end_ms[then]
                    row = rows[row, NEXT]
        held = min(n_slots[before[new]], wanted) if before[new] >= 0 else 0
        if gpus is None:
            n_pieces = _take(leaves, wanted - held)
        else:
            place[new] = take_gpus(gpus, wanted)
            n_pieces = _nodes_of(gpus, place[new], wanted, pieces)
        if n_pieces < 0:
            return n_pieces, spare, n_gone
        for piece in range(n_pieces):
            row, spare = spare, rows[spare, NEXT]
            rows[row, START], rows[row, END], rows[row, OWNER] = (
                now_ms,
                end_ms[new],
                owner[new],
            )
            rows[row, FIRST], rows[row, COUNT] = pieces[0, piece], pieces[1, piece]
            rows[row, SLOTS], rows[row, INTO] = pieces[2, piece], held
            rows[row, NEXT], head[new] = head[new], row
            held += pieces[2, piece]
    return n_ended, spare, n_gone


@njit()
def _take(leaves: _Leaves, wanted: int) -> int:
    """Take free nodes, list their pieces, and return the number of pieces."""
    group, by_rack, free, tree, pieces = leaves
    n_leaves, n_pieces, end = tree.size // 2, 0, -1
    while wanted > 0:
        if not tree[1]:
            return -wanted
        leaf = first_with(tree, min(wanted, tree[1]) if by_rack else 1)
        n_taken = min(wanted, tree[n_leaves + leaf])
        add_to(tree, leaf, -n_taken)
        wanted -= n_taken
        while n_taken:
            first = _lowest(free[leaf])
            count = min(_lowest(~(free[leaf] >> first)), n_taken)
            free[leaf] ^= ((1 << count) - 1) << first
            n_taken -= count
            node = leaf * group + first
            if node != end:
                pieces[0, n_pieces], pieces[1, n_pieces] = node, 0
                n_pieces += 1
            pieces[1, n_pieces - 1] += count
            pieces[2, n_pieces - 1] = pieces[1, n_pieces - 1]
            end = node + count
    return n_pieces


@njit()
def _lowest(bits: int) -> int:
    """Return the place of the lowest bit that is set.

    The exponent of that bit as a double.
    """
    return int((np.float64(bits & -bits).view(np.int64) >> 52) - 1023)


@njit()
def _give_back(leaves: _Leaves, node: int, n_nodes: int) -> None:
    """Give back nodes side by side."""
    group, free, tree = leaves.group, leaves.free, leaves.tree
    end = node + n_nodes
    while node < end:
        leaf = node // group
        count = min((leaf + 1) * group, end) - node
        free[leaf] |= ((1 << count) - 1) << (node - leaf * group)
        add_to(tree, leaf, count)
        node += count


@njit()
def _nodes_of(gpus: Gpus, place: int, n_slots: int, pieces: Int64Array) -> int:
    """List the nodes that a job has GPUs of, and its slots there; return how many."""
    gpu, left, n_pieces = place // (SLOTS_PER_GPU + 1), n_slots, 0
    while gpu >= 0:
        node, n_here = gpu // gpus.per_node, min(left, SLOTS_PER_GPU)
        if not n_pieces or pieces[0, n_pieces - 1] != node:
            pieces[0, n_pieces], pieces[1, n_pieces], pieces[2, n_pieces] = node, 1, 0
            n_pieces += 1
        pieces[2, n_pieces - 1] += n_here
        left -= n_here
        gpu = gpus.next_gpu[gpu] if n_slots >= SLOTS_PER_GPU else -1
    return n_pieces
