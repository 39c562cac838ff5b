"""Pools that allocate GPUs: both engines, a slow first fit from its definition, and the
limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from builders import job_table, schedule_pool
from hypothesis import given, settings
from hypothesis import strategies as st

from diploee.scenario import Pool
from diploee.schedule import StrictFifo
from diploee.schedule.compiled import CompiledQueue
from diploee.schedule.job_table import JobTable
from diploee.schedule.kernels import Gpus, open_gpus
from diploee.schedule.simpy_engine import SimpyGpus

GPU = 100


@st.composite
def job_lists(draw: st.DrawFn) -> tuple[JobTable, int, int, list[int]]:
    """Jobs with many ties, nodes and GPUs of their pool, and the ends of the windows."""  # noqa: E501
    n_nodes, per_node = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    n_jobs = draw(st.integers(0, 30))
    latest, longest = (
        draw(st.sampled_from([0, 3, 20, 100])),
        draw(st.sampled_from([1, 4, 40])),
    )
    submit = sorted(
        draw(st.lists(st.integers(0, latest), min_size=n_jobs, max_size=n_jobs))
    )
    widths = st.one_of(
        st.sampled_from([1, 25, 30, 50, 70, 99]),
        st.integers(1, per_node).map(lambda k: k * GPU),
        st.integers(1, n_nodes).map(lambda k: k * GPU * per_node),
    )
    lengths = st.integers(1, longest)
    jobs = job_table(
        submit,
        draw(st.lists(widths, min_size=n_jobs, max_size=n_jobs)),
        draw(st.lists(lengths, min_size=n_jobs, max_size=n_jobs)),
    )
    edges = draw(st.sets(st.integers(1, latest + 2 * longest), min_size=1, max_size=6))
    return jobs, n_nodes, per_node, sorted(edges)


def compiled(gpus: Gpus) -> CompiledQueue:
    n_nodes = gpus.next_gpu.size // gpus.per_node
    return CompiledQueue(StrictFifo(), n_nodes, gpus=gpus)


def by_windows(
    open_engine: Callable[[Gpus], SimpyGpus | CompiledQueue],
    case: tuple[JobTable, int, int, list[int]],
) -> tuple[dict[int, int], list[list[int]]]:
    """Return the start of each job, and the free slots of each GPU at the end of each
    window."""
    jobs, n_nodes, per_node, edges = case
    gpus = open_gpus(n_nodes, per_node)
    made, starts, free, done = open_engine(gpus), dict[int, int](), [], 0
    for edge in edges:
        stop = int(np.searchsorted(jobs.submit_ms, edge))
        numbers, start_ms = made.advance(jobs.take(slice(done, stop)), edge)
        starts |= dict(zip(numbers.tolist(), start_ms.tolist(), strict=True))
        first = gpus.gpus.size // 2  # the leaves of the tree
        free.append(gpus.gpus[first : first + gpus.next_gpu.size].tolist())
        done = stop
    return starts, free


def slow_first_fit(
    case: tuple[JobTable, int, int, list[int]],
) -> tuple[dict[int, int], list[list[int]]]:
    """The same from the definition: every instant at which GPUs may become free, GPU
    after GPU."""
    jobs, n_nodes, per_node, edges = case
    runs: list[tuple[int, int, list[int], int]] = []  # start, end, GPUs, slots of each

    def free_at(now: int) -> list[int]:
        free = [GPU] * (n_nodes * per_node)
        for start, end, gpus, part in runs:
            if start <= now < end:
                for gpu in gpus:
                    free[gpu] -= part
        assert min(free) >= 0
        return free

    def place(asked: int, free: list[int]) -> list[int]:
        if asked < GPU:
            return [gpu for gpu, left in enumerate(free) if left >= asked][:1]
        empty = [
            [
                gpu
                for gpu in range(node * per_node, (node + 1) * per_node)
                if free[gpu] == GPU
            ]
            for node in range(n_nodes)
        ]
        if asked < GPU * per_node:
            k = asked // GPU
            return next((gpus[:k] for gpus in empty if len(gpus) >= k), [])
        whole = [gpu for gpus in empty if len(gpus) == per_node for gpu in gpus]
        return whole[: asked // GPU] if len(whole) >= asked // GPU else []

    ahead = 0
    columns = (
        jobs.submit_ms.tolist(),
        jobs.n_nodes.tolist(),
        jobs.duration_ms.tolist(),
    )
    for submit, asked, length in zip(*columns, strict=True):
        ahead = max(ahead, submit)
        for now in sorted({ahead, *(end for _, end, _, _ in runs if end > ahead)}):
            if gpus := place(asked, free_at(now)):
                ahead = now
                runs.append((now, now + length, gpus, min(asked, GPU)))
                break
    starts = {job: run[0] for job, run in enumerate(runs) if run[0] < edges[-1]}
    return starts, [free_at(edge - 1) for edge in edges]


@given(job_lists())
@settings(max_examples=50)
def test_both_engines_agree_with_a_slow_first_fit_in_starts_and_gpus(
    case: tuple[JobTable, int, int, list[int]],
) -> None:
    expected = slow_first_fit(case)
    assert by_windows(compiled, case) == expected
    assert by_windows(SimpyGpus, case) == expected


@given(job_lists())
@settings(max_examples=30)
def test_whole_nodes_are_given_when_a_pool_of_whole_nodes_gives_them(
    case: tuple[JobTable, int, int, list[int]],
) -> None:
    jobs, n_nodes, per_node, edges = case
    whole = -(-jobs.n_nodes // (per_node * GPU))
    slots = replace(jobs, n_nodes=whole * per_node * GPU)
    starts, _ = by_windows(SimpyGpus, (slots, n_nodes, per_node, edges))
    pool = Pool(node_type="any", n_nodes=n_nodes)
    expected = schedule_pool(replace(jobs, n_nodes=whole), pool, edges[-1])
    assert starts == {
        k: int(expected.start_ms[k]) for k in np.flatnonzero(expected.started)
    }


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=15)
def test_engines_agree_on_long_lists_under_load_and_never_exceed_a_gpu(
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    n_jobs, n_nodes, per_node = (
        400,
        int(rng.integers(1, 40)),
        int(rng.choice([1, 2, 8])),
    )
    whole = np.minimum(rng.choice([1, 1, 2, 4, 8, 32], n_jobs), n_nodes * per_node)
    whole = np.where(whole > per_node, -(-whole // per_node) * per_node, whole)
    asked = np.where(
        rng.random(n_jobs) < 0.4, rng.integers(1, GPU, n_jobs), whole * GPU
    )
    jobs = job_table(
        np.sort(rng.integers(0, rng.integers(1, 2_000), n_jobs)),
        np.minimum(asked, n_nodes * per_node * GPU),
        rng.integers(1, rng.integers(2, 200), n_jobs),
    )
    case = (jobs, n_nodes, per_node, sorted(set(rng.integers(1, 4_000, 20).tolist())))
    starts, free = by_windows(compiled, case)
    assert (starts, free) == by_windows(SimpyGpus, case)
    assert min(map(min, free)) >= 0 and max(map(max, free)) <= GPU
    for edge, of_gpus in zip(case[3], free, strict=True):
        busy = sum(
            int(jobs.n_nodes[job])
            for job, start in starts.items()
            if start < edge <= start + int(jobs.duration_ms[job])
        )
        # `edge - 1` is the last instant of a window; what ends at `edge` still runs.
        assert sum(of_gpus) == n_nodes * per_node * GPU - busy
