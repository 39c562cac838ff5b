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


CASES: dict[str, tuple[int, int, list[Row], list[int]]] = {
    # nodes, horizon, jobs, starts
    "a job starts when submitted if nodes are free": (4, 1_000, [(0, 2, 10), (3, 2, 10)], [0, 3]),
    # The third job would fit at once, but the wide one is ahead of it.
    "a wide job blocks the queue": (4, 1_000, [(0, 2, 100), (1, 4, 10), (2, 1, 5)], [0, 100, 110]),
    "small jobs behind the head start together with it": (
        4, 1_000, [(0, 4, 50), (1, 2, 10), (2, 1, 10), (3, 1, 10)], [0, 50, 50, 50],
    ),
    "several ends free enough for one wide job": (
        3, 1_000, [(0, 1, 10), (0, 1, 20), (0, 1, 30), (5, 3, 1)], [0, 0, 0, 30],
    ),
    "equal submissions start in the order of the list": (1, 1_000, [(5, 1, 10)] * 3, [5, 15, 25]),
    "nodes that become free serve a job submitted then": (
        1, 1_000, [(0, 1, 10), (10, 1, 10)], [0, 10],
    ),
    "a job that would start at the horizon never does": (
        1, 100, [(0, 1, 100), (5, 1, 1)], [0, NEVER_MS],
    ),
    "a job starts a ms before the horizon": (1, 100, [(0, 1, 99), (5, 1, 1)], [0, 99]),
    "a job submitted at the horizon never starts": (
        1, 100, [(99, 1, 1), (100, 1, 1)], [99, NEVER_MS],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_jobs_start_in_turn_as_nodes_become_free(engine: Engine, case: str) -> None:
    n_nodes, horizon_ms, rows, expected = CASES[case]
    assert run(engine, n_nodes, *rows, horizon_ms=horizon_ms).start_ms.tolist() == expected


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
