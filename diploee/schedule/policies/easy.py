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


def backfilled(
    view: ClusterView, queue: Collection[int], order: Order, depth: int | None
) -> list[int]:
    """Return the jobs that EASY starts from a queue in any order (A2).

    The head that does not fit gets its nodes at `shadow`, when enough of the running
    jobs are expected to have ended; of what is free then it leaves `extra` nodes.
    Another job may start if it is expected to end by then, or if it fits into those
    nodes. A head that is wider than the nodes that stand waits for more to be added;
    all may pass it.
    """
    now_ms, n_nodes, estimate_ms = view.now_ms, view.job_n_nodes, view.job_estimate_ms
    free_nodes = view.free_nodes
    chosen: list[int] = []
    for head in queue:
        if n_nodes[head] > free_nodes:
            break
        free_nodes -= n_nodes[head]
        chosen.append(head)
    behind = islice(queue, len(chosen) + 1, depth and len(chosen) + depth)
    waiting = (
        [job for job in behind if n_nodes[job] <= free_nodes] if free_nodes else []
    )
    if not waiting:
        return chosen
    ends = [(end_ms, n_nodes[job]) for job, end_ms in view.running.items()]
    ends += [(now_ms + estimate_ms[job], n_nodes[job]) for job in chosen]
    shadow_ms, extra_nodes = _shadow(ends, now_ms, free_nodes, n_nodes[head])
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
        chosen.append(job)
    return chosen


def _shadow(
    ends: list[tuple[int, int]], now_ms: int, free_nodes: int, wanted: int
) -> tuple[int, int]:
    """Return when `wanted` nodes should be free [ms], and the surplus then."""
    expected = sorted((max(end_ms, now_ms + 1), n_nodes) for end_ms, n_nodes in ends)
    for shadow_ms, ended in groupby(expected, key=lambda end: end[0]):
        free_nodes += sum(n_nodes for _, n_nodes in ended)
        if free_nodes >= wanted:
            return shadow_ms, free_nodes - wanted
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
        """Return the jobs from the head that fit, then those that don't delay it."""
        return backfilled(view, view.queue, self.order, self.depth)


@register_compiled_engine("diploee.schedule.compiled:CompiledQueue")
class StrictFifo:
    """First in, first out, where the head blocks the queue."""

    order, depth = "submission", 1

    def select(self, view: ClusterView) -> Sequence[int]:
        """Return the longest run of jobs at the head that fits the free nodes."""
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


@register_compiled_engine("diploee.schedule.compiled:CompiledQueue")
class ShortestJobFirst(EstimatingSpec):
    """The shortest estimate first, ties in the order of submission.

    The first job blocks the queue. The mean wait is minimal if all jobs have equal
    size; a short, large first job that blocks the others can make it longer than FIFO.
    """

    order: ClassVar[str] = "sjf"
    depth: ClassVar[int] = 1
    kind: Literal["sjf"] = default(
        "sjf",
        "The shortest estimate first; the first job of the queue blocks the others.",
    )

    def select(self, view: ClusterView) -> Sequence[int]:
        """Return the longest run of the shortest jobs that fits the free nodes."""
        estimate_ms = view.job_estimate_ms
        if not view.free_nodes:
            return []
        ordered = sorted(view.queue, key=lambda job: (estimate_ms[job], job))
        return backfilled(view, ordered, "submission", self.depth)
