"""Sizing of the smallest battery with which a run meets its limits.

The candidates are battery controls, ordered from fast to slow. With the faster ones the
supply follows the load with a lag of up to a minute. The slower ones also limit the
supply's ramps, with the same rate for rises and falls, so that the state of charge
stays near its reference. The candidates depend on the load alone, not on the limits. A
candidate is left out if a slower one has a smaller sum of power [MW] and energy [MWh].

The result is the fastest candidate that meets all limits on ramps, swings, changes,
frequency bands and spectral lines. Its battery has the largest power and the largest
energy of this candidate and all faster ones, so tightening or adding a limit never
gives a smaller battery. Limits on power, demand and reactive power do not affect the
size, but the report checks them too.

The battery is an entry of `facility.stages` with rounded values; the limits were
checked with these.

See also: docs/batteries.md
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy
import yaml

from diploee.base.errors import Brief, InputError
from diploee.base.metric import find_metric
from diploee.base.progress import stage
from diploee.base.tables import Float64Array
from diploee.base.units import (
    J_PER_MWH,
    MS_PER_H,
    MS_PER_MIN,
    MS_PER_S,
    PROFILE_STEP_MS,
    S_PER_MIN,
    W_PER_MW,
)
from diploee.facility.base import POWER, STEPS_OF_TIME, Block
from diploee.facility.battery import BatterySpec, RampRates
from diploee.facility.storage import SmoothedSupply, StoreState, smooth_supply
from diploee.grid.limits.check import POINTS
from diploee.grid.limits.file import LIMITS, Limits
from diploee.grid.limits.report import (
    POWER_COLUMN,
    LimitReport,
    Supply,
    as_stored,
    check_limits,
    limits_section,
)
from diploee.grid.limits.watch import needed_step_ms
from diploee.metrics.demand import rated_power
from diploee.runs.formatting import number_format
from diploee.runs.reader import RunFolder
from diploee.runs.sections import Section, SectionTable, Statistic
from diploee.scenario.times import steps_ms

if TYPE_CHECKING:
    from diploee.scenario.models import Scenario

MAX_VALUES = 10_000_000
"""Maximum number of steps of a run: its power is in memory, and is checked about
50 times."""

COARSEST_MS = MS_PER_MIN // 10
"""Longest step [ms] of a run at which the battery can limit a ramp in MW/min."""

MEAN_S = float(S_PER_MIN)
"""Longest lag [s].

ASSUMPTION (judgement): a minute is several iterations of most jobs.
"""

WITHIN_MS = {
    "10 s": 10_000,
    "1 min": MS_PER_MIN,
    "10 min": 10 * MS_PER_MIN,
    "1 h": MS_PER_H,
}
"""Windows [ms] in which changes without and with the battery are compared."""

WORSE = 1 + 1e-4
"""Ratio of a statistic with to without the battery above which it is worse."""

RUNGS = 16
"""Number of rungs that double a lag or halve a ramp: each is 4 % slower."""

OCTAVES = 10
"""Number of times that the fastest ramp is halved."""

DIGITS = 4
"""Significant digits of the battery's entry."""

PLAIN_BATTERY = BatterySpec(power_mw=1.0, energy_mwh=1.0, smoothing_s=1.0)
"""Battery with default values: state-of-charge window, efficiencies, feedback."""

ENDLESS_STORE = PLAIN_BATTERY.store()._replace(
    power_w=np.inf, least_j=-np.inf, most_j=np.inf, reference_j=0.0
)
"""Store of unlimited power and energy; its stored energy starts at 0."""


@dataclass(frozen=True)
class Mitigation(Brief):
    """Smallest battery with which a run meets its limits, and its effects."""

    # Entry of `facility.stages` with which the run meets its limits; None if none is
    # needed
    stage: BatterySpec | None
    # Metrics of the battery over the run, such as `battery.discharged_mwh`
    metrics: Mapping[str, float | None]
    before: tuple[LimitReport, ...]  # the run checked against each file of limits
    after: tuple[LimitReport, ...]  # the same with the battery
    # Statistics of the load by name: value without, value with the battery, unit
    comparison: Mapping[str, tuple[float, float, str]] = field(default_factory=dict)
    is_resized: bool = False  # `facility.size` scales the run's site
    # Step [s] that shows all limits that a battery is sized for; 0 if the run has it
    finer_s: float = 0.0

    @property
    def power_mw(self) -> float:
        """Power of the battery [MW]; 0 if none is needed."""
        return 0.0 if self.stage is None else self.stage.power_mw

    @property
    def usable_mwh(self) -> float:
        """Usable energy: that between minimum and maximum state of charge [MWh]."""
        return 0.0 if self.stage is None else _usable_mwh(self.stage)

    @property
    def full_cycles(self) -> float:
        """Equivalent full cycles of the nominal energy over the run [1]."""
        return self.metrics.get("battery.equivalent_full_cycles") or 0.0

    def entry(self) -> dict[str, Any] | None:
        """Return the battery as an entry of `facility.stages`, or None."""
        if self.stage is None:
            return None
        return self.stage.model_dump(
            mode="json", exclude_none=True, exclude={"auxiliary_kw"}
        )

    def section(self) -> Section:
        """Return a report section on the battery, its effects, and the limits."""
        seen_on = f"on means over {self.before[0].resolution_s:g} s"
        reports = [(report, "without it") for report in self.before]
        notes = [*self._unsized_limit_notes()]
        if self.stage is None:
            none = f"{seen_on} no limit that it is sized for is broken"
            figures, tables = [Statistic("Battery", "none", note=none)], []
        else:
            reports += [(report, "with it") for report in self.after]
            figures = [*self._figures(self.stage, seen_on)]
            cells = (
                Statistic(f"{name} [{unit}]", value, quantity=column, pattern=pattern)
                for name, (*values, unit) in self.comparison.items()
                for pattern in (number_format(values),)
                for column, value in zip(
                    ("without", "with battery"), values, strict=True
                )
            )
            tables = [SectionTable("Load", tuple(cells), first="of the load")]
            entry = yaml.safe_dump([self.entry()], sort_keys=False)
            notes += [
                "worse with it: "
                + ("; ".join(self.worse()) or "nothing that was looked at"),
                ENTRY + RESIZED * self.is_resized + f":\n{entry}".rstrip(),
            ]
        verdicts = limits_section(reports)
        every = (*tables, *verdicts.tables)
        section_notes = (*verdicts.notes[1:], *notes)
        return Section("battery", "Battery", tuple(figures), every, (), section_notes)

    def _figures(self, stage: BatterySpec, seen_on: str) -> Iterator[Statistic]:
        """Yield the statistics of the battery, such as power, energy and cycles."""
        part = (
            f"{stage.min_state_of_charge:.0%} to {stage.max_state_of_charge:.0%} of "
            f"{stage.energy_mwh:.4g} MWh nominal"
        )
        yield Statistic("Power", stage.power_mw, "MW", seen_on)
        yield Statistic("Usable energy", self.usable_mwh, "MWh", part)
        yield Statistic("Lag of the supply", stage.smoothing_s, "s")
        if stage.ramp_limit is not None:
            yield Statistic("Ramps held", stage.ramp_limit.up_mw_per_min, "MW/min")
        for key, value in self.metrics.items():
            if metric := find_metric(key, stage.metrics):
                shown_value = None if value is None else value * metric.factor
                form = metric.format
                yield Statistic(
                    metric.name, shown_value, metric.suffix, key=key, pattern=form
                )

    def worse(self) -> list[str]:
        """Return texts on the statistics and limits that the battery makes worse."""
        larger = [
            (
                f"{name} "
                f"{' to '.join(f'{v:,.{4 if v < 1e4 else 6}g}' for v in (before, after))} {unit}"  # noqa: E501
            )
            for name, (before, after, unit) in self.comparison.items()
            if after > before * WORSE
        ]
        for before, after in zip(self.before, self.after, strict=True):
            met = {result.key for result in before.results} - {
                result.key for result in before.not_met
            }
            larger += [
                result.margin_text() for result in after.not_met if result.key in met
            ]
        return larger

    def _unsized_limit_notes(self) -> Iterator[str]:
        """Yield notes on limits that the battery is not sized for."""
        keys = dict.fromkeys(
            result.key for report in self.after for result in report.not_met
        )
        if left := [
            key for key in keys if not LIMITS.by_name[key.split(".")[0]].is_sized_for
        ]:
            yield f"not met still, as no battery is sized for it: {', '.join(left)}"
        unseen = dict.fromkeys(
            key
            for report in self.before
            for key, *_ in report.unchecked
            if LIMITS.by_name[key.split(".")[0]].is_sized_for
        )
        if unseen and self.finer_s:
            yield (
                f"not sized for: {', '.join(unseen)}, which means over "
                f"{self.before[0].resolution_s:g} s do not show; size on a run with "
                f"--set resolution='{self.finer_s:g} s'"
            )

    def as_dict(self) -> dict[str, Any]:
        """Return the result in plain types, for JSON."""
        return {
            "power_mw": self.power_mw,
            "usable_energy_mwh": self.usable_mwh,
            "nominal_energy_mwh": 0.0 if self.stage is None else self.stage.energy_mwh,
            "stage": self.entry(),
            "stage_is_of_resized_site": self.is_resized,
            "metrics": dict(self.metrics),
            "before": [report.as_dict() for report in self.before],
            "after": [report.as_dict() for report in self.after],
            "worse": self.worse(),
        }


ENTRY = "entry for facility.stages, the last one before the point of interconnection"
RESIZED = (
    " (for the site in its size, as in manifest.json; in a scenario with facility.size "
    "it would be multiplied as the nodes are)"
)


@stage("battery")
def mitigate(run: RunFolder, *limits: Limits) -> Mitigation:
    """Find the smallest battery that keeps a run within limits.

    Parameters
    ----------
    run : RunFolder
        Run whose power at the meter is to be kept within limits.
    *limits : Limits
        Limits; those on ramps, swings, changes, bands and lines size the battery.

    Returns
    -------
    Mitigation
        The battery, and the run's limits without and with it.

    Raises
    ------
    InputError
        If the run's steps are too long, the run has a battery already, or no battery
        meets the limits.
    """
    step_ms = run.scenario.resolution_ms
    most_ms, shows_all_ms = (
        min(steps)
        for steps in zip(
            *(sizing_steps_ms(one, run.scenario) for one in limits), strict=True
        )
    )
    _check_step(run, most_ms, shows_all_ms)
    finer_s = shows_all_ms / MS_PER_S if shows_all_ms < step_ms else 0.0
    n = run.scenario.n_intervals
    if n > MAX_VALUES:
        raise InputError(
            f"{run.folder}: {n:,} intervals, a battery is sized on up to "
            f"{MAX_VALUES:,}; simulate at a coarser resolution, or a shorter time"
        )
    shared_columns = {column.name for column in BatterySpec.columns} & {
        c.name for c in run.columns
    }
    if shared_columns:
        raise InputError(
            f"{run.folder}: the site has a battery already, and a run takes one; size "
            "it on a run without that stage"
        )
    before = tuple(check_limits(run, one) for one in limits)
    sizing = _Sizing(
        run, limits, meter_power(run), step_ms / MS_PER_S, shows_all_ms / MS_PER_S
    )
    stage = sizing.smallest_stage()
    if stage is None:
        return Mitigation(None, {}, before, before, finer_s=finer_s)
    block, meter = Block(0, step_ms, {POWER: sizing.power_w}), stage.meter()
    values = stage.apply(block, stage.start())[0]
    meter.add(Block(0, step_ms, values))
    after = tuple(sizing.check_supply(values[POWER], one) for one in limits)
    comparison = {
        name: (was, is_now, unit)
        for (name, was, unit), (_, is_now, _) in zip(
            *(
                load_statistics(power_w, step_ms)
                for power_w in (sizing.power_w, values[POWER])
            ),
            strict=True,
        )
    }
    is_resized = "size" in run.manifest
    return Mitigation(
        stage, meter.values(), before, after, comparison, is_resized, finer_s
    )


def meter_power(run: RunFolder) -> Float64Array:
    """Return the run's power at the meter [W], one value per step."""
    power_w = np.concatenate(
        [b.columns[POWER_COLUMN] for b in run.blocks([POWER_COLUMN])]
    )
    return power_w.astype(np.float64)


def load_statistics(
    power_w: Float64Array, step_ms: int
) -> Iterator[tuple[str, float, str]]:
    """Yield statistics that a battery may worsen: name, value, unit."""
    step_s = step_ms / MS_PER_S
    power_mw = power_w / W_PER_MW
    yield f"highest mean of {step_s:g} s", float(power_mw.max()), "MW"
    for name, within_ms in WITHIN_MS.items():
        if step_ms <= within_ms < power_mw.size * step_ms:
            n = within_ms // step_ms + 1
            highest = scipy.ndimage.maximum_filter1d(power_mw, n)
            ranges = highest - scipy.ndimage.minimum_filter1d(power_mw, n)
            yield f"largest change within {name}", float(ranges.max()), "MW"
    yield "energy", float(power_mw.mean()) * power_mw.size * step_ms / MS_PER_H, "MWh"


def sizing_steps_ms(limits: Limits, scenario: Scenario) -> tuple[int, int]:
    """Return the longest steps for sizing a battery, and for showing all limits [ms].

    The step for sizing shows a synchronous job's iterations; with longer steps the
    battery would not be sized to smooth them.
    """
    shows_all_ms = scenario.resolution_ms
    if sized_for := _sizing_limits(limits):
        shows_all_ms = needed_step_ms(Limits(**sized_for), scenario)
    hidden = scenario.iteration_s * MS_PER_S < POINTS * COARSEST_MS
    return (min(shows_all_ms, COARSEST_MS) if hidden else COARSEST_MS), shows_all_ms


def _check_step(run: RunFolder, most_ms: int, shows_all_ms: int) -> None:
    """Raise `InputError` if the run's step is too long to size a battery on."""
    step_ms = run.scenario.resolution_ms
    if step_ms > most_ms:
        most_ms = min(most_ms, shows_all_ms)
        fine_ms = next(
            (ms for ms in steps_ms(step_ms) if ms <= most_ms), PROFILE_STEP_MS
        )
        raise InputError(
            f"{run.folder}: means over {step_ms / MS_PER_S:g} s hide what the battery "
            f"holds, which needs steps of {most_ms / MS_PER_S:g} s or less; run the "
            f"site with --set resolution='{fine_ms / MS_PER_S:g} s' and size it on "
            "that"
        )


def _sizing_limits(limits: Limits) -> dict[str, Any]:
    """Return the limits that a battery is sized for, by YAML key."""
    return {
        key: limit
        for key, spec in LIMITS.by_name.items()
        if spec.is_sized_for and (limit := getattr(limits, key))
    }


def _usable_mwh(stage: BatterySpec) -> float:
    """Return the energy between minimum and maximum state of charge [MWh]."""
    store = stage.store()
    return (store.most_j - store.least_j) / J_PER_MWH


class _Sizing:
    """Search for the smallest battery that keeps a load within its limits."""

    def __init__(
        self,
        run: RunFolder,
        limits: Sequence[Limits],
        power_w: Float64Array,
        dt_s: float,
        needed_s: float,
    ) -> None:
        self._run, self.power_w, self.dt_s = run, power_w, dt_s
        self.limits = [
            Limits(**sized_for) for one in limits if (sized_for := _sizing_limits(one))
        ]
        without = [check_limits(run, one) for one in self.limits]
        if not any(report.results for report in without):
            names = ", ".join(one.name for one in limits if one.name)
            remedy = "there is nothing to size a battery for"
            if needed_s < dt_s:
                remedy = f"run the site with --set resolution='{needed_s:g} s'"
            raise InputError(
                f"{names or 'these limits'}: no limit on ramps, swings, changes, "
                f"bands or lines that means over {dt_s:g} s show; {remedy}"
            )
        self._is_kept = not any(report.not_met for report in without)

    def limited_supply(self, control: BatterySpec) -> SmoothedSupply:
        """Return the load after a control with a battery of unlimited size."""
        start = StoreState(float(self.power_w[0]), ENDLESS_STORE.reference_j)
        return smooth_supply(
            self.power_w, self.dt_s, ENDLESS_STORE, control.supply_limits(), start
        )

    def check_supply(self, supply_w: Float64Array, limits: Limits) -> LimitReport:
        """Check the limits on a supply [W] in place of the run's load."""
        return check_limits(self._run, limits, _supply_of_battery(self._run, supply_w))

    def _meets_limits(self, control: BatterySpec) -> bool:
        """Return True if the supply of a control meets all limits."""
        supply_w = self.limited_supply(control).supply_w
        return not any(self.check_supply(supply_w, one).not_met for one in self.limits)

    def ladder(self) -> list[BatterySpec]:
        """Return the candidate controls, each slower than the one before.

        The shortest lag is 0.1 s, or ten steps of the run if its steps are longer than
        0.1 s.
        """
        is_finest = self.dt_s * MS_PER_S <= PROFILE_STEP_MS
        first_s = min(self.dt_s if is_finest else STEPS_OF_TIME * self.dt_s, MEAN_S)
        n_lags = int(np.log2(MEAN_S / first_s) * RUNGS)
        fastest = float(np.ptp(self.power_w)) / W_PER_MW * S_PER_MIN / MEAN_S
        lags = (MEAN_S * 2.0 ** (-k / RUNGS) for k in range(n_lags, -1, -1))
        ramps = (
            _round_digits(fastest * 2.0 ** (-k / RUNGS))
            for k in range(1, OCTAVES * RUNGS)
        )
        return [
            PLAIN_BATTERY.model_copy(update={"smoothing_s": _round_digits(lag_s)})
            for lag_s in lags
        ] + [
            PLAIN_BATTERY.model_copy(
                update={
                    "smoothing_s": MEAN_S,
                    "ramp_limit": RampRates(up_mw_per_min=rate, down_mw_per_min=rate),
                }
            )
            for rate in ramps
        ]

    def smallest_stage(self) -> BatterySpec | None:
        """Return the battery with the fastest control that meets the limits, or None.

        None means that the limits are met without a battery. The control is found by
        bisection, then by single steps to slower ones. The points of the bisection do
        not depend on the limits, so a tighter limit never gives a faster control, even
        if some of the slower ones fail.
        """
        if self._is_kept:
            return None
        ladder = self.ladder()
        first, last = 0, len(ladder) - 1
        if not self._meets_limits(ladder[last]):
            raise InputError(
                f"{self._run.folder}: no battery that smooths the power and holds "
                "ramps keeps these limits; raise them, or look at the limits one by "
                "one with diploee limits"
            )
        while first < last:
            middle = (first + last) // 2
            first, last = (
                (first, middle)
                if self._meets_limits(ladder[middle])
                else (middle + 1, last)
            )
        sizes = np.array([self._size(control) for control in ladder])
        # Rungs for which no slower rung is smaller: the size grows from one to the next
        size = sizes.sum(axis=1)
        kept = np.flatnonzero(size <= np.minimum.accumulate(size[::-1])[::-1])
        rung = next(k for k in kept if k >= last and self._meets_limits(ladder[k]))
        power_mw, usable_mwh = sizes[kept[kept <= rung]].max(axis=0)
        return ladder[rung].model_copy(
            update={
                "power_mw": _round_digits(power_mw, np.ceil),
                "energy_mwh": _round_digits(
                    usable_mwh / _usable_mwh(PLAIN_BATTERY), np.ceil
                ),
            }
        )

    def _size(self, control: BatterySpec) -> tuple[float, float]:
        """Return the power [MW] and usable energy [MWh] that a control needs."""
        supply = self.limited_supply(control)
        power_w, half_j = (
            float(np.abs(values).max())
            for values in (supply.battery_w, supply.stored_j)
        )
        return power_w / W_PER_MW, 2 * half_j / J_PER_MWH  # half of the energy each way


def _round_digits(value: float, way: Callable[[float], float] = np.rint) -> float:
    """Return a positive value rounded to `DIGITS` significant digits."""
    unit = 10.0 ** (np.floor(np.log10(value)) - DIGITS + 1)
    return float(f"{way(value / unit) * unit:.{DIGITS}g}")


def _supply_of_battery(run: RunFolder, power_w: Float64Array) -> Supply:
    """Return a run's power after a battery, with its peak and rated power."""
    scenario, power_w = run.scenario, as_stored(power_w)
    facility, rated = scenario.facility, rated_power(run.metrics, scenario.facility)
    if not (facility.stages or facility.has_ac_power):
        rated = facility.supplied_power_w / W_PER_MW, "rated power at the meter"
    filled = -(-round(run.transient_h * MS_PER_H) // scenario.resolution_ms)
    peak_mw = float(power_w[filled:].max(initial=-np.inf)) / W_PER_MW
    return Supply(power_w, peak_mw if np.isfinite(peak_mw) else None, rated)
