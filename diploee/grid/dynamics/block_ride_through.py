"""Ride-through of one load block: the fraction of it that stays connected in a dip.

The model jumps from one change to the next, and has no time steps. Voltage is constant
from one sample to the next, so the time t at which the filtered voltage crosses a level
is exact: ``t = tau ln((Vf0 - V) / (level - V))``, counted from the sample, with the
filtered voltage Vf0 at the sample, the new voltage V, and the filter's time constant
tau. `simulate_response` simulates a whole voltage series, `BlockRideThrough.advance` a
step of a grid simulator.

See also: docs/models/ride_through.md
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from math import exp, inf, isfinite, log1p
from typing import Any, Literal

from diploee.base.errors import Brief, InputError
from diploee.base.units import S_PER_MIN
from diploee.scenario.ride_through import RideThrough, Side

TIE_S = 1e-9
"""Difference of times [s] below which they are equal."""


@dataclass(frozen=True)
class Excursion(Brief):
    """Time interval [s] during which a voltage is beyond a level."""

    start: float
    end: float


class VoltageLevel:
    """Voltage level with its filter and pickup timer."""

    def __init__(
        self, level: float, side: Side, tau_s: float, time_s: float, pu: float
    ) -> None:
        self.level, self.sign, self.tau_s = level, 1 if side == "under" else -1, tau_s
        self.depth = self.sign * (level - pu)
        self.since = time_s if self.depth > 0 else inf
        # True until the timer of this pickup has expired
        self.is_due = self.since < inf

    def advance(
        self, time_s: float, end_s: float, pu: float, timer_s: float = inf
    ) -> tuple[float | None, float | None]:
        """Advance the filter at a constant voltage from `time_s` to `end_s`.

        Returns two times [s]: the crossing of the level, and the expiry of the pickup
        timer. A time is None if it lies outside the interval.
        """
        target_depth, is_beyond, since = (
            self.sign * (self.level - pu),
            self.since < inf,
            self.since,
        )
        depth, crossed_s = (max if is_beyond else min)(self.depth, 0.0), None
        returns = target_depth < 0 or (
            target_depth <= 0 and (self.tau_s == 0 or depth == 0)
        )
        if returns if is_beyond else target_depth > 0:
            crosses_s = time_s + (
                self.tau_s * log1p(-depth / target_depth)
                if self.tau_s and target_depth
                else 0.0
            )
            if crosses_s < end_s:
                crossed_s, self.since = crosses_s, inf if is_beyond else crosses_s
                since, self.is_due = (
                    (since, self.is_due) if is_beyond else (crossed_s, True)
                )
        decay = exp(-(end_s - time_s) / self.tau_s) if self.tau_s else 0.0
        self.depth = target_depth + (depth - target_depth) * decay
        due_s = since + timer_s
        expires = (
            due_s < crossed_s
            if is_beyond and crossed_s is not None
            else due_s <= end_s + TIE_S
        )
        if not (self.is_due and expires and due_s < inf):
            return crossed_s, None
        self.is_due = False
        return crossed_s, due_s


@dataclass(frozen=True)
class Voltage(Brief):
    """Positive-sequence voltage [pu], constant from each timestamp to the next."""

    time_s: tuple[float, ...]  # timestamps, increasing
    pu: tuple[float, ...]  # value from each timestamp to the next
    is_rms: bool = False  # rms of half cycles already, not filtered again

    def __post_init__(self) -> None:
        rises = all(a < b for a, b in pairwise(self.time_s))
        if not (rises and all(map(isfinite, (*self.time_s, *self.pu))) and self.pu):
            raise InputError(
                "a voltage needs stamps that rise and finite values, one for each"
            )

    def excursions(
        self, level: float, side: Side = "under", tau_s: float = 0.0
    ) -> list[Excursion]:
        """Return the intervals in which the filtered voltage is beyond a level [pu]."""
        tau_s = 0.0 if self.is_rms else tau_s
        result, state = (
            list[Excursion](),
            VoltageLevel(level, side, tau_s, self.time_s[0], self.pu[0]),
        )
        for start, end, pu in self.intervals():
            since = state.since
            crossed_s, _ = state.advance(start, end, pu)
            if crossed_s is not None and state.since == inf:
                result.append(Excursion(since, crossed_s))
        return [*result, Excursion(state.since, inf)] if state.since < inf else result

    def intervals(self) -> Iterator[tuple[float, float, float]]:
        """Yield start [s], end [s] and value of each constant interval."""
        return zip(self.time_s, (*self.time_s[1:], inf), self.pu, strict=True)


@dataclass(frozen=True)
class FractionChange(Brief):
    """Step of the connected fraction (transfer), or a completed ramp (return)."""

    time_s: float
    kind: Literal["transfer", "return"]
    before: float  # fraction on the grid
    after: float
    cause: str
    start_s: float  # start of a ramp; time of a transfer


@dataclass
class Response(Brief):
    """Fraction of a block that is connected to the grid over time.

    The fraction is linear between its points and jumps at a transfer.
    """

    points: list[tuple[float, float]] = field(default_factory=lambda: [(-inf, 1.0)])
    changes: list[FractionChange] = field(default_factory=list)
    ramps: list[float] = field(default_factory=list)  # starts
    latched_s: float | None = None  # time of the last latch by the counter


# Order of simultaneous events; the next sample comes last.
_ORDER = {
    "edge": 0,
    "trip": 1,
    "strike": 2,
    "reset": 3,
    "cease": 3,
    "ramp": 4,
    "end": 5,
    "stamp": 6,
}


class BlockRideThrough:
    """Ride-through state of a load block, advanced at constant voltages."""

    def __init__(
        self,
        settings: RideThrough,
        pool_mw: float = 1.0,
        time_s: float = 0.0,
        pu: float = 1.0,
        *,
        is_rms: bool = False,
    ) -> None:
        self.s, self.pool_mw, self.response = settings, pool_mw, Response()
        self.time_s, tau_s = time_s, 0.0 if is_rms else settings.filter_s
        back, rule = settings.recovery, settings.counter
        start = (tau_s, time_s, pu)
        self.stages = [
            VoltageLevel(stage.voltage_pu, stage.side, *start)
            for stage in settings.stages
        ]
        self.low = [VoltageLevel(back.voltage_pu, "under", *start)] if back else []
        self.dip = (
            None if rule is None else VoltageLevel(rule.voltage_pu, "under", *start)
        )
        self.dip_ended = -inf
        self.queue: list[tuple[float, int, int, str, tuple[Any, ...]]] = []
        self.n_queued = 0
        self.on, self.committed, self.most = 1.0, 0.0, 1.0
        self.ceased = self.latched = self.locked = False
        self.pending = self.lock = 0
        # Start [s] and fraction, end [s] and fraction
        self.ramping: tuple[float, float, float, float] | None = None
        self.clock = 0  # number of the running recovery timer; older ones are void
        self.is_running = False
        self.strikes: list[float] = []
        # Number of levels beyond which the voltage is: no return begins
        self.blocked = sum(level.since < inf for level in (*self.stages, *self.low))

    @property
    def fraction(self) -> float:
        """Fraction of the block connected to the grid now [1]."""
        return self.on if self.ramping is None else self._ramped(self.time_s)

    def advance(self, end_s: float, pu: float) -> None:
        """Advance to a time [s] at a constant voltage [pu]."""
        interval = (self.time_s, end_s, pu)
        for stage, level in zip(self.s.stages, self.stages, strict=True):
            due_s = self._advance_level(level, interval, stage.time_s)
            if due_s is not None:
                name = f"{stage.side} {stage.voltage_pu:g} pu for {stage.time_s:g} s"
                self._schedule(due_s, "trip", stage.fraction, name)
        for level in self.low:
            self._advance_level(level, interval)
        if (rule := self.s.counter) is not None and self.dip is not None:
            crossed_s, due_s = self.dip.advance(*interval, rule.hold_s)
            if crossed_s is not None and self.dip.since == inf:
                self.dip_ended = crossed_s
            elif (
                crossed_s is not None
                and crossed_s - self.dip_ended < rule.merge_s - TIE_S
            ):
                self.dip.is_due, due_s = False, None
            if due_s is not None:
                self._schedule(due_s, "strike")
        while self.queue and self.queue[0][0] <= round(end_s, 9):
            *_, kind, (time_s, *values) = heapq.heappop(self.queue)
            getattr(self, f"_{kind}")(time_s, *values)
            self._run_clock(time_s)
        self.time_s = end_s

    def _advance_level(
        self,
        level: VoltageLevel,
        interval: tuple[float, float, float],
        timer_s: float = inf,
    ) -> Any:
        """Advance a level; return the time at which its pickup timer expires [s].

        Load does not return while the voltage is beyond the level.
        """
        crossed_s, due_s = level.advance(*interval, timer_s)
        if crossed_s is not None and level.since == inf:
            self._schedule(crossed_s, "edge" if level.tau_s else "stamp", -1)
        elif crossed_s is not None:
            self._schedule(crossed_s, "edge", 1)
        return due_s

    def _schedule(self, time_s: float, kind: str, *values: object) -> None:
        self.n_queued += 1
        entry = (round(time_s, 9), _ORDER[kind], self.n_queued, kind, (time_s, *values))
        heapq.heappush(self.queue, entry)

    def _edge(self, _time_s: float, change: int) -> None:
        self.blocked += change

    _stamp = _edge

    def _trip(self, time_s: float, fraction: float, cause: str) -> None:
        self.committed = max(self.committed, fraction)
        self._stop_ramp(time_s, cause)
        self.pending += 1
        self._schedule(time_s + self.s.delay_s, "cease", cause)

    def _strike(self, time_s: float) -> None:
        rule = self.s.counter
        assert rule is not None
        self.strikes = [t for t in self.strikes if t >= time_s - rule.window_s - TIE_S]
        self.strikes.append(time_s)
        if len(self.strikes) >= rule.n and not self.latched:
            self.latched = True
            self.response.latched_s = time_s
            self._trip(time_s, 1.0, f"dip {rule.n} within {rule.window_s:g} s")

    def _cease(self, time_s: float, cause: str) -> None:
        self.pending -= 1
        before, self.on = self.on, min(self.on, 1 - self.committed)
        self.ceased = True
        self._note(time_s, "transfer", before, cause, time_s)
        recovery = self.s.recovery
        if self.latched or recovery is None or not recovery.automatic:
            self.locked, self.lock = True, self.lock + 1
            if self.s.manual_reset_s is not None:
                self._schedule(time_s + self.s.manual_reset_s, "reset", self.lock)

    def _reset(self, _time_s: float, lock: int) -> None:
        if lock == self.lock:
            self.latched = self.locked = False
            self.strikes.clear()

    def _ramp(self, time_s: float, clock: int) -> None:
        recovery = self.s.recovery
        if clock != self.clock or not self.is_running or recovery is None:
            return
        goal = min(self.most, 1 - self.committed + recovery.fraction * self.committed)
        length_s = recovery.ramp_s or 0.0
        if recovery.ramp_mw_per_min is not None:
            length_s = (
                (goal - self.on) * self.pool_mw / recovery.ramp_mw_per_min * S_PER_MIN
            )
        self.ramping = (time_s, self.on, time_s + length_s, goal)
        self.response.ramps.append(time_s)
        self.response.points.append((time_s, self.on))
        self._schedule(time_s + length_s, "end", clock)

    def _end(self, time_s: float, clock: int) -> None:
        if self.ramping is None or clock != self.clock:
            return
        self.most = self.ramping[3]
        self._stop_ramp(time_s, "recovery")
        self.committed, self.ceased = 0.0, False

    def _stop_ramp(self, time_s: float, cause: str) -> None:
        if self.ramping is None:
            return
        t0, low, *_ = self.ramping
        self.on, self.ramping = self._ramped(time_s), None
        reason = "recovery" if cause == "recovery" else f"recovery, cut: {cause}"
        self._note(time_s, "return", low, reason, t0)

    def _ramped(self, time_s: float) -> float:
        assert self.ramping is not None
        t0, low, t1, goal = self.ramping
        return goal if time_s >= t1 else low + (time_s - t0) / (t1 - t0) * (goal - low)

    def _note(
        self,
        time_s: float,
        kind: Literal["transfer", "return"],
        before: float,
        cause: str,
        start_s: float,
    ) -> None:
        if before != self.on:
            self.response.changes.append(
                FractionChange(time_s, kind, before, self.on, cause, start_s)
            )
            if kind == "transfer":
                self.response.points.append((time_s, before))
            self.response.points.append((time_s, self.on))

    def _run_clock(self, time_s: float) -> None:
        recovery = self.s.recovery
        if self.ramping is not None or recovery is None:
            return
        is_blocked = self.latched or self.locked or self.pending or self.blocked
        runs = self.ceased and not is_blocked
        if runs and not self.is_running:
            self.clock += 1
            self._schedule(time_s + recovery.time_s, "ramp", self.clock)
        self.is_running = runs


def simulate_response(
    settings: RideThrough, voltage: Voltage, pool_mw: float = 1.0
) -> Response:
    """Simulate a block's ride-through response to a voltage series.

    Parameters
    ----------
    settings : RideThrough
        Stages, recovery and dip counter of the block.
    voltage : Voltage
        Voltage at the block's terminals.
    pool_mw : float
        Power of the block at the start [MW], for ramps in MW/min.

    Returns
    -------
    Response
        Transfers, returns, and the connected fraction over time.
    """
    block = BlockRideThrough(
        settings, pool_mw, voltage.time_s[0], voltage.pu[0], is_rms=voltage.is_rms
    )
    for _, end_s, pu in voltage.intervals():
        block.advance(end_s, pu)
    return block.response
