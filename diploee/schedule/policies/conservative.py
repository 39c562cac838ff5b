"""Conservative backfilling with compression: each waiting job has a reservation.

References
----------
.. [1] A. W. Mu'alem and D. G. Feitelson, Utilization, Predictability, Workloads, and
   User Runtime
   Estimates in Scheduling the IBM SP2 with Backfilling, IEEE TPDS 12(6), 2001.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Literal

from diploee.base.model import default
from diploee.schedule.policy import (
    LOGGED_OR_RUN,
    ClusterView,
    Estimate,
    EstimatingSpec,
    Policy,
    register_compiled_engine,
)

NEVER_MS = 2**62
"""Reservation of a job that is wider than the nodes that stand."""


@register_compiled_engine("diploee.schedule.compiled:CompiledQueue")
class ConservativeBackfill:
    """A job is reserved the earliest hole at submission, and starts by then.

    Where a job ends before it was expected to, each waiting job in the order of
    submission is moved to the earliest hole, which is never later (sheet of
    flexibility, A3); so again at the ends that follow, until none moves. ASSUMPTION
    [J]: as long as a job runs on past its estimate, all reservations are made anew at
    each instant, and may be later.

    Parameters
    ----------
    estimate : Estimate
        Estimates of run times that it sees; the true ones by default.
    """

    order, depth = "reservation", None

    def __init__(self, estimate: Estimate = LOGGED_OR_RUN) -> None:
        self.estimate = estimate
        self.reserved_ms: dict[int, int] = {}  # start of each job that waits
        # After the last decision: expected end, nodes
        self._ran: dict[int, tuple[int, int]] = {}
        self._plan = _Plan(0, 0, ())
        self._n_nodes = 0
        self._has_holes = False  # that a waiting job might move to

    def select(self, view: ClusterView) -> Sequence[int]:
        """Return the jobs whose reservation begins now."""
        now_ms, starts_ms = view.now_ms, self.reserved_ms
        ended = [self._ran[job] for job in self._ran.keys() - view.running.keys()]
        added = view.n_nodes - self._n_nodes
        ended_early = [
            (end_ms, n_nodes) for end_ms, n_nodes in ended if end_ms > now_ms
        ]
        # No turn of its own comes with a reservation: it begins where a job ends, or is
        # missed where that job outruns its estimate.
        outran = any(end_ms <= now_ms for end_ms in view.running.values())
        missed = any(start_ms < now_ms for start_ms in starts_ms.values())
        if outran or missed or self._is_disturbed(view):
            starts_ms.clear()
            running = [
                (view.expected_end_ms(job), view.job_n_nodes[job])
                for job in view.running
            ]
            self._plan = _Plan(now_ms, view.free_nodes, running)
        else:
            self._plan.begin(now_ms, added)
            for end_ms, n_nodes in ended_early:
                self._plan.take(now_ms, end_ms - now_ms, -n_nodes)
        self._has_holes |= bool(ended_early or added)
        compress = self._has_holes and bool(ended or added)
        if compress:
            self._has_holes = False
        for job in view.queue:
            estimate_ms, n_nodes = view.job_estimate_ms[job], view.job_n_nodes[job]
            reserved_ms = starts_ms.get(job)
            if reserved_ms is not None:
                if not compress:
                    continue
                self._plan.take(reserved_ms, estimate_ms, -n_nodes)
            starts_ms[job] = self._plan.earliest_ms(estimate_ms, n_nodes)
            self._plan.take(starts_ms[job], estimate_ms, n_nodes)
            if reserved_ms not in (None, starts_ms[job]):
                self._has_holes = True
        chosen = [job for job in view.queue if starts_ms[job] == now_ms]
        n_nodes_of = view.job_n_nodes
        self._ran = {
            job: (end_ms, n_nodes_of[job]) for job, end_ms in view.running.items()
        }
        for job in chosen:
            del starts_ms[job]
            self._ran[job] = now_ms + view.job_estimate_ms[job], n_nodes_of[job]
        self._n_nodes = view.n_nodes
        return chosen

    def _is_disturbed(self, view: ClusterView) -> bool:
        """Return whether a controller has slowed, resized or held jobs."""
        known, n_nodes = self._ran, view.job_n_nodes
        return not self.reserved_ms.keys() <= set(view.queue) or any(
            known.get(job, (end_ms, n_nodes[job])) != (end_ms, n_nodes[job])
            for job, end_ms in view.running.items()
        )


class _Plan:
    """Free nodes from a time on, as a step function: running jobs and reservations."""

    def __init__(
        self, now_ms: int, free_nodes: int, running: Iterable[tuple[int, int]]
    ) -> None:
        self._times_ms, self._free_nodes = [now_ms], [free_nodes]
        for end_ms, ended in groupby(sorted(running), key=lambda job: job[0]):
            free_nodes += sum(n_nodes for _, n_nodes in ended)
            self._times_ms.append(end_ms)
            self._free_nodes.append(free_nodes)

    def begin(self, now_ms: int, added: int) -> None:
        """Forget what was before a time, and add nodes from then on."""
        past = bisect_right(self._times_ms, now_ms) - 1
        del self._times_ms[:past], self._free_nodes[:past]
        self._times_ms[0] = now_ms
        if added:
            self._free_nodes = [free_nodes + added for free_nodes in self._free_nodes]

    def take(self, start_ms: int, length_ms: int, n_nodes: int) -> None:
        """Take nodes for a time; negative: give them back."""
        if start_ms == NEVER_MS:
            return
        first, end = self._cut(start_ms), self._cut(start_ms + length_ms)
        for step in range(first, end):
            self._free_nodes[step] -= n_nodes
        for step in (end, first):
            if step and self._free_nodes[step] == self._free_nodes[step - 1]:
                del self._times_ms[step], self._free_nodes[step]

    def _cut(self, time_ms: int) -> int:
        """Return the step that begins at a time."""
        step = bisect_left(self._times_ms, time_ms)
        if step == len(self._times_ms) or self._times_ms[step] != time_ms:
            self._times_ms.insert(step, time_ms)
            self._free_nodes.insert(step, self._free_nodes[step - 1])
        return step

    def earliest_ms(self, length_ms: int, n_nodes: int) -> int:
        """Return the earliest time with enough free nodes for a duration."""
        start_ms = NEVER_MS
        for time_ms, free_nodes in zip(self._times_ms, self._free_nodes, strict=True):
            if time_ms - start_ms >= length_ms:
                return start_ms
            start_ms = min(start_ms, time_ms) if free_nodes >= n_nodes else NEVER_MS
        return start_ms


class ConservativeSpec(EstimatingSpec):
    """Conservative backfilling: no job delays any that was submitted before it."""

    kind: Literal["conservative"] = default(
        "conservative", "A reservation for every waiting job."
    )

    def open(self) -> Policy:
        """Return the policy itself."""
        return ConservativeBackfill(self.estimate)
