"""Schedulers that look at estimates: hand vectors, rules of estimates, what a view
tells."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from builders import job_table, schedule_pool
from hypothesis import given
from hypothesis import strategies as st

from diploee.base.errors import WorkloadError
from diploee.scenario import SCHEDULERS, Pool
from diploee.schedule import ClusterView, Policy
from diploee.schedule.job_table import JobTable
from diploee.schedule.policies.easy import EasyBackfill
from diploee.schedule.policy import compiled_engine_for

Row = tuple[int, int, int, int]  # submit, nodes, estimate, run time


def jobs_of(rows: Sequence[Row]) -> JobTable:
    submit_ms, n_nodes, estimate_ms, duration_ms = (
        np.array(rows, dtype=np.int64).reshape(-1, 4).T
    )
    return replace(job_table(submit_ms, n_nodes, duration_ms), requested_ms=estimate_ms)


def starts(rows: Sequence[Row], policy: Policy, n_nodes: int = 100) -> list[int]:
    jobs = jobs_of(rows)
    pool = Pool(node_type="any", n_nodes=n_nodes)
    twin = deepcopy(policy)
    found: list[int] = schedule_pool(
        jobs, pool, 100_000, policy=policy
    ).start_ms.tolist()
    if compiled_engine_for(twin) is not None:
        compiled = schedule_pool(jobs, pool, 100_000, "compiled", twin)
        assert compiled.start_ms.tolist() == found
    return found


def ends(rows: Sequence[Row], policy: Policy, n_nodes: int = 100) -> list[int]:
    found = starts(rows, policy, n_nodes)
    return [start + run for start, (*_, run) in zip(found, rows, strict=True)]


# PYSS (Feitelson's group, 2007), src/schedulers/Input_test_files, by the name of the
# file.
VECTORS: dict[str, tuple[list[Row], dict[str, list[int]]]] = {
    "easy_bf_input.0": (
        [(0, 70, 100, 100), (1, 80, 100, 100), (2, 90, 100, 100), (50, 20, 250, 250)],
        {"easy": [100, 200, 400, 300], "conservative": [100, 200, 300, 550]},
    ),
    "bf_input.7": (
        [(100, 50, 600, 100), (101, 60, 600, 10), (104, 50, 100, 100)],
        {"easy": [200, 214, 204], "conservative": [200, 214, 204]},
    ),
    "bf_input.6": (
        [(0, 50, 700, 600), (10, 100, 400, 200), (20, 60, 10, 10)],
        {"easy": [600, 800, 810], "conservative": [600, 800, 810]},
    ),
    "cons_bf_input.1": (  # the early ends move the last job alone
        [
            (0, 50, 800, 600),
            (1, 100, 400, 200),
            (2, 10, 200, 100),
            (99, 10, 10, 10),
            (100, 40, 31, 30),
        ],
        {"conservative": [600, 800, 102, 109, 132]},
    ),
}


@pytest.mark.parametrize(
    ("rows", "kind", "expected"),
    [
        pytest.param(rows, kind, expected, id=f"{name}-{kind}")
        for name, (rows, of_kinds) in VECTORS.items()
        for kind, expected in of_kinds.items()
    ],
)
def test_ends_equal_the_hand_vectors_of_pyss(
    rows: list[Row], kind: str, expected: list[int]
) -> None:
    policy = SCHEDULERS.read({"kind": kind, "estimate": "logged"}).open()
    assert ends(rows, policy) == expected


def test_depth_counts_the_head_and_ends_the_search_behind_it() -> None:
    rows = [(0, 70, 100, 100), (1, 80, 10, 10), (2, 40, 50, 50), (3, 30, 50, 50)]
    assert starts(rows, EasyBackfill(depth=1)) == [0, 100, 110, 110]
    assert starts(rows, EasyBackfill(depth=2)) == [0, 100, 110, 110]
    assert starts(rows, EasyBackfill(depth=3)) == [0, 100, 110, 3]


def test_a_job_that_outruns_its_estimate_counts_as_ending_the_next_ms() -> None:
    seen = []

    class Watching(EasyBackfill):
        def select(self, view: ClusterView) -> Sequence[int]:
            seen.append(
                (view.now_ms, [view.expected_end_ms(job) for job in view.running])
            )
            return super().select(view)

    # At 50 the first job has outrun its 20: what ends by 51 may pass the head, nothing
    # longer.
    rows = [(0, 70, 20, 100), (1, 80, 9, 9), (50, 30, 2, 2), (51, 30, 1, 1)]
    assert starts(rows, Watching(estimate="logged")) == [0, 100, 109, 51]
    assert seen[:4] == [(0, []), (1, [20]), (50, [51]), (51, [52])]


def test_a_policy_derived_from_one_with_a_twin_has_none() -> None:
    class Later(EasyBackfill):
        pass

    assert compiled_engine_for(EasyBackfill()) is not None
    with pytest.raises(
        WorkloadError, match="no twin of policy Later; use --engine simpy"
    ):
        schedule_pool(
            job_table([0], [1], [5]),
            Pool(node_type="any", n_nodes=4),
            10,
            "compiled",
            Later(),
        )


def test_view_tells_what_was_submitted_and_no_true_run_time() -> None:
    seen: list[Any] = []

    class Watching(EasyBackfill):
        def select(self, view: ClusterView) -> Sequence[int]:
            job = view.queue[0]
            names = (
                "submit_ms",
                "estimate_ms",
                "user",
                "class",
                "profile_id",
                "n_nodes",
            )
            seen.append([getattr(view, f"job_{name}")[job] for name in names])
            seen.append(
                [name for name in dir(view) if "duration" in name and name[0] != "_"]
            )
            return super().select(view)

    jobs = replace(
        jobs_of([(3, 2, 500, 7)]), user_id=np.array([5]), class_id=np.array([4])
    )
    jobs = replace(jobs, profile_id=np.array([6]))
    schedule_pool(
        jobs, Pool(node_type="any", n_nodes=2), 10, policy=Watching(estimate="logged")
    )
    assert seen == [[3, 500, 5, 4, 6, 2], []]


@pytest.mark.parametrize(
    ("estimate", "expected"),
    [
        ("exact", [1, 1_800_000, 1_800_001, 90_000_000]),
        ({"factor": 2}, [2, 3_600_000, 3_600_002, 180_000_000]),
        ({"factor": 0.25}, [1, 450_000, 450_000, 22_500_000]),
        (
            {"classes": ["1 h", "30 min", "24 h"]},
            [1_800_000, 1_800_000, 3_600_000, 86_400_000],
        ),
        ("logged", [7, 1_800_000, 5, 90_000_000]),
        ("logged_or_run", [7, 1_800_000, 1_800_001, 90_000_000]),
    ],
)
def test_estimates_follow_their_rule(estimate: Any, expected: list[int]) -> None:
    from diploee.schedule.policy import estimated_ms

    jobs = job_table([0] * 4, [1] * 4, [1, 1_800_000, 1_800_001, 90_000_000])
    jobs = replace(jobs, requested_ms=np.array([7, 0, 5, 0]))
    spec: Any = SCHEDULERS.read({"kind": "easy", "estimate": estimate})
    assert estimated_ms(spec.estimate, jobs).tolist() == expected


ROWS = st.lists(
    st.tuples(
        st.integers(0, 40), st.integers(1, 6), st.integers(1, 20), st.integers(1, 20)
    ),
    max_size=25,
)


@given(ROWS)
def test_easy_with_exact_estimates_never_delays_a_head_beyond_its_first_shadow(
    rows: list[Row],
) -> None:
    rows = [(submit, nodes, run, run) for submit, nodes, _, run in sorted(rows)]
    promised: dict[int, int] = {}

    class Watching(EasyBackfill):
        def select(self, view: ClusterView) -> Sequence[int]:
            chosen = super().select(view)
            left = [job for job in view.queue if job not in chosen]
            if left:
                running = [
                    (end, view.job_n_nodes[job]) for job, end in view.running.items()
                ]
                running += [
                    (view.now_ms + view.job_estimate_ms[job], view.job_n_nodes[job])
                    for job in chosen
                ]
                free = view.n_nodes - sum(nodes for _, nodes in running)
                for end, nodes in sorted(running):
                    free += nodes
                    if free >= view.job_n_nodes[left[0]]:
                        promised.setdefault(left[0], end)
                        break
            return chosen

    found = starts(rows, Watching(), n_nodes=6)
    assert all(start >= submit for start, (submit, *_) in zip(found, rows, strict=True))
    assert all(found[job] <= shadow for job, shadow in promised.items())
