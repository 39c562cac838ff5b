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
"""Reserved start of a job that needs more nodes than are installed [ms]."""


@register_compiled_engine("diploee.schedule.compiled:CompiledQueue")
class ConservativeBackfill:
    """Conservative backfilling: each job reserves the earliest gap at its submission.

    If a job ends earlier than expected, the reservation of each waiting job, in the
    order of submission, is moved to the earliest gap, which is never later than before
    [1]_. This is repeated at the following job ends until no reservation moves. Assumed
    (judgement): while a job exceeds its estimate, all reservations are made anew at
    each time, and may be later than before.

    Parameters
    ----------
    estimate : Estimate
        Rule for the estimates of run times; the requested ones of a log by default.
    """

    order, depth = "reservation", None

    def __init__(self, estimate: Estimate = LOGGED_OR_RUN) -> None:
        self.estimate = estimate
        self.reserved_ms: dict[int, int] = {}  # reserved start of each waiting job
        # Expected end and nodes of each running job after the last decision
        self._previously_running: dict[int, tuple[int, int]] = {}
        self._profile = _AvailabilityProfile(0, 0, ())
        self._n_nodes = 0
        self._has_gaps = False  # True if a waiting job might move to an earlier gap

    def select(self, view: ClusterView) -> Sequence[int]:
        """Return the jobs whose reservation begins now."""
        now_ms, starts_ms = view.now_ms, self.reserved_ms
        ended = [
            self._previously_running[job]
            for job in self._previously_running.keys() - view.running.keys()
        ]
        added = view.n_nodes - self._n_nodes
        ended_early = [
            (end_ms, n_nodes) for end_ms, n_nodes in ended if end_ms > now_ms
        ]
        # A reservation needs no event of its own: it begins at the end of a job, or is
        # missed if that job exceeds its estimate.
        is_overdue = any(end_ms <= now_ms for end_ms in view.running.values())
        is_missed = any(start_ms < now_ms for start_ms in starts_ms.values())
        if is_overdue or is_missed or self._is_disturbed(view):
            starts_ms.clear()
            running = [
                (view.expected_end_ms(job), view.job_n_nodes[job])
                for job in view.running
            ]
            self._profile = _AvailabilityProfile(now_ms, view.free_nodes, running)
        else:
            self._profile.advance_to(now_ms, added)
            for end_ms, n_nodes in ended_early:
                self._profile.occupy(now_ms, end_ms - now_ms, -n_nodes)
        self._has_gaps |= bool(ended_early or added)
        is_compressing = self._has_gaps and bool(ended or added)
        if is_compressing:
            self._has_gaps = False
        for job in view.queue:
            estimate_ms, n_nodes = view.job_estimate_ms[job], view.job_n_nodes[job]
            reserved_ms = starts_ms.get(job)
            if reserved_ms is not None:
                if not is_compressing:
                    continue
                self._profile.occupy(reserved_ms, estimate_ms, -n_nodes)
            starts_ms[job] = self._profile.earliest_ms(estimate_ms, n_nodes)
            self._profile.occupy(starts_ms[job], estimate_ms, n_nodes)
            if reserved_ms not in (None, starts_ms[job]):
                self._has_gaps = True
        startable = [job for job in view.queue if starts_ms[job] == now_ms]
        job_n_nodes = view.job_n_nodes
        self._previously_running = {
            job: (end_ms, job_n_nodes[job]) for job, end_ms in view.running.items()
        }
        for job in startable:
            del starts_ms[job]
            self._previously_running[job] = (
                now_ms + view.job_estimate_ms[job],
                job_n_nodes[job],
            )
        self._n_nodes = view.n_nodes
        return startable

    def _is_disturbed(self, view: ClusterView) -> bool:
        """Return True if a controller has slowed, resized or delayed jobs."""
        previous, n_nodes = self._previously_running, view.job_n_nodes
        return not self.reserved_ms.keys() <= set(view.queue) or any(
            previous.get(job, (end_ms, n_nodes[job])) != (end_ms, n_nodes[job])
            for job, end_ms in view.running.items()
        )


class _AvailabilityProfile:
    """Free nodes over time as a step function: running jobs and reservations."""

    def __init__(
        self, now_ms: int, free_nodes: int, running: Iterable[tuple[int, int]]
    ) -> None:
        self._times_ms, self._free_nodes = [now_ms], [free_nodes]
        for end_ms, ended in groupby(sorted(running), key=lambda job: job[0]):
            free_nodes += sum(n_nodes for _, n_nodes in ended)
            self._times_ms.append(end_ms)
            self._free_nodes.append(free_nodes)

    def advance_to(self, now_ms: int, added: int) -> None:
        """Drop the steps before a time, and add nodes from then on."""
        past = bisect_right(self._times_ms, now_ms) - 1
        del self._times_ms[:past], self._free_nodes[:past]
        self._times_ms[0] = now_ms
        if added:
            self._free_nodes = [free_nodes + added for free_nodes in self._free_nodes]

    def occupy(self, start_ms: int, length_ms: int, n_nodes: int) -> None:
        """Occupy nodes for a duration; negative numbers free them."""
        if start_ms == NEVER_MS:
            return
        first, end = (
            self._insert_step(start_ms),
            self._insert_step(start_ms + length_ms),
        )
        for step in range(first, end):
            self._free_nodes[step] -= n_nodes
        for step in (end, first):
            if step and self._free_nodes[step] == self._free_nodes[step - 1]:
                del self._times_ms[step], self._free_nodes[step]

    def _insert_step(self, time_ms: int) -> int:
        """Return the step that starts at a time, inserted if absent."""
        step = bisect_left(self._times_ms, time_ms)
        if step == len(self._times_ms) or self._times_ms[step] != time_ms:
            self._times_ms.insert(step, time_ms)
            self._free_nodes.insert(step, self._free_nodes[step - 1])
        return step

    def earliest_ms(self, length_ms: int, n_nodes: int) -> int:
        """Return the earliest start with enough free nodes for a duration [ms]."""
        start_ms = NEVER_MS
        for time_ms, free_nodes in zip(self._times_ms, self._free_nodes, strict=True):
            if time_ms - start_ms >= length_ms:
                return start_ms
            start_ms = min(start_ms, time_ms) if free_nodes >= n_nodes else NEVER_MS
        return start_ms


class ConservativeSpec(EstimatingSpec):
    """Conservative backfilling: no job delays one that was submitted before it."""

    kind: Literal["conservative"] = default(
        "conservative", "A reservation for every waiting job."
    )

    def open(self) -> Policy:
        """Return a new policy of this kind."""
        return ConservativeBackfill(self.estimate)
