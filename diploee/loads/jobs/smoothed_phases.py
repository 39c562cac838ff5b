"""Power transitions between phases of a synchronous job with GPU power smoothing.

During training, each loop is smoothed in its steady state. On entering another phase, a
higher power is held for the hysteresis and then falls at no more than `down`, and a
lower power rises at no more than `up`. On entering training, power ramps to the loop's
first value. Work delayed by that ramp lengthens the preceding stall by the integral of
(p - q)/p, where p is the high level and q the limited power.

ASSUMPTION [J]: the hysteresis restarts with each phase. Stalls, loading and detection
take the same time at any GPU power. While nodes are being scheduled or awaited, their
GPUs run no process and have no power floor.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from diploee.base.jit import njit
from diploee.base.tables import Float64Array, Int64Array, Table, column
from diploee.base.units import MS_PER_S, PROFILE_STEP_MS
from diploee.scenario.job_streams import PowerSmoothing

HOLD, RISE, FALL, STAY = range(4)
"""Kind of a span: at the power of its beginning, from there up or down, or as its phase
is."""

SLOWEST_PER_S = 1e-3
"""Slower ramps than this are refused; they would last for a quarter of an hour."""


@dataclass(frozen=True, eq=False)
class _Spans(Table):
    """Contiguous spans of a job: its phases and the transitions between them."""

    phase: Int64Array = column("int64")  # number of the phase that the span belongs to
    what: Int64Array = column("int64")  # `HOLD`, `RISE`, `FALL` or `STAY`
    # Start of the span since the start of the job, and its length [ms]
    into_ms: Int64Array = column("int64")
    length_ms: Int64Array = column("int64")
    # Power of a GPU at its beginning, in parts of its TDP
    level: Float64Array = column("float64")


@dataclass(frozen=True, eq=False)
class SmoothedPhases:
    """Smoothed GPU power of a synchronous job, as a fraction of TDP."""

    spec: PowerSmoothing  # floor, ramps and hysteresis
    # What a GPU draws in each loop of iterations, by steps of a profile
    loops: tuple[Float64Array, ...]
    # Its power at work and without a process
    high: float
    idle: float

    @property
    def begin(self) -> float:
        """Mean power from which loops start, as a fraction of TDP."""
        return float(np.mean([loop[-1] for loop in self.loops]))

    @property
    def fall_s(self) -> float:
        """Time of a fall from the highest power to idle [s]."""
        most = max(self.high, self.spec.floor)
        return self.spec.hysteresis_s + max(most - self.idle, 0) / self.spec.down_per_s

    def lost_s(self, since: float, level: float, stall_s: float) -> float:
        """Return the work delayed by the rise into training after a stall [s]."""
        spec = self.spec
        if level < since:
            held_s = max(stall_s - spec.hysteresis_s, 0)
            level = max(level, since - spec.down_per_s * held_s)
        else:
            level = min(level, since + spec.up_per_s * stall_s)
        short = max(self.high - level, 0) ** 2 - max(self.high - self.begin, 0) ** 2
        return max(short, 0) / (2 * spec.up_per_s * max(self.high, 1e-9))

    def edge(self, what: int) -> Float64Array:
        """Return the stepwise power of a GPU that rises or falls between 0 and 1."""
        per_s = self.spec.up_per_s if what == RISE else self.spec.down_per_s
        step = per_s * PROFILE_STEP_MS / MS_PER_S
        # One step more: times are rounded.
        rise: Float64Array = np.minimum(
            (np.arange(int(np.ceil(1 / step)) + 1) + 0.5) * step, 1
        )
        return rise if what == RISE else 1 - rise

    def edge_offset_ms(self, spans: _Spans) -> Int64Array:
        """Return the offset of each span in the `edge` that it plays [ms]."""
        rise_ms = spans.level / self.spec.up_per_s * MS_PER_S
        fall_ms = (1 - spans.level) / self.spec.down_per_s * MS_PER_S
        offset_ms = np.select(
            [spans.what == RISE, spans.what == FALL], [rise_ms, fall_ms], 0
        )
        return np.rint(offset_ms).astype(np.int64)

    def spans(
        self,
        into_ms: Int64Array,
        length_ms: Int64Array,
        level: Float64Array,
        loop: Int64Array,
    ) -> _Spans:
        """Return the spans of a job's phases, starting from idle."""
        steps = np.array([each.size for each in self.loops])
        shares = np.zeros((len(self.loops), steps.max()))
        for row, each in zip(shares, self.loops, strict=True):
            row[: each.size] = each
        spec = self.spec
        spans, level = _walk(
            into_ms,
            length_ms,
            level,
            loop,
            shares,
            steps,
            self.idle,
            (spec.up_per_s, spec.down_per_s, round(spec.hysteresis_s * MS_PER_S)),
        )
        phase, what, begin_ms, time_ms = spans.T
        return _Spans(phase, what, begin_ms, time_ms, level)


@njit()
def _walk(
    into_ms: Int64Array,
    length_ms: Int64Array,
    level: Float64Array,
    loop: Int64Array,
    shares: Float64Array,
    steps: Int64Array,
    now: float,
    ramps: tuple[float, float, int],
) -> tuple[Int64Array, Float64Array]:
    """Return phase, kind, start, length and initial level of each span.

    `now` is the level at the start. `ramps` holds the slopes up and down, and the
    hysteresis before a fall.
    """
    up, down, hold_ms = ramps
    whole = np.zeros((3 * into_ms.size, 4), dtype=np.int64)
    levels = np.zeros(3 * into_ms.size)
    count = 0
    for phase in range(into_ms.size):
        at_ms, left_ms, of = into_ms[phase], length_ms[phase], loop[phase]
        to = shares[of, steps[of] - 1] if of >= 0 else level[phase]
        edge = RISE if to > now else FALL
        rate = up if to > now else down
        edge_ms = int(np.rint(abs(to - now) / rate * MS_PER_S))
        for what in (HOLD, edge, STAY):
            if what == HOLD:
                takes_ms = hold_ms if of < 0 and to < now else 0
            else:
                takes_ms = edge_ms if what == edge else left_ms
            takes_ms = min(takes_ms, left_ms)
            if takes_ms == 0:
                continue
            if what == STAY and of < 0:
                now = to
            whole[count, 0], whole[count, 1] = phase, what
            whole[count, 2], whole[count, 3] = at_ms, takes_ms
            levels[count] = now
            count += 1
            at_ms += takes_ms
            left_ms -= takes_ms
            if what == edge:
                part = rate * takes_ms / MS_PER_S
                now = min(now + part, to) if edge == RISE else max(now - part, to)
            elif what == STAY and of >= 0:
                last_ms = (takes_ms - 1) % (steps[of] * PROFILE_STEP_MS)
                now = shares[of, last_ms // PROFILE_STEP_MS]
    return whole[:count], levels[:count]
