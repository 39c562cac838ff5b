"""Strict FIFO on both engines, in small cases worked out by hand."""

from __future__ import annotations

import pytest
from builders import job_table, queued_at, schedule_pool

from diploee.errors import WorkloadError
from diploee.scenario import Pool
from diploee.schedule import Schedule
from diploee.schedule.schedule import NEVER_MS, Engine

Row = tuple[int, int, int]  # submit_ms, n_nodes, duration_ms


@pytest.fixture(params=["simpy", "compiled"])
def engine(request: pytest.FixtureRequest) -> Engine:
    found: Engine = request.param
    return found


def run(engine: Engine, n_nodes: int, *rows: Row, horizon_ms: int = 1_000) -> Schedule:
    columns = zip(*rows, strict=True) if rows else ([], [], [])
    pool = Pool(node_type="any", n_nodes=n_nodes)
    return schedule_pool(job_table(*columns), pool, horizon_ms, engine)


def starts(engine: Engine, n_nodes: int, *rows: Row, horizon_ms: int = 1_000) -> list[int]:
    return run(engine, n_nodes, *rows, horizon_ms=horizon_ms).start_ms.tolist()


def test_a_job_starts_when_submitted_if_nodes_are_free(engine: Engine) -> None:
    assert starts(engine, 4, (0, 2, 10), (3, 2, 10)) == [0, 3]


def test_wide_job_blocks_queue_head(engine: Engine) -> None:
    # The third job would fit at once, but the wide one is ahead of it.
    assert starts(engine, 4, (0, 2, 100), (1, 4, 10), (2, 1, 5)) == [0, 100, 110]


def test_small_jobs_behind_the_head_start_together_with_it(engine: Engine) -> None:
    assert starts(engine, 4, (0, 4, 50), (1, 2, 10), (2, 1, 10), (3, 1, 10)) == [0, 50, 50, 50]


def test_several_ends_free_enough_for_one_wide_job(engine: Engine) -> None:
    assert starts(engine, 3, (0, 1, 10), (0, 1, 20), (0, 1, 30), (5, 3, 1)) == [0, 0, 0, 30]


def test_equal_submissions_start_in_the_order_of_the_list(engine: Engine) -> None:
    assert starts(engine, 1, (5, 1, 10), (5, 1, 10), (5, 1, 10)) == [5, 15, 25]


def test_nodes_that_become_free_serve_a_job_submitted_at_that_instant(engine: Engine) -> None:
    assert starts(engine, 1, (0, 1, 10), (10, 1, 10)) == [0, 10]


def test_a_job_that_would_start_at_the_horizon_never_starts(engine: Engine) -> None:
    assert starts(engine, 1, (0, 1, 100), (5, 1, 1), horizon_ms=100) == [0, NEVER_MS]
    assert starts(engine, 1, (0, 1, 99), (5, 1, 1), horizon_ms=100) == [0, 99]


def test_a_job_submitted_at_the_horizon_never_starts(engine: Engine) -> None:
    assert starts(engine, 1, (99, 1, 1), (100, 1, 1), horizon_ms=100) == [99, NEVER_MS]


def test_a_pool_without_jobs_gives_an_empty_schedule(engine: Engine) -> None:
    schedule = run(engine, 3)
    assert len(schedule.jobs) == 0
    assert schedule.mean_utilization(3) == 0


def test_a_job_wider_than_the_pool_is_refused_before_the_run(engine: Engine) -> None:
    with pytest.raises(WorkloadError, match=r"job 1 needs 5 nodes, the pool has 4 \(2 such jobs\)"):
        run(engine, 4, (0, 4, 1), (0, 5, 1), (0, 6, 1))


def test_waits_and_ends_follow_from_the_starts(engine: Engine) -> None:
    schedule = run(engine, 1, (0, 1, 60), (10, 1, 60), (20, 1, 60), horizon_ms=100)
    assert schedule.start_ms.tolist() == [0, 60, NEVER_MS]
    assert schedule.wait_ms.tolist() == [0, 50, -1]
    assert schedule.end_ms.tolist() == [60, 120, NEVER_MS]  # the planned end, past the horizon
    assert schedule.mean_utilization(2) == 0.5
    assert queued_at(schedule, schedule.jobs.submit_ms) == [0, 1, 2]
