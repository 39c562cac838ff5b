"""Recovered submissions as a piece of a scenario, and in words."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from diploee import __version__
from diploee.learn.deconvolution.kernel import Observed
from diploee.learn.deconvolution.recover import RecoveredWeights
from diploee.learn.jobs.job_fragment import WIDTH, calendar_lines, number_text
from diploee.plain_data import plain
from diploee.scenario import Scenario
from diploee.units import HOURS_PER_DAY, W_PER_MW

_IN_JSON = {
    "week_weight": "hour_of_week",
    "week_low": "hour_of_week_low",
    "week_high": "hour_of_week_high",
    "month_weight": "month",
}
_REPLACED = ("calendar", "jobs_per_day", "target_utilization", "match", "dispersion")


def recovered_text(
    found: RecoveredWeights, scenario: Scenario, source: str, observed: Observed
) -> str:
    """Return the scenario's stream with the recovered calendar and daily count, as YAML.

    `source` is the file that the load was read from. The text has the key ``streams``, as a
    scenario has it, and ends with a line end.
    """
    ((name, spec),) = scenario.streams.items()
    said = [f"Deconvolved by diploee {__version__} with the mix of {scenario.name}."]
    said += recovered_lines(found, source, observed)
    lines = [
        line
        for text in said
        for line in textwrap.wrap(text, WIDTH, initial_indent="# ", subsequent_indent="#   ")
    ]
    kept = yaml.safe_dump(
        {name: plain(spec.model_dump(exclude_unset=True, exclude=set(_REPLACED)))},
        sort_keys=False,
        allow_unicode=True,
    )
    lines += ["streams:", *(f"  {line}" for line in kept.splitlines())]
    # The scenario's size multiplies the count that it is given.
    count, low, high = (
        number_text(value / found.size_factor, 6)
        for value in (found.jobs_per_day, found.jobs_per_day_low, found.jobs_per_day_high)
    )
    size = ", times facility.size" if found.size_factor != 1 else ""
    limits = f"{100 * found.confidence:g}% limits {low} to {high}{size}"
    lines.append(f"    jobs_per_day: {count}  # {limits}")
    lines += calendar_lines(found.week_weight, found.month_weight)
    return "\n".join(lines) + "\n"


def recovered_lines(found: RecoveredWeights, source: str, observed: Observed) -> list[str]:
    """Return what was recovered and how well it explains the load, one statement a line."""
    factor, unit = (100.0, "% of the nodes") if observed == "utilization" else (1 / W_PER_MW, "MW")
    mean, off = float(found.observed_mean.mean()) * factor, found.residual_std * factor
    first = str(found.first_hour.astype("datetime64[m]")).replace("T", " ")
    peak = int(np.argmax(found.week_weight))
    return [
        f"From {Path(source).name}: {observed} of {found.observed_mean.size / HOURS_PER_DAY:,.1f} "
        f"days from {first} on, local time.",
        f"{found.jobs_per_day:,.1f} jobs a day ({100 * found.confidence:g}% limits "
        f"{found.jobs_per_day_low:,.1f} to {found.jobs_per_day_high:,.1f}); weights of the week "
        f"from {found.week_weight.min():.3g} to {found.week_weight.max():.3g} (hour {peak} after "
        f"Monday 00:00; {found.week_low[peak]:.3g} to {found.week_high[peak]:.3g}), limits "
        f"{float(np.median(found.week_high - found.week_low)) / 2:.2g} to both sides in the "
        "median of the hours; weeks are taken as independent.",
        f"The fit explains {found.r2:.2%} of the variance of the hourly means (mean {mean:.4g} "
        f"{unit}); residuals have a standard deviation of {off:.3g} {unit}.",
        *(f"Note: {note}." for note in found.notes),
    ]


def recovered_as_dict(found: RecoveredWeights) -> dict[str, Any]:
    """Return all numbers as plain data for JSON."""
    values = vars(found) | {"first_hour": str(found.first_hour)}
    del values["size_factor"]
    return {_IN_JSON.get(key, key): plain(value) for key, value in values.items()}
