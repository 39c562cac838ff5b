"""Own measurements beside the program: profiles of jobs, and the load of a whole facility."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from math import isnan
from pathlib import Path

import numpy as np

from diploee.errors import plural
from diploee.importers.power_logs.observed import read_observed_series
from diploee.outputs import Run
from diploee.profiles import ProfileLibrary
from diploee.profiles.compare import Figures, compare, figures_of
from diploee.profiles.library import EIGHT_GPUS, REFERENCE
from diploee.profiles.reference.eight_gpus import EIGHT_GPU_CLASSES
from diploee.profiles.reference.eight_gpus import SOURCE as EIGHT_GPU_SOURCE
from diploee.profiles.reference.llama2 import WORKLOAD as LLAMA2
from diploee.published.check import Check, Section
from diploee.published.paper import LEVELS, TABLE_3, second_steps_p99_w
from diploee.tables import Float64Array
from diploee.units import MS_PER_DAY, MS_PER_H, MS_PER_MIN, MS_PER_S

DAYS, HOURS = 7, 24
SWINGS = "swings from 0.02 to 0.25 Hz, rms"
METERED_SWINGS_KW = {1: 0.4078, 8: 5.445}
"""Of metered runs of Llama-2 70B LoRA at the AC input, by nodes with 8 x H100: means over ten runs
of `figures_of` of what `diploee profiles import mlperf-power` gives [kW]."""


def eight_gpu_runs() -> Section:
    """Return duration and mean power of the profiles of 8 x H100 beside the metered runs."""
    library, checks = ProfileLibrary.open(EIGHT_GPUS), []
    for of_class in EIGHT_GPU_CLASSES:
        where = f"{LLAMA2} on {plural(of_class.n_nodes, 'node')} of 8 x H100"
        found = [library[index] for index in library.select(LLAMA2, of_class.n_nodes)]
        duration_s = float(np.mean([profile.duration_ms for profile in found])) / MS_PER_S
        mean_w = float(np.mean([profile.mean_power_w for profile in found])) / of_class.n_nodes
        metered_s = float(np.mean(of_class.durations_s))
        metered_w = float(np.mean(of_class.means_w))
        courses = ((metered_s, metered_w), (duration_s, mean_w))
        energies_mj = [of_class.n_nodes * w * s / 1e6 for s, w in courses]
        swings_w = [figures_of(profile).swing_rms_w for profile in found]
        checks += [
            Check.near(f"{where}: run time", "s", metered_s, duration_s, absolute=2.0),
            Check.near(f"{where}: node AC power", "W", metered_w, mean_w, relative=5e-3),
            Check.near(f"{where}: energy", "MJ", *energies_mj, relative=1e-2),
            Check.near(f"{where}: {SWINGS}", "kW", METERED_SWINGS_KW[of_class.n_nodes],
                       float(np.mean(swings_w)) / 1e3, relative=0.15),
        ]  # fmt: skip
    return Section(
        "Metered runs on nodes with 8 x H100",
        EIGHT_GPU_SOURCE,
        checks,
        "Duration and mean bind in the synthesis; the course between them is that of the class's "
        "medians, read every 2 s. `diploee published --measured LIBRARY` compares imported runs "
        "one class after the other.",
    )


def measured_profiles(measured: ProfileLibrary, shipped: str = REFERENCE) -> Section:
    """Return the figures of shipped profiles beside those of measured runs of their classes.

    Only classes that both libraries have are compared, of nodes with as many GPUs where both tell.
    """
    reference, checks = ProfileLibrary.open(shipped), []
    n_gpus = {entry.provenance.gpus_per_node for entry in reference.entries}
    same = [e for e in measured.entries if e.provenance.gpus_per_node in {None, *n_gpus}]
    if not same:
        return Section(f"Measured runs beside `{shipped}`", "none", (), "They have other GPUs.")
    measured = ProfileLibrary(same)
    for row in compare(measured, reference):
        if row.first is None or row.second is None:
            continue
        where = f"{row.workload} on {row.n_nodes} nodes"
        own, theirs = row.first.figures, row.second.figures
        energies_kwh = (_energy_kwh(own), _energy_kwh(theirs))
        steps_kw = (
            _steps_kw(measured, row.workload, row.n_nodes),
            _steps_kw(reference, row.workload, row.n_nodes),
        )
        figures: list[tuple[str, str, float, float]] = [
            ("run time", "s", own.duration_s, theirs.duration_s),
            ("mean power", "kW", own.mean_w / 1e3, theirs.mean_w / 1e3),
            ("energy", "kWh", *energies_kwh),
            (SWINGS, "kW",
             own.swing_rms_w / 1e3, theirs.swing_rms_w / 1e3),
            ("strongest line", "Hz", own.line_hz, theirs.line_hz),
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
        f"Measured runs beside `{shipped}`",
        _sources(measured),
        checks,
        "" if checks else "No class of these measurements is in it.",
    )


def weekly_curve(path: Path, simulate: Callable[[str, tuple[str, ...]], Run]) -> Section:
    """Return how the median week of a published year of a colocation facility compares."""
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
    """Return the median power of each hour of the week [W], shape (168,), from Monday 00:00."""
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


def _sources(library: ProfileLibrary) -> str:
    """Return where measurements come from, in a few words."""
    found = sorted({entry.provenance.source for entry in library.entries})
    return found[0] + (f" and {len(found) - 1} more" if len(found) > 1 else "")
