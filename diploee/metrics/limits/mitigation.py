"""How large a battery keeps a run within limits, what that costs, and what it leaves undone.

A ramp that is held at every instant keeps limits on ramps over any interval, on swings within a
window and on changes: a load that never rises faster than S / W swings by no more than S within W.
The largest multiple of the smallest such ramp that still keeps them all is searched, as it takes
the smallest battery. Limits on bands, lines and demand are not sized for; the report on the held
load says whether they are kept with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from diploee.errors import InputError
from diploee.facility.battery import (
    DEPTHS_PERCENT,
    ChargeCycles,
    CycleCount,
    Hold,
    Store,
    hold,
)
from diploee.facility.battery_size import MOST_INTERVALS, BatterySize, holding_battery
from diploee.facility.battery_size import least_battery as least_for
from diploee.metrics.limits.check import NotAssessable, Shown
from diploee.metrics.limits.file import Limits
from diploee.metrics.limits.report import (
    POWER_COLUMN,
    LimitReport,
    RunFolder,
    check_limits,
    seen_by,
)
from diploee.tables import Float64Array
from diploee.units import J_PER_MWH, MS_PER_S, S_PER_DAY, S_PER_H, W_PER_MW

MOST_VALUES = 10_000_000
"""Intervals of a run that is sized for: its power is in memory, and looked at some 50 times."""

MARGIN = 1e-6
"""Ramps are held so much below their limit, so that rounding never passes it."""

ACCURACY = 0.01
"""The multiple of a ramp is known so well, relatively."""

ROUND_TRIP = 0.9025
"""ASSUMPTION: 95 % in, 95 % out."""

FEEDBACK_PER_S = 1 / S_PER_H
"""ASSUMPTION: the store is brought back within about an hour."""


@dataclass(frozen=True)
class Mitigation:
    """A battery that holds a run's ramps, and the run with it.

    Parameters
    ----------
    asked : Hold
        The ramps that the limits ask for.
    size : BatterySize
        The smallest battery that holds them as the stage `battery` does.
    least : BatterySize or None
        What any control needs at least over the day of the battery's largest power.
    discharged_mwh, lost_mwh : float
        Energy that it gives, and that it loses, over the run.
    full_cycles : float
        Energy given and taken over twice its energy.
    cycles : CycleCount
        Rainflow cycles of its state of charge, between empty and full.
    before, after : LimitReport
        The run held against the limits, and with the battery.
    """

    asked: Hold
    size: BatterySize
    least: BatterySize | None
    discharged_mwh: float
    lost_mwh: float
    full_cycles: float
    cycles: CycleCount
    before: LimitReport
    after: LimitReport

    def lines(self) -> list[str]:
        """Return what to tell of it, one line each."""
        up, down = (
            "none" if not np.isfinite(rate) else f"{rate * 60 / W_PER_MW:.4g} MW/min"
            for rate in (self.asked.up_w_per_s, self.asked.down_w_per_s)
        )
        lines = [
            f"before: {self.before.verdict_line()}",
            f"ramps held: up {up}, down {down}",
            f"battery: {self.size.power_mw:.4g} MW, {self.size.energy_mwh:.4g} MWh between empty "
            f"and full; {self.full_cycles:,.4g} equivalent full cycles, gives "
            f"{self.discharged_mwh:,.4g} MWh, loses {self.lost_mwh:,.4g} MWh "
            "(ASSUMPTION: 95 % in, 95 % out, brought back within an hour)",
        ]
        if self.cycles.deepest:
            lines.append(
                f"rainflow cycles of its state of charge: {', '.join(self._cycles_told())}; the "
                f"deepest {self.cycles.deepest:.1%}, all depths added up {self.cycles.depths:,.4g}"
            )
        if self.least is not None:
            lines.append(
                "any control needs at least, over the day of its largest power: "
                f"{self.least.power_mw:.4g} MW, {self.least.energy_mwh:.4g} MWh"
            )
        return [*lines, f"after: {self.after.verdict_line()}", *self.after.lines()]

    def _cycles_told(self) -> Iterator[str]:
        for (low, high), n in zip(pairwise(DEPTHS_PERCENT), self.cycles.classes, strict=True):
            yield f"{n:,.4g} of {low}-{high} %"

    def as_dict(self) -> dict[str, Any]:
        """Return it in plain types, for JSON."""
        return {
            "power_mw": self.size.power_mw,
            "energy_mwh": self.size.energy_mwh,
            "least_power_mw": None if self.least is None else self.least.power_mw,
            "least_energy_mwh": None if self.least is None else self.least.energy_mwh,
            "full_cycles": self.full_cycles,
            "cycled_depth": self.cycles.depths,
            "deepest_cycle": self.cycles.deepest,
            "cycles": [
                {"from_percent": low, "to_percent": high, "cycles": n}
                for (low, high), n in zip(
                    pairwise(DEPTHS_PERCENT), self.cycles.classes, strict=True
                )
            ],
            "discharged_mwh": self.discharged_mwh,
            "lost_mwh": self.lost_mwh,
            "before": self.before.as_dict(),
            "after": self.after.as_dict(),
        }


def mitigate(run: RunFolder, limits: Limits) -> Mitigation:
    """Find the smallest battery that keeps a run's ramps within limits.

    Raises
    ------
    InputError
        If the limits ask for no ramp, the run is too long for its resolution, or no battery holds
        it.
    """
    step_ms = run.scenario.resolution_ms
    n = run.scenario.n_intervals
    if n > MOST_VALUES:
        raise InputError(
            f"{run.folder}: {n:,} intervals, a battery is sized on up to {MOST_VALUES:,}; simulate "
            "at a coarser resolution, or a shorter time"
        )
    strict = ramps_asked_for(limits, seen_by(run))
    sized_for = Limits(ramps=limits.ramps, swings=limits.swings, changes=limits.changes)
    before = check_limits(run, limits)
    power_w = np.concatenate([b.columns[POWER_COLUMN] for b in run.blocks([POWER_COLUMN])])
    power_w, dt_s = power_w.astype(np.float64), step_ms / MS_PER_S
    one_way = ROUND_TRIP**0.5
    asked = _loosest(strict, run, sized_for, power_w, dt_s)
    size = holding_battery(power_w, dt_s, asked, one_way, one_way, FEEDBACK_PER_S)
    middle_j = size.energy_j / 2
    store = Store(size.power_w, 0.0, size.energy_j, middle_j, one_way, one_way, FEEDBACK_PER_S)
    held = hold(power_w, dt_s, store, asked, (float(power_w[0]), middle_j))
    given_j = float(np.maximum(held.battery_w, 0).sum()) * dt_s
    taken_j = -float(np.minimum(held.battery_w, 0).sum()) * dt_s
    cycles = (given_j + taken_j) / (2 * size.energy_j) if size.energy_j else 0.0
    lost_j = given_j * (1 / one_way - 1) + taken_j * (1 - one_way)
    counted = ChargeCycles()
    if size.energy_j:
        counted.add(np.append(0.5, held.stored_j / size.energy_j))
    day = _worst_day(held.battery_w, int(S_PER_DAY / dt_s))
    least = None
    if day is not None:
        least = least_for(power_w[day], dt_s, asked, one_way, one_way)
    return Mitigation(
        asked,
        size,
        least,
        given_j / J_PER_MWH,
        lost_j / J_PER_MWH,
        cycles,
        counted.count(),
        before,
        check_limits(_Held(run, held.supply_w), limits),
    )


def ramps_asked_for(limits: Limits, shown: Shown) -> Hold:
    """Return the ramps that limits on ramps, swings and changes ask for together.

    Raises
    ------
    InputError
        If there is none that the run shows.
    """
    up, down = [np.inf], [np.inf]
    for ramp in limits.ramps:
        for way, amount, _, per_ms in ramp.rates():
            try:
                rate = amount.of(shown)[0] * W_PER_MW / (per_ms / MS_PER_S)
            except NotAssessable:
                continue
            up += [rate] if way != "down" else []
            down += [rate] if way != "up" else []
    for swing in limits.swings:
        try:
            rate = swing.max_mw.of(shown)[0] * W_PER_MW / (swing.window / MS_PER_S)
        except NotAssessable:
            continue
        up.append(rate)
        down.append(rate)
    for change in limits.changes:
        up.append(change.max_mw_per_s * W_PER_MW)
        down.append(change.max_mw_per_s * W_PER_MW)
    if min(*up, *down) == np.inf:
        raise InputError(
            f"{limits.name or 'these limits'}: no limit on ramps, swings or changes that the run "
            "shows, so that there is nothing to size a battery for"
        )
    return Hold(min(up) * (1 - MARGIN), min(down) * (1 - MARGIN))


def _loosest(
    strict: Hold, run: RunFolder, limits: Limits, power_w: Float64Array, dt_s: float
) -> Hold:
    """Return the largest multiple of a ramp with which a load keeps its limits."""
    fastest = float(np.abs(np.diff(power_w)).max(initial=0.0)) / dt_s
    slowest = min(strict.up_w_per_s, strict.down_w_per_s)
    endless = Store(np.inf, -np.inf, np.inf, 0.0)  # holds anything

    def keeps(ramps: Hold) -> bool:
        held = hold(power_w, dt_s, endless, ramps, (float(power_w[0]), 0.0))
        return not check_limits(_Held(run, held.supply_w), limits).violated

    low, high = 1.0, max(1.0, fastest / slowest)
    if keeps(free := _times(strict, high)):
        return free
    while high / low > 1 + ACCURACY:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if keeps(_times(strict, middle)) else (low, middle)
    return _times(strict, low)


def _times(ramps: Hold, factor: float) -> Hold:
    return Hold(ramps.up_w_per_s * factor, ramps.down_w_per_s * factor)


def _worst_day(battery_w: Float64Array, n: int) -> slice | None:
    """Return the day around the battery's largest power; None where it is too fine to solve."""
    n = min(max(n, 2), battery_w.size)
    if n > MOST_INTERVALS or not battery_w.any():
        return None
    first = int(np.clip(int(np.abs(battery_w).argmax()) - n // 2, 0, battery_w.size - n))
    return slice(first, first + n)


class _Held:
    """A run with another power, for a check: its event windows, which have the old, left out."""

    def __init__(self, run: RunFolder, power_w: Float64Array) -> None:
        self._run, self._power_w = run, power_w
        self.event_windows: dict[str, dict[str, Any]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._run, name)

    def blocks(self, columns: Sequence[str]) -> Iterator[Any]:
        """Stream the run's series with the other power."""
        first = 0
        for block in self._run.blocks(columns):
            last = first + block.starts_ms.size
            held = {**block.columns, POWER_COLUMN: self._power_w[first:last]}
            yield type(block)(block.starts_ms, held)
            first = last
