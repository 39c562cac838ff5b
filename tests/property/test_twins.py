"""Random lists of jobs with heavy ties: each policy's compiled twin starts what SimPy
starts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from builders import job_table
from hypothesis import given, settings
from hypothesis import strategies as st

from diploee.scenario import SCHEDULERS, Pool
from diploee.scenario.pools import InstalledNodes
from diploee.schedule.job_table import JobTable
from diploee.schedule.schedule import Cluster, Engine

POLICIES: list[dict[str, Any]] = [
    {"kind": "sjf"},
    {"kind": "easy"},
    {"kind": "easy", "depth": 3},
    {"kind": "easy", "order": "sjbf"},
    {"kind": "easy", "order": "sjbf", "depth": 4},
    {"kind": "conservative"},
]
ESTIMATES: list[Any] = [
    "exact",
    {"factor": 2},
    {"factor": 0.5},
    {"classes": ["7 ms"]},
    "logged",
]


@st.composite
def job_lists(draw: st.DrawFn) -> tuple[JobTable, InstalledNodes, int]:
    """Jobs of few distinct times, the nodes that stand, and a horizon that may cut
    them."""
    first = draw(st.integers(1, 8))
    added = draw(st.lists(st.tuples(st.integers(1, 60), st.integers(1, 4)), max_size=2))
    standing = InstalledNodes(first, tuple(sorted(added)))
    n_jobs = draw(st.integers(0, 40))
    latest, longest = draw(
        st.sampled_from([(0, 4), (5, 4), (30, 12), (60, 3), (20, 60)])
    )

    def column(values: st.SearchStrategy[int]) -> np.ndarray:
        return np.array(
            draw(st.lists(values, min_size=n_jobs, max_size=n_jobs)), dtype=np.int64
        )

    jobs = job_table(
        np.sort(column(st.integers(0, latest))),
        column(st.integers(1, standing.n_at_end)),
        column(st.integers(1, longest)),
    )
    jobs = replace(jobs, requested_ms=column(st.integers(0, longest)))
    return jobs, standing, draw(st.integers(1, 3 * (latest + longest) + 60))


def starts(
    policy: dict[str, Any],
    jobs: JobTable,
    standing: InstalledNodes,
    horizon_ms: int,
    engine: Engine,
    cuts_ms: tuple[int, ...] = (),
) -> list[tuple[int, int]]:
    """Return the jobs that start and when, in the order in which they do."""
    pools = {"p": Pool(node_type="any", n_nodes=standing.n_at_end)}
    own = {"p": SCHEDULERS.read(policy).open()}
    cluster = Cluster(pools, horizon_ms, engine, own, installed={"p": standing})
    found, n_done = [], 0
    for edge_ms in sorted({*(cut for cut in cuts_ms if cut < horizon_ms), horizon_ms}):
        stop = int(np.searchsorted(jobs.submit_ms, edge_ms))
        part = cluster.advance(jobs.take(slice(n_done, stop)), edge_ms)
        found += zip(part.jobs.job_id.tolist(), part.start_ms.tolist(), strict=True)
        n_done = stop
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "policy", POLICIES, ids=lambda policy: "-".join(map(str, policy.values()))
)
@given(st.data())
@settings(max_examples=150)
def test_twins_start_what_simpy_starts_in_windows_of_any_cut(
    policy: dict[str, Any], data: st.DataObject
) -> None:
    jobs, standing, horizon_ms = data.draw(job_lists())
    policy = {**policy, "estimate": data.draw(st.sampled_from(ESTIMATES))}
    cuts_ms = tuple(data.draw(st.lists(st.integers(1, 200), max_size=4)))
    by_simpy = starts(policy, jobs, standing, horizon_ms, "simpy")
    assert starts(policy, jobs, standing, horizon_ms, "compiled") == by_simpy
    assert starts(policy, jobs, standing, horizon_ms, "compiled", cuts_ms) == by_simpy
    assert starts(policy, jobs, standing, horizon_ms, "simpy", cuts_ms) == by_simpy
    rows = dict(by_simpy)
    taken = [(rows[j], rows[j] + jobs.duration_ms[j], jobs.n_nodes[j]) for j in rows]
    for job, now_ms in by_simpy:
        assert now_ms >= jobs.submit_ms[job]
        busy = sum(n for begin, end, n in taken if begin <= now_ms < end)
        assert busy <= standing.at(np.array([now_ms]))[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    "policy", POLICIES, ids=lambda policy: "-".join(map(str, policy.values()))
)
@pytest.mark.parametrize("estimate", ESTIMATES, ids=str)
def test_twins_start_what_simpy_starts_of_long_lists_under_load(
    policy: dict[str, Any], estimate: Any
) -> None:
    rng = np.random.default_rng(len(str(policy)) + len(str(estimate)))
    n_jobs, grain_ms = 300, int(rng.choice([1, 7]))
    jobs = job_table(
        np.sort(rng.integers(0, 600, n_jobs)) * grain_ms,
        rng.choice([1, 1, 1, 2, 4, 16], n_jobs),
        rng.integers(1, 40, n_jobs) * grain_ms,
    )
    jobs = replace(jobs, requested_ms=rng.integers(0, 60, n_jobs) * grain_ms)
    policy = {**policy, "estimate": estimate}
    standing, horizon_ms = InstalledNodes(16), 10**6
    by_simpy = starts(policy, jobs, standing, horizon_ms, "simpy")
    assert len(by_simpy) == n_jobs
    assert starts(policy, jobs, standing, horizon_ms, "compiled") == by_simpy
    cuts_ms = tuple(range(100, 4_000, 100))
    assert starts(policy, jobs, standing, horizon_ms, "compiled", cuts_ms) == by_simpy


def test_no_job_starts_after_its_first_reservation_if_estimates_hold() -> None:
    from diploee.schedule.policies.conservative import ConservativeBackfill

    promised: dict[int, int] = {}

    class Watching(ConservativeBackfill):
        def select(self, view: Any) -> Any:
            chosen = super().select(view)
            for job, start_ms in self.reserved_ms.items():
                assert start_ms <= promised.setdefault(job, start_ms)
            return chosen

    rng = np.random.default_rng(5)
    duration_ms = rng.integers(1, 40, 300)
    jobs = job_table(
        np.sort(rng.integers(0, 600, 300)), rng.integers(1, 9, 300), duration_ms
    )
    jobs = replace(jobs, requested_ms=duration_ms + rng.integers(0, 30, 300))
    pools = {"p": Pool(node_type="any", n_nodes=16)}
    cluster = Cluster(pools, 10**6, "simpy", {"p": Watching("logged")})
    found = cluster.advance(jobs, 10**6)
    late = [
        promised.get(j, s) < s
        for j, s in zip(found.jobs.job_id, found.start_ms, strict=True)
    ]
    assert len(promised) > 100 and not any(late)
