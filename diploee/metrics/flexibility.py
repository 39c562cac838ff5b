"""Metrics of demand-response events: a run's power against its uncontrolled baseline.

The baseline is the same run without the controller, and thus need not be estimated (see
docs/FLEXIBILITY.md).

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

# Name of the column of the baseline's power
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

# Time after an event that counts as its rebound [ms]
REBOUND_MS = MS_PER_DAY
REBOUND_WINDOW_MS = 15 * MS_PER_MIN
"""Averaging time of rebound peaks [ms], as for billed demand. Assumed (judgement)."""
RAMP_MS = MS_PER_MIN
KG_PER_T = 1000.0


class _EventRecorder:
    """Recorder of power around one event, for the event's metrics."""

    def __init__(
        self, event: RunEvent, step_ms: int, signals: Mapping[str, Signal]
    ) -> None:
        self.event, self._step_ms, self._signals = event, step_ms, signals
        self._from_ms = min(
            event.before_ms - event.baseline_ms, event.ramp_ms - HOLD_MS
        )
        self._until_ms = event.over_ms + REBOUND_MS
        self._blocks: list[tuple[int, Float64Array, Float64Array]] = []

    def add(self, block: Block) -> None:
        """Add a block with the power of the run and of its baseline."""
        begin, end = max(block.t0_ms, self._from_ms), min(block.end_ms, self._until_ms)
        if begin < end:
            rows = slice(
                (begin - block.t0_ms) // block.dt_ms,
                -(-(end - block.t0_ms) // block.dt_ms),
            )
            # Copies, so that the block can be freed
            run_w, baseline_w = (
                block.columns[POWER][rows].copy(),
                block.columns[BASELINE][rows].copy(),
            )
            self._blocks.append(
                (block.t0_ms + rows.start * block.dt_ms, run_w, baseline_w)
            )

    def entry(self, events: Sequence[RunEvent]) -> dict[str, Any]:
        """Return the metrics of the event, given all events of the run.

        Metrics are None if the run ends before they are defined.
        """
        event, dt_ms = self.event, self._step_ms
        power_w = np.concatenate([fraction for _, fraction, _ in self._blocks])
        baseline_w = np.concatenate(
            [block_baseline_w for *_, block_baseline_w in self._blocks]
        )
        times_ms = self._blocks[0][0] + np.arange(power_w.size, dtype=np.int64) * dt_ms
        is_before = times_ms < event.before_ms
        is_before &= times_ms > event.before_ms - event.baseline_ms - dt_ms
        before_w = (
            float(power_w[is_before].mean()) if is_before.any() else float(power_w[0])
        )
        allowed_w = np.array(
            [
                event.allowed_w(*arguments)
                for arguments in zip(
                    times_ms.tolist(), repeat(before_w), baseline_w.tolist()
                )
            ]
        )
        fraction = _event_fraction(event, events, times_ms)
        result = _event_effect(
            event, times_ms, dt_ms, power_w, baseline_w, allowed_w, fraction
        )
        result["before_mw"] = before_w / W_PER_MW
        result["target_mw"] = event.target.level_w(before_w) / W_PER_MW
        changed_j = (baseline_w - power_w) * fraction * dt_ms / MS_PER_S
        edges_ms = np.append(times_ms, times_ms[-1] + dt_ms)
        for key, signal, unit in _COSTS:
            if signal in self._signals:
                value_per_mwh = self._signals[signal].means(edges_ms)
                result[key] = float(np.nansum(value_per_mwh * changed_j)) / unit
        return {"name": event.id, **result}


_COSTS = (
    # Metric, signal and J per unit of the metric
    ("money", "price", J_PER_MWH),
    # g/kWh is kg/MWh.
    ("t_co2", "carbon", J_PER_MWH * KG_PER_T),
)


def _event_fraction(
    event: RunEvent, events: Sequence[RunEvent], times_ms: Int64Array
) -> Float64Array:
    """Return the fraction of the change of power at each time due to an event, 0-1.

    Assumed: simultaneous events have equal fractions. Between events, the change is due
    to the last event for `REBOUND_MS`, and after that to the next event, as the
    controller delays job starts before its ramp.
    """
    ramps_ms, over_ms = np.array(
        [(event_of_run.ramp_ms, event_of_run.over_ms) for event_of_run in events]
    ).T[:, :, np.newaxis]
    n_active = ((ramps_ms <= times_ms) & (times_ms < over_ms)).sum(axis=0)
    last_ms = np.where(over_ms <= times_ms, over_ms, -REBOUND_MS).max(axis=0)
    is_active = (event.ramp_ms <= times_ms) & (times_ms < event.over_ms)
    is_rebound = (n_active == 0) & (last_ms == event.over_ms)
    is_rebound &= times_ms < event.over_ms + REBOUND_MS
    n_rebound = int((over_ms == event.over_ms).sum())
    next_ms = np.where(ramps_ms > times_ms, ramps_ms, np.iinfo(np.int64).max).min(
        axis=0
    )
    is_hold = (
        (n_active == 0)
        & (times_ms >= last_ms + REBOUND_MS)
        & (next_ms == event.ramp_ms)
    )
    n_hold = int((ramps_ms == event.ramp_ms).sum())
    return (
        is_active / np.maximum(n_active, 1) + is_rebound / n_rebound + is_hold / n_hold
    )


def _event_effect(
    event: RunEvent,
    times_ms: Int64Array,
    dt_ms: int,
    power_w: Float64Array,
    baseline_w: Float64Array,
    allowed_w: Float64Array,
    fraction: Float64Array,
) -> dict[str, Any]:
    """Return an event's effect on power and energy, against the baseline.

    `fraction` of each time's change is due to the event; it applies to energy only.
    """
    is_held = (times_ms >= event.held_ms) & (times_ms < event.end_ms)
    is_limited = (times_ms >= event.ramp_ms) & (times_ms < event.end_ms)
    is_after = (times_ms >= event.over_ms) & (fraction > 0)
    result: dict[str, Any] = {}
    if not is_held.any():  # the run ends earlier
        return {"twin_mw": None, "mean_mw": None, "mean_reduction": None}
    is_met = power_w <= allowed_w * (1 + event.tolerance)
    target_w = float(allowed_w[is_held][0])
    reached_rows = np.flatnonzero(
        (times_ms >= event.issued_ms)
        & (times_ms < event.end_ms)
        & (power_w <= target_w * (1 + event.tolerance))
    )
    mean_w, baseline_mean_w = (
        float(power_w[is_held].mean()),
        float(baseline_w[is_held].mean()),
    )
    j_per_w = dt_ms / MS_PER_S
    result["twin_mw"] = baseline_mean_w / W_PER_MW
    result["mean_mw"] = mean_w / W_PER_MW
    result["mean_reduction"] = 1 - mean_w / baseline_mean_w if baseline_mean_w else None
    result["held_fraction"] = float(is_met[is_held].mean())
    result["issue_to_target_s"] = None
    if reached_rows.size:
        result["issue_to_target_s"] = (
            int(times_ms[reached_rows[0]]) - event.issued_ms
        ) / MS_PER_S
    result["overshoot_mw"] = (
        max(float((power_w - allowed_w)[is_limited].max()), 0.0) / W_PER_MW
    )
    reduction_w = ((baseline_w - power_w) * fraction)[times_ms < event.over_ms]
    result["not_drawn_mwh"] = float(reduction_w.sum()) * j_per_w / J_PER_MWH
    if is_after.any():
        rebound_w = (power_w - baseline_w)[is_after]
        n = max(1, REBOUND_WINDOW_MS // dt_ms)
        sums = np.concatenate([[0.0], np.cumsum(rebound_w)])
        windows_w = (sums[n:] - sums[:-n]) / n if rebound_w.size >= n else np.zeros(0)
        result["rebound_mw"] = max(float(windows_w.max(initial=0.0)), 0.0) / W_PER_MW
        result["rebound_mwh"] = (
            float((rebound_w * fraction[is_after]).sum()) * j_per_w / J_PER_MWH
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
    flexibility = [stream_class.job_class.flexibility for stream_class in classes]
    jobs = FlexibleJobs(flexibility, events, clock.wall, clock.horizon_ms)
    return FlexibilityMetrics(events, clock.wall, signals, jobs)


class FlexibilityMetrics:
    """Sink for the `flexibility` block of the metrics."""

    def __init__(
        self,
        events: Sequence[RunEvent],
        clock: WallClock,
        signals: Mapping[str, Signal],
        jobs: FlexibleJobs | None = None,
    ) -> None:
        self._clock, self._signals, self._jobs = clock, signals, jobs
        self._recorders = [
            _EventRecorder(event, clock.step_ms, signals) for event in events
        ]
        self._energy_j = 0.0
        self._costs = {key: 0.0 for key, signal, _ in _COSTS if signal in signals}

    def add(self, block: Block) -> None:
        """Add a block with the power of the run and of its baseline."""
        change_w = block.columns[POWER] - block.columns[BASELINE]
        change_j = change_w * block.dt_ms / MS_PER_S
        self._energy_j += float(change_j.sum())
        edges_ms = np.append(block.starts_ms, block.end_ms)
        for key, signal, unit in _COSTS:
            if key in self._costs:
                value_per_mwh = self._signals[signal].means(edges_ms)
                self._costs[key] += float(np.nansum(value_per_mwh * change_j)) / unit
        for recorder in self._recorders:
            recorder.add(block)

    def add_jobs(self, window: JobWindow, is_baseline: bool = False) -> None:
        """Add the jobs of a window, of the run or of its baseline."""
        assert self._jobs is not None
        if not is_baseline:
            self._jobs.submit(window.submitted)
        self._jobs.add(window.started, is_baseline)

    def block(self) -> dict[str, Any]:
        """Return the `flexibility` block of the metrics."""
        events = [recorder.event for recorder in self._recorders]
        entries = [recorder.entry(events) for recorder in self._recorders]
        for entry, recorder in zip(entries, self._recorders, strict=True):
            event = recorder.event
            times = {
                "issued": event.issued_ms,
                "start": event.start_ms,
                "ramp": event.ramp_ms,
            }
            times |= {"held": event.held_ms, "end": event.end_ms, "over": event.over_ms}
            entry["times"] = {
                name: self._clock.iso(time_ms) for name, time_ms in times.items()
            }
        lengths_ms = [
            recorder.event.end_ms - recorder.event.held_ms
            for recorder in self._recorders
        ]
        measured = [
            (length_ms, e)
            for length_ms, e in zip(lengths_ms, entries, strict=True)
            if e["mean_reduction"] is not None
        ]
        result: dict[str, Any] = {
            "energy_mwh": self._energy_j / J_PER_MWH,
            **self._costs,
        }
        if measured:
            total_ms = sum(length_ms for length_ms, _ in measured)
            baseline_mw = sum(length_ms * e["twin_mw"] for length_ms, e in measured)
            run_mw = sum(length_ms * e["mean_mw"] for length_ms, e in measured)
            result["events_held"] = (
                sum(length_ms * e["held_fraction"] for length_ms, e in measured)
                / total_ms
            )
            result["mean_reduction"] = 1 - run_mw / baseline_mw if baseline_mw else None
            result["not_drawn_mwh"] = sum(e["not_drawn_mwh"] for _, e in measured)
        if self._jobs is not None:
            job_results = zip(
                entries,
                self._jobs.performance(),
                self._jobs.largest_jobs(),
                strict=True,
            )
            for entry, performance, intervals in job_results:
                entry |= {"weighted_performance": performance, "widest_jobs": intervals}
            result["jobs"] = self._jobs.block()
        return {**result, "events": entries}
