"""The week of ``colocation_10mw``, fitted to published figures of its year at 20 %
utilization.

``python tests/paper/calendars.py`` writes it into every scenario that ships with it. No
job waits at this level, so that power is linear in the submissions.
"""

from __future__ import annotations

from pathlib import Path
from re import DOTALL, search

import numpy as np
import pandas as pd
from paper_tables import LEVELS, TABLE_3
from scipy.interpolate import CubicSpline
from scipy.optimize import nnls
from scipy.signal import fftconvolve

from diploee.base.tables import Float64Array
from diploee.base.units import HOURS_PER_DAY, HOURS_PER_WEEK, MS_PER_H, MS_PER_MIN
from diploee.importers.input_reader import load_inputs
from diploee.loads.jobs.job_streams import JobStreams
from diploee.loads.jobs.rates import line_with_means
from diploee.scenario import Scenario, load_scenario

FOLDER = Path(__file__).parent
WEEK, DAY = (
    pd.read_csv(FOLDER / name, comment="#")["power_over_mean"].to_numpy()
    for name in ("figure_14_week.csv", "published_mean_day.csv")
)
"""Power of each hour of the week, as read off Figure 14, and of the day, as published:
means over the hour, relative to their own mean."""

SMOOTHNESS = 0.05
"""Weight of the week's bends beside its distance from the readings: the least that
keeps noise of the readings, which jobs of hours smooth away, out of the weights."""
ROUNDS = 4
"""An edge between two hours goes by the smaller, which is known after the first
solution."""
N_DAYS = 7
PARTS_PER_H = 12
"""Parts of an hour by which a line of rates is followed; an even number, as it bends
midway."""
MAX_MIN = 90
"""Furthest that two days are moved against each other."""


def minutes_behind(power_w: Float64Array, day: Float64Array = DAY) -> int:
    """Return by how much the mean day of a one-minute series comes after a published
    one [min].

    The shift at which their hourly means correlate best; negative where it is early.
    """
    shifts = range(-MAX_MIN, MAX_MIN + 1)
    return max(shifts, key=lambda by: np.corrcoef(mean_day(power_w, by), day)[0, 1])


def mean_day(power_w: Float64Array, earlier_min: int = 0) -> Float64Array:
    """Return the hours of the mean day of a one-minute series over their mean, shape
    (24,)."""
    minutes = power_w.reshape(-1, MS_PER_H // MS_PER_MIN * HOURS_PER_DAY).mean(axis=0)
    hours = np.roll(minutes, -earlier_min).reshape(HOURS_PER_DAY, -1).mean(axis=1)
    return np.asarray(hours / hours.mean())


def target(idle: float) -> Float64Array:
    """Return the power above idle that the hours of the week shall have, mean 1, shape
    (168,).

    Readings of a drawn line may be off by a pixel, 10 minutes of a week's: the line
    through them is moved by the minutes that bring its mean day nearest to the
    published one.
    """
    hours = np.arange(-HOURS_PER_DAY, HOURS_PER_WEEK + HOURS_PER_DAY)
    line = CubicSpline(hours + 0.5, WEEK.take(hours, mode="wrap")).antiderivative()

    def moved(by_min: int) -> Float64Array:
        return np.diff(line(np.arange(HOURS_PER_WEEK + 1) - by_min / 60))

    def off(week: Float64Array) -> float:
        return float(np.square(week.reshape(N_DAYS, -1).mean(axis=0) - DAY).mean())

    week = min(map(moved, range(-30, 31)), key=off)
    return np.asarray((week - idle) / (1 - idle))


def expected_load(rate_per_h: Float64Array, job: Float64Array) -> Float64Array:
    """Return the mean load of each hour by jobs at rates that a scenario lays as lines."""  # noqa: E501
    nodes_ms, rates = line_with_means(
        np.arange(rate_per_h.size + 1) * MS_PER_H, rate_per_h
    )
    edges_ms = np.arange(rate_per_h.size * PARTS_PER_H + 1) * (MS_PER_H // PARTS_PER_H)
    line = np.interp(edges_ms, nodes_ms, rates)
    of_parts = (line[1:] + line[:-1]) / 2 / PARTS_PER_H
    load = fftconvolve(of_parts, job)[: of_parts.size]
    return np.asarray(load.reshape(-1, PARTS_PER_H).mean(axis=1))


def mean_job_power(scenario: Scenario) -> Float64Array:
    """Return the power above idle of the mean job after its submission, in parts of an
    hour, sum 1.

    A job is submitted at any moment of the first part and starts at once.
    """
    (stream,) = scenario.streams.values()
    idle_w = scenario.facility.node_type_of(stream.pool).idle_power_w
    streams = JobStreams(scenario, load_inputs(scenario))
    profiles = streams.library
    parts = np.zeros(HOURS_PER_DAY * PARTS_PER_H)
    for each in streams.classes:
        for profile in (profiles[k] for k in each.profile_ids):
            above_w = profile.power_w - idle_w * each.job_class.n_nodes
            part = np.arange(above_w.size) * profile.dt_ms * PARTS_PER_H // MS_PER_H
            energy = np.bincount(part, above_w, parts.size) * profile.dt_ms
            parts += each.job_class.probability / len(each.profile_ids) * energy
    parts = parts + np.append(0.0, parts[:-1])
    return np.asarray(parts / parts.sum())


def fitted_week(scenario: Scenario) -> Float64Array:
    """Return the weights whose lines give the target best, non-negative and smooth,
    mean 1."""
    facility, job = scenario.facility, mean_job_power(scenario) * PARTS_PER_H
    mean_mw = TABLE_3.rows[0].published[LEVELS.index(20)]
    assert mean_mw is not None
    idle_w = facility.n_nodes * facility.node_type_of("h100").idle_power_w
    above = target(idle_w / 1e6 / mean_mw)
    each = np.eye(HOURS_PER_WEEK)
    bends = np.roll(each, -1, axis=1) + np.roll(each, 1, axis=1) - 2 * each

    def load(weights: Float64Array) -> Float64Array:
        return expected_load(np.tile(weights, 2), job)[HOURS_PER_WEEK:]

    weights = np.ones(HOURS_PER_WEEK)
    for _ in range(ROUNDS):
        design = np.column_stack(
            [(load(weights + 1e-6 * one) - load(weights)) * 1e6 for one in each]
        )
        weights, _ = nnls(
            np.vstack([design, SMOOTHNESS * bends]),
            np.append(above, np.zeros(HOURS_PER_WEEK)),
        )
    return np.asarray(weights / weights.mean())


def week_text(weights: Float64Array) -> str:
    """Return weights as the lines of a scenario."""
    days = (
        "Monday",
        "Tuesday",
        "Wednesday",
        "Thursday",
        "Friday",
        "Saturday",
        "Sunday",
    )
    lines = []
    for name, of_day in zip(days, weights.reshape(N_DAYS, 2, -1), strict=True):
        lines += [f"# {name}"] + [
            ", ".join(f"{w:.2f}" for w in half) + "," for half in of_day
        ]
    return "".join(f"        {line}\n" for line in lines)


def shipped_week(text: str) -> str:
    """Return the lines of the first week in a scenario's text."""
    found = search(r"hour_of_week: \[\n(.*?)^ *\]", text, DOTALL | 8)
    assert found is not None
    return found[1]


if __name__ == "__main__":
    folder = FOLDER.parents[1] / "scenarios"
    former = shipped_week((folder / f"{TABLE_3.scenario}.yaml").read_text("utf-8"))
    new = week_text(fitted_week(load_scenario(TABLE_3.scenario)))
    for path in folder.glob("*.yaml"):
        path.write_text(path.read_text("utf-8").replace(former, new), "utf-8")
