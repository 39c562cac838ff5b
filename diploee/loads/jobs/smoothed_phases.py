"""From phase to phase of a synchronous job whose GPUs have power smoothing.

Within training the loops are smoothed in their steady state. Into any other phase a
power above the phase's own is held for the hysteresis and falls by no more than `down`;
one below it rises by no more than `up`. Into training it rises or falls to what the
loop begins with. Work that waits for that rise makes the stall before longer, by the
integral of (p - q)/p, p the high level.

ASSUMPTION [J]: the hysteresis begins anew with each phase. Stalls, loading and
detection take their time whatever the GPUs may draw. While nodes are scheduled or
waited for the GPUs have no process and no floor.

References
----------
Sheet "Flexibility and mitigation", section 5 (C1).
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
    """The phases of a job and what lies between them; spans adjoin."""

    phase: Int64Array = column("int64")  # number of the phase that the span belongs to
    what: Int64Array = column("int64")  # `HOLD`, `RISE`, `FALL` or `STAY`
    # Start of the span since the start of the job, and its length [ms]
    into_ms: Int64Array = column("int64")
    length_ms: Int64Array = column("int64")
    # Power of a GPU at its beginning, in parts of its TDP
    level: Float64Array = column("float64")


@dataclass(frozen=True, eq=False)
class SmoothedPhases:
    """GPUs of a job with power smoothing; powers are parts of their TDP."""

    spec: PowerSmoothing  # floor, ramps and hysteresis
    # What a GPU draws in each loop of iterations, by steps of a profile
    loops: tuple[Float64Array, ...]
    # Its power at work and without a process
    high: float
    idle: float

    @property
    def begin(self) -> float:
        """Power that loops begin from, their mean."""
        return float(np.mean([loop[-1] for loop in self.loops]))

    @property
    def fall_s(self) -> float:
        """Time from the highest power to idle [s]."""
        most = max(self.high, self.spec.floor)
        return self.spec.hysteresis_s + max(most - self.idle, 0) / self.spec.down_per_s

    def lost_s(self, since: float, level: float, stall_s: float) -> float:
        """Return the work that waits for the rise into training, behind a stall [s]."""
        spec = self.spec
        if level < since:
            held_s = max(stall_s - spec.hysteresis_s, 0)
            level = max(level, since - spec.down_per_s * held_s)
        else:
            level = min(level, since + spec.up_per_s * stall_s)
        short = max(self.high - level, 0) ** 2 - max(self.high - self.begin, 0) ** 2
        return max(short, 0) / (2 * spec.up_per_s * max(self.high, 1e-9))

    def edge(self, what: int) -> Float64Array:
        """Return the power of a GPU that rises or falls between 0 and 1 by steps."""
        per_s = self.spec.up_per_s if what == RISE else self.spec.down_per_s
        step = per_s * PROFILE_STEP_MS / MS_PER_S
        # One step more: times are rounded.
        rise: Float64Array = np.minimum(
            (np.arange(int(np.ceil(1 / step)) + 1) + 0.5) * step, 1
        )
        return rise if what == RISE else 1 - rise

    def edge_offset_ms(self, spans: _Spans) -> Int64Array:
        """Return the place of each span in `edge`, where it plays that [ms]."""
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
        """Go through the phases of a job, from idle on."""
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
    """Return phase, kind, start and length of each span, and its first level.

    From `now`; `ramps` are the slopes up and down, and the time before a fall.
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
