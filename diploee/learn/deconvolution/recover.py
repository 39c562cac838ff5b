"""When the jobs of an observed load were submitted, by non-negative least squares.

The load of a facility without queueing is linear in the rate of submissions: the rate of every hour
times the load of the mix's mean job in the hours after it. The rates of the 168 hours of the week,
and the weights of the months, are those with the smallest squared difference to the observation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from scipy import special
from scipy.linalg import solve_triangular
from scipy.optimize import nnls

from diploee import __version__
from diploee.clock import RunClock
from diploee.errors import WorkloadError, one_of
from diploee.importers.power_logs.observed import ObservedSeries
from diploee.inputs import load_inputs
from diploee.learn.calendar import DAYS_OF_MONTH, wants_months
from diploee.learn.deconvolution.kernel import (
    ACCEPTED_REST,
    Kernel,
    Observed,
    edge_shares,
    mix_kernel,
)
from diploee.learn.fragment import calendar_lines, comments, limited
from diploee.learn.limits import jackknife_error
from diploee.loads.jobs.rates import hour_of_week, month_of_year
from diploee.outputs.parquet_files import stored_columns
from diploee.plain_data import plain
from diploee.profiles import ProfileLibrary
from diploee.profiles.profile import DEVICE_POWER
from diploee.scenario import Facility, JobStream, Scenario, scenario_from_dict
from diploee.site import settle
from diploee.steps import stream_classes
from diploee.tables import BoolArray, Float64Array, Int64Array
from diploee.units import HOURS_PER_DAY, HOURS_PER_WEEK, MONTHS_PER_YEAR, MS_PER_H, W_PER_MW

FULL = 0.98
"""Occupancy from which on an hour counts as full: jobs queue, and the load is not linear."""

DEVICES = "it_power_w"
"""Column of the power of the devices in a run's own series."""

BEHIND_DEVICES = ("it_ac_power_w", "poi_power_w")

NOTABLE_FULL = 0.01
MIN_WEEKS = 2

RIDGE = 1e-10
"""Keeps the equations solvable where the load of two hours can't be distinguished."""

MOST_BLOCKS = 52
MAX_ROUNDS = 50
TOLERANCE = 1e-6

_REPLACED = {"calendar", "jobs_per_day", "target_utilization", "match", "dispersion"}


@dataclass(frozen=True, eq=False)
class RecoveredWeights:
    """Submissions recovered from an observed load.

    Limits are those of the weights' shapes: each week (or block of weeks) left out in turn
    (jackknife), months and hours of the week with the other's weights held.
    """

    # Weights of the hours of the week, Monday 00:00 first, mean 1; and their limits
    hour_of_week: Float64Array
    hour_of_week_low: Float64Array
    hour_of_week_high: Float64Array
    # Of the months, mean 1 over a year of 365 days, and their limits; None where the series does
    # not cover them
    month: Float64Array | None
    month_low: Float64Array | None
    month_high: Float64Array | None
    # Mean daily count over a week and a year, and its limits
    jobs_per_day: float
    jobs_per_day_low: float
    jobs_per_day_high: float
    confidence: float  # level of the limits, 0-1
    r2: float  # share of the variance that the fit explains
    residual_std: float  # standard deviation of observed less fitted means, in their unit
    full_share: float  # share of the hours in which the facility was full
    first_hour: np.datetime64  # of the hours below, local time
    # Hourly means, observed and fitted: occupancy (0-1), or power [W]
    observed_mean: Float64Array
    fitted_mean: Float64Array
    # What the scenario's `facility.size` multiplies rates by; counts are of the site in its size
    size_factor: float
    notes: tuple[str, ...]  # what to know before using the weights


@dataclass(frozen=True, eq=False)
class _Observation:
    """The load of each hour, and what it is explained by."""

    kernel: Kernel
    slot: Int64Array  # hour of the week
    month: Int64Array  # 0 in January
    load: Float64Array  # above that of an idle facility, in the kernel's unit
    used: BoolArray  # hours that are explained; those before may hold jobs from before
    share: Float64Array  # nodes that stand in the pool over their mean

    def rates(self, months: bool) -> tuple[Float64Array, Float64Array]:
        """Fit the hours of the week and the months in turn, each with the other fixed.

        The load is linear in the rates but for which of two hours sets the rate at their edge; that
        is taken from the rates of the turn before.
        """
        of_month, even = np.ones(MONTHS_PER_YEAR), np.ones(self.slot.size)
        (of_week,) = self.fitted(True, of_month, even)
        for _ in range(MAX_ROUNDS):
            before, rate = of_week, of_week[self.slot] * of_month[self.month]
            if months:
                (of_month,) = self.fitted(False, of_week, rate)
            (of_week,) = self.fitted(True, of_month, rate)
            if np.abs(of_week - before).max() <= TOLERANCE * of_week.max():
                break
        return of_week, of_month

    def fitted(
        self, is_week: bool, others: Float64Array, rate: Float64Array, n_blocks: int = 0
    ) -> Float64Array:
        """Return the rates of the hours of the week, or of the months, that explain the load best.

        All are 0 or more; `others` are those of the months, or of the hours of the week. With
        `n_blocks` there is a row without each block of weeks in turn, otherwise a single row.
        """
        design, seen = self._design(is_week, others, rate)[self.used], self.load[self.used]
        ridge = RIDGE * float(np.sum(self.kernel.hourly)) ** 2
        squares, products = design.T @ design, design.T @ seen
        if not n_blocks:
            return _solved(squares, products, ridge)[None]
        n_weeks = -(-seen.size // HOURS_PER_WEEK)
        block = np.arange(seen.size) // (HOURS_PER_WEEK * -(-n_weeks // n_blocks))
        without = []
        for k in range(int(block[-1]) + 1):
            of_block, left = design[block == k], seen[block == k]
            rest = squares - of_block.T @ of_block, products - of_block.T @ left
            without.append(_solved(*rest, ridge))
        return np.stack(without)

    def _design(self, is_week: bool, others: Float64Array, rate: Float64Array) -> Float64Array:
        """Return the load of each group's rate in every hour, shape (n, n_groups).

        Of lines whose edges go by the hours that they go by at a rate of every hour.
        """
        group, of_others = (self.slot, self.month) if is_week else (self.month, self.slot)
        n_hours, factor = group.size, self.share * others[of_others]
        design = np.zeros((n_hours, HOURS_PER_WEEK if is_week else MONTHS_PER_YEAR))
        before, after = edge_shares(rate)
        # load[h] = sum over lags k of kernel[k] factor[h - k] rate[group[h - k]], a convolution; so
        # of the edges, of which each hour has shares in that before it and that after it.
        for of_lags, first, share in (
            (self.kernel.middle, 0, factor),
            (self.kernel.edge, -1, factor * after[:-1]),
            (self.kernel.edge, 0, factor * before[1:]),
        ):
            for lag, value in enumerate(of_lags[:n_hours], first):
                submitted = np.arange(max(0, -lag), n_hours - max(0, lag))
                design[submitted + lag, group[submitted]] += value * share[submitted]
        return design


def _solved(squares: Float64Array, products: Float64Array, ridge: float) -> Float64Array:
    """Return the non-negative x of least squares of A^T A and A^T b."""
    # The normal equations, 168 by 168, have the same solution and are quicker.
    # With A^T A = L L^T, |A x - b|^2 = |L^T x - L^-1 A^T b|^2 + what x does not change.
    lower = np.linalg.cholesky(squares + ridge * np.eye(products.size))
    right = solve_triangular(lower, products, lower=True)
    found: Float64Array = solve_triangular(lower.T, right)
    if (found < 0).any():
        found = nnls(lower.T, right)[0]
    return found


def recover_weights(
    series: ObservedSeries,
    scenario: Scenario,
    library: ProfileLibrary,
    *,
    observed: Observed = "utilization",
    months: bool | None = None,
    confidence: float = 0.95,
) -> RecoveredWeights:
    """Recover when jobs were submitted from the load that they caused.

    The first hours of the series, as many as the mix's jobs run, are left out: jobs from before it
    may still run in them.

    Parameters
    ----------
    series : ObservedSeries
        Utilization (busy nodes over those that stand), or power, of the whole facility at steps up
        to an hour. Stamps without a zone are taken as the facility's local time.
    scenario : Scenario
        The facility, in its size and phases, and, in its only stream, the mix of jobs; its calendar
        and number of jobs are not used.
    library : ProfileLibrary
        Power profiles of the jobs.
    observed : {"utilization", "power"}
        Which of the two to use. Power is that of the devices of the scenario's nodes: where the
        scenario has stages or AC power, the column must be named ``it_power_w``.
    months : bool, optional
        Recover weights of the months; by default where the series covers all twelve.
    confidence : float
        Level of the limits, between 0 and 1.

    Returns
    -------
    RecoveredWeights
        Weights, daily count and how well they explain the series.

    Raises
    ------
    ProfileError
        If the library has no profile for a class.
    WorkloadError
        If the scenario has other streams, or the series is too short, too coarse or lacks what is
        to be used, or is power behind the nodes' AC input or stages.
    """
    spec = _only_stream(scenario)
    if observed == "power":
        _check_devices(series, scenario.facility)
    scenario, size_factor = _settled(scenario, library)
    classes, builder = stream_classes(scenario, library)
    facility = scenario.facility
    first_hour, values = hourly_means(series, facility.zone, observed)
    node_type, longest_h = facility.node_type_of(spec.pool), max(1, values.size // 4)
    mix = partial(mix_kernel, classes, builder, node_type, spec.startup, longest_h=longest_h)
    kernel = mix(observed)
    per_busy_node = float(kernel.hourly.sum() / mix("utilization").hourly.sum())
    burn_in = kernel.hourly.size
    _check_length(series.source, values.size, burn_in)
    # The kernel runs on; what it meets are hours of the wall clock.
    start: datetime = first_hour.astype("datetime64[ms]").item()
    clock = RunClock(start, facility.zone, values.size * MS_PER_H, MS_PER_H)
    starts_ms = np.arange(values.size, dtype=np.int64) * MS_PER_H
    standing = {name: pool.standing(clock).at(starts_ms) for name, pool in facility.pools.items()}
    n_nodes = np.sum(list(standing.values()), axis=0)
    share = standing[spec.pool] / max(float(standing[spec.pool].mean()), 1.0)
    # Load above that of an idle facility, in busy nodes or watts.
    unit, idle = n_nodes, np.zeros(values.size)
    if observed == "power":
        unit = np.ones(values.size)
        for name, of_pool in standing.items():
            idle += of_pool * facility.node_type_of(name).idle_power_w
        full_w = float((idle + n_nodes * per_busy_node).mean())
        _check_power(series.source, float(values.mean()), full_w, facility.rated_power_w)
    load = values * unit - idle
    local_ms = clock.wall.local_ms(starts_ms)
    hours = local_ms.astype("datetime64[ms]").astype("datetime64[h]")
    slot, month = hour_of_week(hours), month_of_year(hours)
    used = np.arange(values.size) >= burn_in
    months = wants_months(month[used], np.ones(int(used.sum())), months)
    seen = _Observation(kernel, slot, month, load, used, share)
    of_week, of_month = seen.rates(months)
    if not of_week.any():
        raise WorkloadError(
            f"{series.source}: the {observed} never rises above that of the idle facility; "
            "check the scenario's nodes, the column that was read and its unit (--power-unit)"
        )
    # The count is the mean over the series; nodes are not added at the same hour of every week.
    rate = of_week[slot] * of_month[month]
    grown = float((rate * share).mean() / rate.mean())
    of_week, rate, share = of_week * grown, rate * grown, share / grown
    seen = replace(seen, share=share)
    fitted = kernel.load_of(rate * share) + idle
    fitted = np.divide(fitted, unit, out=np.zeros_like(fitted), where=unit > 0)
    full = load[used] >= FULL * per_busy_node * n_nodes[used]
    full_share = float((full & (n_nodes[used] > 0)).mean())
    n_stand = float(standing[spec.pool].mean()) if facility.has_phases else None
    residual, variance = (values - fitted)[used], float(values[used].var())
    return RecoveredWeights(
        **_weights(seen, of_week, of_month if months else None, rate, confidence),
        confidence=confidence,
        first_hour=hours[burn_in],
        observed_mean=values[used],
        fitted_mean=fitted[used],
        r2=1 - float((residual**2).mean()) / variance if variance > 0 else 0.0,
        residual_std=float(residual.std()),
        full_share=full_share,
        size_factor=size_factor,
        notes=tuple(_notes(series, n_stand, full_share, kernel.rest)),
    )


def _notes(
    series: ObservedSeries, n_stand: float | None, full_share: float, rest: float
) -> Iterator[str]:
    """Yield remarks to read before using the weights."""
    if n_stand is not None:
        yield (
            "jobs are submitted in proportion to the nodes that stand; the daily count is of the "
            f"{n_stand:,.5g} that do over the series on average"
        )
    if full_share > NOTABLE_FULL:
        yield (
            f"the facility was full in {full_share:.1%} of the hours: jobs queued, so that their "
            "submissions are recovered late and their number too low"
        )
    if rest > ACCEPTED_REST:
        yield (f"{rest:.1%} of the load of the mix's mean job lies beyond a quarter of the series")
    if n := sum(n for cause, n in series.counts.items() if cause.startswith("missing_")):
        yield f"{n:,} missing rows and values were filled by straight lines"


def _weights(
    seen: _Observation,
    of_week: Float64Array,
    of_month: Float64Array | None,
    rate: Float64Array,
    confidence: float,
) -> dict[str, Any]:
    """Return the first fields of the result: weights and daily count, each with its limits."""
    of_all = np.ones(MONTHS_PER_YEAR) if of_month is None else of_month

    def scale_of(of_months: Float64Array) -> Any:
        return of_months @ DAYS_OF_MONTH / DAYS_OF_MONTH.sum()

    of_weeks = seen.fitted(True, of_all, rate, MOST_BLOCKS)
    scale = float(scale_of(of_all))
    of_blocks = of_weeks.mean(axis=1, keepdims=True)
    per_day = scale * HOURS_PER_DAY
    found: dict[str, tuple[Any, Float64Array]] = {
        "hour_of_week": (of_week / of_week.mean(), of_weeks / of_blocks),
        "jobs_per_day": (float(of_week.mean() * per_day), of_blocks[:, 0] * per_day),
    }
    values: dict[str, Any] = dict.fromkeys(("month", "month_low", "month_high"))
    if of_month is not None:
        of_months = seen.fitted(False, of_week, rate, MOST_BLOCKS)
        found["month"] = of_month / scale, of_months / scale_of(of_months)[:, None]
    for name, (value, without) in found.items():
        half = jackknife_error(without) * special.stdtrit(len(without) - 1, (1 + confidence) / 2)
        limits = np.maximum(value - half, 0.0), value + half
        values |= {name: value, f"{name}_low": limits[0], f"{name}_high": limits[1]}
    return values


def _only_stream(scenario: Scenario) -> JobStream:
    names = [*scenario.streams, *scenario.request_streams, *scenario.replica_streams]
    if len(names) != 1 or not scenario.streams:
        raise WorkloadError(
            f"scenario '{scenario.name}': expected one stream of jobs and no other, as the load "
            f"can't be shared out, found {one_of(names)}"
        )
    (spec,) = scenario.streams.values()
    if spec.replay is not None:
        raise WorkloadError(
            f"streams.{names[0]}: replays a log and has no mix of jobs; give mix or classes"
        )
    return spec


def _settled(scenario: Scenario, library: ProfileLibrary) -> tuple[Scenario, float]:
    """Return the scenario in its size, and what that multiplies the rates of streams by."""
    if scenario.facility.size is None:
        return scenario, 1.0
    data = scenario.model_dump(mode="json")
    ((name, stream),) = data["streams"].items()
    for key in ("target_utilization", "match"):
        stream.pop(key, None)
    stream["jobs_per_day"] = 1.0
    one = scenario_from_dict(data).beside(scenario.folder)
    settled = settle(one, load_inputs(one, library))
    return settled, settled.streams[name].jobs_per_day or 1.0


def _check_devices(series: ObservedSeries, facility: Facility) -> None:
    """Refuse power that was metered behind the devices."""
    source, behind = Path(series.source), facility.has_ac_power or bool(facility.stages)
    if source.suffix == ".parquet" and source.is_file():  # a run's own series names the boundary
        stored = {column.name: column.boundary for column in stored_columns(source)}
        behind |= stored.get(series.power_column, DEVICE_POWER) != DEVICE_POWER
    if series.power_column == DEVICES or not (behind or series.power_column in BEHIND_DEVICES):
        return
    named = f"column '{series.power_column}'" if series.power_column else "its power"
    raise WorkloadError(
        f"{series.source}: {named} is power behind the nodes' AC input or "
        f"stages, which hold losses and cooling that jobs do not draw; give the devices' power, "
        f"column '{DEVICES}' (--column {DEVICES}), or utilization (--observed utilization)"
    )


def _check_length(source: str, n_hours: int, burn_in: int) -> None:
    """Refuse a series of fewer than `MIN_WEEKS` behind the hours that hold jobs from before."""
    if n_hours - burn_in < MIN_WEEKS * HOURS_PER_WEEK:
        raise WorkloadError(
            f"{source}: {n_hours / HOURS_PER_DAY:.1f} days, of which the first "
            f"{burn_in / HOURS_PER_DAY:.1f} may hold jobs from before; expected at least "
            f"{MIN_WEEKS} weeks besides; give a longer series"
        )


def _check_power(source: str, mean_w: float, full_w: float, rated_w: float) -> None:
    """Refuse a mean power that the facility can't draw: above its rating, or when always full."""
    limit_w = min(full_w, rated_w)
    if mean_w > limit_w:
        why = "full of this mix it draws" if limit_w == full_w else "it is rated at"
        raise WorkloadError(
            f"{source}: a mean power of {mean_w / W_PER_MW:,.4g} MW, more than the "
            f"scenario's nodes draw ({why} {limit_w / W_PER_MW:,.4g} MW); check the column's "
            "unit (--power-unit W, kW or MW) and the scenario's nodes"
        )


def hourly_means(
    series: ObservedSeries, zone: tzinfo, observed: Observed
) -> tuple[np.datetime64, Float64Array]:
    """Return the means of a series over whole clock hours of the facility's local time."""
    values = series.utilization if observed == "utilization" else series.power_w
    if values is None or bool(np.isnan(values).any()):
        raise WorkloadError(
            f"{series.source}: has no {observed}; name its column, or use the other of "
            "utilization and power"
        )
    if series.step_ms > MS_PER_H:
        raise WorkloadError(
            f"{series.source}: steps of {series.step_ms / MS_PER_H:g} h can't tell the hours of "
            "the week; give a series with steps of at most 1 h"
        )
    start = series.start
    if start.tzinfo is not None:
        start = start.astimezone(zone).replace(tzinfo=None)
    start_ms = int(np.datetime64(start, "ms").astype(np.int64))
    first, last = -(-start_ms // MS_PER_H), (start_ms + series.duration_ms) // MS_PER_H
    # Differences of the running sum at the hours' edges are exact for any step.
    filled = np.concatenate([[0.0], np.cumsum(values)]) * series.step_ms
    edges = np.arange(first, last + 1) * MS_PER_H - start_ms
    at = np.interp(edges, np.arange(filled.size) * series.step_ms, filled)
    return np.datetime64(first, "h"), np.diff(at) / MS_PER_H


def recovered_text(
    found: RecoveredWeights, scenario: Scenario, source: str, observed: Observed
) -> str:
    """Return the scenario's stream with the recovered calendar and daily count, as YAML.

    `source` is the file that the load was read from. The text has the key ``streams``, as a
    scenario has it, and ends with a line end.
    """
    ((name, spec),) = scenario.streams.items()
    origin = f"Deconvolved by diploee {__version__} with the mix of {scenario.name}."
    lines = comments([origin, *recovered_lines(found, source, observed)])
    kept = yaml.safe_dump(
        {name: plain(spec.model_dump(exclude_unset=True, exclude=_REPLACED))},
        sort_keys=False,
        allow_unicode=True,
    )
    lines += ["streams:", *(f"  {line}" for line in kept.splitlines())]
    # The scenario's size multiplies the count that it is given.
    values = found.jobs_per_day, found.jobs_per_day_low, found.jobs_per_day_high
    value, low, high = (x / found.size_factor for x in values)
    size = ", times facility.size" if found.size_factor != 1 else ""
    level = f"{100 * found.confidence:g}% limits"
    per_day = limited("jobs_per_day", level, value, low, high, 6, 6)
    lines += [per_day + size, *calendar_lines(found.hour_of_week, found.month)]
    return "\n".join(lines) + "\n"


def recovered_lines(found: RecoveredWeights, source: str, observed: Observed) -> list[str]:
    """Return what was recovered and how well it explains the load, one statement a line."""
    factor, unit = (100.0, "% of the nodes") if observed == "utilization" else (1 / W_PER_MW, "MW")
    mean, off = float(found.observed_mean.mean()) * factor, found.residual_std * factor
    first = str(found.first_hour.astype("datetime64[m]")).replace("T", " ")
    weight, low, high = found.hour_of_week, found.hour_of_week_low, found.hour_of_week_high
    peak = int(np.argmax(weight))
    return [
        f"From {Path(source).name}: {observed} of {found.observed_mean.size / HOURS_PER_DAY:,.1f} "
        f"days from {first} on, local time.",
        f"{found.jobs_per_day:,.1f} jobs a day ({100 * found.confidence:g}% limits "
        f"{found.jobs_per_day_low:,.1f} to {found.jobs_per_day_high:,.1f}); weights of the week "
        f"from {weight.min():.3g} to {weight.max():.3g} (hour {peak} after "
        f"Monday 00:00; {low[peak]:.3g} to {high[peak]:.3g}), limits "
        f"{float(np.median(high - low)) / 2:.2g} to both sides in the "
        "median of the hours; weeks are taken as independent.",
        f"The fit explains {found.r2:.2%} of the variance of the hourly means (mean {mean:.4g} "
        f"{unit}); residuals have a standard deviation of {off:.3g} {unit}.",
        *(f"Note: {note}." for note in found.notes),
    ]


def recovered_as_dict(found: RecoveredWeights) -> dict[str, Any]:
    """Return all numbers as plain data for JSON."""
    values = vars(found) | {"first_hour": str(found.first_hour)}
    del values["size_factor"]
    return {key: plain(value) for key, value in values.items()}
