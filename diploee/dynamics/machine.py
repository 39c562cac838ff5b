"""The ride-through of one block of load: from a voltage to the fraction that stays on the grid.

Event-driven and exact: the voltage is held between its stamps, so that its filter passes a level at
a time in closed form, ``tau ln((Vf0 - V) / (level - V))``, and no grid of time is needed.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from math import exp, inf, log1p
from typing import Any, Literal

from diploee.errors import Brief
from diploee.scenario.ride_through import RideThrough, Side
from diploee.units import S_PER_MIN

TIE_S = 1e-9
"""Times closer than this are one instant."""


@dataclass(frozen=True)
class Span(Brief):
    """A time beyond a level, from start to end [s]."""

    start: float
    end: float
    at_stamp: bool = False  # whether a stamp ends it, which comes last of what is at one instant

    def lasts(self, time_s: float) -> bool:
        """Return whether a timer of a length has run before it ends."""
        due = self.start + time_s
        return due <= self.end + TIE_S if self.at_stamp else due < self.end


@dataclass(frozen=True)
class Voltage(Brief):
    """A positive-sequence voltage, held from each stamp to the next, the last one for ever."""

    time_s: tuple[float, ...]  # stamps, which rise
    pu: tuple[float, ...]  # from each stamp on
    is_rms: bool = False  # of half cycles already, and not filtered again

    def beyond(self, level: float, side: Side = "under", tau_s: float = 0.0) -> list[Span]:
        """Return when the filtered voltage is strictly beyond a level."""
        sign = 1 if side == "under" else -1
        tau_s = 0.0 if self.is_rms else tau_s
        found, depth, ends = list[Span](), sign * (level - self.pu[0]), (*self.time_s[1:], inf)
        start = self.time_s[0] if depth > 0 else inf
        for t, end, volt in zip(self.time_s, ends, self.pu, strict=True):
            goal = sign * (level - volt)
            inside = start < inf
            depth = max(depth, 0.0) if inside else min(depth, 0.0)
            crosses = goal < 0 or (goal <= 0 and (tau_s == 0 or depth == 0)) if inside else goal > 0
            if crosses:
                at = t + (tau_s * log1p(-depth / goal) if tau_s and goal else 0.0)
                if at < end:
                    if inside:
                        found.append(Span(start, at, at_stamp=tau_s == 0))
                    start = inf if inside else at
            depth = goal + (depth - goal) * exp(-(end - t) / tau_s) if tau_s else goal
        return [*found, Span(start, inf)] if start < inf else found


@dataclass(frozen=True)
class Change(Brief):
    """A step or the end of a ramp."""

    time_s: float
    what: Literal["transfer", "return"]
    before: float  # fraction on the grid
    after: float
    cause: str
    start_s: float  # of a ramp; of a transfer its time


@dataclass
class Response(Brief):
    """Fraction of a block on the grid: linear between its points, which jump at a transfer."""

    points: list[tuple[float, float]] = field(default_factory=lambda: [(-inf, 1.0)])
    changes: list[Change] = field(default_factory=list)
    ramps: list[float] = field(default_factory=list)  # starts
    latched_s: float | None = None  # when the counter latched it, of the last time


# Order of what happens at one instant; the next stamp comes last.
_ORDER = {
    "edge": 0, "trip": 1, "strike": 2, "reset": 3, "cease": 3, "ramp": 4, "end": 5, "stamp": 6,
}  # fmt: skip


class _Machine:
    """The state between events."""

    def __init__(self, settings: RideThrough, pool_mw: float) -> None:
        self.s, self.pool_mw, self.found = settings, pool_mw, Response()
        self.queue: list[tuple[float, int, int, str, tuple[Any, ...]]] = []
        self.number = count()
        self.on, self.committed, self.most = 1.0, 0.0, 1.0
        self.ceased = self.latched = self.locked = self.well = False
        self.pending = self.lock = 0
        self.ramping: tuple[float, float, float, float] | None = None  # from when, where, to both
        self.clock = 0  # what runs now; others in the queue are void
        self.is_running = False
        self.strikes: list[float] = []

    def put(self, time_s: float, kind: str, *of: object) -> None:
        entry = (round(time_s, 9), _ORDER[kind], next(self.number), kind, (time_s, *of))
        heapq.heappush(self.queue, entry)

    def run(self) -> Response:
        while self.queue:
            *_, kind, (time_s, *of) = heapq.heappop(self.queue)
            getattr(self, kind)(time_s, *of)
            self._run_clock(time_s)
        return self.found

    def edge(self, _time_s: float, is_well: bool) -> None:
        self.well = is_well

    stamp = edge

    def trip(self, time_s: float, fraction: float, cause: str) -> None:
        self.committed = max(self.committed, fraction)
        self._stop_ramp(time_s, cause)
        self.pending += 1
        self.put(time_s + self.s.delay_s, "cease", cause)

    def strike(self, time_s: float) -> None:
        rule = self.s.counter
        assert rule is not None
        self.strikes = [t for t in self.strikes if t >= time_s - rule.window_s - TIE_S]
        self.strikes.append(time_s)
        if len(self.strikes) >= rule.n and not self.latched:
            self.latched = True
            self.found.latched_s = time_s
            self.trip(time_s, 1.0, f"dip {rule.n} within {rule.window_s:g} s")

    def cease(self, time_s: float, cause: str) -> None:
        self.pending -= 1
        before, self.on = self.on, min(self.on, 1 - self.committed)
        self.ceased = True
        self._note(time_s, "transfer", before, cause, time_s)
        recovery = self.s.recovery
        if self.latched or recovery is None or not recovery.automatic:
            self.locked, self.lock = True, self.lock + 1
            if self.s.manual_reset_s is not None:
                self.put(time_s + self.s.manual_reset_s, "reset", self.lock)

    def reset(self, _time_s: float, lock: int) -> None:
        if lock == self.lock:
            self.latched = self.locked = False
            self.strikes.clear()

    def ramp(self, time_s: float, clock: int) -> None:
        recovery = self.s.recovery
        if clock != self.clock or not self.is_running or recovery is None:
            return
        goal = min(self.most, 1 - self.committed + recovery.fraction * self.committed)
        length_s = recovery.ramp_s or 0.0
        if recovery.ramp_mw_per_min is not None:
            length_s = (goal - self.on) * self.pool_mw / recovery.ramp_mw_per_min * S_PER_MIN
        self.ramping = (time_s, self.on, time_s + length_s, goal)
        self.found.ramps.append(time_s)
        self.found.points.append((time_s, self.on))
        self.put(time_s + length_s, "end", clock)

    def end(self, time_s: float, clock: int) -> None:
        if self.ramping is None or clock != self.clock:
            return
        self.most = self.ramping[3]
        self._stop_ramp(time_s, "recovery")
        self.committed, self.ceased = 0.0, False

    def _stop_ramp(self, time_s: float, cause: str) -> None:
        if self.ramping is None:
            return
        t0, low, t1, goal = self.ramping
        self.on = goal if time_s >= t1 else low + (time_s - t0) / (t1 - t0) * (goal - low)
        self.ramping = None
        why = "recovery" if cause == "recovery" else f"recovery, cut: {cause}"
        self._note(time_s, "return", low, why, t0)

    def _note(
        self, time_s: float, what: Literal["transfer", "return"], before: float, cause: str,
        start_s: float,
    ) -> None:  # fmt: skip
        if before != self.on:
            self.found.changes.append(Change(time_s, what, before, self.on, cause, start_s))
            if what == "transfer":
                self.found.points.append((time_s, before))
            self.found.points.append((time_s, self.on))

    def _run_clock(self, time_s: float) -> None:
        recovery = self.s.recovery
        if self.ramping is not None or recovery is None:
            return
        held = self.latched or self.locked or self.pending or not self.well
        runs = self.ceased and not held
        if runs and not self.is_running:
            self.clock += 1
            self.put(time_s + recovery.time_s, "ramp", self.clock)
        self.is_running = runs


def respond(settings: RideThrough, voltage: Voltage, pool_mw: float = 1.0) -> Response:
    """Return how a block answers a voltage.

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
    machine, tau_s = _Machine(settings, pool_mw), settings.filter_s
    blocked = list[Span]()
    for stage in settings.stages:
        spans = voltage.beyond(stage.voltage_pu, stage.side, tau_s)
        blocked += spans
        name = f"{stage.side} {stage.voltage_pu:g} pu for {stage.time_s:g} s"
        for span in spans:
            if span.lasts(stage.time_s):
                machine.put(span.start + stage.time_s, "trip", stage.fraction, name)
    if settings.recovery is not None:
        blocked += voltage.beyond(settings.recovery.voltage_pu, "under", tau_s)
    if (rule := settings.counter) is not None:
        ended = -inf
        for span in voltage.beyond(rule.voltage_pu, "under", tau_s):
            if span.lasts(rule.hold_s) and span.start - ended >= rule.merge_s - TIE_S:
                machine.put(span.start + rule.hold_s, "strike")
            ended = span.end
    machine.well = True
    for span in joined(blocked):
        machine.put(span.start, "edge", False)
        if span.end < inf:
            machine.put(span.end, "stamp" if span.at_stamp else "edge", True)
    return machine.run()


def joined(spans: Iterable[Span]) -> list[Span]:
    """Return spans as those that don't touch, in order."""
    found: list[Span] = []
    for span in sorted(spans, key=lambda s: (s.start, s.end)):
        if found and span.start <= found[-1].end:
            if span.end > found[-1].end:
                found[-1] = Span(found[-1].start, span.end, span.at_stamp)
        else:
            found.append(span)
    return found
