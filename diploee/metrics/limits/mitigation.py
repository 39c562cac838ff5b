"""How large a battery keeps a run within limits, what that costs, and what it leaves undone.

The battery holds ramps, as its stage does; a ramp that is held at every instant keeps limits on
ramps over any interval, on swings within a window and on changes. Where a limit speaks of
frequencies, a lag is tried as well, and what takes less of power and an hour's energy is taken. Of
each control the loosest one is searched with which the load keeps its limits; then the power that
holds all of it is lowered until 2 % less does not keep them, and the energy likewise: at every step
the load behind the stage is checked against all limits on ramps, swings, changes, bands and lines,
the filtered ones too. Limits on power, demand and reactive power are not
sized for; the report on the held load says whether they are kept with it.

What is found is an entry of `facility.stages`, as it was checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

from diploee.errors import Brief, InputError
from diploee.facility.base import POWER, Block, Values
from diploee.facility.battery import DEPTHS_PERCENT, BatterySpec, Held, Hold, RampRates, Store, hold
from diploee.metrics.limits.check import POINTS, NotAssessable, Shown
from diploee.metrics.limits.file import LIMITS, Limits
from diploee.metrics.limits.report import (
    POWER_COLUMN,
    LimitReport,
    Supply,
    as_stored,
    check_limits,
    seen_by,
)
from diploee.metrics.limits.watch import needed_step_ms, steps_ms
from diploee.progress import stage
from diploee.tables import Float64Array
from diploee.units import (
    J_PER_MWH,
    MS_PER_H,
    MS_PER_MIN,
    MS_PER_S,
    PROFILE_STEP_MS,
    S_PER_MIN,
    W_PER_MW,
)

if TYPE_CHECKING:
    from diploee.outputs import Run
    from diploee.scenario import Scenario

MOST_VALUES = 10_000_000
"""Intervals of a run that is sized for: its power is in memory, and looked at some 50 times."""

COARSEST_MS = MS_PER_MIN // 10
"""Interval of a run at most: that at which the stage that is found holds a ramp in MW/min."""

MARGIN = 1e-6
"""Ramps are held so much below their limit, so that rounding never passes it."""

ACCURACY = 0.01
"""The ramp or lag is known so well, relatively."""

LESS = (0.9, 0.98)
"""Power and energy are lowered by each of these in turn until the limits are not kept."""

STRICTEST = 4**10
"""Ramps slower than the limit by these factors, and lags of these intervals, are tried."""

DIGITS = 4
"""Significant digits of the stage's entry."""

_PLAIN = BatterySpec(power_mw=1.0, energy_mwh=1.0, smoothing_s=1.0)
"""The stage as it is where a scenario says no more: window of charge, efficiencies, feedback."""

_ENDLESS = _PLAIN.store()._replace(power_w=np.inf, least_j=-np.inf, most_j=np.inf, reference_j=0.0)
"""A store without end, filled from 0."""


@dataclass(frozen=True)
class Mitigation(Brief):
    """A battery that keeps a run within limits, and the run with it."""

    # The entry of `facility.stages` behind which the run keeps its limits; None where it keeps them
    # without
    stage: BatterySpec | None
    # What the stage measures of itself over the run, such as `battery.discharged_mwh`
    metrics: Mapping[str, float | None]
    before: LimitReport  # the run checked against the limits
    after: LimitReport  # the same with the battery
    is_resized: bool = False  # the run's site has its size by `facility.size`
    finer_s: float = 0.0  # step that shows all limits that a battery is sized for [s]; 0 if it is

    @property
    def power_mw(self) -> float:
        """Power of the battery [MW]; 0 where none is needed."""
        return 0.0 if self.stage is None else self.stage.power_mw

    @property
    def usable_mwh(self) -> float:
        """Energy between its least and most state of charge [MWh]."""
        return 0.0 if self.stage is None else _usable_mwh(self.stage)

    def entry(self) -> dict[str, Any] | None:
        """Return the stage as an entry of `facility.stages`."""
        if self.stage is None:
            return None
        return self.stage.model_dump(mode="json", exclude_none=True, exclude={"auxiliary_kw"})

    def lines(self) -> list[str]:
        """Return the report, line by line."""
        seen_on = f"on means over {self.before.resolution_s:g} s"
        if self.stage is None:
            return [
                f"battery: none, {seen_on} no limit that it is sized for is broken",
                f"without it: {self.before.brief()[0]}",
                *self.before.brief()[1:],
                *self._left_over(),
            ]
        stage, measured = self.stage, self._measured
        window = f"{stage.least_state_of_charge:.0%} and {stage.most_state_of_charge:.0%}"
        lines = [
            f"battery, {seen_on}: {stage.power_mw:.4g} MW, {self.usable_mwh:.4g} MWh usable "
            f"(between {window} of {stage.energy_mwh:.4g} MWh nominal), {self._control(stage)}",
            f"without it: {self.before.brief()[0]}",
            *self.before.brief()[1:],
            f"with it: {self.after.brief()[0]}",
            *self.after.brief()[1:],
            *self._left_over(),
            f"{measured('equivalent_full_cycles'):,.4g} equivalent full cycles of the nominal "
            f"energy, gives {measured('discharged_mwh'):,.4g} MWh, loses "
            f"{measured('loss_mwh'):,.4g} MWh (ASSUMPTION: {stage.charge_efficiency:.0%} in, "
            f"{stage.discharge_efficiency:.0%} out, {stage.feedback_per_h:g} of the lacking energy "
            "asked for per hour)",
        ]
        if measured("deepest_cycle"):
            cycles = (
                f"{measured(f'cycles_{low}_to_{high}_percent'):,.4g} of {low}-{high} %"
                for low, high in pairwise(DEPTHS_PERCENT)
            )
            lines.append(
                f"rainflow cycles of its state of charge: {', '.join(cycles)}; the deepest "
                f"{measured('deepest_cycle'):.1%}, all depths added up "
                f"{measured('cycled_depth'):,.4g}"
            )
        lines.append("entry for facility.stages, the last one before the point of interconnection:")
        if self.is_resized:
            lines[-1] += (
                " (for the site in its size, as in manifest.json; in a scenario with facility.size "
                "it would be multiplied as the nodes are)"
            )
        return [*lines, *yaml.safe_dump([self.entry()], sort_keys=False).splitlines()]

    def _control(self, stage: BatterySpec) -> str:
        if stage.ramp_limit is None:
            return f"which smooths with a lag of {stage.smoothing_s:.4g} s"
        up, down = (
            "none" if rate is None else f"{rate:.4g} MW/min"
            for rate in (stage.ramp_limit.up_mw_per_min, stage.ramp_limit.down_mw_per_min)
        )
        return f"which holds ramps: up {up}, down {down}"

    def _measured(self, name: str) -> float:
        return self.metrics.get(f"battery.{name}") or 0.0

    def _left_over(self) -> Iterator[str]:
        """Yield limits that no battery is sized for, here or ever."""
        keys = dict.fromkeys(result.key for result in self.after.not_met)
        if left := [key for key in keys if not LIMITS.by_name[key.split(".")[0]].is_sized_for]:
            yield f"not met still, as no battery is sized for it: {', '.join(left)}"
        unseen = dict.fromkeys(
            key
            for key, *_ in self.before.unchecked
            if LIMITS.by_name[key.split(".")[0]].is_sized_for
        )
        if unseen and self.finer_s:
            yield (
                f"not sized for: {', '.join(unseen)}, which means over "
                f"{self.before.resolution_s:g} s do not show; size on a run with --set "
                f"resolution='{self.finer_s:g} s'"
            )

    def as_dict(self) -> dict[str, Any]:
        """Return it in plain types, for JSON."""
        return {
            "power_mw": self.power_mw,
            "usable_energy_mwh": self.usable_mwh,
            "nominal_energy_mwh": 0.0 if self.stage is None else self.stage.energy_mwh,
            "stage": self.entry(),
            "stage_is_of_resized_site": self.is_resized,
            "metrics": dict(self.metrics),
            "before": self.before.as_dict(),
            "after": self.after.as_dict(),
        }


@stage("battery")
def mitigate(run: Run, limits: Limits) -> Mitigation:
    """Find the smallest battery that keeps a run within limits.

    Parameters
    ----------
    run : Run
        Run whose power at the meter is to be kept within limits.
    limits : Limits
        Limits; those on ramps, swings, bands and lines size the battery.
    """
    step_ms = run.scenario.resolution_ms
    most_ms, shows_all_ms = sizing_steps_ms(limits, run.scenario)
    _check_step(run, most_ms, shows_all_ms)
    finer_s = shows_all_ms / MS_PER_S if shows_all_ms < step_ms else 0.0
    n = run.scenario.n_intervals
    if n > MOST_VALUES:
        raise InputError(
            f"{run.folder}: {n:,} intervals, a battery is sized on up to {MOST_VALUES:,}; simulate "
            "at a coarser resolution, or a shorter time"
        )
    taken = {column.name for column in BatterySpec.columns} & {c.name for c in run.columns}
    if taken:
        raise InputError(
            f"{run.folder}: the site has a battery already, and a run takes one; size it on a run "
            "without that stage"
        )
    before = check_limits(run, limits)
    power_w = np.concatenate([b.columns[POWER_COLUMN] for b in run.blocks([POWER_COLUMN])])
    sizing = _Sizing(
        run, limits, power_w.astype(np.float64), step_ms / MS_PER_S, shows_all_ms / MS_PER_S
    )
    is_resized = "size" in run.manifest
    stage = sizing.smallest_stage()
    if stage is None:
        return Mitigation(None, {}, before, before, finer_s=finer_s)
    _check_step(run, stage.needed_step_ms())
    values, meter = sizing.behind(stage), stage.meter()
    meter.add(Block(0, step_ms, values))
    after = sizing.judged(values[POWER], limits)
    return Mitigation(stage, meter.values(), before, after, is_resized, finer_s)


def sizing_steps_ms(limits: Limits, scenario: Scenario) -> tuple[int, int]:
    """Return the longest means that a battery is sized on, and those that show all of the limits.

    Iterations of a synchronous job must be seen: a battery that does not would let them pass.
    """
    shows_all_ms = scenario.resolution_ms
    if sized_for := _sized_for(limits):
        shows_all_ms = needed_step_ms(Limits(**sized_for), scenario)
    hidden = scenario.iteration_s * MS_PER_S < POINTS * COARSEST_MS
    return (min(shows_all_ms, COARSEST_MS) if hidden else COARSEST_MS), shows_all_ms


def _check_step(run: Run, most_ms: int | None, shows_all_ms: int | None = None) -> None:
    """Refuse a run whose means are longer than the steps in which its battery would act."""
    step_ms = run.scenario.resolution_ms
    if most_ms is not None and step_ms > most_ms:
        most_ms = min(most_ms, shows_all_ms or most_ms)
        fine_ms = next((ms for ms in steps_ms(step_ms) if ms <= most_ms), PROFILE_STEP_MS)
        raise InputError(
            f"{run.folder}: means over {step_ms / MS_PER_S:g} s hide what the battery holds, which "
            f"needs steps of {most_ms / MS_PER_S:g} s or less; run the site with --set "
            f"resolution='{fine_ms / MS_PER_S:g} s' and size it on that"
        )


def _sized_for(limits: Limits) -> dict[str, Any]:
    return {
        key: limit
        for key, spec in LIMITS.by_name.items()
        if spec.is_sized_for and (limit := getattr(limits, key))
    }


def _usable_mwh(stage: BatterySpec) -> float:
    store = stage.store()
    return (store.most_j - store.least_j) / J_PER_MWH


class _Sizing:
    """Finds what keeps a load within the limits that a battery is sized for."""

    def __init__(
        self, run: Run, limits: Limits, power_w: Float64Array, dt_s: float, needed_s: float
    ) -> None:
        sized_for = _sized_for(limits)
        self._run, self.power_w, self.dt_s = run, power_w, dt_s
        if sized_for:
            self.limits = Limits(**sized_for)
            without = check_limits(run, self.limits)
        if not sized_for or not without.results:
            raise InputError(
                f"{limits.name or 'these limits'}: no limit on ramps, swings, changes, bands or "
                f"lines that means over {dt_s:g} s show; "
                + (
                    f"run the site with --set resolution='{needed_s:g} s' and size it on that"
                    if needed_s < dt_s
                    else "there is nothing to size a battery for"
                )
            )
        self._is_kept = not without.not_met

    def behind(self, stage: BatterySpec) -> Values:
        """Return the columns of the stage, as a run applies it."""
        block = Block(0, round(self.dt_s * MS_PER_S), {POWER: self.power_w})
        return stage.apply(block, stage.start())[0]

    def held(self, asked: Hold, store: Store) -> Held:
        """Return the load held by a battery that begins at its reference."""
        start = float(self.power_w[0]), store.reference_j
        return hold(self.power_w, self.dt_s, store, asked, start)

    def judged(self, supply_w: Float64Array, limits: Limits) -> LimitReport:
        """Check the run with a supply [W] in place of its load."""
        return check_limits(self._run, limits, _supply(self._run, supply_w))

    def _keeps(self, supply_w: Float64Array) -> bool:
        return not self.judged(supply_w, self.limits).not_met

    def controls(self) -> list[BatterySpec]:
        """Return the loosest ramps, and the shortest lag, with which the load keeps its limits."""
        strict = _ramps_asked_for(self.limits, seen_by(self._run))
        if not np.isfinite(min(strict.up_w_per_s, strict.down_w_per_s)):
            fastest = float(np.abs(np.diff(self.power_w)).max()) / self.dt_s
            strict = Hold(fastest, fastest)
        families: list[Callable[[float], Hold]] = [
            lambda slower: Hold(strict.up_w_per_s / slower, strict.down_w_per_s / slower)
        ]
        if any(spec.is_of_frequencies for _, spec in self.limits.each()):
            families.append(lambda intervals: Hold(lag_s=intervals * self.dt_s))
        found = []
        for family in families:

            def keeps(strength: float, family: Callable[[float], Hold] = family) -> bool:
                return self._keeps(self.held(family(strength), _ENDLESS).supply_w)

            strength = 1.0
            while strength <= STRICTEST and not keeps(strength):
                strength *= 4
            if strength <= STRICTEST:
                found.append(_entered(family(smallest(keeps, strength))))
        if not found:
            raise InputError(
                f"{self._run.folder}: no battery that holds ramps or smooths the power keeps these "
                "limits; raise them, or look at the limits one by one with diploee limits"
            )
        return found

    def smallest_stage(self) -> BatterySpec | None:
        """Return the stage of the smallest power and an hour's energy; None if none is needed."""
        if self._is_kept:
            return None
        return min(map(self._smallest, self.controls()), key=lambda of: of.power_mw + of.energy_mwh)

    def _smallest(self, control: BatterySpec) -> BatterySpec:
        """Return the stage of a control that keeps the limits where a little less does not.

        The verdict is not monotonous in the size: a battery that misses more may keep a limit by
        chance. What holds all that is asked is lowered, so that a larger one mostly keeps it, too.
        """
        asked = control.hold()
        whole = self.held(asked, _ENDLESS)
        # Half of the energy each way
        power_w, half_j = (float(np.abs(of).max()) for of in (whole.battery_w, whole.stored_j))
        nominal_mwh = 2 * half_j / J_PER_MWH / _usable_mwh(_PLAIN)
        stage = _with(control, power_mw=power_w / W_PER_MW, energy_mwh=nominal_mwh)
        before = None
        if not self._is_kept_behind(stage):
            raise InputError(
                f"{self._run.folder}: no battery that holds what was found keeps these limits; "
                "look at the limits one by one with diploee limits"
            )
        while before != (before := stage):
            for part in LESS:
                while self._is_kept_behind(less := _with(stage, power_mw=part * stage.power_mw)):
                    stage = less
            for part in LESS:
                while self._is_kept_behind(
                    less := _with(stage, energy_mwh=part * stage.energy_mwh)
                ):
                    stage = less
        return stage

    def _is_kept_behind(self, stage: BatterySpec) -> bool:
        return self._keeps(self.behind(stage)[POWER])


def smallest(enough: Callable[[float], bool], most: float) -> float:
    """Return the smallest value that is enough, within `ACCURACY`; the largest one is."""
    low, high = 0.0, most
    while high - low > ACCURACY * high and high > most * 1e-9:
        # In proportion, as sizes lie decades below the most.
        middle = (low * high) ** 0.5 if low > 0 else high / 16
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _with(control: BatterySpec, **sizes: float) -> BatterySpec:
    """Return the stage of a control with sizes, rounded up."""
    return control.model_copy(
        update={name: _rounded(value, np.ceil) for name, value in sizes.items()}
    )


def _entered(asked: Hold) -> BatterySpec:
    """Return a control as the entry of a stage of no size yet, its digits on the strict side."""
    if asked.lag_s:
        return _PLAIN.model_copy(update={"smoothing_s": _rounded(asked.lag_s, np.ceil)})
    up, down = (
        _rounded(rate * S_PER_MIN / W_PER_MW, np.floor) if np.isfinite(rate) else None
        for rate in (asked.up_w_per_s, asked.down_w_per_s)
    )
    ramps = RampRates(up_mw_per_min=up, down_mw_per_min=down)
    return _PLAIN.model_copy(update={"smoothing_s": None, "ramp_limit": ramps})


def _rounded(value: float, way: Callable[[float], float]) -> float:
    """Return a positive value to the digits of an entry, up or down."""
    unit = 10.0 ** (np.floor(np.log10(value)) - DIGITS + 1)
    return float(f"{way(value / unit) * unit:.{DIGITS}g}")


def _ramps_asked_for(limits: Limits, shown: Shown) -> Hold:
    """Return the ramps that limits on ramps, swings and changes ask for together, if any."""
    up, down = [np.inf], [np.inf]
    for _, spec in limits.each():
        for way, amount, factor, within_ms in spec.changes_mw():
            if not within_ms:
                continue
            try:
                change_w = amount.of(shown)[0] * W_PER_MW * factor
            except NotAssessable:
                continue
            rate = change_w / (within_ms / MS_PER_S)
            up += [rate] if way != "down" else []
            down += [rate] if way != "up" else []
    return Hold(min(up) * (1 - MARGIN), min(down) * (1 - MARGIN))


def _supply(run: Run, power_w: Float64Array) -> Supply:
    """Return the power of a run behind a battery, with its own peak and rating."""
    facility, power_w = run.scenario.facility, as_stored(power_w)
    of_run = run.metrics.get("grid") or {}
    power = {**(run.metrics.get("power") or {}), "min_mw": float(power_w.min()) / W_PER_MW}
    if not (facility.stages or facility.has_ac_power):
        power["rated_mw"] = facility.supplied_power_w / W_PER_MW
    filled_w = power_w[-(-round(run.transient_h * MS_PER_H) // run.scenario.resolution_ms) :]
    most_mw = float(filled_w.max()) / W_PER_MW if filled_w.size else None
    peak = {**(of_run.get("peak") or {}), "time": None, "max_mw": most_mw}
    # Causes of the load's events are not those of the supply's.
    events = {"ramps": {"intervals": ()}, "rolling_range": {"windows": ()}}
    grid = {**of_run, **events, "peak": peak}
    metrics = {**run.metrics, "power": power, "grid": grid}
    stages = (*facility.stages, _PLAIN)
    behind = facility.model_copy(update={"stages": stages})
    return Supply(power_w, metrics, behind)
