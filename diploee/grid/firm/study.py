"""Relief, delays and equivalent battery of each firm level in a simulated year."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from diploee.base.clock import NamedSpan
from diploee.base.progress import Update
from diploee.base.tables import Float64Array, Int64Array
from diploee.base.units import MS_PER_H, W_PER_MW
from diploee.grid.firm.baselines import battery_mwh, settlement_errors
from diploee.grid.firm.calls import call_limits, call_sets
from diploee.grid.firm.dispatch import CallLimits, dispatch
from diploee.grid.firm.undisturbed import UndisturbedYear
from diploee.power.blocks import MAX_THREADS


@dataclass(frozen=True)
class FirmResult:
    """Relief and costs of a firm level, for one seed, notice and set of calls.

    Energies are at the meter and over the simulated time. `above_mwh` is the energy
    above the level in calls without any reaction; jobs and services avoid its part
    `relief_mwh`, and `left_mwh` is the rest.
    """

    seed: int
    level_mw: float
    calls: str
    notice_ms: int
    hours_called: float
    hours_above: float  # of the called hours, those above the level
    above_mwh: float
    relief_mwh: float
    left_mwh: float
    largest_above_mw: float  # power of the battery or generator that covers `above`
    largest_left_mw: float
    battery_mwh: float | None  # see `baselines.battery_mwh`
    delayed_gpu_h: float  # work done later
    repeated_gpu_h: float  # work since the last checkpoint, done twice
    restart_gpu_h: float
    n_jobs: int  # in pools that have tolerant jobs
    jobs_moved: int  # jobs that end later than in the undisturbed year
    jobs_late: int  # jobs that end later by more than their tolerance
    n_requests: float  # to services with a cap
    requests_slowed: float
    requests_rejected: float
    rebound_mwh: float  # energy above the undisturbed year outside of calls
    high_5_of_10_error_mwh: float | None  # error of relief by this baseline
    weekday_error_mwh: float | None
    dependable: tuple[float, ...]  # mean relief of each call that needs some [MW]
    kept: tuple[float, ...]  # the same over the mean power above the level


def firm_results(
    year: UndisturbedYear,
    seed: int,
    levels_w: Sequence[float],
    notices_ms: Sequence[int],
    peaks: Sequence[NamedSpan],
    update: Update,
) -> Iterator[FirmResult]:
    """Yield the result of each level, set of calls and notice."""
    groups = _equivalent_notices(year, notices_ms)
    cases = [
        (level_w, name, spans, group)
        for level_w in levels_w
        for name, spans in call_sets(year, peaks, level_w).items()
        for group in groups
    ]
    with ThreadPoolExecutor(min(os.cpu_count() or 1, MAX_THREADS)) as threads:
        results = threads.map(
            lambda x: _firm_result(year, seed, x[0], x[1], x[2], x[3][0]), cases
        )
        for n_done, (result, each) in enumerate(zip(results, cases, strict=True), 1):
            update(n_done / len(cases), f"{result.level_mw:,.4g} MW, {result.calls}")
            yield from (replace(result, notice_ms=notice_ms) for notice_ms in each[3])


def _equivalent_notices(
    year: UndisturbedYear, notices_ms: Sequence[int]
) -> list[list[int]]:
    """Return groups of notices that have the same results.

    The notice matters only for the checkpoint before a pause, and for jobs that
    tolerate caps but can't be paused.
    """
    bends = year.kinds.tier > 0
    holds = bool((bends & ~year.kinds.pausable).any())
    groups: dict[tuple[int, bytes], list[int]] = {}
    for notice_ms in notices_ms:
        kills = bends & (notice_ms < year.kinds.stop_ms)
        key = notice_ms if holds else 0, kills.tobytes()
        groups.setdefault(key, []).append(notice_ms)
    return list(groups.values())


def _firm_result(
    year: UndisturbedYear,
    seed: int,
    level_w: float,
    name: str,
    spans: Int64Array,
    notice_ms: int,
) -> FirmResult:
    calls, services_w = call_limits(year, spans, level_w, notice_ms)
    called = np.isfinite(calls.room_w)
    hours = year.step_ms / MS_PER_H
    above_w = np.where(called, np.maximum(year.power_w - level_w, 0.0), 0.0)
    firm_w, gpu_h, moved, late = year.power_w - services_w, (0.0, 0.0, 0.0), 0, 0
    if year.jobs.start_ms.size and (calls.room_w < 0).any():
        firm_w, gpu_h, moved, late = _dispatch_jobs(year, calls, firm_w, notice_ms)
    left_w = np.where(called, np.maximum(firm_w - level_w, 0.0), 0.0)
    rebound_w = np.where(called, 0.0, np.maximum(firm_w - year.power_w, 0.0))
    room_w = np.where(called, level_w, year.power_w.max()) - year.power_w
    slowed = rejected = n_requests = 0.0
    if year.services is not None:
        n_requests = float(year.services.requests.sum())
        slowed = float(year.services.requests[services_w != 0].sum())
        rejected = float(year.services.rejected[services_w != 0].sum())
    above, left, rebound = (
        float(power_w.sum()) * hours / W_PER_MW
        for power_w in (above_w, left_w, rebound_w)
    )
    dependable, kept = _relief_per_call(spans, above_w, left_w)
    high, weekday = settlement_errors(year, firm_w, spans)
    return FirmResult(
        seed=seed,
        level_mw=level_w / W_PER_MW,
        calls=name,
        notice_ms=notice_ms,
        hours_called=float(called.sum()) * hours,
        hours_above=float((above_w > 0).sum()) * hours,
        above_mwh=above,
        relief_mwh=above - left,
        left_mwh=left,
        largest_above_mw=float(above_w.max()) / W_PER_MW,
        largest_left_mw=float(left_w.max()) / W_PER_MW,
        battery_mwh=battery_mwh(above_w, np.maximum(room_w, 0.0), year.step_ms),
        delayed_gpu_h=gpu_h[0],
        repeated_gpu_h=gpu_h[1],
        restart_gpu_h=gpu_h[2],
        n_jobs=year.jobs.start_ms.size,
        jobs_moved=moved,
        jobs_late=late,
        n_requests=n_requests,
        requests_slowed=slowed,
        requests_rejected=rejected,
        rebound_mwh=rebound,
        high_5_of_10_error_mwh=high,
        weekday_error_mwh=weekday,
        dependable=dependable,
        kept=kept,
    )


def _dispatch_jobs(
    year: UndisturbedYear, calls: CallLimits, firm_w: Float64Array, notice_ms: int
) -> tuple[Float64Array, tuple[float, float, float], int, int]:
    """Dispatch the jobs, and return the power [W], GPU hours, and counts of jobs.

    GPU hours are delayed, repeated, and spent on restarts. The counts are those of
    moved and of late jobs.
    """
    step_ms = year.step_ms
    done = dispatch(
        year.jobs, year.kinds, calls, year.capacity, year.jobs_w, step_ms, notice_ms
    )
    later_ms = done.end_ms - year.jobs.end_ms
    delayed, repeated, restarts = (
        float(part.sum()) / MS_PER_H
        for part in (done.delayed, done.repeated, done.restarts)
    )
    return (
        firm_w + done.change_w / np.where(year.gain > 0, year.gain, np.inf),
        (delayed, repeated, restarts),
        int((later_ms > 0).sum()),
        int((later_ms > year.slack_ms).sum()),
    )


def _relief_per_call(
    spans: Int64Array, above_w: Float64Array, left_w: Float64Array
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the mean relief in each call [MW], and its fraction of the need.

    The need is the mean power above the level; calls without a need are left out.
    """
    means = [
        (above_w[first:last].mean(), left_w[first:last].mean())
        for first, last in spans.tolist()
    ]
    needs = [(float(above), float(left)) for above, left in means if above > 0]
    return (
        tuple((above - left) / W_PER_MW for above, left in needs),
        tuple(1 - left / above for above, left in needs),
    )
