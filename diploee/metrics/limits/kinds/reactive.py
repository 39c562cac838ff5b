"""Limits that need reactive power: power factor and Q range, of the run's own interval means."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import numpy as np
from pydantic import Field, model_validator

from diploee.measures.series import QUANTA_PER_MW, Signal, Stretch, Values
from diploee.metrics.limits.check import Check, LimitSpec, NotAssessable, Shown
from diploee.tables import Float64Array

Factor = Annotated[float | None, Field(gt=0, le=1)]


class _Reactive(LimitSpec):
    """A limit on active and reactive power of an interval."""

    needs_reactive = True

    def _check(
        self, shown: Shown, text: str, limit: float, unit: str, signal: Signal, least: bool
    ) -> Check:
        if not shown.has_reactive:
            raise NotAssessable(
                "the run has no reactive power; give its node types 'ac_power' and run it again"
            )
        step_ms = shown.clock.step_ms
        return Check(text, limit, unit, step_ms, step_ms, signal, least=least, whole=True)


class PowerFactorLimit(_Reactive):
    """Least power factor, |P| / √(P² + Q²), where Q is drawn (lagging) and where it is given."""

    key = "power_factor"

    min_lagging: Factor = Field(default=None, description="Least while drawing reactive power [1].")
    min_leading: Factor = Field(default=None, description="Least while giving reactive power [1].")

    @model_validator(mode="after")
    def _some(self) -> PowerFactorLimit:
        if self.min_lagging is None and self.min_leading is None:
            raise ValueError("give min_lagging or min_leading")
        return self

    @property
    def what(self) -> str:
        """The limited quantity."""
        return "power factor"

    def checks(self, shown: Shown) -> Iterator[Check]:
        """Yield a check for each side."""
        for side, sign in (("lagging", 1), ("leading", -1)):
            limit = getattr(self, f"min_{side}")
            if limit is not None:
                text = f"{self.what}, {side}"
                yield self._check(shown, text, limit, "", _power_factor(sign), least=True)


def _power_factor(sign: int) -> Signal:
    def of(stretch: Stretch) -> Values | None:
        if stretch.reactive is None:
            return None
        p, q = np.abs(stretch.new).astype(np.float64), np.maximum(sign * stretch.reactive, 0.0)
        apparent = np.hypot(p, q)
        factor: Float64Array = np.divide(p, apparent, out=np.ones_like(p), where=apparent > 0)
        return Values(factor, stretch.new_ms)

    return of


class ReactivePowerLimit(_Reactive):
    """Range of reactive power, drawn counted positive."""

    key = "reactive_power"

    min_mvar: float | None = Field(default=None, description="Least, negative when given [Mvar].")
    max_mvar: float | None = Field(default=None, description="Most [Mvar].")

    @model_validator(mode="after")
    def _some(self) -> ReactivePowerLimit:
        low, high = self.min_mvar, self.max_mvar
        if low is None and high is None:
            raise ValueError("give min_mvar or max_mvar")
        if low is not None and high is not None and low >= high:
            raise ValueError(f"max_mvar must be above min_mvar, found {low:g} to {high:g}")
        return self

    @property
    def what(self) -> str:
        """The limited quantity."""
        return "reactive power"

    def checks(self, shown: Shown) -> Iterator[Check]:
        """Yield a check for each end."""
        for end, least in (("max", False), ("min", True)):
            limit = getattr(self, f"{end}_mvar")
            if limit is not None:
                text = f"{'least' if least else 'largest'} {self.what}"
                yield self._check(shown, text, limit, "Mvar", _reactive_power, least)


def _reactive_power(stretch: Stretch) -> Values | None:
    if stretch.reactive is None:
        return None
    return Values(stretch.reactive / QUANTA_PER_MW, stretch.new_ms)
