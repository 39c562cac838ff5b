"""Placement: the nodes of a pool that each load holds over time.

A schedule says how many nodes a job holds from when to when; that they are free, the
queue has seen to. Which ones follows from these times alone, whatever engine found
them: at each instant nodes are given back, then taken in the order of the owners. A
stretch that begins where one of its owner ends keeps its nodes, gives back those that
it took last, or takes more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from diploee.base.errors import WorkloadError
from diploee.base.tables import Int64Array, Table, column, concat
from diploee.base.units import SLOTS_PER_GPU
from diploee.scenario.layout import MAX_IN_RACK
from diploee.scenario.pools import InstalledNodes
from diploee.schedule.kernels import (
    NEVER_MS,
    NEXT,
    SLOTS,
    SPARE,
    Chain,
    Leaves,
    open_gpus,
    place_stretches,
    tree_of,
)

ABSENT = np.iinfo(np.int64).min
"""Owner of the nodes that phases add later; those of the next phases follow it."""

GROUP = MAX_IN_RACK
"""Nodes of a leaf at most: the free ones are the bits of a number."""


@dataclass(frozen=True, eq=False)
class SlotIntervals(Table):
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


class PlacedPool:
    """The nodes of one pool, those that do not stand held by `ABSENT`.

    The free nodes of each leaf of `group` nodes are bits, their numbers a `tree_of`
    them; `by_rack` a job gets the fewest leaves.
    """

    def __init__(
        self,
        standing: InstalledNodes,
        n_nodes: int,
        begin_ms: int = 0,
        n_gpus: int = 0,
        group: int = GROUP,
        by_rack: bool = False,
    ) -> None:
        n_free = np.clip(standing.first - np.arange(0, n_nodes, group), 0, group)
        pieces = np.empty((3, n_nodes), dtype=np.int64)
        free, tree = (1 << n_free) - 1, tree_of(n_free)
        self._leaves = Leaves(group, by_rack, free, tree, pieces)
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
        self._stretches = SlotIntervals(begins, end_ms, added, owner)  # that run on
        self._places = np.array(
            [np.arange(added.size), none]
        )  # their last rows, and places on GPUs

    @property
    def held(self) -> HeldNodes:
        """The nodes that are held, until when their stretches end."""
        return HeldNodes(*self._rows[self._rows[:, SLOTS] != SPARE].T[:NEXT])

    def place(self, new: SlotIntervals, adjoin: bool = False) -> HeldNodes:
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
        n_ended, self._spare, n_gone = place_stretches(
            self._leaves,
            self._gpus,
            n_before,
            Chain(of.start_ms, of.end_ms, of.n_slots, of.owner, before, after),
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
