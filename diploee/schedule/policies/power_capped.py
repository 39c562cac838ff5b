"""EASY backfilling over nodes and watts: no job starts that would take the facility above a cap.

Sheet "Flexibility", A5. The power of a job is what is known of it before it runs, on a basis that
the scenario names. Running jobs count until they are expected to end, and the services as planned,
so that a job starts only where all of it stays under the cap to its own expected end.
"""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, islice
from math import isnan
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from diploee.errors import PolicyError
from diploee.model import SCALES, optional
from diploee.problems import KeyPath
from diploee.scenario.flexibility import Flexibility
from diploee.schedule.actions import Action, Start
from diploee.schedule.estimates import EXACT, Estimate, EstimatingSpec
from diploee.schedule.policies.easy import Order
from diploee.schedule.surroundings import PowerBasis
from diploee.units import MS_PER_DAY, MS_PER_H, MS_PER_MIN, W_PER_MW

if TYPE_CHECKING:
    from diploee.schedule.acting_engine import ActingPool

HOURLY_MS = 2 * MS_PER_DAY
"""Services are looked at hour by hour so far ahead, and day by day beyond."""

MOST_HELD = 100_000
"""Jobs whose power is held at once; it is found anew beyond."""


class PowerCapped:
    """Starts jobs as EASY does, while nodes and power last.

    Parameters
    ----------
    cap_mw : float, optional
        Most that all devices of the facility may draw [MW]; the signal ``cap`` if absent.
    power_basis : {"mean", "p95_60s", "rated"}
        Which power of jobs is held under it.
    estimate, order, depth
        As of `EasyBackfill`.
    """

    uses_levels = False

    def __init__(
        self,
        cap_mw: float | None = None,
        power_basis: PowerBasis = "p95_60s",
        estimate: Estimate = EXACT,
        order: Order = "submission",
        depth: int | None = None,
    ) -> None:
        self.cap_mw, self.power_basis = cap_mw, power_basis
        self.estimate, self.order, self.depth = estimate, order, depth
        self.jobs_w: dict[tuple[int, int, int], float] = {}
        self.waiting_w = _Waiting()
        self._services_w: dict[int, float] = {}
        self._woken_ms = -sys.maxsize

    def decide(self, view: ActingPool) -> Sequence[Action]:
        """Return the jobs to start: from the head on, then those that do not delay the next."""
        now_ms, n_nodes, estimate_ms = view.now_ms, view.job_n_nodes, view.job_estimate_ms
        free_nodes, chosen = view.free_nodes, list[int]()
        if len(self.jobs_w) > MOST_HELD:
            self.jobs_w.clear()
            self.waiting_w.clear()
        left = _Left(view, self)
        head = None
        for job in view.queue:
            if n_nodes[job] > free_nodes or not left.holds(job, now_ms):
                head = job
                break
            free_nodes -= n_nodes[job]
            left.take(job)
            chosen.append(job)
        if head is not None:
            if n_nodes[head] <= free_nodes:
                self._wake_later(view, left, head)
            behind = islice(view.queue, len(chosen) + 1, self.depth and len(chosen) + self.depth)
            now_w, waiting_w = left.now_w, left.waiting_w
            # Most of a long queue ends here: a look at nodes and watts, and no call.
            waiting = [
                job for job in behind if n_nodes[job] <= free_nodes and waiting_w[job] <= now_w
            ]
            waiting = [job for job in waiting if left.holds(job, now_ms)]
            if waiting:
                if self.order == "sjbf":
                    waiting.sort(key=lambda job: (estimate_ms[job], job))
                ends = [(end_ms, n_nodes[job]) for job, end_ms in view.running.items()]
                ends += [(now_ms + estimate_ms[job], n_nodes[job]) for job in chosen]
                shadow_ms, extra_nodes, extra_w = left.shadow(head, ends, free_nodes)
                for job in waiting:
                    job_w = left.job_w(job)
                    if n_nodes[job] > free_nodes or not left.holds(job, now_ms):
                        continue
                    if now_ms + estimate_ms[job] > shadow_ms:
                        if n_nodes[job] > extra_nodes or job_w > extra_w:
                            continue
                        extra_nodes -= n_nodes[job]
                        extra_w -= job_w
                    free_nodes -= n_nodes[job]
                    left.take(job)
                    chosen.append(job)
        return [Start(job) for job in chosen]

    def cap_of(self, view: ActingPool) -> tuple[Callable[[int], float], list[int]]:
        """Return the cap in time [W], and when it is known to change from now on [ms]."""
        if self.cap_mw is not None:
            cap_w = self.cap_mw * W_PER_MW
            return (lambda _: cap_w), []
        signal = view.signals.get("cap")
        if signal is None:
            raise PolicyError(
                f"pool '{view.name}': power_capped has no cap; give it cap_mw, or add a signal "
                "'cap' to flexibility.signals"
            )
        # Beyond what is known of it now the last value that is known holds.
        times_ms, values_mw = [view.now_ms], [signal.at(view.now_ms)]
        at_ms = signal.next_change_ms(view.now_ms)
        while at_ms is not None and not isnan(value_mw := signal.at(at_ms)):
            times_ms.append(at_ms)
            values_mw.append(value_mw)
            at_ms = signal.next_change_ms(at_ms)

        def cap_at(time_ms: int) -> float:
            return float(values_mw[bisect_right(times_ms, time_ms) - 1] * W_PER_MW)

        return cap_at, times_ms[1:]

    def most_of_services_w(self, view: ActingPool, begin_ms: int, end_ms: int) -> float:
        """Return the most that services are planned to draw beyond idle in some hours [W]."""
        most_w = 0.0
        for hour in range(begin_ms // MS_PER_H, -(-end_ms // MS_PER_H)):
            if hour not in self._services_w:
                minutes = range(hour * MS_PER_H, (hour + 1) * MS_PER_H, MS_PER_MIN)
                self._services_w[hour] = max(map(view.service_power_w, minutes))
            most_w = max(most_w, self._services_w[hour])
        return most_w

    def _wake_later(self, view: ActingPool, left: _Left, head: int) -> None:
        """Ask for a turn when the cap or the services may let the head start."""
        if self.cap_mw is not None and left.job_w(head) > left.most_w:
            raise PolicyError(
                f"pool '{view.name}': job {head} draws {left.job_w(head) / W_PER_MW:.4g} MW beyond "
                f"idle ({self.power_basis}), more than the {left.most_w / W_PER_MW:.4g} MW between "
                f"the idle power of the facility and cap_mw {self.cap_mw:g}; raise cap_mw, or keep "
                "such jobs out of the pool"
            )
        if view.now_ms >= self._woken_ms:
            self._woken_ms = left.next_edge_ms
            view.wake_at(self._woken_ms)


class _Waiting(dict[int, float]):
    """Power beyond idle of waiting jobs [W], found when first asked for."""

    find: Callable[[int], float]

    def __missing__(self, job: int) -> float:
        found = self[job] = self.find(job)
        return found


class _Left:
    """What is left under the cap from now on.

    What is allowed, the cap less the services, is constant on pieces of time; what is committed
    falls as jobs end. Within a piece the least is left at its begin.
    """

    def __init__(self, view: ActingPool, policy: PowerCapped) -> None:
        self._view, self._basis, self._jobs_w = view, policy.power_basis, policy.jobs_w
        self.waiting_w = policy.waiting_w
        self.waiting_w.find = self.job_w
        now_ms, facility = view.now_ms, view.facility
        idle_w = facility.idle_power_w
        cap_w, changes_ms = policy.cap_of(view)
        self.most_w = cap_w(now_ms) - idle_w
        if self.most_w < 0:
            raise PolicyError(
                f"pool '{view.name}': the cap of {cap_w(now_ms) / W_PER_MW:.4g} MW at "
                f"{now_ms / MS_PER_H:,.4g} h of the run lies below the {idle_w / W_PER_MW:.4g} MW "
                "that the facility draws idle; no job could ever run"
            )
        self._taken, self._taken_w = list[tuple[int, float]](), 0.0
        self._committed_w = facility.job_power_w(self._basis)
        first_ms = (now_ms // MS_PER_H + 1) * MS_PER_H
        self.next_edge_ms = min([first_ms, *changes_ms])
        last_ms = now_ms + max((view.job_estimate_ms[job] for job in view.queue), default=0)
        hours = range(first_ms, min(last_ms, now_ms + HOURLY_MS), MS_PER_H)
        days = range(first_ms + HOURLY_MS, last_ms, MS_PER_DAY)
        self._edges_ms = sorted({now_ms, *hours, *days, *changes_ms})
        ends_ms = [*self._edges_ms[1:], self._edges_ms[-1] + 1]
        self._allowed_w = [
            cap_w(begin_ms) - policy.most_of_services_w(view, begin_ms, end_ms)
            for begin_ms, end_ms in zip(self._edges_ms, ends_ms, strict=True)
        ]
        # From now on only a piece that allows less than all before it can matter.
        tightest, self._tight = float("inf"), list[int]()
        for piece, allowed_w in enumerate(self._allowed_w):
            if allowed_w < tightest or not piece:
                tightest = allowed_w
                self._tight.append(piece)

    def job_w(self, job: int) -> float:
        """Return what a job draws beyond the idle power of its nodes [W]."""
        view = self._view
        n_nodes, level = view.job_n_nodes[job], view.job_level.get(job, 0)
        key = (job, n_nodes, level)
        if key not in self._jobs_w:
            power_w = view.power_w(job, level, self._basis)
            self._jobs_w[key] = power_w - view.idle_w * n_nodes
        return self._jobs_w[key]

    @property
    def now_w(self) -> float:
        """What is left now [W]."""
        return self._allowed_w[0] - self._committed_w - self._taken_w

    def holds(self, job: int, now_ms: int) -> bool:
        """Return whether a job stays under the cap from now to its expected end."""
        job_w = self.waiting_w[job]
        if job_w > self.now_w:
            return False
        end_ms = now_ms + self._view.job_estimate_ms[job]
        for piece in self._tight[1:]:
            begin_ms = self._edges_ms[piece]
            if begin_ms >= end_ms:
                break
            if job_w > self._allowed_w[piece] - self._committed_at(begin_ms):
                return False
        return True

    def take(self, job: int) -> None:
        """Count a job that starts now."""
        job_w = self.job_w(job)
        self._taken.append((self._view.now_ms + self._view.job_estimate_ms[job], job_w))
        self._taken_w += job_w

    def _committed_at(self, time_ms: int) -> float:
        """Return what all that runs at a time draws, as far as it is known now [W]."""
        committed_w = self._committed_w + sum(w for end_ms, w in self._taken if end_ms > time_ms)
        if time_ms > self._view.now_ms:
            ends_ms, sums_w = self._ended
            committed_w -= sums_w[bisect_right(ends_ms, time_ms)]
        return committed_w

    @cached_property
    def _ended(self) -> tuple[list[int], list[float]]:
        """Expected ends of running jobs, in order, and the sums of their power, from 0 on."""
        view = self._view
        ends = sorted((view.expected_end_ms(job), self.job_w(job)) for job in view.running)
        return [end_ms for end_ms, _ in ends], [0.0, *accumulate(job_w for _, job_w in ends)]

    def shadow(
        self, head: int, ends: list[tuple[int, int]], free_nodes: int
    ) -> tuple[int, int, float]:
        """Return when the head is expected to start [ms], and nodes and power [W] beside it."""
        view = self._view
        wanted, head_w, edges_ms = view.job_n_nodes[head], self.job_w(head), self._edges_ms
        expected = sorted((max(end_ms, view.now_ms + 1), n_nodes) for end_ms, n_nodes in ends)
        times_ms = sorted({*edges_ms[1:], *(end_ms for end_ms, _ in expected)})
        ended = 0
        for time_ms in times_ms:
            while ended < len(expected) and expected[ended][0] <= time_ms:
                free_nodes += expected[ended][1]
                ended += 1
            if free_nodes < wanted:
                continue
            first = bisect_right(edges_ms, time_ms) - 1
            least_w = self._allowed_w[first] - self._committed_at(time_ms)
            end_ms = time_ms + view.job_estimate_ms[head]
            for piece in range(first + 1, bisect_left(edges_ms, end_ms)):
                if least_w < head_w:
                    break
                left_w = self._allowed_w[piece] - self._committed_at(edges_ms[piece])
                least_w = min(least_w, left_w)
            if least_w >= head_w:
                return time_ms, free_nodes - wanted, least_w - head_w
        return sys.maxsize, 0, 0.0


class PowerCappedSpec(EstimatingSpec):
    """EASY backfilling over nodes and watts: all devices stay under a cap."""

    kind: Literal["power_capped"] = Field(
        default="power_capped",
        description="EASY over nodes and watts: a job starts only where jobs, services and idle "
        "nodes stay under a cap to its expected end.",
    )
    cap_mw: Annotated[float | None, SCALES] = optional(
        "Most that all devices of the facility may draw [MW], of all pools and services; the "
        "signal cap of flexibility.signals if absent.",
        gt=0,
    )
    power_basis: PowerBasis = Field(
        default="p95_60s",
        description="Power of a job that counts: its profile's mean, the 95th percentile of its "
        "one-minute means (assumed), or the ratings of its nodes.",
    )
    order: Order = Field(
        default="submission",
        description="Order in which the jobs behind the head are tried, as of easy.",
    )
    depth: int | None = optional(
        "Jobs of the queue that are looked at, its head among them; all if absent.", ge=1
    )

    def problems(
        self, idle_power_w: float, flexibility: Flexibility | None
    ) -> Iterator[tuple[KeyPath, str]]:
        """Yield a cap that lies below idle power, or that is missing."""
        if self.cap_mw is None:
            if flexibility is None or flexibility.signals.cap is None:
                yield (
                    ("cap_mw",),
                    "is missing; add it, or a signal 'cap' to flexibility.signals",
                )
        elif self.cap_mw * W_PER_MW < idle_power_w:
            yield (
                ("cap_mw",),
                f"is below the {idle_power_w / W_PER_MW:.4g} MW that all nodes draw without a job, "
                f"found {self.cap_mw:g}; no job could ever run",
            )

    def open(self) -> PowerCapped:
        """Return the policy itself."""
        return PowerCapped(self.cap_mw, self.power_basis, self.estimate, self.order, self.depth)
