"""Limit on rapid voltage changes at the point of interconnection."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from diploee.base.measures.voltage import VoltageChanges
from diploee.base.units import MS_PER_S, PROFILE_STEP_MS
from diploee.grid.limits.check import (
    Check,
    LimitSpec,
    Need,
    NotAssessable,
    Percent,
    SeriesContext,
    check_of_run,
)


class VoltageChangeLimit(LimitSpec):
    """Largest rapid voltage change at the point of interconnection.

    The grid is modelled by the short-circuit power and the ratio X/R of the scenario's
    `site`.
    """

    key = "voltage_changes"
    needs_reactive = True

    max_percent: Percent = Field(description="Maximum settled voltage change [%].")

    @property
    def quantity(self) -> str:
        """Text of the limited quantity: rapid voltage change."""
        return "rapid voltage change, settled over 1 s"

    def checks(self, context: SeriesContext) -> Iterator[Check]:
        """Yield the check on the largest voltage change of the run."""
        if context.grid is None:
            raise NotAssessable(
                "the scenario lacks site.short_circuit_mva or site.x_over_r; give both"
            )
        if context.clock.step_ms != PROFILE_STEP_MS:
            raise NotAssessable(
                "it needs steps of 0.1 s: --set 'step=0.1 s'", Need.FINER
            )
        context.require_steps_per_window(2 * MS_PER_S)
        changes = VoltageChanges(context.grid, context.clock.step_ms)

        def largest() -> float | None:
            if changes.collapses:
                check.text += f", a collapse at {changes.collapses:,} instants"
            return changes.largest.value if changes.largest.companions else None

        no_q = (
            "" if context.has_reactive else "lower bound: no reactive power is modelled"
        )
        check = check_of_run(
            self.quantity,
            self.max_percent,
            "%",
            context,
            changes,
            largest,
            span_ms=MS_PER_S,
            note=no_q,
        )
        yield check
