"""Strict FIFO, EASY backfilling, and shortest job first.

References
----------
.. [1] A. W. Mu'alem and D. G. Feitelson, Utilization, Predictability, Workloads, and
   User Runtime
   Estimates in Scheduling the IBM SP2 with Backfilling, IEEE TPDS 12(6), 2001.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from itertools import groupby, islice
from typing import ClassVar, Literal

from diploee.base.model import default, optional
from diploee.scenario.pools import SchedulerSpec
from diploee.schedule.policy import (
    ClusterView,
    EstimatingSpec,
    Policy,
    register_compiled_engine,
)

Order = Literal["submission", "sjbf"]
"""Order in which jobs after the head of the queue are considered."""


def easy_starts(
    view: ClusterView, queue: Collection[int], order: Order, depth: int | None
) -> list[int]:
    """Return the jobs that EASY starts from a queue in any order [1]_.

    If the head of the queue does not fit, it will start at the shadow time, when enough
    running jobs are expected to have ended; the nodes free at that time beyond those of
    the head are the extra nodes. Another job may start if it is expected to end before
    the shadow time, or if it fits into the extra nodes. If the head needs more nodes
    than are installed, all others may pass it.
    """
    now_ms, n_nodes, estimate_ms = view.now_ms, view.job_n_nodes, view.job_estimate_ms
    free_nodes = view.free_nodes
    started: list[int] = []
    for head in queue:
        if n_nodes[head] > free_nodes:
            break
        free_nodes -= n_nodes[head]
        started.append(head)
    after_head = islice(queue, len(started) + 1, depth and len(started) + depth)
    waiting = (
        [job for job in after_head if n_nodes[job] <= free_nodes] if free_nodes else []
    )
    if not waiting:
        return started
    ends = [(end_ms, n_nodes[job]) for job, end_ms in view.running.items()]
    ends += [(now_ms + estimate_ms[job], n_nodes[job]) for job in started]
    shadow_ms, extra_nodes = _shadow_time(ends, now_ms, free_nodes, n_nodes[head])
    if order == "sjbf":
        waiting.sort(key=lambda job: (estimate_ms[job], job))
    for job in waiting:
        if n_nodes[job] > free_nodes:
            continue
        if now_ms + estimate_ms[job] > shadow_ms:
            if n_nodes[job] > extra_nodes:
                continue
            extra_nodes -= n_nodes[job]
        free_nodes -= n_nodes[job]
        started.append(job)
    return started


def _shadow_time(
    ends: list[tuple[int, int]], now_ms: int, free_nodes: int, needed: int
) -> tuple[int, int]:
    """Return the shadow time of a job [ms], and the extra nodes then.

    At the shadow time enough nodes for the job are expected to be free.
    """
    expected = sorted((max(end_ms, now_ms + 1), n_nodes) for end_ms, n_nodes in ends)
    for shadow_ms, ended in groupby(expected, key=lambda end: end[0]):
        free_nodes += sum(n_nodes for _, n_nodes in ended)
        if free_nodes >= needed:
            return shadow_ms, free_nodes - needed
    return sys.maxsize, 0


@register_compiled_engine("diploee.schedule.compiled:CompiledQueue")
class EasyBackfill(EstimatingSpec):
    """EASY backfilling: first in, first out, with the gap before the head filled."""

    kind: Literal["easy"] = default(
        "easy",
        "EASY: later jobs start if they do not delay the first job of the queue.",
    )
    order: Order = default(
        "submission",
        (
            "Order in which jobs after the first are tried: submission, or sjbf for "
            "the shortest estimate first."
        ),
    )
    depth: int | None = optional(
        "Number of queued jobs that are considered, including the first; all if "
        "absent.",
        ge=1,
    )

    def select(self, view: ClusterView) -> Sequence[int]:
        """Return the first jobs that fit, then later jobs that don't delay the head."""
        return easy_starts(view, view.queue, self.order, self.depth)


@register_compiled_engine("diploee.schedule.compiled:CompiledQueue")
class StrictFifo:
    """First in, first out, in which the head blocks the queue."""

    order, depth = "submission", 1

    def select(self, view: ClusterView) -> Sequence[int]:
        """Return the jobs of the queue before the first job that does not fit."""
        free_nodes, n_nodes = view.free_nodes, view.job_n_nodes
        started: list[int] = []
        for job in view.queue:
            free_nodes -= n_nodes[job]
            if free_nodes < 0:
                break
            started.append(job)
        return started


class FifoSpec(SchedulerSpec):
    """Strict FIFO: the head of the queue blocks it."""

    kind: Literal["fifo"] = "fifo"

    def open(self) -> Policy:
        """Return a new policy of this kind."""
        return StrictFifo()


@register_compiled_engine("diploee.schedule.compiled:CompiledQueue")
class ShortestJobFirst(EstimatingSpec):
    """Shortest estimate first, ties in the order of submission.

    The head blocks the queue. The mean waiting time is minimal if all jobs have the
    same number of nodes; a short job with many nodes that blocks the others can make it
    longer than that of FIFO.
    """

    order: ClassVar[str] = "sjf"
    depth: ClassVar[int] = 1
    kind: Literal["sjf"] = default(
        "sjf",
        "The shortest estimate first; the first job of the queue blocks the others.",
    )

    def select(self, view: ClusterView) -> Sequence[int]:
        """Return the shortest jobs in order, before the first job that does not fit."""
        estimate_ms = view.job_estimate_ms
        if not view.free_nodes:
            return []
        ordered = sorted(view.queue, key=lambda job: (estimate_ms[job], job))
        return easy_starts(view, ordered, "submission", self.depth)
