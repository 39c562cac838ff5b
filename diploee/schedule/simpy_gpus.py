"""The SimPy engine of a pool that allocates GPUs: strict FIFO with first fit."""

from __future__ import annotations

import numpy as np
import simpy

from diploee.schedule.policies.fifo import StrictFifo
from diploee.schedule.simpy_engine import SimpyCluster
from diploee.tables import Int64Array
from diploee.units import SLOTS_PER_GPU


class SimpyGpus(SimpyCluster):
    """One pool of nodes of which jobs may have a part; `free_nodes` are free slots of its GPUs.

    A job on a part of a GPU takes it of the first GPU with as much free; one on fewer GPUs than a
    node has takes the first wholly free ones of the first node with as many; a wider one the first
    nodes that are wholly free. The head of the queue waits until it fits.

    Parameters
    ----------
    n_nodes, gpus_per_node : int
        Nodes of the pool and GPUs of each.
    begin_ms : int
        Time at which the simulation begins [ms].
    """

    def __init__(self, n_nodes: int, gpus_per_node: int, begin_ms: int = 0) -> None:
        n_gpus = n_nodes * gpus_per_node
        super().__init__(n_gpus * SLOTS_PER_GPU, StrictFifo(), begin_ms=begin_ms)
        # Which GPU is the first one depends on all ends of an instant.
        self._ask = self._decide_last
        self._per_node = gpus_per_node
        self._free = [SLOTS_PER_GPU] * n_gpus
        # Bits of integers: for each free part of GPUs that is used in part, those GPUs; for each
        # count of wholly free GPUs the nodes with at least as many.
        self._used_gpus: dict[int, int] = {}
        self._nodes = [(1 << n_nodes) - 1] * (gpus_per_node + 1)
        self._n_free = [gpus_per_node] * n_nodes
        self._gpus_of: dict[int, list[int]] = {}

    @property
    def free_slots(self) -> Int64Array:
        """Free slots of each GPU, node after node, at the end of the last window, shape (n,)."""
        return np.array(self._free)

    def _decide(self) -> None:
        """Start the jobs at the head of the queue that fit."""
        while self.queue and (gpus := self._first_fit(self.job_n_nodes[self.queue[0]])):
            job = self.queue.popleft()
            self._gpus_of[job] = gpus
            self._change(job, -1)
            self._start(job, self.job_n_nodes[job])

    def _end(self, event: simpy.Event) -> None:
        job = event._value
        self._change(job, 1)
        del self._gpus_of[job]
        super()._end(event)

    def _first_fit(self, n_slots: int) -> list[int]:
        """Return the GPUs that a job would take, none where it does not fit."""
        per_node = self._per_node
        if n_slots < SLOTS_PER_GPU:
            firsts = [_lowest(b) for part, b in self._used_gpus.items() if b and part >= n_slots]
            if node := self._nodes[1]:
                firsts.append(self._free_gpus_of(_lowest(node))[0])
            return [min(firsts)] if firsts else []
        wanted = -(-n_slots // SLOTS_PER_GPU)
        fitting = self._nodes[min(wanted, per_node)]
        if wanted < per_node:
            return self._free_gpus_of(_lowest(fitting))[:wanted] if fitting else []
        if fitting.bit_count() * per_node < wanted:
            return []
        found = list[int]()
        while len(found) < wanted:
            node = _lowest(fitting)
            found += range(node * per_node, (node + 1) * per_node)
            fitting &= fitting - 1
        return found[:wanted]

    def _free_gpus_of(self, node: int) -> list[int]:
        gpus = range(node * self._per_node, (node + 1) * self._per_node)
        return [gpu for gpu in gpus if self._free[gpu] == SLOTS_PER_GPU]

    def _change(self, job: int, sign: int) -> None:
        """Free the GPUs of a job, or take them with a sign of -1."""
        part = sign * min(self.job_n_nodes[job], SLOTS_PER_GPU)
        for gpu in self._gpus_of[job]:
            before, node = self._free[gpu], gpu // self._per_node
            after = self._free[gpu] = before + part
            for free in (before, after):
                if 0 < free < SLOTS_PER_GPU:
                    self._used_gpus[free] = self._used_gpus.get(free, 0) ^ 1 << gpu
            if before == SLOTS_PER_GPU:
                self._nodes[self._n_free[node]] ^= 1 << node
                self._n_free[node] -= 1
            elif after == SLOTS_PER_GPU:
                self._n_free[node] += 1
                self._nodes[self._n_free[node]] ^= 1 << node


def _lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1
