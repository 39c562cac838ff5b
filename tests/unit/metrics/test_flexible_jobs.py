"""Cost of control to the jobs, on schedules whose answers are known by hand."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from builders import job_table

from diploee.base.clock import WallClock
from diploee.metrics.flexible_jobs import FlexibleJobs
from diploee.scenario import EventTarget, JobFlexibilitySpec
from diploee.scenario.flexibility import RunEvent
from diploee.schedule import ExecutionIntervals, PreemptiveSchedule, Schedule
from diploee.schedule.job_table import JobTable
from diploee.schedule.started import NEVER_MS

H = 3_600_000
WALL = WallClock(datetime(2018, 1, 1, tzinfo=UTC))
EVENT = RunEvent("e", 0, 10 * H, 12 * H, EventTarget(mw=1), 0, 0, 0.02, H)


def costs(
    flexibility: JobFlexibilitySpec | None = None, horizon_h: int = 24
) -> FlexibleJobs:
    return FlexibleJobs([flexibility], [EVENT], WALL, horizon_h * H)


def see(found: FlexibleJobs, own: Schedule, undisturbed: Schedule) -> None:
    found.add(own)
    found.add(undisturbed, is_baseline=True)


def jobs_of(submit_h: list[int], hours: list[int], n_nodes: int = 2) -> JobTable:
    n = len(submit_h)
    return job_table(
        np.array(submit_h) * H, np.full(n, n_nodes), np.array(hours, dtype=np.int64) * H
    )


def plain(jobs: JobTable, start_h: list[int], horizon_h: int = 24) -> Schedule:
    return Schedule(jobs, np.array(start_h) * H, horizon_h * H)


def acted(
    jobs: JobTable, start_h: int, rows: list[tuple[int, ...]], end_h: int
) -> PreemptiveSchedule:
    """One job with stretches: from and to [h], work before and after [h], level, kind."""  # noqa: E501
    table = np.array(rows, dtype=np.int64)
    none = np.zeros(len(rows), dtype=np.int64)
    return PreemptiveSchedule(
        jobs,
        np.array([start_h * H]),
        24 * H,
        ended_ms=np.array([end_h * H]),
        runs=ExecutionIntervals(
            job=none,
            start_ms=table[:, 0] * H,
            end_ms=table[:, 1] * H,
            n_nodes=none + 2,
            work_from_ms=table[:, 2] * H,
            work_to_ms=table[:, 3] * H,
            level=table[:, 4],
            kind=table[:, 5],
            power_w=none * 0.0,
        ),
        new=np.array([True]),
        requeued_ms=none[:0],
        restarted_ms=none[:0],
    )


def test_waits_are_of_each_job_against_itself_whenever_the_two_start_it() -> None:
    jobs = jobs_of([0, 1, 2], [1, 1, 1])
    found = costs()
    see(found, plain(jobs.take(slice(0, 1)), [2]), plain(jobs, [0, 1, 2]))
    see(found, plain(jobs.take(slice(1, 3)), [1, 6]), plain(jobs.take(slice(0, 0)), []))
    assert found.block()["mean_wait_change_h"] == pytest.approx((2 + 0 + 4) / 3)


def test_a_deadline_is_the_run_time_and_its_slack_after_the_submission() -> None:
    jobs = jobs_of([0, 0, 20], [4, 4, 4])
    found = costs(JobFlexibilitySpec(slack=0.5))
    found.submit(jobs)
    see(found, plain(jobs, [2, 3, 20]), plain(jobs, [0, 1, 20]))
    told = found.block()
    # The third is due after the end of the run.
    assert (
        told["deadlines"],
        told["deadline_misses"],
        told["twin_deadline_misses"],
    ) == (2, 1, 0)


def test_jobs_of_a_class_may_be_due_at_a_date() -> None:
    jobs = jobs_of([0, 0], [4, 4])
    found = costs(JobFlexibilitySpec(deadline=datetime(2018, 1, 1, 5)))
    found.submit(jobs)
    see(found, plain(jobs, [1, 2]), plain(jobs, [0, 1]))
    assert found.block()["deadline_misses"] == 1


def test_work_done_twice_and_time_to_stop_and_restart_are_in_node_hours() -> None:
    jobs = jobs_of([0], [8])
    own = acted(
        jobs, 0, [(0, 5, 0, 5, 0, 0), (8, 9, 4, 4, 0, 2), (9, 13, 4, 8, 0, 0)], 13
    )
    found = costs()
    see(found, own, plain(jobs, [0]))
    told = found.block()
    assert told["lost_node_h"] == 2 * 1  # an hour of work on two nodes
    assert told["restart_node_h"] == 2 * 1


def test_performance_in_an_event_is_work_over_that_of_the_twin_weighted_by_tier() -> (
    None
):
    jobs = jobs_of([0], [24])
    # From ten to twelve at half the speed.
    own = acted(
        jobs,
        0,
        [(0, 10, 0, 10, 0, 0), (10, 12, 10, 11, 4, 0), (12, 24, 11, 23, 0, 0)],
        25,
    )
    other = replace(jobs, job_id=np.array([1]))
    found = costs(JobFlexibilitySpec(tier=3))
    see(found, own, plain(jobs, [0]))
    see(found, plain(other, [0]), plain(other, [0]))
    assert found.performance() == [pytest.approx(0.75)]


def test_a_job_that_never_starts_in_an_event_has_done_nothing_in_it() -> None:
    jobs = jobs_of([9], [2])
    found = costs()
    late = plain(jobs, [13])
    see(found, late, plain(jobs, [9]))
    assert found.performance() == [0.0]
    assert late.start_ms[0] != NEVER_MS
