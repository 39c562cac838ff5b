"""Multifactor priority: each factor orders the queue as its formula says, EASY fills
the gaps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from builders import job_table, schedule_pool, tiny_library, tiny_scenario

from diploee import generate_jobs
from diploee.base.errors import WorkloadError
from diploee.scenario import SCHEDULERS, Pool
from diploee.schedule import ClusterView, Start
from diploee.schedule.context import Context
from diploee.schedule.job_table import JobTable
from diploee.schedule.policies.priority import MultifactorPriority, PrioritySpec
from diploee.schedule.schedule import Cluster, Engine


def starts(
    scheduler: dict[str, Any],
    jobs: JobTable,
    n_nodes: int,
    engine: Engine = "simpy",
    window_ms: int | None = None,
) -> list[int]:
    pool = Pool(node_type="any", n_nodes=n_nodes)
    policy = SCHEDULERS.read(scheduler).open()
    schedule = schedule_pool(jobs, pool, 100_000, engine, policy, window_ms)
    found: list[int] = schedule.start_ms.tolist()
    return found


def test_without_weights_it_is_easy() -> None:
    rng = np.random.default_rng(3)
    jobs = job_table(
        np.sort(rng.integers(0, 600, 200)),
        rng.integers(1, 9, 200),
        rng.integers(1, 40, 200),
    )
    by_easy = starts({"kind": "easy"}, jobs, 16)
    assert starts({"kind": "priority"}, jobs, 16) == by_easy
    assert starts({"kind": "priority", "age": 5}, jobs, 16) == by_easy


def test_wide_jobs_go_first_by_size_and_old_ones_by_age() -> None:
    jobs = job_table([0, 1, 2, 3], [4, 1, 4, 2], [10, 10, 10, 10])
    by_size = {"kind": "priority", "size": 1.0}
    assert starts(by_size, jobs, 4) == [0, 20, 10, 20]
    # The wait weighs so much that one ms is more than all nodes; the last job fills a
    # gap.
    assert starts({**by_size, "age": 1e6, "age_max": "1 s"}, jobs, 4) == [0, 10, 20, 10]


def test_age_counts_no_more_beyond_its_longest() -> None:
    jobs = job_table([0, 1, 4, 60], [4, 3, 4, 1], [50, 10, 10, 10])
    short = {"kind": "priority", "size": 1.0, "age": 10.0, "age_max": "10 ms"}
    assert starts(short, jobs, 4)[1:3] == [60, 50]
    assert starts({**short, "age_max": "1 s", "age": 1e6}, jobs, 4)[1:3] == [50, 60]


def test_user_with_less_usage_goes_first_and_usage_is_forgotten_by_half_lives() -> None:
    # User 1 held the pool for 100 ms; both wait behind a job of user 3.
    jobs = job_table([0, 200, 201, 202], [4, 4, 4, 4], [100, 50, 10, 10])
    jobs = replace(jobs, user_id=np.array([1, 3, 1, 2]))
    fair = {"kind": "priority", "fair_share": 1.0, "half_life": "1 h"}
    assert starts(fair, jobs, 4) == [0, 200, 260, 250]
    assert starts({"kind": "priority"}, jobs, 4) == [0, 200, 250, 260]


def test_fair_share_is_two_to_the_minus_usage_over_share() -> None:
    seen: list[dict[int, float]] = []

    class Watching(MultifactorPriority):
        def fair_shares(self, view: ClusterView) -> dict[int, float]:
            seen.append(super().fair_shares(view))
            return seen[-1]

    jobs = replace(job_table([0, 1_000], [3, 1], [500, 10]), user_id=np.array([1, 2]))
    policy = Watching(
        PrioritySpec.model_validate({"fair_share": 1.0, "half_life": "1 s"})
    )
    pool = Pool(node_type="any", n_nodes=4)
    schedule_pool(jobs, pool, 2_000, policy=policy)
    # User 1 has all usage of two users at 1 s: 2^(-1 / 0.5); user 2 has none.
    assert seen[2] == pytest.approx({1: 0.25, 2: 1.0})
    # At 1.01 s user 1 has 3 * 500 ms, decayed, user 2 has 10 ms.
    second_ms = 1_000 / np.log(2)
    first = 3 * second_ms * (1 - 0.5**0.5) * 0.5**0.51
    second = second_ms * (1 - 0.5**0.01)
    expected = {
        1: 0.5 ** (2 * first / (first + second)),
        2: 0.5 ** (2 * second / (first + second)),
    }
    assert seen[3] == pytest.approx(expected)


@pytest.mark.slow
def test_windows_change_no_start_and_the_compiled_engine_has_no_twin() -> None:
    rng = np.random.default_rng(4)
    jobs = job_table(
        np.sort(rng.integers(0, 600, 200)),
        rng.integers(1, 9, 200),
        rng.integers(1, 40, 200),
    )
    jobs = replace(jobs, user_id=rng.integers(0, 4, 200), priority=rng.random(200))
    weights = {
        "age": 1.0,
        "age_max": "1 s",
        "size": 0.5,
        "fair_share": 2.0,
        "priority": 1.0,
    }
    scheduler = {"kind": "priority", "half_life": "1 s", **weights}
    whole = starts(scheduler, jobs, 16)
    assert starts(scheduler, jobs, 16, window_ms=7) == whole
    with pytest.raises(WorkloadError, match="no twin of policy MultifactorPriority"):
        starts(scheduler, jobs, 16, "compiled")


@pytest.mark.parametrize("kind", ["priority", "easy", "conservative", "sjf"])
def test_queue_under_an_engine_that_acts_is_that_of_the_engine_that_starts(
    kind: str,
) -> None:
    rng = np.random.default_rng(6)
    jobs = job_table(
        np.sort(rng.integers(0, 600, 150)),
        rng.integers(1, 9, 150),
        rng.integers(1, 40, 150),
    )
    jobs = replace(jobs, user_id=rng.integers(0, 4, 150), priority=rng.random(150))
    weights = {
        "age": 1.0,
        "age_max": "1 s",
        "fair_share": 2.0,
        "half_life": "1 s",
        "priority": 3.0,
    }
    scheduler = {"kind": kind, **(weights if kind == "priority" else {})}

    class Acting:
        wants_idle = True

        def __init__(self) -> None:
            self.policy = SCHEDULERS.read(scheduler).open()

        def decide(self, view: Any) -> list[Start]:
            return [Start(job) for job in self.policy.select(view)]

    pools = {"p": Pool(node_type="any", n_nodes=16)}
    cluster = Cluster(pools, 100_000, policies={"p": Acting()}, context=Context())
    found = cluster.advance(jobs, 100_000)
    by_job = dict(zip(found.jobs.job_id.tolist(), found.start_ms.tolist(), strict=True))
    assert [by_job[job] for job in range(150)] == starts(scheduler, jobs, 16)


def test_priority_of_a_class_reaches_its_jobs_and_orders_them() -> None:
    scenario = tiny_scenario({"streams.training.classes.2.priority": 0.75})
    jobs = generate_jobs(scenario, tiny_library()).jobs
    assert np.array_equal(
        jobs.priority, np.where(jobs.class_id == 2, 0.75, 0).astype(np.float32)
    )
    queue = replace(
        job_table([0, 1, 2], [4, 4, 4], [10] * 3), priority=np.array([0, 0.25, 0.5])
    )
    assert starts({"kind": "priority", "priority": 1.0}, queue, 4) == [0, 20, 10]
