"""Classes of a fit: which job goes where, what is joined, shared or left out."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime

import numpy as np
import pytest
from builders import tiny_library
from fit_logs import HOUR_MS, MONDAY_MS, job_log, submissions
from scipy import stats

from diploee.base.errors import ProfileError, WorkloadError
from diploee.fits.confidence_limits import share_limits, total_limits
from diploee.fits.jobs.classes import group_jobs
from diploee.fits.jobs.job_log_fit import fit_job_log
from diploee.fits.jobs.scenario_entry import job_stream
from diploee.loads.import_counts import ImportCounts
from diploee.loads.jobs.job_log import STATES
from diploee.runs.sections import as_lines
from diploee.scenario import ClassRule, DurationModel

ANY_TUNE = (ClassRule(workload="tune"),)


def test_jobs_take_the_profiles_of_the_nearest_size() -> None:
    log = job_log(range(5), n_nodes=[1, 2, 3, 4, 64])
    groups = group_jobs(log.jobs, log.types, ANY_TUNE, tiny_library())
    assert groups.n_nodes == (1, 2, 3, 4, 64)
    assert groups.profile_n_nodes == (2, 2, 4, 4, 4)
    assert groups.class_of.tolist() == [0, 1, 2, 3, 4]
    assert groups.n_joined == 0


def test_unmatched_and_too_wide_jobs_are_left_out_and_counted() -> None:
    log = job_log(range(6), n_nodes=[1, 2, 4, 8, 16, 300])
    rules = (ClassRule(workload="tune", min_nodes=2),)
    groups = group_jobs(log.jobs, log.types, rules, tiny_library(), pool_n_nodes=12)
    assert (groups.unmatched.sum(), groups.too_wide.sum()) == (1, 2)
    assert groups.class_of.tolist() == [-1, 0, 1, 2, -1, -1]


def test_rare_widths_join_their_neighbours() -> None:
    n_nodes = np.repeat([1, 2, 3, 4, 8], [100, 50, 1, 40, 2])
    log = job_log(range(n_nodes.size), n_nodes=n_nodes, duration_s=3_600)
    groups = group_jobs(log.jobs, log.types, ANY_TUNE, tiny_library(), max_classes=3)
    assert groups.n_nodes == (1, 2, 4)
    assert groups.n_joined == 3  # 3 and 8 nodes, both to 4


@pytest.mark.slow
@pytest.mark.parametrize("max_classes", [1, 3, 24])
def test_node_time_is_kept_however_few_the_classes(max_classes: int) -> None:
    """Wide jobs are rare and run long: three of four widths have fewer than a hundred
    jobs."""
    rng = np.random.default_rng(1)
    n_nodes = rng.permutation(np.repeat([1, 2, 3, 7, 16, 40], [600, 90, 80, 70, 20, 3]))
    duration_s = 100 * n_nodes**1.5 * rng.lognormal(0, 1.2, n_nodes.size)
    log = job_log(submissions(np.full(n_nodes.size, 1), rng), n_nodes, duration_s)
    fit = fit_job_log(log, ANY_TUNE, tiny_library(), max_classes=max_classes)
    node_s = sum(
        c.probability * c.n_nodes * c.duration.model.mean_s() for c in fit.classes
    )
    assert node_s * fit.n_jobs == pytest.approx((n_nodes * duration_s).sum(), rel=2e-3)
    classes = job_stream(fit, "main")["classes"]
    for written, of_fit in zip(classes, fit.classes, strict=True):
        assert (
            DurationModel.model_validate(written["duration"]) == of_fit.duration.model
        )
    tables = [id(written["duration"]["quantiles_s"]) for written in classes]
    assert len(tables) == len(fit.classes) == min(max_classes, 6)
    assert len(set(tables)) == {1: 1, 3: 1, 24: 2}[max_classes]


def test_every_workload_keeps_a_class() -> None:
    log = job_log(
        range(300), n_nodes=[1, 2, 4] * 100, duration_s=[1, 9_000, 9_000] * 100
    )
    rules = (ClassRule(workload="draw", max_nodes=1), ClassRule(workload="tune"))
    groups = group_jobs(log.jobs, log.types, rules, tiny_library(), max_classes=1)
    assert groups.workload == ("draw", "tune")
    assert groups.n_nodes == (1, 4)


def test_contradicting_scales_are_refused() -> None:
    log = job_log(range(4), n_nodes=8, duration_s=[60, 60, 900, 900])
    rules = (
        ClassRule(workload="tune", max_duration_s=600, scale_from_n_nodes=2),
        ClassRule(workload="tune"),
    )
    with pytest.raises(
        WorkloadError, match="'tune' on 8 nodes the profiles of 2 and of 4 nodes"
    ):
        group_jobs(log.jobs, log.types, rules, tiny_library())


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (ClassRule(workload="tuna"), "rule 1: no profile of workload 'tuna' .*'tune'"),
        (ClassRule(workload="tune", scale_from_n_nodes=3), "rule 1: .* on 3 nodes"),
    ],
)
def test_a_rule_without_profiles_is_named(rule: ClassRule, text: str) -> None:
    log = job_log(range(3))
    with pytest.raises(ProfileError, match=text):
        group_jobs(log.jobs, log.types, (rule,), tiny_library())


def test_classes_of_few_jobs_share_a_table_and_keep_their_mean() -> None:
    rng = np.random.default_rng(0)
    n_nodes = rng.permutation(np.repeat([2, 4], [400, 20]))
    duration_s = np.where(n_nodes == 2, 600.0, 6_000.0)
    submit_ms = submissions(np.full(420, 1), rng)
    log = job_log(submit_ms, n_nodes, duration_s)
    fit = fit_job_log(log, ANY_TUNE, tiny_library())
    two, four = fit.classes
    assert (two.shares_durations, four.shares_durations) == (False, True)
    assert two.duration is not None and four.duration is not None
    assert two.duration.n_jobs == two.n_jobs
    assert four.duration.n_jobs == two.n_jobs
    assert (two.duration.model.scale, four.duration.model.scale) == (None, 10.0)


def test_mean_occupancy_is_node_time_over_the_span() -> None:
    submit_ms = submissions(np.full(400, 3), np.random.default_rng(0))
    fit = fit_job_log(job_log(submit_ms, 2, 1_800), ANY_TUNE, tiny_library())
    assert fit.n_jobs == 3 * 400
    assert not any(fit.left_out.values())
    assert fit.mean_busy_nodes == pytest.approx(3 * 2 * 0.5, rel=2e-3)


def test_a_short_log_gives_classes_durations_and_rate_of_all_its_jobs() -> None:
    """Three jobs, of which one alone is submitted in an hour that the log covers as a
    whole."""
    at_h = np.array([9 + 1 / 6, 38.0, 200.5])
    log = job_log(
        MONDAY_MS + (at_h * HOUR_MS).astype(np.int64), [4, 2, 16], [5_400, 900, 86_400]
    )
    fit = fit_job_log(log, ANY_TUNE, tiny_library())
    assert fit.n_jobs == 3
    assert [c.n_nodes for c in fit.classes] == [2, 4, 16]
    means = [c.duration.model.mean_s() for c in fit.classes if c.duration is not None]
    assert means == pytest.approx([900, 5_400, 86_400], rel=1e-5)
    span_days = (200.5 + 0.5 - 9) / 24  # both clock hours, as the jobs are days apart
    assert fit.arrivals.jobs_per_day == pytest.approx(3 / span_days, rel=1e-2)


def test_jobs_are_left_out_with_their_share_of_the_node_time() -> None:
    submit_ms = submissions(np.full(400, 1), np.random.default_rng(0))
    n_nodes = np.where(np.arange(400) % 100 == 0, 30, 1)
    log = job_log(submit_ms, n_nodes, 3_600)
    fit = fit_job_log(log, ANY_TUNE, tiny_library(), pool_n_nodes=12)
    assert fit.left_out["wider than the pool"] == 4
    assert fit.left_out_share["wider than the pool"] == pytest.approx(120 / (396 + 120))
    told = "\n".join(as_lines(fit.sections()))
    assert "wider than the pool: 4 (23.3% of the node time)" in told
    cut = fit_job_log(log, ANY_TUNE, tiny_library(), start=datetime(2018, 1, 2))
    assert cut.left_out["outside the span"] == 24
    assert cut.left_out_share["outside the span"] == pytest.approx(
        (24 + 29) / (396 + 120)
    )


def test_more_busy_nodes_than_the_pool_has_are_reported() -> None:
    submit_ms = submissions(np.full(400, 3), np.random.default_rng(0))
    log = job_log(submit_ms, 4, 7_200)
    fit = fit_job_log(log, ANY_TUNE, tiny_library(), pool_n_nodes=12)
    assert re.search(
        r"ask for 24\.\d busy nodes on average, the pool has 12", fit.notes[0]
    )
    one = fit_job_log(job_log([5]), ANY_TUNE, tiny_library())
    assert "1 job" in next(as_lines(one.sections()))
    assert not any(
        "ask for" in n for n in fit_job_log(log, ANY_TUNE, tiny_library()).notes
    )


def test_import_is_reported_and_jobs_that_failed_are_said_to_be_included() -> None:
    log = job_log(submissions(np.full(60, 1), np.random.default_rng(0)))
    states = np.full(60, STATES.index("completed"), dtype=np.int16)
    states[:5], states[5:7] = STATES.index("failed"), STATES.index("cancelled")
    counts = ImportCounts(
        70, 60, {"zero run time": 10}, {"out of order of submission, sorted": 3}
    )
    log = replace(log, jobs=replace(log.jobs, state_id=states), counts=counts)
    lines = [*as_lines(fit_job_log(log, ANY_TUNE, tiny_library()).sections())]
    assert "repaired 3: out of order of submission, sorted" in lines
    assert any("included: 5 failed, 2 cancelled" in line for line in lines)


def test_logs_without_dates_begin_on_a_monday_and_say_so() -> None:
    into_ms = np.arange(0, 3 * 168, 24) * HOUR_MS + 9 * HOUR_MS + 1
    fit = fit_job_log(
        job_log(into_ms, utc_offset_min=None), ANY_TUNE, tiny_library(), months=False
    )
    assert fit.utc_offset_min is None
    assert "Monday at 00:00" in fit.notes[0]
    week = fit.arrivals.calendar.week_weight.reshape(7, 24)
    assert np.flatnonzero(week.sum(axis=0)).tolist() == [9]
    dated = fit_job_log(job_log(MONDAY_MS + into_ms), ANY_TUNE, tiny_library())
    np.testing.assert_array_equal(week.ravel(), dated.arrivals.calendar.week_weight)


def test_limits_of_independent_shares_are_those_of_wilson() -> None:
    rng = np.random.default_rng(3)
    kind = rng.choice(3, 5_000, p=[0.7, 0.29, 0.01])
    share, low, high = share_limits(kind, np.zeros(5_000, np.int64), 3, 0.95)
    for k in range(3):
        wanted = stats.binomtest(int((kind == k).sum()), 5_000).proportion_ci(
            0.95, "wilson"
        )
        np.testing.assert_allclose([low[k], high[k]], wanted)
    np.testing.assert_allclose(share.sum(), 1)


def test_limits_of_batched_shares_hold_what_they_promise() -> None:
    """Each day's jobs are of one kind: 60 draws, not 6,000."""
    rng = np.random.default_rng(4)
    inside, widths = 0, []
    for _ in range(200):
        kind = np.repeat(rng.random(60) < 0.3, 100).astype(np.int64)
        _, low, high = share_limits(kind, np.repeat(np.arange(60), 100), 2, 0.95)
        inside += low[1] <= 0.3 <= high[1]
        widths.append(high[1] - low[1])
    assert stats.binom.cdf(inside, 200, 0.95) > 0.001
    assert np.mean(widths) > 0.15  # independent draws would give 0.023


def test_limits_of_a_total_come_from_its_batches() -> None:
    seen = np.array([90.0, 110, 100, 100])
    low, high = total_limits(seen, np.full(4, 100.0), 0.95)
    half = stats.t.isf(0.025, 3) * np.sqrt(200 * 4 / 3) / 400
    np.testing.assert_allclose([low, high], [1 - half, 1 + half])
    np.testing.assert_allclose(
        total_limits(np.array([400.0]), np.array([400.0]), 0.95)[1], 1.098, atol=1e-3
    )
