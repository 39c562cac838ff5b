"""First fit of jobs into parts of nodes, compiled; a GPU has `SLOTS_PER_GPU` slots.

The first GPU with n free slots, and the first node with n free GPUs, are found in two
binary trees whose knots hold the most of a GPU, of a node, below them. The GPUs of a
job that has them as a whole are chained, as no other job is on them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from diploee.base.jit import njit
from diploee.base.tables import Int64Array
from diploee.base.units import SLOTS_PER_GPU


class Gpus(NamedTuple):
    """GPUs of a pool."""

    per_node: int  # GPUs of a node
    # Trees of the free slots of GPUs and of the wholly free GPUs of nodes
    gpus: Int64Array
    nodes: Int64Array
    next_gpu: Int64Array  # further GPU of the job that has a GPU as a whole, -1 = none
    free_nodes: Int64Array  # number of wholly free nodes


def open_gpus(n_nodes: int, per_node: int) -> Gpus:
    """Return the GPUs of a pool, all of them free."""
    n_gpus = n_nodes * per_node
    gpus, nodes = (
        tree_of(np.full(n_gpus, SLOTS_PER_GPU)),
        tree_of(np.full(n_nodes, per_node)),
    )
    return Gpus(per_node, gpus, nodes, np.full(n_gpus, -1), np.array([n_nodes]))


def tree_of(leaves: Int64Array) -> Int64Array:
    """Return a tree of maxima.

    The root at 1, the two below knot k at 2 k and 2 k + 1.
    """
    n_leaves = 1 << (leaves.size - 1).bit_length()
    tree = np.zeros(2 * n_leaves, dtype=np.int64)
    tree[n_leaves : n_leaves + leaves.size] = leaves
    for knot in range(n_leaves - 1, 0, -1):
        tree[knot] = tree[2 * knot : 2 * knot + 2].max()
    return tree


@njit()
def fits_gpus(of: Gpus, asked: int) -> bool:
    """Return whether a job on some slots fits now."""
    if asked < SLOTS_PER_GPU:
        return bool(of.gpus[1] >= asked)
    wanted = -(-asked // SLOTS_PER_GPU)
    if wanted < of.per_node:
        return bool(of.nodes[1] >= wanted)
    return bool(of.free_nodes[0] * of.per_node >= wanted)


@njit()
def take_gpus(of: Gpus, asked: int) -> int:
    """Take slots for a job that fits.

    Return its place, from which `free_gpus` frees them.
    """
    part, first = min(asked, SLOTS_PER_GPU), -1
    if asked < SLOTS_PER_GPU:
        first = first_with(of.gpus, asked)
        _change(of, first, -asked)
    else:
        wanted = -(-asked // SLOTS_PER_GPU)
        gpu = first_with(of.nodes, min(wanted, of.per_node)) * of.per_node
        for _ in range(wanted):
            if gpu % of.per_node == 0 and wanted > of.per_node:
                gpu = first_with(of.nodes, of.per_node) * of.per_node
            while of.gpus[of.gpus.size // 2 + gpu] < SLOTS_PER_GPU:
                gpu += 1
            _change(of, gpu, -SLOTS_PER_GPU)
            of.next_gpu[gpu], first = first, gpu
            gpu += 1
    return first * (SLOTS_PER_GPU + 1) + part


@njit()
def free_gpus(of: Gpus, place: int) -> None:
    """Free the GPUs of a job."""
    gpu, part = place // (SLOTS_PER_GPU + 1), place % (SLOTS_PER_GPU + 1)
    while gpu >= 0:
        _change(of, gpu, part)
        gpu = of.next_gpu[gpu] if part == SLOTS_PER_GPU else -1


@njit(inline="always")
def first_with(tree: Int64Array, least: int) -> int:
    """Return the first leaf of at least so much; there is one."""
    n_leaves, knot = tree.size // 2, 1
    while knot < n_leaves:
        knot = 2 * knot if tree[2 * knot] >= least else 2 * knot + 1
    return knot - n_leaves


@njit(inline="always")
def add_to(tree: Int64Array, leaf: int, more: int) -> int:
    """Add to a leaf; return what it holds then."""
    knot = tree.size // 2 + leaf
    tree[knot] += more
    held = tree[knot]
    while knot > 1:
        knot //= 2
        most = max(tree[2 * knot], tree[2 * knot + 1])
        if tree[knot] == most:
            break
        tree[knot] = most
    return int(held)


@njit()
def _change(of: Gpus, gpu: int, n_slots: int) -> None:
    """Free a number of slots of a GPU, or take them where negative."""
    held = add_to(of.gpus, gpu, n_slots)
    freed = int(held == SLOTS_PER_GPU) - int(held - n_slots == SLOTS_PER_GPU)
    if freed:
        n_free = add_to(of.nodes, gpu // of.per_node, freed)
        of.free_nodes[0] += int(n_free == of.per_node) - int(
            n_free - freed == of.per_node
        )
