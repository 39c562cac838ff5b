"""Firm levels of loads whose relief and cost are known in closed form."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from diploee.base.clock import WallClock
from diploee.grid.firm.baselines import settlement_errors
from diploee.grid.firm.calls import ALL, call_limits, spans_above
from diploee.grid.firm.dispatch import (
    NEVER_MS,
    DispatchedJobs,
    JobKinds,
    dispatch,
    undisturbed_w,
)
from diploee.grid.firm.study import FirmResult, firm_results
from diploee.grid.firm.undisturbed import UndisturbedYear

STEP_MS, H = 300_000, 3_600_000
KIND: dict[str, Any] = {"tier": 3, "pausable": True, "restart_ms": 0}


def year(
    other_w: Any, jobs: Any = (), kind: Any = None, n_nodes: int = 100
) -> UndisturbedYear:
    """Return a site of other loads [W by step] and jobs (start, end [h], nodes).

    Each job's node draws 1 kW above idle, and half of it at the lowest cap.
    """
    flexible = KIND | (kind or {})
    start, end, nodes = np.array(jobs or np.empty((0, 3))).reshape(-1, 3).T
    start_ms, end_ms = (np.rint(x * H).astype(np.int64) for x in (start, end))
    n_nodes_of = nodes.astype(np.int64)
    zero = np.zeros(start.size, dtype=np.int64)
    due_ms = zero + flexible.get("deadline_ms", NEVER_MS)
    table = DispatchedJobs(
        start_ms, end_ms, n_nodes_of, zero, zero, 4.0 * nodes,
        1e3 * nodes, 1e3 * flexible.get("least", 0.5) * nodes, due_ms,
    )  # fmt: skip
    kinds = JobKinds(
        np.array([flexible["tier"]]),
        np.array([flexible["pausable"]]),
        np.array([30 * 60_000]),
        np.array([120_000]),
        np.array([flexible["restart_ms"]]),
        np.array([[0.0, 1.0]]),
        np.array([[1.0, flexible.get("speed", 0.5)]]),
    )
    other = np.asarray(other_w, dtype=np.float64)
    jobs_w = undisturbed_w(table, STEP_MS, other.size)
    return UndisturbedYear(
        WallClock(datetime(2018, 1, 1, tzinfo=UTC), STEP_MS),
        STEP_MS, other + jobs_w, np.ones(other.size), table, kinds,
        (end_ms - start_ms) * 1.0, np.full((1, other.size), n_nodes), jobs_w,
    )  # fmt: skip


def results(
    of: UndisturbedYear, level_mw: float, notice_ms: int = H
) -> dict[str, FirmResult]:
    found = firm_results(of, 0, [level_mw * 1e6], [notice_ms], (), lambda *_: None)
    return {each.calls: each for each in found}


def hours(mw: float, n: int) -> np.ndarray:
    return np.full(n * H // STEP_MS, mw * 1e6)


@pytest.mark.parametrize("level_mw", [0.0, 2.0, 4.5])
def test_a_flat_load_is_above_a_lower_level_in_all_called_hours(
    level_mw: float,
) -> None:
    found = results(year(hours(5.0, 240)), level_mw)
    for name, n_hours in ((ALL, 240), ("blocks of 1 h", 6), ("blocks of 4 h", 24)):
        result = found[name]
        assert result.hours_above == n_hours
        assert result.above_mwh == pytest.approx((5 - level_mw) * n_hours, rel=1e-12)
        assert result.largest_above_mw == 5 - level_mw
        assert (result.relief_mwh, result.left_mwh) == (0, result.above_mwh)
        assert result.delayed_gpu_h == result.jobs_moved == 0


def test_of_two_levels_only_the_hours_of_the_upper_one_are_above() -> None:
    load = np.concatenate([hours(2.0, 30), hours(6.0, 5), hours(2.0, 60)])
    result = results(year(load), 4.0)[ALL]
    assert (result.hours_above, result.hours_called) == (5, 5)
    assert result.above_mwh == pytest.approx(2 * 5)


def test_tolerant_jobs_with_room_later_put_work_off_and_lose_none() -> None:
    # 10 jobs of 4 h in a row on 50 nodes: 50 kW; the two hours above 30 kW in the
    # middle of the second one: another load of 40 kW
    other = np.concatenate([hours(0, 5), hours(0.04, 2), hours(0, 60)])
    site = year(other, [(4 * k, 4 * k + 4, 50) for k in range(10)])
    result = results(site, 0.05)[ALL]
    # Jobs have 10 kW left: half of them paused would leave 25; it is one job
    assert result.above_mwh == pytest.approx(0.08)
    assert result.relief_mwh == pytest.approx(0.08)
    assert result.left_mwh == 0
    assert result.delayed_gpu_h == pytest.approx(2 * 50 * 4)
    assert result.repeated_gpu_h == 0
    assert result.jobs_late == 0


def test_caps_give_what_is_above_and_their_lost_speed_is_done_later() -> None:
    # 100 kW of jobs, 30 kW above for an hour: 60 % of the headroom of 50 kW
    other = np.concatenate([hours(0, 5), hours(0.03, 1), hours(0, 60)])
    site = year(other, [(0, 24, 100)], n_nodes=120)
    result = results(site, 0.1)[ALL]
    assert result.relief_mwh == pytest.approx(0.03, rel=1e-9)
    assert result.delayed_gpu_h == pytest.approx(400 * 0.6 * 0.5, rel=1e-6)
    assert result.repeated_gpu_h == 0


def test_intolerant_jobs_give_no_relief() -> None:
    site = year(hours(0.0, 48), [(-1, 60, 50)], {"tier": 0})
    for result in results(site, 0.02).values():
        assert result.relief_mwh == result.delayed_gpu_h == result.jobs_moved == 0
        assert result.left_mwh == result.above_mwh > 0


@pytest.mark.parametrize("notice_ms", [0, 600_000, 24 * H])
def test_at_the_peak_nothing_is_done_and_at_zero_all(notice_ms: int) -> None:
    rng = np.random.default_rng(0)
    jobs = sorted((float(s), float(s + 3), 7) for s in rng.uniform(0, 90, 60))
    site = year(hours(0.0, 96), jobs)
    peak_mw = site.power_w.max() / 1e6
    for result in results(site, peak_mw, notice_ms).values():
        assert result.above_mwh == result.delayed_gpu_h == result.jobs_moved == 0
    result = results(site, 0.0, notice_ms)[ALL]
    assert result.relief_mwh == pytest.approx(site.power_w.sum() / 12e6)
    assert result.left_mwh == pytest.approx(0, abs=1e-9)


def test_a_kill_without_notice_repeats_the_work_since_the_last_checkpoint() -> None:
    # Called at 2:20, 20 min after the checkpoint of 2:00
    other = np.concatenate([hours(0, 2), hours(0.9, 1), hours(0, 45)])
    site = year(other, [(-1 / 3, 10, 50)])
    killed, saved = (results(site, 0.1, ms)[ALL] for ms in (0, H))
    assert killed.repeated_gpu_h == pytest.approx(200 / 3)
    assert saved.repeated_gpu_h == 0
    assert killed.delayed_gpu_h == saved.delayed_gpu_h == pytest.approx(200)


@pytest.mark.parametrize("level_mw", [0.02, 0.05, 0.08])
def test_what_is_not_drawn_in_calls_is_drawn_later(level_mw: float) -> None:
    rng = np.random.default_rng(1)
    ends_h, jobs = np.zeros(10), []
    for start in np.sort(rng.uniform(0, 200, 300)):  # on 10 places of 10 nodes
        begin, place = max(start, ends_h.min()), ends_h.argmin()
        ends_h[place] = begin + rng.uniform(0.2, 8)
        jobs.append((begin, ends_h[place], 10))
    site = year(hours(0.01, 900), sorted(jobs))
    for spans in (
        spans_above(site, level_mw * 1e6),
        np.array([[500, 548], [900, 910]]),
    ):
        calls, _ = call_limits(site, spans, level_mw * 1e6, H)
        done = dispatch(
            site.jobs, site.kinds, calls, site.capacity, site.jobs_w, STEP_MS, H
        )
        called = np.isfinite(calls.room_w)
        # Caps at half the speed save half the power: as much energy for the work
        assert done.change_w.sum() == pytest.approx(0, abs=1e-6 * site.jobs_w.sum())
        assert (site.power_w + done.change_w)[called].max() <= level_mw * 1e6 * 1.001
        assert (site.jobs_w + done.change_w).min() >= -1e-6
        assert (done.end_ms >= site.jobs.end_ms).all()
        later_ms = np.minimum(
            done.end_ms - site.jobs.end_ms, site.jobs.end_ms - site.jobs.start_ms
        )
        assert done.delayed.sum() <= (site.jobs.n_gpus * later_ms).sum() * (1 + 1e-9)


def test_a_deadline_keeps_a_job_from_being_touched() -> None:
    other = np.concatenate([hours(0, 2), hours(0.9, 1), hours(0, 45)])
    free = results(year(other, [(0, 10, 50)]), 0.1)[ALL]
    due = results(year(other, [(0, 10, 50)], {"deadline_ms": 10 * H}), 0.1)[ALL]
    assert free.relief_mwh == pytest.approx(0.05)
    assert due.relief_mwh == due.jobs_moved == 0


def test_more_notice_holds_jobs_that_would_run_into_a_call() -> None:
    other = np.concatenate([hours(0, 10), hours(0.9, 1), hours(0, 45)])
    site = year(other, [(9.5, 15, 50)], {"pausable": False, "least": 1.0})
    found = {ms: results(site, 0.9, ms)[ALL] for ms in (0, H)}
    assert found[0].relief_mwh == 0
    assert found[H].relief_mwh == pytest.approx(0.05)
    assert found[H].delayed_gpu_h == pytest.approx(200 * 1.5)


@pytest.mark.parametrize("pausable", [True, False])
def test_results_of_several_notices_are_those_of_each(pausable: bool) -> None:
    other = np.concatenate([hours(0, 10), hours(0.9, 1), hours(0, 45)])
    jobs = [(9.5, 15, 50), (9.8, 20, 30)]
    site = year(other, jobs, {"pausable": pausable})
    notices_ms = [0, 600_000, H, 24 * H]
    found = firm_results(site, 0, [0.9e6], notices_ms, (), lambda *_: None)
    every = {(each.calls, each.notice_ms): each for each in found}
    assert len(every) == 16
    for notice_ms in notices_ms:
        for name, result in results(site, 0.9, notice_ms).items():
            assert every[name, notice_ms] == result


def test_a_battery_has_the_power_and_energy_of_the_longest_excess() -> None:
    load = np.concatenate([hours(2.0, 30), hours(6.0, 3), hours(2.0, 60)])
    result = results(year(load), 4.0)[ALL]
    assert result.largest_above_mw == 2
    assert result.battery_mwh == pytest.approx(2 * 3 / 0.95)
    assert results(year(hours(5.0, 96)), 4.0)[ALL].battery_mwh is None


@pytest.mark.parametrize(
    ("scale", "high", "weekly"),
    # The day's own scale is seen by the adjustment, up to 20 %; 3 MW for 2 h are called
    [(1.0, 0.0, 0.0), (1.1, 0.0, -0.6), (1.5, -1.8, -3.0), (0.9, 0.0, 0.6)],
)
def test_baselines_of_a_load_that_repeats_itself_err_by_its_scale_alone(
    scale: float, high: float, weekly: float
) -> None:
    day = np.concatenate([hours(3.0, 20), hours(2.0, 4)])
    load = np.tile(day, 60)
    on_day = slice(40 * day.size, 41 * day.size)
    load[on_day] *= scale
    site = year(load)
    spans = np.array([[40 * 288 + 12 * 12, 40 * 288 + 14 * 12]])
    firm_w = load.copy()
    firm_w[spans[0, 0] : spans[0, 1]] = 1e6
    errors = settlement_errors(site, firm_w, spans)
    assert errors == pytest.approx((high, weekly), abs=1e-9)


def test_a_baseline_without_enough_days_before_a_call_says_nothing() -> None:
    site = year(np.tile(hours(2.0, 24), 6))
    spans = np.array([[4 * 288, 4 * 288 + 12]])
    assert settlement_errors(site, site.power_w, spans) == (None, None)


def test_a_year_keeps_its_results_where_its_step_is_finer() -> None:
    site = year(np.concatenate([hours(1, 5), hours(3, 7)]))
    fine = replace(
        site,
        step_ms=STEP_MS // 5,
        power_w=np.repeat(site.power_w, 5),
        gain=np.repeat(site.gain, 5),
        jobs_w=np.repeat(site.jobs_w, 5),
        capacity=np.repeat(site.capacity, 5, axis=1),
    )
    coarse, finer = results(site, 2.0)[ALL], results(fine, 2.0)[ALL]
    assert coarse.above_mwh == pytest.approx(finer.above_mwh) == 7
