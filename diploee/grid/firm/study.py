"""Firm levels of an undisturbed year: relief, what it costs, and what replaces it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from diploee.base.clock import NamedSpan
from diploee.base.progress import Update
from diploee.base.tables import BoolArray, Float64Array, Int64Array
from diploee.base.units import MS_PER_H, W_PER_MW
from diploee.grid.firm.baselines import battery_mwh, settlement_errors
from diploee.grid.firm.calls import ALL, call_sets, hours_above, limits_of
from diploee.grid.firm.dispatch import Calls, dispatch
from diploee.grid.firm.undisturbed import UndisturbedYear


@dataclass(frozen=True)
class FirmResult:
    """Cost of a firm level over the simulated time, with one notice and set of calls.

    Energies are at the meter. `above` is what the undisturbed year draws above the
    level in calls, `relief` the part of it that jobs and services do not draw, `left`
    the rest.
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
    n_jobs: int  # in pools with some that tolerate something
    jobs_moved: int  # that end later than in the undisturbed year
    jobs_late: int  # by more than their tolerance
    requests_slowed: float
    requests_rejected: float
    rebound_mwh: float  # above the undisturbed year outside of calls
    high_5_of_10_error_mwh: float | None  # of the relief that it would settle
    weekday_error_mwh: float | None
    dependable: tuple[float, ...]  # mean relief of each call that needs some [MW]
    kept: tuple[float, ...]  # its fraction of what the call needs


def firm_results(
    year: UndisturbedYear,
    seed: int,
    levels_w: Sequence[float],
    notices_ms: Sequence[int],
    peaks: Sequence[NamedSpan],
    update: Update,
) -> Iterator[FirmResult]:
    """Yield the result of each level, set of calls and notice, in this order."""
    sets = call_sets(year, peaks)
    n_done, n_all = 0, len(levels_w) * len(sets) * len(notices_ms)
    for level_w in levels_w:
        for name, spans in sets.items():
            spans = hours_above(year, level_w) if name == ALL else spans
            for notice_ms in notices_ms:
                yield _result(year, seed, level_w, name, spans, notice_ms)
                n_done += 1
                update(n_done / n_all, f"{level_w / W_PER_MW:,.4g} MW, {name}")


def _result(
    year: UndisturbedYear,
    seed: int,
    level_w: float,
    name: str,
    spans: Int64Array,
    notice_ms: int,
) -> FirmResult:
    calls, services_w = limits_of(year, spans, level_w, notice_ms)
    called = np.isfinite(calls.room_w)
    mwh = year.step_ms / MS_PER_H / W_PER_MW
    above_w = np.where(called, np.maximum(year.power_w - level_w, 0.0), 0.0)
    firm_w = year.power_w - services_w
    costs, moved, late = np.zeros(3), 0, 0
    if year.jobs.start_ms.size and (calls.room_w < 0).any():
        firm_w, costs, moved, late = _with_jobs(year, calls, firm_w, notice_ms)
    left_w = np.where(called, np.maximum(firm_w - level_w, 0.0), 0.0)
    room_w = np.where(called, level_w, year.power_w.max()) - year.power_w
    requests = np.zeros(2)
    if year.services is not None:
        served = year.services
        requests[:] = (
            served.requests[services_w != 0].sum(),
            np.maximum(served.rejected[services_w != 0], 0).sum(),
        )
    dependable, kept = _per_call(spans, above_w, left_w)
    high, weekday = settlement_errors(year, firm_w, spans)
    return FirmResult(
        seed,
        level_w / W_PER_MW,
        name,
        notice_ms,
        float(called.sum()) * year.step_ms / MS_PER_H,
        float((above_w > 0).sum()) * year.step_ms / MS_PER_H,
        float(above_w.sum()) * mwh,
        float((above_w - left_w).sum()) * mwh,
        float(left_w.sum()) * mwh,
        float(above_w.max()) / W_PER_MW,
        float(left_w.max()) / W_PER_MW,
        battery_mwh(above_w, np.maximum(room_w, 0.0), year.step_ms),
        *costs.tolist(),
        year.jobs.start_ms.size,
        moved,
        late,
        *requests.tolist(),
        float(np.where(called, 0.0, np.maximum(firm_w - year.power_w, 0.0)).sum())
        * mwh,
        high,
        weekday,
        dependable,
        kept,
    )


def _with_jobs(
    year: UndisturbedYear, calls: Calls, firm_w: Float64Array, notice_ms: int
) -> tuple[Float64Array, Float64Array, int, int]:
    """Return power with jobs dispatched [W], GPU hours, and jobs moved and late."""
    done = dispatch(
        year.jobs,
        year.kinds,
        calls,
        year.capacity,
        year.jobs_w,
        year.step_ms,
        notice_ms,
    )
    per_meter = np.divide(
        1.0, year.gain, out=np.zeros_like(year.gain), where=year.gain > 0
    )
    later_ms = done.end_ms - year.jobs.end_ms
    gpu_h = [
        part.sum() / MS_PER_H for part in (done.delayed, done.repeated, done.restarts)
    ]
    return (
        firm_w + done.change_w * per_meter,
        np.array(gpu_h),
        int((later_ms > 0).sum()),
        int(((later_ms > 0) & (later_ms > year.slack_ms)).sum()),
    )


def _per_call(
    spans: Int64Array, above_w: Float64Array, left_w: Float64Array
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean relief [MW] and its fraction of the need, of calls with a need."""
    sums = np.concatenate([np.zeros((1, 2)), np.cumsum([above_w, left_w], axis=1).T])
    needed, left = (sums[spans[:, 1]] - sums[spans[:, 0]]).T
    needs: BoolArray = needed > 0
    steps = (spans[:, 1] - spans[:, 0])[needs]
    relief = (needed - left)[needs]
    return tuple((relief / steps / W_PER_MW).tolist()), tuple(
        (relief / needed[needs]).tolist()
    )
