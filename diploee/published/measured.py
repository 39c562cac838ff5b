"""Own measurements beside the program: profiles of jobs, and the load of a whole facility."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from math import isnan
from pathlib import Path

import numpy as np

from diploee.importers.power_logs.observed import read_observed_series
from diploee.outputs import Run
from diploee.profiles import ProfileLibrary
from diploee.profiles.compare import Figures, compare
from diploee.published.check import Check, Section
from diploee.published.paper import LEVELS, TABLE_3, second_steps_p99_w
from diploee.tables import Float64Array
from diploee.units import MS_PER_DAY, MS_PER_H, MS_PER_MIN

DAYS, HOURS = 7, 24


def measured_profiles(measured: ProfileLibrary, reference: ProfileLibrary) -> Section:
    """Return the figures of reference profiles beside those of measured runs of their classes.

    Only classes that both libraries have are compared.
    """
    checks = []
    for row in compare(measured, reference):
        if row.first is None or row.second is None:
            continue
        where = f"{row.workload} on {row.n_nodes} nodes"
        own, shipped = row.first.figures, row.second.figures
        energies_kwh = (_energy_kwh(own), _energy_kwh(shipped))
        steps_kw = (
            _steps_kw(measured, row.workload, row.n_nodes),
            _steps_kw(reference, row.workload, row.n_nodes),
        )
        figures: list[tuple[str, str, float, float]] = [
            ("run time", "s", own.duration_s, shipped.duration_s),
            ("mean power", "kW", own.mean_w / 1e3, shipped.mean_w / 1e3),
            ("energy", "kWh", *energies_kwh),
            ("swings from 0.02 to 0.25 Hz, rms", "kW",
             own.swing_rms_w / 1e3, shipped.swing_rms_w / 1e3),
            ("strongest line", "Hz", own.line_hz, shipped.line_hz),
            ("P99 of changes over one second", "kW", *steps_kw),
        ]  # fmt: skip
        checks += [
            Check(f"{where}: {what}", unit, first, None if isnan(second) else second)
            for what, unit, first, second in figures
            if not isnan(first)
        ]
        if row.boundaries_differ:
            checks.append(
                Check(f"{where}: boundaries differ ({', '.join(row.first.boundaries)} against "
                      f"{', '.join(row.second.boundaries)})", "", None, None)
            )  # fmt: skip
    return Section(
        "Measured runs beside the profiles in use",
        "; ".join(sorted({entry.provenance.source for entry in measured.entries})),
        checks,
        "" if checks else "No class of these measurements is in the library in use.",
    )


def weekly_curve(path: Path, simulate: Callable[[str, tuple[str, ...]], Run]) -> Section:
    """Return how the median week of a published year of a colocation facility compares.

    Parameters
    ----------
    path : pathlib.Path
        Power and utilization over a year, such as
        ``03_whole-facility_profiles/colocation/simulated_data/*_power.csv`` of the data set.
    simulate : callable
        Runs a scenario with values.
    """
    series = read_observed_series(path)
    if series.utilization is None or np.isnan(series.power_w).any():
        return Section(f"Median week of {path.name}", str(path), (), "It lacks utilization.")
    mean = float(series.utilization.mean())
    level = min(LEVELS, key=lambda at: abs(at / 100 - mean))
    run = simulate(TABLE_3.scenario, (f"{TABLE_3.key}={TABLE_3.values[level]}",))
    published = median_week(series.power_w, series.step_ms, series.start)
    power_w = run.facility(["it_power_w"])["it_power_w"].to_numpy().astype(np.float64)
    found = median_week(power_w, MS_PER_MIN, run.scenario.clock.start)
    rms = float(np.sqrt(np.mean((found / published - 1) ** 2)))
    correlation = float(np.corrcoef(published, found)[0, 1])
    return Section(
        f"Median week at {level} % utilization",
        str(path.name),
        [
            Check("correlation of the hourly medians of the week", "", 1.0, correlation),
            Check("rms difference, as a fraction", "", 0.0, rms),
            Check("largest hour", "MW", float(published.max()) / 1e6, float(found.max()) / 1e6),
            Check("smallest hour", "MW", float(published.min()) / 1e6, float(found.min()) / 1e6),
        ],
    )


def median_week(power_w: Float64Array, step_ms: int, start: datetime) -> Float64Array:
    """Return the median power of each hour of the week [W], shape (168,), from Monday 00:00.

    Parameters
    ----------
    power_w : numpy.ndarray, shape (n,)
        Power [W].
    step_ms : int
        Step [ms].
    start : datetime.datetime
        Begin of the first value.
    """
    midnight = start.replace(hour=0, minute=0, second=0, microsecond=0)
    begins_ms = start.weekday() * MS_PER_DAY + (start - midnight) // timedelta(milliseconds=1)
    hour = (begins_ms + np.arange(power_w.size) * step_ms) // MS_PER_H % (DAYS * HOURS)
    order = np.argsort(hour, kind="stable")
    parts = np.split(power_w[order], np.searchsorted(hour[order], np.arange(1, DAYS * HOURS)))
    return np.array([np.median(part) if part.size else np.nan for part in parts])


def _steps_kw(library: ProfileLibrary, workload: str, n_nodes: int) -> float:
    """Return the mean over a class of the 99th percentile of changes over one second [kW]."""
    profiles = [library[index] for index in library.select(workload, n_nodes)]
    if any(profile.dt_ms > 1000 or 1000 % profile.dt_ms for profile in profiles):
        return float("nan")  # sampled too slowly to tell
    return float(np.mean([second_steps_p99_w(profile) for profile in profiles])) / 1e3


def _energy_kwh(figures: Figures) -> float:
    return figures.mean_w * figures.duration_s / 3.6e6
