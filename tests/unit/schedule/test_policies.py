"""Policies other than FIFO run on the SimPy engine through the same interface, unchanged."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from builders import job_table

from diploee.schedule.policy import ClusterView, Policy, StrictFifo
from diploee.schedule.simpy_engine import SimpyCluster
from diploee.workload import JobTable


class ShortestFirst:
    """Starts the shortest jobs that fit, whatever stands before them."""

    def select(self, view: ClusterView) -> Sequence[int]:
        free_nodes, chosen = view.free_nodes, []
        for job in sorted(view.queue, key=lambda job: (view.job_duration_ms[job], job)):
            if view.job_n_nodes[job] <= free_nodes:
                free_nodes -= view.job_n_nodes[job]
                chosen.append(job)
        return chosen


class Backfill:
    """EASY backfill: a job may pass the head if it ends before the head could start."""

    def select(self, view: ClusterView) -> Sequence[int]:
        chosen = list(StrictFifo().select(view))
        waiting = [job for job in view.queue if job not in chosen]
        if not waiting:
            return chosen
        free_nodes = view.free_nodes - sum(view.job_n_nodes[job] for job in chosen)
        ends = [(end_ms, view.job_n_nodes[job]) for job, end_ms in view.running.items()]
        ends += [(view.now_ms + view.job_duration_ms[j], view.job_n_nodes[j]) for j in chosen]
        head_start_ms, will_be_free = view.now_ms, free_nodes
        for end_ms, n_nodes in sorted(ends):
            if will_be_free >= view.job_n_nodes[waiting[0]]:
                break
            head_start_ms, will_be_free = end_ms, will_be_free + n_nodes
        for job in waiting[1:]:
            fits = view.job_n_nodes[job] <= free_nodes
            if fits and view.now_ms + view.job_duration_ms[job] <= head_start_ms:
                free_nodes -= view.job_n_nodes[job]
                chosen.append(job)
        return chosen


class NotBefore:
    """Holds the queue until a time, at which nothing is submitted and nothing ends."""

    def __init__(self, opens_ms: int) -> None:
        self.opens_ms = opens_ms
        self.asked_at: list[int] = []

    def select(self, view: ClusterView) -> Sequence[int]:
        self.asked_at.append(view.now_ms)
        if view.now_ms < self.opens_ms:
            view.wake_at(self.opens_ms)
            return []
        return StrictFifo().select(view)


class WhenCheap:
    """Starts jobs only while the outside price is low, asking again every 10 ms."""

    def select(self, view: ClusterView) -> Sequence[int]:
        if view.signals["price"](view.now_ms) > 50:
            view.wake_at(view.now_ms + 10)
            return []
        return StrictFifo().select(view)


class Greedy:
    """Starts everything, whether it fits or not."""

    def select(self, view: ClusterView) -> Sequence[int]:
        return list(view.queue)


def start_ms(jobs: JobTable, n_nodes: int, policy: Policy, horizon_ms: int = 10_000) -> list[int]:
    return SimpyCluster(jobs, n_nodes, policy).run(horizon_ms).tolist()


def test_shortest_first_lets_short_jobs_pass() -> None:
    jobs = job_table([0, 1, 2, 3], [1, 1, 1, 1], [100, 50, 5, 20])
    assert start_ms(jobs, 1, ShortestFirst()) == [0, 125, 100, 105]


def test_backfill_fills_the_gap_and_does_not_delay_the_head() -> None:
    # Job 1 (4 nodes) waits for 100; job 2 would end at 102 and waits; job 3 ends in time.
    jobs = job_table([0, 1, 2, 3], [2, 4, 2, 2], [100, 10, 100, 50])
    assert start_ms(jobs, 4, StrictFifo()) == [0, 100, 110, 110]
    assert start_ms(jobs, 4, Backfill()) == [0, 100, 110, 3]


def test_backfill_shortens_the_mean_wait_of_a_busy_pool() -> None:
    rng = np.random.default_rng(0)
    jobs = job_table(
        np.sort(rng.integers(0, 5_000, 300)),
        rng.choice([1, 2, 4, 8], 300),
        rng.integers(10, 200, 300),
    )
    waits = {}
    for policy in (StrictFifo(), Backfill()):
        starts = np.array(start_ms(jobs, 8, policy, horizon_ms=10**6))
        assert (starts >= jobs.submit_ms).all()
        waits[type(policy)] = (starts - jobs.submit_ms).mean()
    assert waits[Backfill] < waits[StrictFifo]


def test_wake_at_asks_the_policy_at_a_time_of_its_own() -> None:
    policy = NotBefore(500)
    assert start_ms(job_table([3, 7], [1, 1], [10, 10]), 4, policy) == [500, 500]
    assert policy.asked_at == [3, 7, 500]  # the second wake finds nothing to ask about


def test_a_wake_beyond_the_horizon_does_no_harm() -> None:
    assert start_ms(job_table([3], [1], [10]), 4, NotBefore(500), horizon_ms=400) == [-1]


def test_a_policy_reads_outside_signals() -> None:
    jobs = job_table([0, 1], [1, 1], [5, 5])
    cluster = SimpyCluster(jobs, 2, WhenCheap(), {"price": lambda now_ms: 100 - now_ms})
    assert cluster.run(1_000).tolist() == [50, 50]


def test_node_counts_are_never_exceeded_by_any_policy() -> None:
    jobs = job_table([0, 0], [3, 2], [5, 5])
    with pytest.raises(RuntimeError, match="Greedy started job 1 on 2 nodes, 1 more than"):
        start_ms(jobs, 4, Greedy())


def test_progress_is_reported_with_time_and_count() -> None:
    reports: list[tuple[int, int]] = []
    n_jobs = 40_000
    jobs = job_table(np.arange(n_jobs), np.ones(n_jobs, dtype=int), np.ones(n_jobs, dtype=int))
    cluster = SimpyCluster(jobs, 4, StrictFifo())
    cluster.run(50_000, lambda now_ms, n_submitted: reports.append((now_ms, n_submitted)))
    assert len(reports) == 3
    assert reports == sorted(reports)
    assert reports[0] == (0, 0)
