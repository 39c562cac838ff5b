"""Metrics of demand-response events: a run's power against its uncontrolled baseline.

The baseline is the same run with the controller off, bit for bit, so that no baseline
is estimated (see docs/FLEXIBILITY.md).

See also: docs/models/flexibility.md
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from diploee.base.clock import WallClock
from diploee.base.column_specs import Column
from diploee.base.tables import Float64Array, Int64Array
from diploee.base.units import J_PER_MWH, MS_PER_DAY, MS_PER_MIN, MS_PER_S, W_PER_MW
from diploee.facility.base import POWER, Block
from diploee.loads.jobs import StreamClass
from diploee.metrics.flexible_jobs import FlexibleJobs
from diploee.scenario.flexibility import RunEvent
from diploee.scenario.models import Scenario
from diploee.schedule.load_controller import HOLD_MS
from diploee.schedule.signals import Signal

if TYPE_CHECKING:
    from diploee.loads.jobs.load import JobWindow

BASELINE = "baseline_power_w"
BASELINE_COLUMNS = (
    Column(
        BASELINE,
        "W",
        "facility",
        "mean",
        None,
        "facility power of the same run without control",
    ),
)

REBOUND_MS = MS_PER_DAY
REBOUND_WINDOW_MS = 15 * MS_PER_MIN
"""ASSUMPTION: peaks of a rebound are of 15 minutes, as demand is billed [J]."""
RAMP_MS = MS_PER_MIN
KG_PER_T = 1000.0


class _EventMeter:
    """Accumulator of one event's effect, with energy price and carbon intensity."""

    def __init__(
        self, event: RunEvent, step_ms: int, signals: Mapping[str, Signal]
    ) -> None:
        self.event, self._step_ms, self._signals = event, step_ms, signals
        self._from_ms = min(
            event.before_ms - event.baseline_ms, event.ramp_ms - HOLD_MS
        )
        self._until_ms = event.over_ms + REBOUND_MS
        self._parts: list[tuple[int, Float64Array, Float64Array]] = []

    def add(self, block: Block) -> None:
        """Add a block with the power of the run and of its baseline."""
        begin, end = max(block.t0_ms, self._from_ms), min(block.end_ms, self._until_ms)
        if begin < end:
            rows = slice(
                (begin - block.t0_ms) // block.dt_ms,
                -(-(end - block.t0_ms) // block.dt_ms),
            )
            # Copies: the block itself need not be kept.
            own, twin = (
                block.columns[POWER][rows].copy(),
                block.columns[BASELINE][rows].copy(),
            )
            self._parts.append((block.t0_ms + rows.start * block.dt_ms, own, twin))

    def entry(self, events: Sequence[RunEvent]) -> dict[str, Any]:
        """Return the metrics of the event among all events.

        Returns None if the run ends before they are defined.
        """
        event, dt_ms = self.event, self._step_ms
        power_w = np.concatenate([own for _, own, _ in self._parts])
        twin_w = np.concatenate([twin for *_, twin in self._parts])
        times_ms = self._parts[0][0] + np.arange(power_w.size, dtype=np.int64) * dt_ms
        before = times_ms < event.before_ms
        before &= times_ms > event.before_ms - event.baseline_ms - dt_ms
        before_w = float(power_w[before].mean()) if before.any() else float(power_w[0])
        allowed_w = np.array(
            [
                event.allowed_w(*at)
                for at in zip(times_ms.tolist(), repeat(before_w), twin_w.tolist())
            ]
        )
        own = _event_fraction(event, events, times_ms)
        result = _event_effect(event, times_ms, dt_ms, power_w, twin_w, allowed_w, own)
        result["before_mw"] = before_w / W_PER_MW
        result["target_mw"] = event.target.level_w(before_w) / W_PER_MW
        changed_j = (twin_w - power_w) * own * dt_ms / MS_PER_S
        edges_ms = np.append(times_ms, times_ms[-1] + dt_ms)
        for key, signal, unit in _COSTS:
            if signal in self._signals:
                worth = self._signals[signal].means(edges_ms)
                result[key] = float(np.nansum(worth * changed_j)) / unit
        return {"name": event.id, **result}


_COSTS = (
    ("money", "price", J_PER_MWH),
    # g/kWh is kg/MWh.
    ("t_co2", "carbon", J_PER_MWH * KG_PER_T),
)


def _event_fraction(
    event: RunEvent, events: Sequence[RunEvent], times_ms: Int64Array
) -> Float64Array:
    """Return the fraction of each time's change that is due to an event, 0-1.

    ASSUMPTION: simultaneous events share a change equally. Between events a change is
    due to the last event for `REBOUND_MS`, and later to the next event, before whose
    ramp job starts are delayed.
    """
    ramps_ms, over_ms = np.array([(of.ramp_ms, of.over_ms) for of in events]).T[
        :, :, np.newaxis
    ]
    n_acting = ((ramps_ms <= times_ms) & (times_ms < over_ms)).sum(axis=0)
    last_ms = np.where(over_ms <= times_ms, over_ms, -REBOUND_MS).max(axis=0)
    acting = (event.ramp_ms <= times_ms) & (times_ms < event.over_ms)
    rebounds = (n_acting == 0) & (last_ms == event.over_ms)
    rebounds &= times_ms < event.over_ms + REBOUND_MS
    n_rebound = int((over_ms == event.over_ms).sum())
    next_ms = np.where(ramps_ms > times_ms, ramps_ms, np.iinfo(np.int64).max).min(
        axis=0
    )
    holds = (
        (n_acting == 0)
        & (times_ms >= last_ms + REBOUND_MS)
        & (next_ms == event.ramp_ms)
    )
    n_hold = int((ramps_ms == event.ramp_ms).sum())
    return acting / np.maximum(n_acting, 1) + rebounds / n_rebound + holds / n_hold


def _event_effect(
    event: RunEvent,
    times_ms: Int64Array,
    dt_ms: int,
    power_w: Float64Array,
    twin_w: Float64Array,
    allowed_w: Float64Array,
    own: Float64Array,
) -> dict[str, Any]:
    """Return an event's effect on power and energy, against the baseline.

    The fraction `own` applies to energy only.
    """
    held = (times_ms >= event.held_ms) & (times_ms < event.end_ms)
    limited = (times_ms >= event.ramp_ms) & (times_ms < event.end_ms)
    after = (times_ms >= event.over_ms) & (own > 0)
    result: dict[str, Any] = {}
    if not held.any():  # the run ends before
        return {"twin_mw": None, "mean_mw": None, "mean_reduction": None}
    met = power_w <= allowed_w * (1 + event.tolerance)
    target_w = float(allowed_w[held][0])
    reached = np.flatnonzero(
        (times_ms >= event.issued_ms)
        & (times_ms < event.end_ms)
        & (power_w <= target_w * (1 + event.tolerance))
    )
    own_mean_w, twin_mean_w = float(power_w[held].mean()), float(twin_w[held].mean())
    j_per_w = dt_ms / MS_PER_S
    result["twin_mw"] = twin_mean_w / W_PER_MW
    result["mean_mw"] = own_mean_w / W_PER_MW
    result["mean_reduction"] = 1 - own_mean_w / twin_mean_w if twin_mean_w else None
    result["held_fraction"] = float(met[held].mean())
    result["issue_to_target_s"] = None
    if reached.size:
        result["issue_to_target_s"] = (
            int(times_ms[reached[0]]) - event.issued_ms
        ) / MS_PER_S
    result["overshoot_mw"] = (
        max(float((power_w - allowed_w)[limited].max()), 0.0) / W_PER_MW
    )
    saved_w = ((twin_w - power_w) * own)[times_ms < event.over_ms]
    result["not_drawn_mwh"] = float(saved_w.sum()) * j_per_w / J_PER_MWH
    if after.any():
        beyond_w = (power_w - twin_w)[after]
        n = max(1, REBOUND_WINDOW_MS // dt_ms)
        sums = np.concatenate([[0.0], np.cumsum(beyond_w)])
        windows_w = (sums[n:] - sums[:-n]) / n if beyond_w.size >= n else np.zeros(0)
        result["rebound_mw"] = max(float(windows_w.max(initial=0.0)), 0.0) / W_PER_MW
        result["rebound_mwh"] = (
            float((beyond_w * own[after]).sum()) * j_per_w / J_PER_MWH
        )
    return result


def flexibility_metrics(
    scenario: Scenario, signals: Mapping[str, Signal], classes: Sequence[StreamClass]
) -> FlexibilityMetrics:
    """Return the accumulator that compares a run with its uncontrolled baseline."""
    assert scenario.flexibility is not None
    clock, events = (
        scenario.written_clock,
        scenario.flexibility.events_in(scenario.clock),
    )
    tolerated = [of_class.job_class.flexibility for of_class in classes]
    jobs = FlexibleJobs(tolerated, events, clock.wall, clock.horizon_ms)
    return FlexibilityMetrics(events, clock.wall, signals, jobs)


class FlexibilityMetrics:
    """Sink that returns the `flexibility` block of the metrics."""

    def __init__(
        self,
        events: Sequence[RunEvent],
        clock: WallClock,
        signals: Mapping[str, Signal],
        jobs: FlexibleJobs | None = None,
    ) -> None:
        self._clock, self._signals, self._jobs = clock, signals, jobs
        self._meters = [_EventMeter(event, clock.step_ms, signals) for event in events]
        self._energy_j = 0.0
        self._costs = {key: 0.0 for key, signal, _ in _COSTS if signal in signals}

    def add(self, block: Block) -> None:
        """Add a block with the power of the run and of its baseline."""
        changed_w = block.columns[POWER] - block.columns[BASELINE]
        changed_j = changed_w * block.dt_ms / MS_PER_S
        self._energy_j += float(changed_j.sum())
        edges_ms = np.append(block.starts_ms, block.end_ms)
        for key, signal, unit in _COSTS:
            if key in self._costs:
                worth = self._signals[signal].means(edges_ms)
                self._costs[key] += float(np.nansum(worth * changed_j)) / unit
        for meter in self._meters:
            meter.add(block)

    def take(self, window: JobWindow, undisturbed: bool = False) -> None:
        """Add a window of jobs, of the run or of its baseline."""
        assert self._jobs is not None
        if not undisturbed:
            self._jobs.submit(window.submitted)
        self._jobs.add(window.started, undisturbed)

    def block(self) -> dict[str, Any]:
        """Return the `flexibility` block of the metrics."""
        events = [meter.event for meter in self._meters]
        entries = [meter.entry(events) for meter in self._meters]
        for entry, meter in zip(entries, self._meters, strict=True):
            event = meter.event
            times = {
                "issued": event.issued_ms,
                "start": event.start_ms,
                "ramp": event.ramp_ms,
            }
            times |= {"held": event.held_ms, "end": event.end_ms, "over": event.over_ms}
            entry["times"] = {
                name: self._clock.iso(time_ms) for name, time_ms in times.items()
            }
        spans = [meter.event.end_ms - meter.event.held_ms for meter in self._meters]
        measured = [
            (span, e)
            for span, e in zip(spans, entries, strict=True)
            if e["mean_reduction"] is not None
        ]
        result: dict[str, Any] = {
            "energy_mwh": self._energy_j / J_PER_MWH,
            **self._costs,
        }
        if measured:
            whole = sum(span for span, _ in measured)
            twin = sum(span * e["twin_mw"] for span, e in measured)
            own = sum(span * e["mean_mw"] for span, e in measured)
            result["events_held"] = (
                sum(span * e["held_fraction"] for span, e in measured) / whole
            )
            result["mean_reduction"] = 1 - own / twin if twin else None
            result["not_drawn_mwh"] = sum(e["not_drawn_mwh"] for _, e in measured)
        if self._jobs is not None:
            of_jobs = zip(
                entries,
                self._jobs.performance(),
                self._jobs.largest_jobs(),
                strict=True,
            )
            for entry, performance, drawn in of_jobs:
                entry |= {"weighted_performance": performance, "widest_jobs": drawn}
            result["jobs"] = self._jobs.block()
        return {**result, "events": entries}
