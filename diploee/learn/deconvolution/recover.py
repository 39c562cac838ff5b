"""When the jobs of an observed load were submitted, by non-negative least squares.

The load of a facility without queueing is linear in the rate of submissions: the rate of every hour
times the load of the mix's mean job in the hours after it. The rates of the 168 hours of the week,
and the weights of the months, are those with the smallest squared difference to the observation.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any

import numpy as np
from scipy import special

from diploee.clock import RunClock
from diploee.errors import WorkloadError, one_of
from diploee.importers.power_logs.observed import ObservedSeries
from diploee.inputs import load_inputs
from diploee.learn.deconvolution.kernel import ACCEPTED_REST, Observed, mix_kernel
from diploee.learn.deconvolution.least_squares import Observation
from diploee.learn.jobs.calendar_fit import DAYS_OF_MONTH, wants_months
from diploee.learn.jobs.hours import HourCounts
from diploee.loads.jobs.rates import hour_of_week, month_of_year
from diploee.outputs.facility_file import stored_columns
from diploee.profiles import ProfileLibrary
from diploee.profiles.profile import DEVICE_POWER
from diploee.scenario import Facility, JobStream, Scenario, scenario_from_dict
from diploee.site import settle
from diploee.steps import stream_classes
from diploee.tables import Float64Array
from diploee.units import HOURS_PER_DAY, HOURS_PER_WEEK, MONTHS_PER_YEAR, MS_PER_H, W_PER_MW

FULL = 0.98
"""Occupancy from which on an hour counts as full: jobs queue, and the load is not linear."""

DEVICES = "it_power_w"
"""Column of the power of the devices in a run's own series."""

BEHIND_DEVICES = ("it_ac_power_w", "poi_power_w")

NOTABLE_FULL = 0.01
MIN_WEEKS = 2


@dataclass(frozen=True, eq=False)
class RecoveredWeights:
    """Submissions recovered from an observed load.

    Limits are those of the weights' shapes: each week (or block of weeks) left out in turn
    (jackknife), months and hours of the week with the other's weights held.
    """

    # Of the hours of the week, Monday 00:00 first, mean 1; and their limits
    week_weight: Float64Array
    week_low: Float64Array
    week_high: Float64Array
    # Of the months, mean 1 over a year of 365 days, and their limits; None where the series does
    # not cover them
    month_weight: Float64Array | None
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
    node_type = facility.node_type_of(spec.pool)
    first_hour, values = hourly_means(series, facility.zone, observed)
    longest_h = max(1, values.size // 4)
    kernel = mix_kernel(classes, builder, node_type, spec.startup, observed, longest_h)
    burn_in = kernel.hourly.size
    if values.size - burn_in < MIN_WEEKS * HOURS_PER_WEEK:
        raise WorkloadError(
            f"{series.source}: {values.size / HOURS_PER_DAY:.1f} days, of which the first "
            f"{burn_in / HOURS_PER_DAY:.1f} may hold jobs from before; expected at least "
            f"{MIN_WEEKS} weeks besides; give a longer series"
        )
    busy = mix_kernel(classes, builder, node_type, spec.startup, "utilization", longest_h).hourly
    per_busy_node = float(kernel.hourly.sum() / busy.sum())
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
    months = wants_months(HourCounts(hours[burn_in], np.zeros(int(used.sum()), np.int64)), months)
    seen = Observation(kernel, slot, month, load, used, share)
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
        notes=_notes(series, n_stand, full_share, kernel.rest),
    )


def _notes(
    series: ObservedSeries, n_stand: float | None, full_share: float, rest: float
) -> tuple[str, ...]:
    """Return what to know before using the weights."""
    notes = []
    if n_stand is not None:
        notes.append(
            "jobs are submitted in proportion to the nodes that stand; the daily count is of the "
            f"{n_stand:,.5g} that do over the series on average"
        )
    if full_share > NOTABLE_FULL:
        notes.append(
            f"the facility was full in {full_share:.1%} of the hours: jobs queued, so that their "
            "submissions are recovered late and their number too low"
        )
    if rest > ACCEPTED_REST:
        notes.append(
            f"{rest:.1%} of the load of the mix's mean job lies beyond a quarter of the series"
        )
    if n := sum(n for cause, n in series.counts.items() if cause.startswith("missing_")):
        notes.append(f"{n:,} missing rows and values were filled by straight lines")
    return tuple(notes)


def _weights(
    seen: Observation,
    of_week: Float64Array,
    of_month: Float64Array | None,
    rate: Float64Array,
    confidence: float,
) -> dict[str, Any]:
    """Return the first fields of the result: weights and daily count, each with its limits."""
    of_all = np.ones(MONTHS_PER_YEAR) if of_month is None else of_month
    of_weeks = seen.without_blocks(seen.slot, seen.share * of_all[seen.month], HOURS_PER_WEEK, rate)
    week = _with_limits(
        of_week / of_week.mean(), of_weeks / of_weeks.mean(axis=1, keepdims=True), confidence
    )
    month: tuple[Float64Array | None, ...] = (None,) * 3
    scale = float(of_all @ DAYS_OF_MONTH / DAYS_OF_MONTH.sum())
    if of_month is not None:
        of_months = seen.without_blocks(
            seen.month, seen.share * of_week[seen.slot], MONTHS_PER_YEAR, rate
        )
        scales = of_months @ DAYS_OF_MONTH / DAYS_OF_MONTH.sum()
        month = _with_limits(of_month / scale, of_months / scales[:, None], confidence)
    per_day = scale * HOURS_PER_DAY
    count = np.array([of_week.mean() * per_day])
    counts = _with_limits(count, of_weeks.mean(axis=1, keepdims=True) * per_day, confidence)
    values = (*week, *month, *(float(value) for (value,) in counts))
    return {field.name: value for field, value in zip(fields(RecoveredWeights), values)}  # noqa: B905


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


def _with_limits(
    found: Float64Array, without: Float64Array, confidence: float
) -> tuple[Float64Array, Float64Array, Float64Array]:
    """Return values with limits, none negative, from those without one block after the other."""
    n_blocks = without.shape[0]
    about = without - without.mean(axis=0)
    half = np.sqrt((n_blocks - 1) / n_blocks * (about**2).sum(axis=0))
    half *= special.stdtrit(n_blocks - 1, (1 + confidence) / 2)
    return found, np.maximum(found - half, 0.0), found + half


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
