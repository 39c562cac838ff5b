"""How large a battery keeps a run within limits, what that costs, and what it leaves undone.

The battery holds ramps, as its stage does; a ramp that is held at every instant keeps limits on
ramps over any interval, on swings within a window and on changes. Where a limit speaks of
frequencies, a lag is tried as well, and what takes less of power and an hour's energy is taken. Of
each control the loosest one is searched with which the load keeps its limits, then the smallest
power and at that power the smallest energy: at every step the held load is held against all limits
on ramps, swings, changes, bands and lines, the filtered ones too. The run's event windows are held
as well where they are finer than its series, each from the state that the battery then has in it;
they are the worst of the run without it. Limits on power, demand and reactive power are not sized
for; the report on the held load says whether they are kept with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from diploee.clock import instant_ms
from diploee.errors import InputError
from diploee.facility.battery import (
    DEPTHS_PERCENT,
    ChargeCycles,
    CycleCount,
    Held,
    Hold,
    Store,
    hold,
)
from diploee.facility.battery_size import COVERED, MOST_INTERVALS, BatterySize, smallest
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
from diploee.units import J_PER_MWH, MS_PER_S, S_PER_DAY, S_PER_H, S_PER_MIN, W_PER_MW

MOST_VALUES = 10_000_000
"""Intervals of a run that is sized for: its power is in memory, and looked at some 50 times."""

MARGIN = 1e-6
"""Ramps are held so much below their limit, so that rounding never passes it."""

SIZED_FOR = ("ramps", "swings", "changes", "band_rms", "lines")
"""Limits that a battery which holds ramps or smooths the power can keep."""

ACCURACY = 0.01
"""The ramp or lag is known so well, relatively."""

TENTH_LESS = 0.9
"""A size that keeps the limits is searched below, until with so much of it they are not kept."""

STRICTEST = 4**10
"""Ramps so many times slower than asked for, and lags of so many intervals, are tried."""

ONE_WAY = 0.95
"""ASSUMPTION: efficiency of charging, and of discharging, as of the stage."""

FEEDBACK_PER_S = 1 / S_PER_H
"""ASSUMPTION: the store is brought back within about an hour."""


@dataclass(frozen=True)
class Mitigation:
    """A battery that keeps a run within limits, and the run with it.

    Parameters
    ----------
    asked : Hold
        The ramps or the lag that the stage `battery` is asked to hold.
    size : BatterySize
        The smallest battery with which the held run keeps its limits.
    least : BatterySize or None
        What any control needs at least to hold these ramps over the day of the battery's largest
        power; None of a lag, or where there are too many intervals.
    least_report : LimitReport or None
        The supply of that control over the day held against the limits that are sized for.
    discharged_mwh, lost_mwh : float
        Energy that it gives, and that it loses, over the run.
    full_cycles : float
        Energy given and taken over twice its energy.
    cycles : CycleCount
        Rainflow cycles of its state of charge, between empty and full.
    before, after : LimitReport
        The run held against the limits, and with the battery.
    window_step_s : float
        Resolution of the event windows that it is sized on as well [s]; 0 without such.
    """

    asked: Hold
    size: BatterySize
    least: BatterySize | None
    least_report: LimitReport | None
    discharged_mwh: float
    lost_mwh: float
    full_cycles: float
    cycles: CycleCount
    before: LimitReport
    after: LimitReport
    window_step_s: float = 0.0

    def lines(self) -> list[str]:
        """Return what to tell of it, one line each."""
        up, down = (
            "none" if rate is None else f"{rate:.4g} MW/min"
            for rate in map(_mw_per_min, (self.asked.up_w_per_s, self.asked.down_w_per_s))
        )
        windows = f" and event windows at {self.window_step_s:g} s" if self.window_step_s else ""
        seen_on = f"on means over {self.before.resolution_s:g} s{windows}"
        if not self.size.power_w:
            return [
                f"before: {self.before.verdict_line()}",
                f"battery: none, {seen_on} nothing is violated that it is sized for",
                *self._left_over(),
                *self.before.lines(),
            ]
        lines = [
            f"before: {self.before.verdict_line()}",
            f"smoothed: a lag of {self.asked.lag_s:.4g} s"
            if self.asked.lag_s
            else f"ramps held: up {up}, down {down}",
            f"battery, {seen_on}: {self.size.power_mw:.4g} MW, "
            f"{self.size.energy_mwh:.4g} MWh between empty and full; {self.full_cycles:,.4g} "
            f"equivalent full cycles, gives {self.discharged_mwh:,.4g} MWh, loses "
            f"{self.lost_mwh:,.4g} MWh "
            "(ASSUMPTION: 95 % in, 95 % out, brought back within an hour)",
        ]
        if self.cycles.deepest:
            lines.append(
                f"rainflow cycles of its state of charge: {', '.join(self._cycles_told())}; the "
                f"deepest {self.cycles.deepest:.1%}, all depths added up {self.cycles.depths:,.4g}"
            )
        if self.least is not None and self.least_report is not None:
            lines.append(
                "to hold these ramps any control needs at least, knowing the day of its largest "
                f"power beforehand: {self.least.power_mw:.4g} MW, {self.least.energy_mwh:.4g} MWh "
                f"(a linear programme; its own supply is {self.least_report.verdict} that day)"
            )
        if self.window_step_s:
            lines.append(
                "the event windows are the worst of the run without the battery; energy and cycles "
                "are of the series"
            )
        after = f"after: {self.after.verdict_line()}"
        return [*lines, after, *self._left_over(), *self.after.lines()]

    def _left_over(self) -> Iterator[str]:
        """Yield which limits are violated that no battery is sized for."""
        keys = dict.fromkeys(result.key for result in self.after.violated)
        if left := [key for key in keys if key.split(".")[0] not in SIZED_FOR]:
            yield f"violated still, as no battery is sized for it: {', '.join(left)}"

    def _cycles_told(self) -> Iterator[str]:
        for (low, high), n in zip(pairwise(DEPTHS_PERCENT), self.cycles.classes, strict=True):
            yield f"{n:,.4g} of {low}-{high} %"

    def as_dict(self) -> dict[str, Any]:
        """Return it in plain types, for JSON."""
        return {
            "power_mw": self.size.power_mw,
            "energy_mwh": self.size.energy_mwh,
            "held": {
                "up_mw_per_min": _mw_per_min(self.asked.up_w_per_s),
                "down_mw_per_min": _mw_per_min(self.asked.down_w_per_s),
                "smoothing_s": self.asked.lag_s or None,
            },
            "sized_on_windows_s": self.window_step_s or None,
            "least_power_mw": None if self.least is None else self.least.power_mw,
            "least_energy_mwh": None if self.least is None else self.least.energy_mwh,
            "least_verdict": None if self.least_report is None else self.least_report.verdict,
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


def _mw_per_min(rate_w_per_s: float) -> float | None:
    return rate_w_per_s * S_PER_MIN / W_PER_MW if np.isfinite(rate_w_per_s) else None


def mitigate(run: RunFolder, limits: Limits) -> Mitigation:
    """Find the smallest battery that keeps a run within limits.

    Amounts in percent of the peak are of the run's peak without the battery.

    Raises
    ------
    InputError
        If the run shows none of the limits that are sized for, it is too long for its resolution,
        or no battery keeps them.
    """
    step_ms = run.scenario.resolution_ms
    n = run.scenario.n_intervals
    if n > MOST_VALUES:
        raise InputError(
            f"{run.folder}: {n:,} intervals, a battery is sized on up to {MOST_VALUES:,}; simulate "
            "at a coarser resolution, or a shorter time"
        )
    before = check_limits(run, limits)
    power_w = np.concatenate([b.columns[POWER_COLUMN] for b in run.blocks([POWER_COLUMN])])
    sizing = _Sizing(run, limits, power_w.astype(np.float64), step_ms / MS_PER_S)
    asked, size = sizing.smallest_of(sizing.controls())
    power_w, dt_s = sizing.power_w, sizing.dt_s
    held = sizing.held(asked, size)
    given_j = float(np.maximum(held.battery_w, 0).sum()) * dt_s
    taken_j = -float(np.minimum(held.battery_w, 0).sum()) * dt_s
    cycles = (given_j + taken_j) / (2 * size.energy_j) if size.energy_j else 0.0
    lost_j = given_j * (1 / ONE_WAY - 1) + taken_j * (1 - ONE_WAY)
    counted = ChargeCycles()
    if size.energy_j:
        counted.add(np.append(0.5, held.stored_j / size.energy_j))
    day = None if asked.lag_s else _worst_day(held.battery_w, int(S_PER_DAY / dt_s))
    least = least_report = None
    if day is not None:
        least, supply_w = least_for(power_w[day], dt_s, asked, ONE_WAY, ONE_WAY)
        least_report = check_limits(_Held(run, supply_w, is_part=True), sizing.limits)
    return Mitigation(
        asked,
        size,
        least,
        least_report,
        given_j / J_PER_MWH,
        lost_j / J_PER_MWH,
        cycles,
        counted.count(),
        before,
        check_limits(sizing.with_supply(held, asked, size), limits),
        sizing.window_step_s,
    )


class _Sizing:
    """Finds what keeps a load within the limits that a battery is sized for."""

    def __init__(self, run: RunFolder, limits: Limits, power_w: Float64Array, dt_s: float) -> None:
        sized_for = {kind: limit for kind in SIZED_FOR if (limit := getattr(limits, kind))}
        self._run, self.power_w, self.dt_s = run, power_w, dt_s
        self._start_ms = instant_ms(run.scenario.start_with_zone)
        self._windows = _windows(run)
        self.window_step_s = min((w.step_ms for w in self._windows.values()), default=0) / MS_PER_S
        self._range_w = float(
            max(np.ptp(p) for p in (power_w, *(w.power_w for w in self._windows.values())))
        )
        if sized_for:
            self.limits = Limits(**sized_for)
            without = check_limits(_Held(run, power_w, self._windows), self.limits)
        if not sized_for or not without.results:
            raise InputError(
                f"{limits.name or 'these limits'}: no limit on ramps, swings, changes, bands or "
                "lines that the run shows, so that there is nothing to size a battery for"
            )
        self._is_kept = not without.violated

    def _store(self, size: BatterySize) -> Store:
        endless = not np.isfinite(size.energy_j)
        middle_j = 0.0 if endless else size.energy_j / 2
        least_j = -np.inf if endless else 0.0
        return Store(
            size.power_w, least_j, size.energy_j, middle_j, ONE_WAY, ONE_WAY, FEEDBACK_PER_S
        )

    def held(self, asked: Hold, size: BatterySize) -> Held:
        """Return the load held by a battery that begins half full; an endless one if infinite."""
        store = self._store(size)
        start = float(self.power_w[0]), store.reference_j
        return hold(self.power_w, self.dt_s, store, asked, start)

    def held_windows(self, held: Held, asked: Hold, size: BatterySize) -> dict[str, Held]:
        """Return the event windows held, each from the state that the series has before it.

        ASSUMPTION [J]: the supply there is the mean of the interval before.
        """
        store, found = self._store(size), {}
        for name, window in self._windows.items():
            before = int((window.start_ms - self._start_ms) / MS_PER_S / self.dt_s) - 1
            start = (
                (float(held.supply_w[before]), float(held.stored_j[before]))
                if before >= 0
                else (float(self.power_w[0]), store.reference_j)
            )
            found[name] = hold(window.power_w, window.step_ms / MS_PER_S, store, asked, start)
        return found

    def with_supply(self, held: Held, asked: Hold, size: BatterySize) -> _Held:
        """Return the run with the supply in place of its load, in its event windows too."""
        windows = {
            name: replace(self._windows[name], power_w=window.supply_w)
            for name, window in self.held_windows(held, asked, size).items()
        }
        return _Held(self._run, held.supply_w, windows)

    def _keeps(self, held: Held, asked: Hold, size: BatterySize) -> bool:
        return not check_limits(self.with_supply(held, asked, size), self.limits).violated

    def controls(self) -> list[Hold]:
        """Return the loosest ramps, and the shortest lag, with which the load keeps its limits.

        Raises
        ------
        InputError
            If there is neither.
        """
        if self._is_kept:
            return [Hold()]
        strict = ramps_asked_for(self.limits, seen_by(self._run))
        if not np.isfinite(min(strict.up_w_per_s, strict.down_w_per_s)):
            fastest = float(np.abs(np.diff(self.power_w)).max()) / self.dt_s
            strict = Hold(fastest, fastest)
        families: list[Callable[[float], Hold]] = [
            lambda slower: Hold(strict.up_w_per_s / slower, strict.down_w_per_s / slower)
        ]
        by_frequency = any(swing.filter is not None for swing in self.limits.swings)
        if by_frequency or self.limits.band_rms or self.limits.lines:
            families.append(lambda intervals: Hold(lag_s=intervals * self.dt_s))
        endless = BatterySize(np.inf, np.inf)
        found = []
        for family in families:

            def keeps(strength: float, family: Callable[[float], Hold] = family) -> bool:
                asked = family(strength)
                return self._keeps(self.held(asked, endless), asked, endless)

            strength = 1.0
            while strength <= STRICTEST and not keeps(strength):
                strength *= 4
            if strength <= STRICTEST:
                found.append(family(smallest(keeps, strength, ACCURACY)))
        if not found:
            raise InputError(
                f"{self._run.folder}: no battery that holds ramps or smooths the power keeps these "
                "limits; raise them, or look at the limits one by one with diploee limits"
            )
        return found

    def smallest_of(self, controls: Sequence[Hold]) -> tuple[Hold, BatterySize]:
        """Return the control whose battery is the smallest, power and an hour's energy, with it."""
        sizes = [(asked, self._smallest(asked)) for asked in controls]
        return min(sizes, key=lambda found: found[1].power_mw + found[1].energy_mwh)

    def _smallest(self, asked: Hold) -> BatterySize:
        """Return the smallest power that keeps the limits, and at it the smallest energy."""
        if self._is_kept:
            return BatterySize(0.0, 0.0)

        def keeps(size: BatterySize) -> bool:
            all_held = [held := self.held(asked, size)]
            all_held += self.held_windows(held, asked, size).values()
            # One that holds all that is asked gives the supply that was found to keep the limits.
            missed_w = max(float(part.uncovered_w.max()) for part in all_held)
            return missed_w <= COVERED * self._range_w or self._keeps(held, asked, size)

        def most(power_w: float, values: str) -> float:
            size = BatterySize(power_w, np.inf)
            held = self.held(asked, size)
            all_held = (held, *self.held_windows(held, asked, size).values())
            return max(float(np.abs(getattr(part, values)).max()) for part in all_held)

        power_w = _least_kept(lambda p: keeps(BatterySize(p, np.inf)), most(np.inf, "battery_w"))
        # Half of it each way, a hair more as its middle rounds otherwise than nothing does.
        most_j = 2 * most(power_w, "stored_j") * (1 + MARGIN)
        return BatterySize(power_w, _least_kept(lambda e: keeps(BatterySize(power_w, e)), most_j))


def _least_kept(keeps: Callable[[float], bool], most: float) -> float:
    """Return a size that keeps the limits where a tenth less does not."""
    found = smallest(keeps, most)
    # The verdict need not be monotonous in the size, as the search has it.
    while keeps(TENTH_LESS * found):
        found = smallest(keeps, TENTH_LESS * found)
    return found


def ramps_asked_for(limits: Limits, shown: Shown) -> Hold:
    """Return the ramps that limits on ramps, swings and changes ask for together, if any."""
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
        if swing.filter is not None:
            continue
        try:
            rate = swing.max_mw.of(shown)[0] * W_PER_MW / (swing.window / MS_PER_S)
        except NotAssessable:
            continue
        up.append(rate)
        down.append(rate)
    for change in limits.changes:
        up.append(change.max_mw_per_s * W_PER_MW)
        down.append(change.max_mw_per_s * W_PER_MW)
    return Hold(min(up) * (1 - MARGIN), min(down) * (1 - MARGIN))


def _worst_day(battery_w: Float64Array, n: int) -> slice | None:
    """Return the day around the battery's largest power; None where it is too fine to solve."""
    n = min(max(n, 2), battery_w.size)
    if n > MOST_INTERVALS or not battery_w.any():
        return None
    first = int(np.clip(int(np.abs(battery_w).argmax()) - n // 2, 0, battery_w.size - n))
    return slice(first, first + n)


@dataclass(frozen=True, eq=False)
class _Window:
    """An event window in memory, as a check reads it; `power_w` has shape (n,)."""

    path: Path
    start_ms: int
    step_ms: int
    power_w: Float64Array

    def read(self, _: Sequence[str]) -> _Window:
        return self

    @property
    def columns(self) -> dict[str, Float64Array]:
        return {POWER_COLUMN: _as_stored(self.power_w)}


def _windows(run: RunFolder) -> dict[str, _Window]:
    """Return the event windows that are finer than the run's series, by name."""
    found = {}
    for name in run.event_windows:
        series = run.series(name)
        if series.step_ms < run.scenario.resolution_ms:
            power_w = series.read([POWER_COLUMN]).columns[POWER_COLUMN].astype(np.float64)
            found[name] = _Window(series.path, series.start_ms, series.step_ms, power_w)
    return found


def _as_stored(power_w: Float64Array) -> Float64Array:
    """Return power as runs are stored, so that one with the battery in it has the same verdict."""
    return power_w.astype(np.float32).astype(np.float64)


class _Held:
    """A run with another power, for a check.

    Parameters
    ----------
    run : RunFolder
        The run.
    power_w : numpy.ndarray, shape (n,)
        Its power [W].
    windows : mapping of str to _Window
        Its event windows with the other power.
    is_part : bool
        They are n intervals of it, looked at as if they were its first, all of them.
    """

    def __init__(
        self,
        run: RunFolder,
        power_w: Float64Array,
        windows: Mapping[str, _Window] | None = None,
        is_part: bool = False,
    ) -> None:
        self._run, self._power_w, self._windows = run, _as_stored(power_w), windows or {}
        self.event_windows: dict[str, dict[str, Any]] = {k: {} for k in self._windows}
        if is_part:
            grid = (run.metrics.get("grid") or {}) | {"transient_h": 0.0}
            self.metrics = run.metrics | {"grid": grid}

    def series(self, name: str) -> Any:
        """Return an event window."""
        return self._windows[name]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._run, name)

    def blocks(self, columns: Sequence[str]) -> Iterator[Any]:
        """Stream the run's series with the other power."""
        first = 0
        for block in self._run.blocks(columns):
            last = min(first + block.starts_ms.size, self._power_w.size)
            part = {name: values[: last - first] for name, values in block.columns.items()}
            part[POWER_COLUMN] = self._power_w[first:last]
            yield type(block)(block.starts_ms[: last - first], part)
            first = last
            if first == self._power_w.size:
                break
