"""Recurrences as jobs of a facility: submission, duration, power; recurring jobs side by side."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from zeus_builders import GROUP_HEADER, hand_workload, write

from diploee.errors import WorkloadError
from diploee.neighbours.zeus import (
    TrainingWorkload,
    ZeusSpec,
    chosen_workloads,
    read_groups,
    read_traces,
)
from diploee.neighbours.zeus.recurring_jobs import (
    JobSeries,
    recurrences_of_groups,
    shared_out,
    shared_recurrences,
)

HOUR_MS = 3_600_000


def jobs_at(
    submit_ms: np.ndarray,
    of: Sequence[TrainingWorkload],
    spec: ZeusSpec,
    *stream: int | str,
    n_recurring_jobs: int,
    shares: Sequence[float] | None = None,
) -> JobSeries:
    workload_of = shared_out(of, n_recurring_jobs, shares or [1] * len(of))
    (jobs,) = shared_recurrences([(submit_ms, np.inf)], of, workload_of, spec, *stream)
    return jobs


def submissions_ms(n: int, every_ms: int = HOUR_MS) -> np.ndarray:
    return np.arange(n, dtype=np.int64) * every_ms


def test_job_lasts_target_epochs_x_time_per_epoch_and_draws_the_power_of_its_limit() -> None:
    jobs = jobs_at(
        submissions_ms(50), [hand_workload()], ZeusSpec("default", 100.0), 0, n_recurring_jobs=1
    )
    assert set(jobs.duration_ms.tolist()) == {9 * 12_000, 11 * 12_000}
    assert jobs.average_power_w.tolist() == pytest.approx([90.0] * 50)
    assert jobs.submit_ms.tolist() == submissions_ms(50).tolist()
    assert jobs.recurrence.tolist() == list(range(50))


def test_every_workload_has_recurring_jobs_by_its_share() -> None:
    several = chosen_workloads(read_traces())
    jobs = jobs_at(
        submissions_ms(3000, 1000),
        several,
        ZeusSpec("default"),
        1,
        n_recurring_jobs=10,
        shares=[8, 1, 1],
    )
    by_job = {int(g): int(w) for g, w in zip(jobs.group_id, jobs.workload_id, strict=True)}
    assert sorted(by_job) == list(range(10))
    assert np.bincount(list(by_job.values())).tolist() == [8, 1, 1]
    # Each of ten jobs recurs with the same probability: within 3.3 standard deviations of 300.
    counts = np.bincount(jobs.group_id)
    assert np.abs(counts - 300).max() < 3.3 * np.sqrt(3000 * 0.1 * 0.9)


@pytest.mark.parametrize(
    ("n_recurring_jobs", "shares", "wanted"),
    [
        (3, [1, 1, 1], [1, 1, 1]),
        (5, [2, 2, 1], [2, 2, 1]),
        (4, [100, 1, 1], [2, 1, 1]),  # each has one
        (7, [0, 3, 4], [0, 3, 4]),
        (10, [1, 1, 1], [4, 3, 3]),
    ],
)
def test_shares_become_whole_numbers_of_recurring_jobs(
    n_recurring_jobs: int, shares: list[float], wanted: list[int]
) -> None:
    workload_of = shared_out(chosen_workloads(read_traces()), n_recurring_jobs, shares)
    assert np.bincount(workload_of, minlength=3).tolist() == wanted


@pytest.mark.parametrize(
    ("n_recurring_jobs", "shares", "words"),
    [
        (2, [1, 1, 1], "2 recurring jobs for 3 workloads, expected one or more for each"),
        (0, [1, 1, 1], "0 recurring jobs for 3 workloads"),
        (3, [1, 1], r"shares of the workloads are \[1.0, 1.0\], expected 3 numbers of 0 or more"),
        (3, [1, -1, 1], "expected 3 numbers of 0 or more"),
        (3, [0, 0, 0], "expected 3 numbers of 0 or more, not all 0"),
        (3, [1, float("nan"), 1], "expected 3 numbers of 0 or more"),
    ],
)
def test_workloads_that_cannot_be_shared_out_are_refused(
    n_recurring_jobs: int, shares: list[float], words: str
) -> None:
    with pytest.raises(WorkloadError, match=words):
        shared_out(chosen_workloads(read_traces()), n_recurring_jobs, shares)


def test_jobs_of_groups_start_at_the_trace_less_its_first_start(tmp_path: Path) -> None:
    rows = ("g2,1000.5,1600,toy,2", "g1,900,950,toy,0.5", "g2,2000,2600,toy,1")
    trace = read_groups(write(tmp_path / "g.csv", GROUP_HEADER, *rows))
    jobs = recurrences_of_groups(trace, [hand_workload()], ZeusSpec("default"), 0)
    assert jobs.submit_ms.tolist() == [0, 100_500, 1_100_000]
    assert [trace.groups[g] for g in jobs.group_id] == ["g1", "g2", "g2"]
    ratio = np.array([0.5, 2.0, 1.0])
    assert set((jobs.duration_ms / ratio).tolist()) <= {90_000.0, 110_000.0}
    assert jobs.average_power_w.tolist() == pytest.approx([150.0] * 3)
