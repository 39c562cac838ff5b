"""Shortest job first, by what jobs are thought to run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from diploee.schedule.policies.easy import backfilled
from diploee.schedule.policy import EXACT, ClusterView, Estimate, EstimatingSpec, Policy, has_twin


@has_twin("diploee.schedule.compiled:CompiledQueue")
class ShortestJobFirst:
    """The shortest estimate first, ties in the order of submission; the head blocks the queue.

    Parameters
    ----------
    estimate : Estimate
        Estimates of run times that it sees; the true ones by default.
    """

    order, depth = "sjf", 1

    def __init__(self, estimate: Estimate = EXACT) -> None:
        self.estimate = estimate

    def select(self, view: ClusterView) -> Sequence[int]:
        """Return the longest run of the shortest jobs that fits the free nodes."""
        estimate_ms = view.job_estimate_ms
        if not view.free_nodes:
            return []
        ordered = sorted(view.queue, key=lambda job: (estimate_ms[job], job))
        return backfilled(view, ordered, "submission", self.depth)


class SjfSpec(EstimatingSpec):
    """Shortest job first: the shortest of the queue blocks it."""

    kind: Literal["sjf"] = Field(
        default="sjf", description="The shortest estimate first; the head blocks the queue."
    )

    def open(self) -> Policy:
        """Return the policy itself."""
        return ShortestJobFirst(self.estimate)
