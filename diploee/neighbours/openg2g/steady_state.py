"""Steady-state power of a replica: device readings summed and resampled, exact in energy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from diploee.errors import InputError
from diploee.neighbours.openg2g.runs import BenchmarkRun, PowerReadings
from diploee.profiles.resample import US_PER_S, EnergyCurve
from diploee.tables import Float64Array, Int64Array


def run_power_w(run: BenchmarkRun, dt_s: float) -> Float64Array:
    """Return a run's steady-state power, summed over its devices.

    Readings are joined by straight lines; a step's value is the mean over it, by the difference of
    the cumulative energy at its edges. A last part of a step is left out.
    """
    start_s, end_s = _span_s(run)
    dt_us = round(dt_s * US_PER_S)
    n_steps = round((end_s - start_s) * US_PER_S) // dt_us
    if n_steps < 1:
        raise InputError(
            f"the power readings hold {max(end_s - start_s, 0):g} s of the steady state, expected "
            f"at least one step of {dt_s:g} s"
        )
    edges_us = np.arange(n_steps + 1, dtype=np.int64) * dt_us
    energy_j = np.zeros(n_steps + 1)
    for readings in run.power:
        energy_j += _energy_j(readings, start_s, edges_us)
    return np.asarray(np.diff(energy_j) / (dt_us / US_PER_S), dtype=np.float64)


def _span_s(run: BenchmarkRun) -> tuple[float, float]:
    """Return start and end of the time that all devices and the steady state share [s]."""
    if not run.power:
        raise InputError("the source has no power in time; use one that has, such as results.json")
    if any(readings.t_s.size < 2 for readings in run.power):
        raise InputError("a device has fewer than two power readings; leave this batch size out")
    start_s, end_s = run.steady_s or (-np.inf, np.inf)
    start_s = max(start_s, *(float(readings.t_s[0]) for readings in run.power))
    end_s = min(end_s, *(float(readings.t_s[-1]) for readings in run.power))
    return start_s, end_s


def _energy_j(readings: PowerReadings, start_s: float, edges_us: Int64Array) -> Float64Array:
    t_us = np.rint((readings.t_s - start_s) * US_PER_S).astype(np.int64)
    distinct = np.concatenate(([True], np.diff(t_us) > 0))  # stamps within one microsecond
    curve = EnergyCurve.from_readings(t_us[distinct], readings.power_w[distinct])
    return curve.at(np.clip(edges_us, t_us[0], t_us[-1]))


def sampling_interval_s(runs: Sequence[BenchmarkRun]) -> float:
    """Return the median interval between the power readings of runs [s]."""
    steps_s = [np.diff(readings.t_s) for run in runs for readings in run.power]
    return float(np.median(np.concatenate(steps_s)))


def median_trace_w(runs: Sequence[BenchmarkRun], dt_s: float) -> Float64Array:
    """Return the power of a typical run: of the median duration, at each step the runs' median.

    Runs that are shorter count as long as they last. With several runs the median damps the swings
    of each; with one it is that run.
    """
    traces = [run_power_w(run, dt_s) for run in runs]
    n_steps = int(np.median([trace.size for trace in traces]))
    table = np.full((len(traces), n_steps), np.nan)
    for row, trace in zip(table, traces, strict=True):
        row[: trace.size] = trace[:n_steps]
    return np.asarray(np.nanmedian(table, axis=0), dtype=np.float64)
