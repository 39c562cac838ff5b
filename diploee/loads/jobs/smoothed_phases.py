"""Power transitions between phases of a synchronous job with GPU power smoothing.

During training, each loop is smoothed in its steady state. On entering another phase, a
higher power is held for the hysteresis and then falls at no more than `down`, and a
lower power rises at no more than `up`. On entering training, power ramps to the loop's
first value. Work delayed by that ramp lengthens the preceding stall by the integral of
(p - q)/p, where p is the high level and q the limited power.

Assumed (judgement): the hysteresis restarts with each phase. Stalls, loading and
detection take the same time at any GPU power. While nodes are being scheduled or
awaited, their GPUs run no process and have no power floor.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from diploee.base.jit import njit
from diploee.base.tables import Float64Array, Int64Array, Table, column
from diploee.base.units import MS_PER_S, PROFILE_STEP_MS
from diploee.scenario.job_streams import PowerSmoothing

HOLD, RISE, FALL, STAY = range(4)
"""Kinds of a span: constant at its initial power, rising, falling, or at the phase's
power."""

SLOWEST_PER_S = 1e-3
"""Minimum ramp rate, as a fraction of TDP [1/s]; slower ramps would last a quarter of
an hour."""


@dataclass(frozen=True, eq=False)
class _Spans(Table):
    """Contiguous spans of a job: its phases and the transitions between them."""

    phase: Int64Array = column("int64")  # number of the phase that the span belongs to
    kind: Int64Array = column("int64")  # `HOLD`, `RISE`, `FALL` or `STAY`
    # Start of the span since the start of the job, and length of the span [ms]
    into_ms: Int64Array = column("int64")
    length_ms: Int64Array = column("int64")
    # GPU power at the start of the span, as a fraction of TDP
    level: Float64Array = column("float64")


@dataclass(frozen=True, eq=False)
class SmoothedPhases:
    """Smoothed GPU power of a synchronous job, as a fraction of TDP."""

    spec: PowerSmoothing  # floor, ramps and hysteresis
    # GPU power in each loop of iterations, by steps of a profile
    loops: tuple[Float64Array, ...]
    high: float  # GPU power at work
    idle: float  # GPU power without a process

    @property
    def begin(self) -> float:
        """Mean power at the start of a loop, as a fraction of TDP."""
        return float(np.mean([loop[-1] for loop in self.loops]))

    @property
    def fall_s(self) -> float:
        """Duration of a fall from the highest power to idle [s]."""
        max_level = max(self.high, self.spec.floor)
        return (
            self.spec.hysteresis_s
            + max(max_level - self.idle, 0) / self.spec.down_per_s
        )

    def lost_s(self, initial_level: float, stall_level: float, stall_s: float) -> float:
        """Return the work delayed by the rise into training after a stall [s].

        `initial_level` is the power at the start of the stall, `stall_level` its final
        power.
        """
        spec = self.spec
        if stall_level < initial_level:
            falling_s = max(stall_s - spec.hysteresis_s, 0)
            stall_level = max(stall_level, initial_level - spec.down_per_s * falling_s)
        else:
            stall_level = min(stall_level, initial_level + spec.up_per_s * stall_s)
        missing_work = (
            max(self.high - stall_level, 0) ** 2 - max(self.high - self.begin, 0) ** 2
        )
        return max(missing_work, 0) / (2 * spec.up_per_s * max(self.high, 1e-9))

    def edge(self, kind: int) -> Float64Array:
        """Return the GPU power of a complete rise or fall between 0 and 1, by steps."""
        per_s = self.spec.up_per_s if kind == RISE else self.spec.down_per_s
        step = per_s * PROFILE_STEP_MS / MS_PER_S
        # One step more, as times are rounded
        rise: Float64Array = np.minimum(
            (np.arange(int(np.ceil(1 / step)) + 1) + 0.5) * step, 1
        )
        return rise if kind == RISE else 1 - rise

    def edge_offset_ms(self, spans: _Spans) -> Int64Array:
        """Return the offset of each span in the `edge` that it replays [ms]."""
        rise_ms = spans.level / self.spec.up_per_s * MS_PER_S
        fall_ms = (1 - spans.level) / self.spec.down_per_s * MS_PER_S
        offset_ms = np.select(
            [spans.kind == RISE, spans.kind == FALL], [rise_ms, fall_ms], 0
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
        steps = np.array([loop_power.size for loop_power in self.loops])
        power_by_loop = np.zeros((len(self.loops), steps.max()))
        for row, loop_power in zip(power_by_loop, self.loops, strict=True):
            row[: loop_power.size] = loop_power
        spec = self.spec
        spans, level = _walk(
            into_ms,
            length_ms,
            level,
            loop,
            power_by_loop,
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
    power_by_loop: Float64Array,
    steps: Int64Array,
    present: float,
    ramps: tuple[float, float, int],
) -> tuple[Int64Array, Float64Array]:
    """Return the spans of phases: phase, kind, start, length; and initial levels.

    `present` is the level at the start. `ramps` are the slopes up and down, and the
    hysteresis before a fall.
    """
    up, down, hold_ms = ramps
    rows = np.zeros((3 * into_ms.size, 4), dtype=np.int64)
    levels = np.zeros(3 * into_ms.size)
    count = 0
    for phase in range(into_ms.size):
        start_ms, remaining_ms, loop_index = (
            into_ms[phase],
            length_ms[phase],
            loop[phase],
        )
        target = (
            power_by_loop[loop_index, steps[loop_index] - 1]
            if loop_index >= 0
            else level[phase]
        )
        edge = RISE if target > present else FALL
        rate = up if target > present else down
        edge_ms = int(np.rint(abs(target - present) / rate * MS_PER_S))
        for kind in (HOLD, edge, STAY):
            if kind == HOLD:
                duration_ms = hold_ms if loop_index < 0 and target < present else 0
            else:
                duration_ms = edge_ms if kind == edge else remaining_ms
            duration_ms = min(duration_ms, remaining_ms)
            if duration_ms == 0:
                continue
            if kind == STAY and loop_index < 0:
                present = target
            rows[count, 0], rows[count, 1] = phase, kind
            rows[count, 2], rows[count, 3] = start_ms, duration_ms
            levels[count] = present
            count += 1
            start_ms += duration_ms
            remaining_ms -= duration_ms
            if kind == edge:
                change = rate * duration_ms / MS_PER_S
                present = (
                    min(present + change, target)
                    if edge == RISE
                    else max(present - change, target)
                )
            elif kind == STAY and loop_index >= 0:
                last_ms = (duration_ms - 1) % (steps[loop_index] * PROFILE_STEP_MS)
                present = power_by_loop[loop_index, last_ms // PROFILE_STEP_MS]
    return rows[:count], levels[:count]
