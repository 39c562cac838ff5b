"""Placement: the nodes of a pool that each load occupies over time.

A schedule has the number of nodes of each job over time; the placement determines which
nodes these are. At each time, nodes are released, then allocated to owners in the order
of their numbers. If an interval of an owner directly follows another one, the owner
keeps its nodes; if it needs fewer, it releases the nodes allocated last, and if it
needs more, further nodes are allocated.
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
    max_tree,
    open_gpus,
    place_intervals,
)

ABSENT = np.iinfo(np.int64).min
"""Owner of the nodes that are not yet installed; later phases have the following
numbers."""

GROUP = MAX_IN_RACK
"""Maximum number of nodes of a tree leaf; free nodes are the bits of an integer."""


@dataclass(frozen=True, eq=False)
class SlotIntervals(Table):
    """Time intervals in which an owner occupies a number of slots.

    A slot is a node if nodes are not shared.
    """

    start_ms: Int64Array = column("int64")
    end_ms: Int64Array = column("int64")
    n_slots: Int64Array = column("int64")
    owner: Int64Array = column("int64")


@dataclass(frozen=True, eq=False)
class HeldNodes(Table):
    """Contiguous nodes that an owner occupies, with start and end times."""

    start_ms: Int64Array = column("int64")
    end_ms: Int64Array = column("int64")
    owner: Int64Array = column("int64")
    first: Int64Array = column("int64")  # number of the first node in its pool
    n_nodes: Int64Array = column("int64")
    n_slots: Int64Array = column("int64")  # slots of the owner on these nodes
    into: Int64Array = column("int64")  # slots of the owner before it got these
    pool_id: Int64Array = column("int64", default=0)  # index of the pool


class PlacedPool:
    """Nodes of one pool over time, with those not yet installed owned by `ABSENT`.

    Nodes are divided into groups of `group` nodes. The free nodes of a group are the
    bits of an integer, and the numbers of free nodes are the leaves of a binary tree of
    maxima. With `by_rack`, a job is placed in as few groups as possible.
    """

    def __init__(
        self,
        installed: InstalledNodes,
        n_nodes: int,
        begin_ms: int = 0,
        n_gpus: int = 0,
        group: int = GROUP,
        by_rack: bool = False,
    ) -> None:
        n_free = np.clip(installed.first - np.arange(0, n_nodes, group), 0, group)
        pieces = np.empty((3, n_nodes), dtype=np.int64)
        free, tree = (1 << n_free) - 1, max_tree(n_free)
        self._leaves = Leaves(group, by_rack, free, tree, pieces)
        self._gpus = open_gpus(n_nodes, n_gpus) if n_gpus else None
        # The nodes of later phases, and those never installed
        additions = [*installed.added, (NEVER_MS, n_nodes - installed.n_at_end)]
        end_ms, added = np.array(additions, dtype=np.int64).T
        begins, owner = np.full(added.size, begin_ms), ABSENT + np.arange(added.size)
        first = installed.first + np.cumsum(added) - added
        zero, no_gpu = np.zeros_like(added), np.full(added.size, -1)
        self._rows = np.column_stack(
            (begins, end_ms, owner, first, added, added, zero, no_gpu)
        )
        self._spare_row = -1
        self._max_rows = added.size + n_nodes * (n_gpus * SLOTS_PER_GPU or 1)
        self._add_spare_rows(added.size + n_nodes)
        self._intervals = SlotIntervals(begins, end_ms, added, owner)  # running ones
        self._places = np.array(
            [np.arange(added.size), zero]
        )  # their last rows, and places on GPUs

    @property
    def allocated(self) -> HeldNodes:
        """Nodes that are occupied, until the ends of their intervals."""
        return HeldNodes(*self._rows[self._rows[:, SLOTS] != SPARE].T[:NEXT])

    def place(self, new: SlotIntervals, adjoin: bool = False) -> HeldNodes:
        """Place new intervals; return the nodes released since the last call.

        New intervals start after all earlier ones, and are sorted by start and owner.
        If intervals of an owner may be adjacent, set `adjoin`. Released nodes are
        sorted by their ends.
        """
        n_before = len(self._intervals)
        intervals = concat([self._intervals, new])
        places = np.full((2, len(intervals)), -1)
        places[:, :n_before] = self._places
        previous, following = np.full((2, len(intervals)), -1)
        if adjoin:
            order = np.lexsort((intervals.start_ms, intervals.owner))
            earlier, later = order[:-1], order[1:]
            follows = (intervals.owner[earlier] == intervals.owner[later]) & (
                intervals.end_ms[earlier] == intervals.start_ms[later]
            )
            following[earlier[follows]], previous[later[follows]] = (
                later[follows],
                earlier[follows],
            )
        # Row numbers in the low bits of the times: faster than argsort by three
        bits = len(intervals).bit_length()
        keys = np.minimum(intervals.end_ms, NEVER_MS >> bits) << bits | np.arange(
            len(intervals)
        )
        ends = np.sort(keys) & ((1 << bits) - 1)
        per_node = 1 if self._gpus is None else SLOTS_PER_GPU
        # Rows, if each were one node
        max_rows = int((-(-intervals.n_slots // per_node)).sum()) + 1
        self._add_spare_rows(min(max_rows, self._max_rows))
        released = np.empty((NEXT, max_rows), np.int64)
        n_ended, self._spare_row, n_gone = place_intervals(
            self._leaves,
            self._gpus,
            n_before,
            Chain(
                intervals.start_ms,
                intervals.end_ms,
                intervals.n_slots,
                intervals.owner,
                previous,
                following,
            ),
            ends,
            places,
            self._rows,
            self._spare_row,
            released,
        )
        if n_ended < 0:
            raise WorkloadError(
                f"nodes can't be placed: loads hold {-n_ended} more than their pool "
                "has at once; give loads of your own a pool of their own, or leave "
                "out the nodes' file"
            )
        running = ends[n_ended:]
        self._intervals, self._places = intervals.take(running), places[:, running]
        return HeldNodes(*released[:, :n_gone])

    def _add_spare_rows(self, n_rows: int) -> None:
        """Add spare rows up to `n_rows` rows."""
        begin = len(self._rows)
        if n_rows > begin:
            spare_rows = np.full((n_rows - begin, NEXT + 1), SPARE)
            spare_rows[:, NEXT] = np.append(
                np.arange(begin + 1, n_rows), self._spare_row
            )
            self._rows, self._spare_row = (
                np.concatenate([self._rows, spare_rows]),
                begin,
            )
