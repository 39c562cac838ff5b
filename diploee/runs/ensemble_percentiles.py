"""P5 and P95 of a run's metrics over an ensemble of its scenario."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from diploee.base.errors import InputError
from diploee.base.validation import Record, read_json
from diploee.runs.formatting import MIN_RUNS, listed
from diploee.scenario.loading import with_value

ENSEMBLE_FILE, SWEEP_FILE = "ensemble.json", "sweep.json"
MAY_DIFFER = ("seed", "name", "description", "step", "limits")
"""Scenario keys that may differ between a run and its ensemble."""


class _Spread(Record):
    """Number of values, P5 and P95 of a metric."""

    n: int
    p5: float | None
    p95: float | None


class _Point(Record):
    """One combination of varied keys in an ensemble, with percentiles by metric."""

    metrics: dict[str, _Spread]


class _Ensemble(Record):
    """Varied keys and points of an ensemble, as read from ``ensemble.json``."""

    draw: dict[str, Any]
    points: list[_Point] = Field(min_length=1)


class _Sweep(Record):
    """Base scenario of an ensemble, as read from ``sweep.json``."""

    base_scenario: dict[str, Any]


@dataclass(frozen=True)
class Bands:
    """P5 and P95 of a run's metrics, and a note on the ensemble."""

    # P5 and P95 by metric key, in the metric's unit in ``metrics.json``
    ends: Mapping[str, tuple[float, float]]
    note: str  # note on the ensemble's runs


def read_bands(folder: Path | str, scenario: dict[str, Any], run_folder: Path) -> Bands:
    """Read P5 and P95 of a run's metrics from an ensemble of its scenario.

    Raises
    ------
    InputError
        If the folder is not an ensemble of the run's scenario, or has fewer than 20
        runs.
    """
    path, remedy = (
        Path(folder),
        "'diploee ensemble SITE --assumed --runs 40' makes one",
    )
    if not (path / ENSEMBLE_FILE).is_file():
        raise InputError(
            f"--bands: {folder}: not an ensemble (no {ENSEMBLE_FILE}); {remedy}"
        )
    ensemble = read_json(path / ENSEMBLE_FILE, _Ensemble)
    if len(ensemble.points) > 1:
        raise InputError(
            f"--bands: {folder}: has {len(ensemble.points)} points; {remedy} of one"
        )
    ensemble_scenario = read_json(path / SWEEP_FILE, _Sweep).base_scenario
    run_scenario = scenario
    for key in (*MAY_DIFFER, *ensemble.draw):
        run_scenario, ensemble_scenario = (
            with_value(spread, key, None, lambda: "--bands")
            for spread in (run_scenario, ensemble_scenario)
        )
    if differing := [
        key
        for key in run_scenario | ensemble_scenario
        if run_scenario.get(key) != ensemble_scenario.get(key)
    ]:
        raise InputError(
            f"--bands: {folder}: is of another scenario ({listed(sorted(differing))} "
            f"differ from those of {run_folder}); {remedy} of the same file"
        )
    metrics = ensemble.points[0].metrics
    n = max(spread.n for spread in metrics.values())
    if n < MIN_RUNS:
        raise InputError(
            f"--bands: {folder}: {n} runs have no P5 and P95; take --runs 40"
        )
    variation = (
        f"which draw {len(ensemble.draw)} numbers within their ranges"
        if ensemble.draw
        else "by seed"
    )
    ends = {
        k: (spread.p5, spread.p95)
        for k, spread in metrics.items()
        if None not in (spread.p5, spread.p95)
    }
    note = (
        f"P5-P95: over {n} runs in {path.absolute().name}, {variation}; this run is "
        "one more draw."
    )
    return Bands(ends, note)  # type: ignore[arg-type]  # no None
