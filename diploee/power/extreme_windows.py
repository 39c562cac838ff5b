"""Event windows: a run's extremes, computed again at 0.1 s.

The extremes are the highest 1 s mean of the run, and the largest rise and drop between
two adjacent means of 1 s, 10 s and 1 min that start at whole seconds. During the run,
the segments around each extreme so far are retained, and the state of the facility's
stages at the start of its hour. Only the windows around the final extremes are computed
at 0.1 s.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from diploee.base.errors import Brief
from diploee.base.measures.ramps_and_swings import ramp_sums
from diploee.base.tables import Float64Array, concat
from diploee.base.units import (
    MS_PER_DAY,
    MS_PER_H,
    MS_PER_MIN,
    MS_PER_S,
    PROFILE_STEP_MS,
)
from diploee.facility.base import POWER, Block, Stages
from diploee.power.blocks import (
    PowerBlock,
    PowerModel,
    PowerSums,
    Window,
    default_threads,
    device_block,
    power_stream,
)
from diploee.power.segments import ActiveSegments, Segments
from diploee.schedule.schedule import Transient

SEARCH_STEP_MS = MS_PER_S
"""Step of the search for extremes [ms]."""
SEARCH_BLOCK = MS_PER_DAY // SEARCH_STEP_MS
"""Number of intervals that are searched at a time; segments remain in memory that
long."""

STEPS_S = (1, 10, 60)
"""Lengths of the two adjacent means whose difference is a step [s]."""
NAMES = (
    "peak",
    *(f"{kind}_{length}s" for length in STEPS_S for kind in ("rise", "drop")),
)
"""Names of the event windows."""
MARGIN_MS = 2 * MS_PER_MIN
"""Time before and after an extreme in its window [ms]; less than an hour."""
BASIS = (
    "exact 1 s means of the whole run; steps between adjacent means, at every second"
)
"""Text on the basis of the extremes, for results."""
_LONGEST = 2 * max(STEPS_S)


@dataclass(frozen=True)
class EventWindow(Brief):
    """Time window around an extreme of the run."""

    # ``peak``, or ``rise`` or ``drop`` with the length of the means: ``rise_10s``
    name: str
    at_ms: int  # start of the highest second, or the time between the two means [ms]
    value_w: float  # highest 1 s mean, or later mean minus earlier mean [W]
    start_ms: int  # start of the window [ms]
    end_ms: int  # end of the window [ms]

    @property
    def compared_ms(self) -> tuple[tuple[int, int] | None, tuple[int, int]]:
        """Start and end of the two compared means [ms].

        For a peak, the first is None.
        """
        if self.name == "peak":
            return None, (self.at_ms, self.at_ms + SEARCH_STEP_MS)
        length_ms = int(self.name.partition("_")[2].removesuffix("s")) * MS_PER_S
        return (self.at_ms - length_ms, self.at_ms), (
            self.at_ms,
            self.at_ms + length_ms,
        )


@dataclass(eq=False)
class _Candidate:
    """Largest event of one kind so far, with the data of its window."""

    event: EventWindow
    from_ms: int
    states: tuple[Any, ...]
    segments: list[Segments] = field(default_factory=list)

    def keep(self, segments: Segments) -> None:
        """Retain the segments that overlap the window."""
        overlaps = (segments.start_ms < self.event.end_ms) & (
            segments.end_ms > self.from_ms
        )
        if overlaps.any():
            self.segments.append(segments.take(overlaps))


class EventWindowSearch:
    """Search for the worst windows during a run.

    Extremes are those of the power after the stages, and are not searched in the
    warm-up (`transient`).
    """

    def __init__(
        self, model: PowerModel, stages: Stages, transient: Transient | None = None
    ) -> None:
        self._transient = transient
        self._model, self._stages = model, stages
        self._candidates: dict[str, _Candidate] = {}
        self._recent = ActiveSegments()
        self._carried = np.empty(0)
        self._states: list[tuple[int, tuple[Any, ...]]] = [(0, stages.start())]

    def watch(self, windows: Iterable[Window]) -> Iterator[Window]:
        """Yield the windows of a run, after a search of each for extremes.

        An incomplete last second is not searched.
        """
        model = replace(self._model, dt_ms=SEARCH_STEP_MS, method="direct")
        end_ms = model.horizon_ms // SEARCH_STEP_MS * SEARCH_STEP_MS
        sums = PowerSums(model, (0, end_ms), SEARCH_BLOCK)
        with ThreadPoolExecutor(default_threads()) as threads:
            for segments, until_ms in windows:
                self._recent.add(segments)
                for candidate in self._candidates.values():
                    candidate.keep(segments)
                for block in sums.advance((segments, until_ms), threads):
                    self._search(block)
                self._recent.drop_before(self._states[0][0] - MARGIN_MS)
                yield segments, until_ms

    def event_windows(self) -> Iterator[tuple[EventWindow, Segments, Iterator[Block]]]:
        """Yield each event window with its segments and 0.1 s blocks, the peak first.

        Rises or drops that never occur are omitted.
        """
        for name in NAMES:
            if name in self._candidates:
                candidate = self._candidates[name]
                segments = concat([Segments.empty(), *candidate.segments])
                yield candidate.event, segments, self._blocks(candidate, segments)

    def _blocks(self, candidate: _Candidate, segments: Segments) -> Iterator[Block]:
        """Yield the 0.1 s blocks of a candidate's window."""
        event, states = candidate.event, candidate.states
        model = replace(self._model, dt_ms=PROFILE_STEP_MS, method="direct")
        span_ms = (candidate.from_ms, event.end_ms)
        for power in power_stream(model, [(segments, event.end_ms)], span_ms=span_ms):
            block, states = self._stages.apply(
                device_block(power, self._model.facility), states
            )
            begin_ms = max(block.t0_ms, event.start_ms)
            if begin_ms < block.end_ms:
                yield block.part(begin_ms, block.end_ms)

    def _search(self, power: PowerBlock) -> None:
        """Apply the stages to a day hour by hour, and search for extremes."""
        day = device_block(power, self._model.facility)
        self._states = self._states[-2:]  # a window may begin in the hour before
        hours_w = []
        for begin_ms in range(day.t0_ms, day.end_ms, MS_PER_H):
            end_ms = min(begin_ms + MS_PER_H, day.end_ms)
            block, states = self._stages.apply(
                day.part(begin_ms, end_ms), self._states[-1][1]
            )
            hours_w.append(block.columns[POWER])
            self._states.append((end_ms, states))
        power_w = np.concatenate([self._carried, *hours_w])
        t0_ms = day.t0_ms - self._carried.size * SEARCH_STEP_MS
        if self._transient is not None and self._transient.end_ms > t0_ms:
            n_skipped = -((t0_ms - self._transient.end_ms) // SEARCH_STEP_MS)
            power_w = power_w[n_skipped:]
            t0_ms += n_skipped * SEARCH_STEP_MS
        for name, index, value_w in _extremes(power_w):
            best = self._candidates.get(name)
            if best is None or abs(value_w) > abs(best.event.value_w):
                self._candidates[name] = self._candidate(
                    name, t0_ms + index * SEARCH_STEP_MS, value_w
                )
        self._carried = power_w[-_LONGEST + 1 :]

    def _candidate(self, name: str, at_ms: int, value_w: float) -> _Candidate:
        """Return a candidate with the segments and states of its window."""
        start_ms = max(0, at_ms - MARGIN_MS)
        end_ms = min(self._model.horizon_ms, at_ms + MARGIN_MS)
        from_ms, states = next(s for s in reversed(self._states) if s[0] <= start_ms)
        event = EventWindow(name, at_ms, value_w, start_ms, end_ms)
        candidate = _Candidate(event, from_ms, states)
        candidate.keep(self._recent.within(from_ms, end_ms))
        return candidate


def _extremes(power_w: Float64Array) -> Iterator[tuple[str, int, float]]:
    """Yield the name, index and value of each extreme of a series of 1 s means."""
    if power_w.size:
        peak = int(power_w.argmax())
        yield "peak", peak, float(power_w[peak])
    for length in STEPS_S:
        steps = ramp_sums(power_w, length) / length
        if steps.size:
            rise, drop = int(steps.argmax()), int(steps.argmin())
            if steps[rise] > 0:
                yield f"rise_{length}s", rise + length, float(steps[rise])
            if steps[drop] < 0:
                yield f"drop_{length}s", drop + length, float(steps[drop])
