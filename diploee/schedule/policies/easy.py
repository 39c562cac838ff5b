"""EASY backfilling: jobs behind the head start as long as they do not delay it.

References
----------
.. [1] A. W. Mu'alem and D. G. Feitelson, Utilization, Predictability, Workloads, and User Runtime
   Estimates in Scheduling the IBM SP2 with Backfilling, IEEE TPDS 12(6), 2001.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from itertools import groupby, islice
from typing import Literal

from pydantic import Field

from diploee.model import optional
from diploee.schedule.policy import EXACT, ClusterView, Estimate, EstimatingSpec, Policy, has_twin

Order = Literal["submission", "sjbf"]


@has_twin("diploee.schedule.compiled:CompiledQueue")
class EasyBackfill:
    """First in, first out, and what fits into the gap before the head of the queue.

    Parameters
    ----------
    estimate : Estimate
        Estimates of run times that it sees; the true ones by default.
    order : {"submission", "sjbf"}
        Order in which the jobs behind the head are tried; ``sjbf``: the shortest first.
    depth : int, optional
        Jobs of the queue that are looked at, its head among them; all by default.
    """

    def __init__(
        self, estimate: Estimate = EXACT, order: Order = "submission", depth: int | None = None
    ) -> None:
        self.estimate, self.order, self.depth = estimate, order, depth

    def select(self, view: ClusterView) -> Sequence[int]:
        """Return the jobs from the head on that fit, then those that do not delay the next."""
        return backfilled(view, view.queue, self.order, self.depth)


def backfilled(
    view: ClusterView, queue: Collection[int], order: Order, depth: int | None
) -> list[int]:
    """Return the jobs that EASY starts from a queue in any order (sheet of flexibility, A2).

    The head that does not fit gets its nodes at `shadow`, when enough of the running jobs are
    expected to have ended; of what is free then it leaves `extra` nodes. Another job may start if
    it is expected to end by then, or if it fits into those nodes. A head that is wider than the
    nodes that stand waits for more to be added; all may pass it.
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
    waiting = [job for job in behind if n_nodes[job] <= free_nodes] if free_nodes else []
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
    """Return when `wanted` nodes are expected to be free [ms], and how many more are free then."""
    expected = sorted((max(end_ms, now_ms + 1), n_nodes) for end_ms, n_nodes in ends)
    for shadow_ms, ended in groupby(expected, key=lambda end: end[0]):
        free_nodes += sum(n_nodes for _, n_nodes in ended)
        if free_nodes >= wanted:
            return shadow_ms, free_nodes - wanted
    return sys.maxsize, 0


class EasySpec(EstimatingSpec):
    """EASY backfilling: jobs behind the head start where they do not delay it."""

    kind: Literal["easy"] = Field(
        default="easy", description="EASY: jobs behind the head start where they do not delay it."
    )
    order: Order = Field(
        default="submission",
        description="Order in which the jobs behind the head are tried: that of submission, or "
        "sjbf, the shortest estimate first.",
    )
    depth: int | None = optional(
        "Jobs of the queue that are looked at, its head among them; all if absent.", ge=1
    )

    def open(self) -> Policy:
        """Return the policy itself."""
        return EasyBackfill(self.estimate, self.order, self.depth)
