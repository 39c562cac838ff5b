"""Rapid voltage changes of a run with a step of 0.1 s.

They need the grid's short-circuit power.

See also: docs/models/metrics.md
"""

from __future__ import annotations

from typing import Any

from diploee.base.clock import RunClock
from diploee.base.measures.streaming import MeasureRunner, to_quanta
from diploee.base.measures.voltage import ShortCircuit, VoltageChanges
from diploee.base.units import PROFILE_STEP_MS
from diploee.facility.base import POWER, REACTIVE, Block
from diploee.schedule.schedule import Transient


class StepVoltage:
    """Sink for power blocks of a run with a step of 0.1 s."""

    def __init__(
        self, grid: ShortCircuit, clock: RunClock, transient: Transient
    ) -> None:
        self._clock, self._transient, self._has_reactive = clock.wall, transient, False
        self._changes = VoltageChanges(grid, clock.step_ms)
        self._series = MeasureRunner(clock.step_ms, [self._changes])

    def add(self, block: Block) -> None:
        """Add a block at the run's step."""
        reactive = block.columns.get(REACTIVE)
        self._has_reactive = reactive is not None
        self._series.add(
            block.t0_ms,
            to_quanta(block.columns[POWER]),
            self._transient.end_ms,
            None if reactive is None else to_quanta(reactive),
        )

    def block(self) -> dict[str, Any]:
        """Return the `grid.voltage_change` block of the metrics."""
        result = self._changes.result()
        result["largest_percent_time"] = self._clock.iso(self._changes.largest.at_ms)
        return result | {"lower_bound": not self._has_reactive}


def voltage_sink(
    grid: ShortCircuit | None, clock: RunClock, transient: Transient
) -> StepVoltage | None:
    """Return the sink of voltage changes, or None if voltage changes are undefined.

    They need the grid's short-circuit power and a run with a step of 0.1 s.
    """
    if grid is None or clock.step_ms != PROFILE_STEP_MS:
        return None
    return StepVoltage(grid, clock, transient)
