"""Strict FIFO, the discipline of the paper (section 2.3.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from diploee.scenario import SchedulerSpec
from diploee.schedule.policy import ClusterView, Policy, has_twin


@has_twin("diploee.schedule.compiled:CompiledQueue")
class StrictFifo:
    """First in, first out: jobs start in the order of submission, and the head blocks the queue."""

    order, depth = "submission", 1

    def select(self, view: ClusterView) -> Sequence[int]:
        """Return the longest run of jobs at the head of the queue that fits the free nodes."""
        free_nodes, n_nodes = view.free_nodes, view.job_n_nodes
        chosen: list[int] = []
        for job in view.queue:
            free_nodes -= n_nodes[job]
            if free_nodes < 0:
                break
            chosen.append(job)
        return chosen


class FifoSpec(SchedulerSpec):
    """Strict FIFO: the head of the queue blocks it."""

    kind: Literal["fifo"] = "fifo"

    def open(self) -> Policy:
        """Return the policy itself."""
        return StrictFifo()
