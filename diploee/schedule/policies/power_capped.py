"""EASY backfilling over nodes and watts.

No job starts that would take the facility above a cap. Sheet "Flexibility", A5. The
power of a job is what is known of it before it runs, on a basis that the scenario
names. Running jobs count until they are expected to end, and the services as planned,
so that a job starts only where all of it stays under the cap to its own expected end.
"""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import groupby, islice
from math import inf, isnan
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np

from diploee.base.errors import PolicyError
from diploee.base.model import SCALES, default, optional
from diploee.base.plain_data import KeyPath
from diploee.base.tables import Float64Array
from diploee.base.units import MS_PER_DAY, MS_PER_H, MS_PER_MIN, W_PER_MW
from diploee.scenario.flexibility import Flexibility
from diploee.schedule.actions import Action, Start
from diploee.schedule.job_table import Headroom, PowerBasis
from diploee.schedule.policies.easy import Order
from diploee.schedule.policy import LOGGED_OR_RUN, Estimate, EstimatingSpec

if TYPE_CHECKING:
    from diploee.schedule.context import ActingPool

HOURLY_MS = 2 * MS_PER_DAY
"""Services are looked at hour by hour so far ahead, and day by day beyond."""

MOST_HELD = 100_000
"""Jobs whose power is held at once; it is found anew beyond."""


class PowerCapped:
    """Starts jobs as EASY does, while nodes and power last.

    Parameters
    ----------
    cap_mw : float, optional
        Most that all devices of the facility may draw [MW]; the signal ``cap`` by
        default.
    power_basis : str
        Power of a job that counts under the cap, such as ``"p95_60s"``.
    estimate, order, depth
        As in `EasyBackfill`.
    """

    uses_levels = False

    def __init__(
        self,
        cap_mw: float | None = None,
        power_basis: PowerBasis = "p95_60s",
        estimate: Estimate = LOGGED_OR_RUN,
        order: Order = "submission",
        depth: int | None = None,
    ) -> None:
        self.cap_mw, self.power_basis = cap_mw, power_basis
        self.estimate, self.order, self.depth = estimate, order, depth
        self.jobs_w: dict[tuple[int, int, int], float] = {}
        self._waiting = _Waiting()
        self._services_w: dict[int, float] = {}
        self._pieces_of: tuple[object, _Pieces] | None = None
        self._woken_ms = -sys.maxsize

    def decide(self, view: ActingPool) -> Sequence[Action]:
        """Return the jobs to start.

        From the head on, then those that do not delay the next.
        """
        if len(self.jobs_w) > MOST_HELD:
            self.jobs_w.clear()
        waiting = self._waiting
        waiting.follow(view, self)
        queued, _, _, estimate_ms = waiting.columns
        left = _Left(view, self, int(estimate_ms.max(initial=0)))
        n_head = 0
        for job in view.queue:
            if not left.holds_job(job):
                break
            left.take_job(job)
            n_head += 1
        places = list(range(n_head))
        if n_head < len(view.queue):
            head = int(queued[n_head])
            if view.job_n_nodes[head] <= left.free_nodes:
                self._wake_later(view, left, head)
            places += self._behind(view, left, n_head)
        chosen = waiting.take(places)
        return [Start(job) for job in chosen]

    def _behind(self, view: ActingPool, left: _Left, n_head: int) -> list[int]:
        """Take jobs that do not delay the head, and return their places."""
        columns, now_ms = self._waiting.columns, view.now_ms
        behind = slice(n_head + 1, self.depth and n_head + self.depth)
        queued, n_nodes, job_w, estimate_ms = columns[:, behind]
        # Most of a long queue ends here: what does not fit now cannot later at this
        # instant.
        fits = (n_nodes <= left.free_nodes) & (job_w <= left.left_w)
        if not fits.any():
            return []
        end_ms = now_ms + estimate_ms
        for begin_ms, left_w in left.ahead(int(end_ms.max()), float(job_w[fits].max())):
            fits &= (job_w <= left_w) | (end_ms <= begin_ms)
        if not fits.any():
            return []
        shadow_ms, extra_nodes, extra_w = left.shadow(int(columns[0, n_head]))
        tried, found = np.flatnonzero(fits), list[int]()
        if self.order == "sjbf":
            tried = tried[np.argsort(end_ms[tried], kind="stable")]
        while True:
            nodes, power_w = n_nodes[tried], job_w[tried]
            beside = (nodes <= extra_nodes) & (power_w <= extra_w)
            fits = (nodes <= left.free_nodes) & (power_w <= left.left_w)
            tried = tried[fits & (beside | (end_ms[tried] <= shadow_ms))]
            # What is left now and ahead only falls as jobs are taken: none needs a
            # second look.
            jobs = queued[tried].astype(np.int64).tolist()
            held = next((n for n, job in enumerate(jobs) if left.holds_job(job)), None)
            if held is None:
                return found
            if end_ms[tried[held]] > shadow_ms:
                extra_nodes -= view.job_n_nodes[jobs[held]]
                extra_w -= left.job_w(jobs[held])
            left.take_job(jobs[held])
            found.append(n_head + 1 + int(tried[held]))
            tried = tried[held + 1 :]

    def cap_of(self, view: ActingPool) -> tuple[list[int], list[float]]:
        """Return times [ms] from now on, and the cap from each on [W]."""
        if self.cap_mw is not None:
            return [view.now_ms], [self.cap_mw * W_PER_MW]
        signal = view.signals.get("cap")
        if signal is None:
            raise PolicyError(
                f"pool '{view.name}': power_capped has no cap; give it cap_mw, or add "
                "a signal 'cap' to flexibility.signals"
            )
        # Beyond what is known of it now the last value that is known holds.
        times_ms, caps_w = [view.now_ms], [float(signal.at(view.now_ms) * W_PER_MW)]
        at_ms = signal.next_change_ms(view.now_ms)
        while at_ms is not None and not isnan(value_mw := signal.at(at_ms)):
            times_ms.append(at_ms)
            caps_w.append(float(value_mw * W_PER_MW))
            at_ms = signal.next_change_ms(at_ms)
        return times_ms, caps_w

    def pieces(
        self, view: ActingPool, times_ms: list[int], caps_w: list[float], last_ms: int
    ) -> _Pieces:
        """Return what the cap less the services allows from now to a time."""
        now_ms = times_ms[0]
        first_ms = (now_ms // MS_PER_H + 1) * MS_PER_H
        hours = range(first_ms, min(last_ms, now_ms + HOURLY_MS), MS_PER_H)
        days = range(first_ms + HOURLY_MS, last_ms, MS_PER_DAY)
        key = (first_ms, len(hours), len(days), times_ms[1:], caps_w)
        if self._pieces_of is None or self._pieces_of[0] != key:
            edges_ms = sorted({now_ms, *hours, *days, *times_ms[1:]})
            ends_ms = [*edges_ms[1:], edges_ms[-1] + 1]
            allowed_w = [
                caps_w[bisect_right(times_ms, begin_ms) - 1]
                - self.most_of_services_w(view, begin_ms, end_ms)
                for begin_ms, end_ms in zip(edges_ms, ends_ms, strict=True)
            ]
            self._pieces_of = key, _Pieces(edges_ms, allowed_w)
        return self._pieces_of[1]

    def most_of_services_w(self, view: ActingPool, begin_ms: int, end_ms: int) -> float:
        """Return the services' largest planned power beyond idle in hours [W]."""
        most_w = 0.0
        for hour in range(begin_ms // MS_PER_H, -(-end_ms // MS_PER_H)):
            if hour not in self._services_w:
                minutes = range(hour * MS_PER_H, (hour + 1) * MS_PER_H, MS_PER_MIN)
                self._services_w[hour] = max(map(view.service_power_w, minutes))
            most_w = max(most_w, self._services_w[hour])
        return most_w

    def job_w(self, view: ActingPool, job: int) -> float:
        """Return what a job draws beyond the idle power of its nodes [W]."""
        key = (job, view.job_n_nodes[job], view.job_level.get(job, 0))
        if key not in self.jobs_w:
            power_w = view.power_w(job, key[2], self.power_basis)
            self.jobs_w[key] = power_w - view.idle_w * key[1]
        return self.jobs_w[key]

    def _wake_later(self, view: ActingPool, left: _Left, head: int) -> None:
        """Ask for a turn when the cap or the services may let the head start."""
        if self.cap_mw is not None and left.job_w(head) > left.most_w:
            raise PolicyError(
                f"pool '{view.name}': job {head} draws "
                f"{left.job_w(head) / W_PER_MW:.4g} MW beyond idle "
                f"({self.power_basis}), more than the {left.most_w / W_PER_MW:.4g} MW "
                f"between the idle power of the facility and cap_mw {self.cap_mw:g}; "
                "raise cap_mw, or keep such jobs out of the pool"
            )
        if view.now_ms >= self._woken_ms:
            self._woken_ms = left.next_edge_ms
            view.wake_at(self._woken_ms)


class _Waiting:
    """The queue in columns, which follow what has been added to it and taken from it.

    Columns are floats, as all of their numbers are below 2^53.
    """

    def __init__(self) -> None:
        self._rows, self._begin, self._end, self._stirred = np.empty((4, 256)), 0, 0, -1

    @property
    def columns(self) -> Float64Array:
        """Jobs as submitted: nodes, power beyond idle [W], estimates [ms]."""
        return self._rows[:, self._begin : self._end]

    def follow(self, view: ActingPool, policy: PowerCapped) -> None:
        """Take in what has been added to the queue.

        All of it where anything else has changed.
        """
        if view.stirred != self._stirred or view.queue is not view.waiting:
            self._begin = self._end = 0
        self._stirred = view.stirred if view.queue is view.waiting else -1
        n_new = len(view.queue) - (self._end - self._begin)
        if not n_new:
            return
        if self._end + n_new > self._rows.shape[1]:
            kept = self._rows[:, self._begin : self._end]
            self._rows = np.empty((4, 2 * (kept.shape[1] + n_new)))
            self._rows[:, : kept.shape[1]] = kept
            self._begin, self._end = 0, kept.shape[1]
        new = list(islice(reversed(view.queue), n_new))[::-1]
        self._rows[:, self._end : self._end + n_new] = (
            new,
            [view.job_n_nodes[job] for job in new],
            [policy.job_w(view, job) for job in new],
            [view.job_estimate_ms[job] for job in new],
        )
        self._end += n_new

    def take(self, places: list[int]) -> list[int]:
        """Return the jobs at some places, which are started and so leave the queue."""
        if not places:
            return []
        jobs: list[int] = self.columns[0, places].astype(np.int64).tolist()
        if self._stirred >= 0:
            self._stirred += len(places)
        if max(places) < len(places):
            self._begin += len(places)
        else:
            kept = np.delete(self._rows[:, self._begin : self._end], places, axis=1)
            self._end = self._begin + kept.shape[1]
            self._rows[:, self._begin : self._end] = kept
        return jobs


class _Pieces:
    """Allowed power, the cap less the services, which is constant on pieces of time."""

    def __init__(self, edges_ms: list[int], allowed_w: list[float]) -> None:
        self.edges_ms, self.allowed_w = edges_ms, allowed_w
        # What is committed falls, so that within a piece the least is left at its
        # begin, and later only a piece that allows less than all before it can matter.
        self.tight = [piece for piece, _ in self.tighter(0, len(edges_ms))]

    def tighter(self, first: int, end: int) -> Iterator[tuple[int, float]]:
        """Yield pieces from a first one on that allow less [W], and what."""
        tightest = inf
        for piece in range(first, end):
            if self.allowed_w[piece] < tightest or piece == first:
                tightest = self.allowed_w[piece]
                yield piece, tightest


class _Left(Headroom):
    """Free nodes, and power left under the cap, from now on."""

    def __init__(self, view: ActingPool, policy: PowerCapped, longest_ms: int) -> None:
        self._view, self._policy = view, policy
        self._now_ms, self.free_nodes = view.now_ms, view.free_nodes
        times_ms, caps_w = policy.cap_of(view)
        idle_w = view.facility.idle_power_w
        self.most_w = caps_w[0] - idle_w
        if self.most_w < 0:
            raise PolicyError(
                f"pool '{view.name}': the cap of {caps_w[0] / W_PER_MW:.4g} MW at "
                f"{self._now_ms / MS_PER_H:,.4g} h of the run lies below the "
                f"{idle_w / W_PER_MW:.4g} MW that the facility draws idle; no job "
                "could ever run"
            )
        self.next_edge_ms = min(
            [(self._now_ms // MS_PER_H + 1) * MS_PER_H, *times_ms[1:]]
        )
        self._pieces = policy.pieces(view, times_ms, caps_w, self._now_ms + longest_ms)
        self._committed_w = view.facility.job_power_w(policy.power_basis)
        super().__init__(self._pieces.allowed_w[0], self._committed_w)
        self._taken, self._taken_w = list[tuple[int, int, float]](), 0.0
        self._ended_ms, self._ended_w = list[int](), [0.0]

    def job_w(self, job: int) -> float:
        """Return what a job draws beyond the idle power of its nodes [W]."""
        return self._policy.job_w(self._view, job)

    def holds_job(self, job: int) -> bool:
        """Return whether a job fits now, and under the cap to its expected end."""
        job_w = self.job_w(job)
        if self._view.job_n_nodes[job] > self.free_nodes or not self.holds(job_w):
            return False
        end_ms = self._now_ms + self._view.job_estimate_ms[job]
        return all(job_w <= left_w for _, left_w in self.ahead(end_ms, job_w))

    def take_job(self, job: int) -> None:
        """Count a job that starts now."""
        job_w, n_nodes = self.job_w(job), self._view.job_n_nodes[job]
        self._taken.append(
            (self._now_ms + self._view.job_estimate_ms[job], n_nodes, job_w)
        )
        self.free_nodes -= n_nodes
        self.take(job_w)
        self._taken_w += job_w

    def ahead(self, end_ms: int, most_w: float) -> Iterator[tuple[int, float]]:
        """Yield later times, before an end, with maybe less left than asked for [W].

        Each comes with what is left then [W].
        """
        for piece in self._pieces.tight[1:]:
            begin_ms = self._pieces.edges_ms[piece]
            if begin_ms >= end_ms:
                break
            allowed_w = self._pieces.allowed_w[piece]
            if most_w > allowed_w - self._committed_w - self._taken_w:
                yield begin_ms, allowed_w - self._committed_at(begin_ms)

    def _committed_at(self, time_ms: int) -> float:
        """Return what all that runs at a later time draws, as known now [W]."""
        ends, ended_ms, ended_w = self._view.ends, self._ended_ms, self._ended_w
        while len(ended_ms) < len(ends) and ends[len(ended_ms)][0] <= time_ms:
            end_ms, job = ends[len(ended_ms)]
            ended_ms.append(end_ms)
            ended_w.append(ended_w[-1] + self.job_w(job))
        taken_w = sum(job_w for end_ms, _, job_w in self._taken if end_ms > time_ms)
        return self._committed_w + taken_w - ended_w[bisect_right(ended_ms, time_ms)]

    def shadow(self, head: int) -> tuple[int, int, float]:
        """Return the head's expected start [ms], and what is left beside it."""
        view, soon_ms = self._view, self._now_ms + 1
        edges_ms, free_nodes = self._pieces.edges_ms, self.free_nodes
        wanted, head_w = view.job_n_nodes[head], self.job_w(head)
        ends = merge(
            (
                (max(end_ms, soon_ms), view.job_n_nodes[job])
                for end_ms, job in view.ends
            ),
            sorted((end_ms, n_nodes) for end_ms, n_nodes, _ in self._taken),
            [(edge_ms, 0) for edge_ms in edges_ms[1:]],
        )
        for time_ms, ended in groupby(ends, key=itemgetter(0)):
            free_nodes += sum(n_nodes for _, n_nodes in ended)
            if free_nodes < wanted:
                continue
            end_ms = time_ms + view.job_estimate_ms[head]
            first, least_w = bisect_right(edges_ms, time_ms) - 1, inf
            last = max(bisect_left(edges_ms, end_ms), first + 1)
            for piece, allowed_w in self._pieces.tighter(first, last):
                begin_ms = max(edges_ms[piece], time_ms)
                least_w = min(least_w, allowed_w - self._committed_at(begin_ms))
                if least_w < head_w:
                    break
            if least_w >= head_w:
                return time_ms, free_nodes - wanted, least_w - head_w
        return sys.maxsize, 0, 0.0


class PowerCappedSpec(EstimatingSpec):
    """EASY backfilling over nodes and watts: all devices stay under a cap."""

    kind: Literal["power_capped"] = default(
        "power_capped",
        (
            "EASY over nodes and watts: a job starts only where jobs, services and "
            "idle nodes stay under a cap to its expected end."
        ),
    )
    cap_mw: Annotated[float | None, SCALES] = optional(
        (
            "Most that all devices of the facility may draw [MW], of all pools and "
            "services; the signal cap of flexibility.signals if absent."
        ),
        gt=0,
    )
    power_basis: PowerBasis = default(
        "p95_60s",
        (
            "Power of a job that counts: its profile's mean, the 95th percentile of "
            "its one-minute means (assumed), or the ratings of its nodes."
        ),
        assumed=True,
    )
    order: Order = default(
        "submission", "Order in which the jobs behind the head are tried, as of easy."
    )
    depth: int | None = optional(
        "Jobs of the queue that are looked at, its head among them; all if absent.",
        ge=1,
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
                (
                    f"is below the {idle_power_w / W_PER_MW:.4g} MW that all nodes "
                    f"draw without a job, found {self.cap_mw:g}; no job could ever run"
                ),
            )

    def open(self) -> PowerCapped:
        """Return the policy itself."""
        return PowerCapped(
            self.cap_mw, self.power_basis, self.estimate, self.order, self.depth
        )
