"""Random lists of jobs: both engines, an independent slow FIFO, and what every schedule
obeys."""

from __future__ import annotations

import numpy as np
from builders import (
    job_table,
    mean_utilization,
    queued_at,
    schedule_pool,
    tiny_scenario,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from diploee.scenario import Pool
from diploee.schedule import Schedule
from diploee.schedule.job_table import JobTable
from diploee.schedule.started import NEVER_MS
from diploee.simulation.steps import schedule_jobs


@st.composite
def job_lists(draw: st.DrawFn) -> tuple[JobTable, int, int]:
    """Jobs with many ties, the nodes of their pool, and a horizon that may cut or
    exclude them."""
    n_nodes = draw(st.integers(1, 12))
    n_jobs = draw(st.integers(0, 40))
    # Coarse times give equal submissions and ends; fine ones give none.
    grain_ms = draw(st.sampled_from([1, 1, 10, 100]))
    latest = draw(st.sampled_from([0, 3, 20, 200]))
    longest = draw(st.sampled_from([1, 4, 60]))
    times = st.integers(0, latest)
    submit = sorted(draw(st.lists(times, min_size=n_jobs, max_size=n_jobs)))
    width = st.one_of(st.integers(1, n_nodes), st.sampled_from([1, n_nodes]))
    widths = draw(st.lists(width, min_size=n_jobs, max_size=n_jobs))
    lengths = draw(st.lists(st.integers(1, longest), min_size=n_jobs, max_size=n_jobs))
    horizon = draw(st.integers(1, 2 * (latest + longest) + 1))
    jobs = job_table(
        np.array(submit, dtype=np.int64) * grain_ms,
        np.array(widths, dtype=np.int64),
        np.array(lengths, dtype=np.int64) * grain_ms,
    )
    return jobs, n_nodes, horizon * grain_ms


def scheduled(jobs: JobTable, n_nodes: int, horizon_ms: int, engine: str) -> Schedule:
    pool = Pool(node_type="any", n_nodes=n_nodes)
    return schedule_pool(jobs, pool, horizon_ms, engine)  # type: ignore[arg-type]


def slow_fifo(jobs: JobTable, n_nodes: int, horizon_ms: int) -> list[int]:
    """Strict FIFO from its definition: try every instant at which nodes may become
    free."""
    starts: list[int] = []
    rows = list(zip(jobs.submit_ms.tolist(), jobs.n_nodes.tolist(), strict=True))
    lengths = jobs.duration_ms.tolist()
    ahead_ms = 0
    for submit_ms, width in rows:
        earliest_ms = max(submit_ms, ahead_ms)
        running = list(zip(starts, rows, lengths, strict=False))
        ends = {
            start + length
            for start, _, length in running
            if start + length > earliest_ms
        }
        for now_ms in sorted({earliest_ms, *ends}):
            busy = sum(
                row[1] for start, row, length in running if start + length > now_ms
            )
            if busy + width <= n_nodes:
                break
        else:
            raise AssertionError("an idle pool must hold every job")
        if now_ms >= horizon_ms:
            break
        starts.append(now_ms)
        ahead_ms = now_ms
    return starts + [NEVER_MS] * (len(rows) - len(starts))


@given(job_lists())
@settings(max_examples=80)
def test_simpy_equals_compiled_job_for_job(case: tuple[JobTable, int, int]) -> None:
    by_simpy = scheduled(*case, "simpy")
    by_twin = scheduled(*case, "compiled")
    assert by_simpy.start_ms.tolist() == by_twin.start_ms.tolist()


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=25)
def test_simpy_equals_compiled_on_long_lists_under_load(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_jobs, n_nodes = 400, int(rng.integers(1, 64))
    grain_ms = int(rng.choice([1, 7, 1_000]))
    jobs = job_table(
        np.sort(rng.integers(0, rng.integers(1, 2_000), n_jobs)) * grain_ms,
        np.minimum(rng.choice([1, 2, 4, 8, 16, 64], n_jobs), n_nodes),
        rng.integers(1, rng.integers(2, 200), n_jobs) * grain_ms,
    )
    horizon_ms = int(rng.integers(1, 10_000)) * grain_ms
    by_simpy = scheduled(jobs, n_nodes, horizon_ms, "simpy")
    by_twin = scheduled(jobs, n_nodes, horizon_ms, "compiled")
    assert np.array_equal(by_simpy.start_ms, by_twin.start_ms)


@given(job_lists())
@settings(max_examples=60)
def test_a_slow_fifo_from_the_definition_agrees(
    case: tuple[JobTable, int, int],
) -> None:
    assert scheduled(*case, "compiled").start_ms.tolist() == slow_fifo(*case)


@given(job_lists())
@settings(max_examples=40)
def test_occupancy_never_exceeds_capacity(case: tuple[JobTable, int, int]) -> None:
    jobs, n_nodes, _ = case
    schedule = scheduled(*case, "compiled")
    started = schedule.started
    for now_ms in schedule.start_ms[started].tolist():
        runs = started & (schedule.start_ms <= now_ms) & (now_ms < schedule.end_ms)
        assert jobs.n_nodes[runs].sum() <= n_nodes


@given(job_lists())
@settings(max_examples=40)
def test_fifo_starts_never_reorder(case: tuple[JobTable, int, int]) -> None:
    jobs, _, horizon_ms = case
    schedule = scheduled(*case, "compiled")
    n_started = int(schedule.started.sum())
    assert schedule.started[:n_started].all(), "a job started past one that never did"
    start_ms = schedule.start_ms[:n_started]
    assert (np.diff(start_ms) >= 0).all()
    assert (start_ms >= jobs.submit_ms[:n_started]).all()
    assert (start_ms < horizon_ms).all()


@given(job_lists())
@settings(max_examples=40)
def test_a_longer_horizon_changes_no_start_before_the_shorter_one(
    case: tuple[JobTable, int, int],
) -> None:
    jobs, n_nodes, horizon_ms = case
    short = scheduled(jobs, n_nodes, horizon_ms, "compiled").start_ms
    long = scheduled(jobs, n_nodes, 3 * horizon_ms, "compiled").start_ms
    assert np.array_equal(short, np.where(long < horizon_ms, long, NEVER_MS))


@given(job_lists(), st.lists(st.integers(-5, 30_000), max_size=20))
@settings(max_examples=40)
def test_queued_at_counts_submitted_and_not_yet_started_jobs(
    case: tuple[JobTable, int, int], times_ms: list[int]
) -> None:
    schedule = scheduled(*case, "compiled")
    submits, starts = schedule.jobs.submit_ms.tolist(), schedule.start_ms.tolist()
    # Ends and starts themselves are the instants at which a count may be off by one.
    times_ms = [*times_ms, *submits, *(start for start in starts if start >= 0)]
    counted = [
        sum(
            submit <= now and not 0 <= start <= now
            for submit, start in zip(submits, starts, strict=True)
        )
        for now in times_ms
    ]
    assert queued_at(schedule, np.array(times_ms, dtype=np.int64)) == counted


@given(job_lists())
@settings(max_examples=40)
def test_mean_utilization_equals_a_count_of_every_millisecond(
    case: tuple[JobTable, int, int],
) -> None:
    jobs, n_nodes, horizon_ms = case
    schedule = scheduled(*case, "compiled")
    busy = np.zeros(horizon_ms, dtype=np.int64)
    for job in np.flatnonzero(schedule.started):
        busy[schedule.start_ms[job] : schedule.end_ms[job]] += jobs.n_nodes[job]
    assert mean_utilization(schedule, n_nodes) == float(busy.sum()) / (
        n_nodes * horizon_ms
    )


@given(job_lists(), job_lists())
@settings(max_examples=40)
def test_pools_do_not_disturb_each_other(
    first: tuple[JobTable, int, int], second: tuple[JobTable, int, int]
) -> None:
    """Two pools in one table give what each gives alone."""
    submit_ms = np.concatenate([first[0].submit_ms, second[0].submit_ms])
    order = np.argsort(submit_ms, kind="stable")
    pool_id = np.repeat([0, 1], [len(first[0]), len(second[0])])[order]
    both = job_table(
        submit_ms[order],
        np.concatenate([first[0].n_nodes, second[0].n_nodes])[order],
        np.concatenate([first[0].duration_ms, second[0].duration_ms])[order],
        pool_id=pool_id,
    )
    stream = {
        "jobs_per_day": 1,
        "classes": [{"workload": "x", "n_nodes": 1, "probability": 1}],
    }
    scenario = tiny_scenario(
        {
            "duration": "100 s",
            "resolution": "0.1 s",
            "facility.pools": {
                "a": {"node_type": "node", "n_nodes": first[1]},
                "b": {"node_type": "node", "n_nodes": second[1]},
            },
            "streams": {"s": {"pool": "a", **stream}},
        }
    )
    schedule = schedule_jobs(both, scenario, "compiled")
    for k, (jobs, n_nodes, _) in enumerate([first, second]):
        alone = scheduled(jobs, n_nodes, scenario.horizon_ms, "compiled")
        assert np.array_equal(schedule.start_ms[pool_id == k], alone.start_ms)
