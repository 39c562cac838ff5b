"""Ride-through of one block of load: its fraction connected at a given voltage.

From a voltage to the fraction that stays on the grid. Event-driven and exact: the
voltage is held between its stamps, so that its filter passes a level at a time in
closed form, ``tau ln((Vf0 - V) / (level - V))``, and no grid of time is needed. A
series known beforehand (`respond`) and a simulator's steps (`Machine.hold`) take the
same transitions.

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
"""Times closer than this are one instant."""


@dataclass(frozen=True)
class Excursion(Brief):
    """Time interval spent beyond a voltage level, from start to end [s]."""

    start: float
    end: float


class Level:
    """Voltage level, and the time since which the filtered voltage is beyond it."""

    def __init__(
        self, level: float, side: Side, tau_s: float, time_s: float, pu: float
    ) -> None:
        self.level, self.sign, self.tau_s = level, 1 if side == "under" else -1, tau_s
        self.depth = self.sign * (level - pu)
        self.since = time_s if self.depth > 0 else inf
        # Whether its timer may run out, as it does once a pickup
        self.is_due = self.since < inf

    def hold(
        self, time_s: float, end_s: float, pu: float, timer_s: float = inf
    ) -> tuple[float | None, float | None]:
        """Advance the filter at a constant voltage from one time to another.

        Returns when it crosses the level, and when the timer of this pickup runs out;
        None for not.
        """
        goal, inside, since = (
            self.sign * (self.level - pu),
            self.since < inf,
            self.since,
        )
        depth, at = (max if inside else min)(self.depth, 0.0), None
        leaves = goal < 0 or (goal <= 0 and (self.tau_s == 0 or depth == 0))
        if leaves if inside else goal > 0:
            crosses_s = time_s + (
                self.tau_s * log1p(-depth / goal) if self.tau_s and goal else 0.0
            )
            if crosses_s < end_s:
                at, self.since = crosses_s, inf if inside else crosses_s
                since, self.is_due = (since, self.is_due) if inside else (at, True)
        kept = exp(-(end_s - time_s) / self.tau_s) if self.tau_s else 0.0
        self.depth = goal + (depth - goal) * kept
        due_s = since + timer_s
        ends = due_s < at if inside and at is not None else due_s <= end_s + TIE_S
        if not (self.is_due and ends and due_s < inf):
            return at, None
        self.is_due = False
        return at, due_s


@dataclass(frozen=True)
class Voltage(Brief):
    """Positive-sequence voltage, constant from each timestamp to the next."""

    time_s: tuple[float, ...]  # stamps, which rise
    pu: tuple[float, ...]  # from each stamp on
    is_rms: bool = False  # of half cycles already, and not filtered again

    def __post_init__(self) -> None:
        rises = all(a < b for a, b in pairwise(self.time_s))
        if not (rises and all(map(isfinite, (*self.time_s, *self.pu))) and self.pu):
            raise InputError(
                "a voltage needs stamps that rise and finite values, one for each"
            )

    def beyond(
        self, level: float, side: Side = "under", tau_s: float = 0.0
    ) -> list[Excursion]:
        """Return when the filtered voltage is strictly beyond a level."""
        tau_s = 0.0 if self.is_rms else tau_s
        result, of = (
            list[Excursion](),
            Level(level, side, tau_s, self.time_s[0], self.pu[0]),
        )
        for start, end, pu in self.pieces():
            since = of.since
            at, _ = of.hold(start, end, pu)
            if at is not None and of.since == inf:
                result.append(Excursion(since, at))
        return [*result, Excursion(of.since, inf)] if of.since < inf else result

    def pieces(self) -> Iterator[tuple[float, float, float]]:
        """Yield the start, the end and the value of each constant interval."""
        return zip(self.time_s, (*self.time_s[1:], inf), self.pu, strict=True)


@dataclass(frozen=True)
class Change(Brief):
    """Step of the connected fraction, or the end of a ramp."""

    time_s: float
    what: Literal["transfer", "return"]
    before: float  # fraction on the grid
    after: float
    cause: str
    start_s: float  # of a ramp; of a transfer its time


@dataclass
class Response(Brief):
    """Fraction of a block connected to the grid over time.

    Linear between its points, which jump at a transfer.
    """

    points: list[tuple[float, float]] = field(default_factory=lambda: [(-inf, 1.0)])
    changes: list[Change] = field(default_factory=list)
    ramps: list[float] = field(default_factory=list)  # starts
    latched_s: float | None = None  # when the counter latched it, of the last time


# Order of what happens at one instant; the next stamp comes last.
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


class Machine:
    """Ride-through state of a block, advanced by voltage steps."""

    def __init__(
        self,
        settings: RideThrough,
        pool_mw: float = 1.0,
        time_s: float = 0.0,
        pu: float = 1.0,
        *,
        is_rms: bool = False,
    ) -> None:
        self.s, self.pool_mw, self.found = settings, pool_mw, Response()
        self.time_s, tau_s = time_s, 0.0 if is_rms else settings.filter_s
        back, rule = settings.recovery, settings.counter
        at = (tau_s, time_s, pu)
        self.stages = [
            Level(stage.voltage_pu, stage.side, *at) for stage in settings.stages
        ]
        self.low = [Level(back.voltage_pu, "under", *at)] if back else []
        self.dip = None if rule is None else Level(rule.voltage_pu, "under", *at)
        self.dip_ended = -inf
        self.queue: list[tuple[float, int, int, str, tuple[Any, ...]]] = []
        self.n_put = 0
        self.on, self.committed, self.most = 1.0, 0.0, 1.0
        self.ceased = self.latched = self.locked = False
        self.pending = self.lock = 0
        # From when, where, to both
        self.ramping: tuple[float, float, float, float] | None = None
        self.clock = 0  # what runs now; others in the queue are void
        self.is_running = False
        self.strikes: list[float] = []
        # Levels that it is beyond, and no return begins
        self.blocked = sum(of.since < inf for of in (*self.stages, *self.low))

    @property
    def fraction(self) -> float:
        """Fraction of the block connected to the grid now."""
        return self.on if self.ramping is None else self._ramped(self.time_s)

    def hold(self, end_s: float, pu: float) -> None:
        """Advance to a time at a constant voltage."""
        piece = (self.time_s, end_s, pu)
        for stage, of in zip(self.s.stages, self.stages, strict=True):
            due_s = self._cross(of, piece, stage.time_s)
            if due_s is not None:
                name = f"{stage.side} {stage.voltage_pu:g} pu for {stage.time_s:g} s"
                self._put(due_s, "trip", stage.fraction, name)
        for of in self.low:
            self._cross(of, piece)
        if (rule := self.s.counter) is not None and self.dip is not None:
            at, due_s = self.dip.hold(*piece, rule.hold_s)
            if at is not None and self.dip.since == inf:
                self.dip_ended = at
            elif at is not None and at - self.dip_ended < rule.merge_s - TIE_S:
                self.dip.is_due, due_s = False, None
            if due_s is not None:
                self._put(due_s, "strike")
        while self.queue and self.queue[0][0] <= round(end_s, 9):
            *_, kind, (time_s, *what) = heapq.heappop(self.queue)
            getattr(self, f"_{kind}")(time_s, *what)
            self._run_clock(time_s)
        self.time_s = end_s

    def _cross(
        self, of: Level, piece: tuple[float, float, float], timer_s: float = inf
    ) -> Any:
        """Take a piece to a level that blocks the return.

        Return when its timer runs out.
        """
        at, due_s = of.hold(*piece, timer_s)
        if at is not None and of.since == inf:
            self._put(at, "edge" if of.tau_s else "stamp", -1)
        elif at is not None:
            self._put(at, "edge", 1)
        return due_s

    def _put(self, time_s: float, kind: str, *of: object) -> None:
        self.n_put += 1
        entry = (round(time_s, 9), _ORDER[kind], self.n_put, kind, (time_s, *of))
        heapq.heappush(self.queue, entry)

    def _edge(self, _time_s: float, change: int) -> None:
        self.blocked += change

    _stamp = _edge

    def _trip(self, time_s: float, fraction: float, cause: str) -> None:
        self.committed = max(self.committed, fraction)
        self._stop_ramp(time_s, cause)
        self.pending += 1
        self._put(time_s + self.s.delay_s, "cease", cause)

    def _strike(self, time_s: float) -> None:
        rule = self.s.counter
        assert rule is not None
        self.strikes = [t for t in self.strikes if t >= time_s - rule.window_s - TIE_S]
        self.strikes.append(time_s)
        if len(self.strikes) >= rule.n and not self.latched:
            self.latched = True
            self.found.latched_s = time_s
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
                self._put(time_s + self.s.manual_reset_s, "reset", self.lock)

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
        self.found.ramps.append(time_s)
        self.found.points.append((time_s, self.on))
        self._put(time_s + length_s, "end", clock)

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
        why = "recovery" if cause == "recovery" else f"recovery, cut: {cause}"
        self._note(time_s, "return", low, why, t0)

    def _ramped(self, time_s: float) -> float:
        assert self.ramping is not None
        t0, low, t1, goal = self.ramping
        return goal if time_s >= t1 else low + (time_s - t0) / (t1 - t0) * (goal - low)

    def _note(
        self,
        time_s: float,
        what: Literal["transfer", "return"],
        before: float,
        cause: str,
        start_s: float,
    ) -> None:
        if before != self.on:
            self.found.changes.append(
                Change(time_s, what, before, self.on, cause, start_s)
            )
            if what == "transfer":
                self.found.points.append((time_s, before))
            self.found.points.append((time_s, self.on))

    def _run_clock(self, time_s: float) -> None:
        recovery = self.s.recovery
        if self.ramping is not None or recovery is None:
            return
        held = self.latched or self.locked or self.pending or self.blocked
        runs = self.ceased and not held
        if runs and not self.is_running:
            self.clock += 1
            self._put(time_s + recovery.time_s, "ramp", self.clock)
        self.is_running = runs


def simulate_response(
    settings: RideThrough, voltage: Voltage, pool_mw: float = 1.0
) -> Response:
    """Simulate a block's ride-through response to a voltage series.

    Parameters
    ----------
    settings : RideThrough
        Its stages, recovery and counter.
    voltage : Voltage
        At its terminals.
    pool_mw : float
        Its power at the start [MW], for ramps in MW/min.

    Returns
    -------
    Response
        Transfers, returns, and the fraction on the grid over time.
    """
    machine = Machine(
        settings, pool_mw, voltage.time_s[0], voltage.pu[0], is_rms=voltage.is_rms
    )
    for _, end_s, pu in voltage.pieces():
        machine.hold(end_s, pu)
    return machine.found
