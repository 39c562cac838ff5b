"""Bands of a run's metrics: P5 to P95 over an ensemble of its scenario."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from diploee.base.errors import InputError
from diploee.base.plain_data import Record, read_json
from diploee.runs.formatting import MIN_RUNS, listed
from diploee.scenario.loading import with_value

ENSEMBLE_FILE, SWEEP_FILE = "ensemble.json", "sweep.json"
MAY_DIFFER = ("seed", "name", "description", "step", "limits")
"""Keys of a run that its ensemble's runs need not share."""


class _Spread(Record):
    n: int
    p5: float | None
    p95: float | None


class _Point(Record):
    metrics: dict[str, _Spread]


class _Ensemble(Record):
    draw: dict[str, Any]
    points: list[_Point] = Field(min_length=1)


class _Sweep(Record):
    base_scenario: dict[str, Any]


@dataclass(frozen=True)
class Bands:
    """P5 and P95 of metrics, and what they are of."""

    # By the metric's key, in its unit in ``metrics.json``
    ends: Mapping[str, tuple[float, float]]
    words: str  # of which runs


def read_bands(folder: Path | str, scenario: dict[str, Any], run_folder: Path) -> Bands:
    """Return the bands of a run's metrics over an ensemble of its scenario.

    Raises
    ------
    InputError
        If the folder is no ensemble of the run's scenario, or of fewer than 20 runs.
    """
    place, remedy = (
        Path(folder),
        "'diploee ensemble SITE --assumed --runs 40' makes one",
    )
    if not (place / ENSEMBLE_FILE).is_file():
        raise InputError(
            f"--bands: {folder}: not an ensemble (no {ENSEMBLE_FILE}); {remedy}"
        )
    result = read_json(place / ENSEMBLE_FILE, _Ensemble)
    if len(result.points) > 1:
        raise InputError(
            f"--bands: {folder}: has {len(result.points)} points; {remedy} of one"
        )
    theirs = read_json(place / SWEEP_FILE, _Sweep).base_scenario
    own = scenario
    for key in (*MAY_DIFFER, *result.draw):
        own, theirs = (
            with_value(of, key, None, lambda: "--bands") for of in (own, theirs)
        )
    if other := [key for key in own | theirs if own.get(key) != theirs.get(key)]:
        raise InputError(
            f"--bands: {folder}: is of another scenario ({listed(sorted(other))} "
            f"differ from those of {run_folder}); {remedy} of the same file"
        )
    metrics = result.points[0].metrics
    n = max(of.n for of in metrics.values())
    if n < MIN_RUNS:
        raise InputError(
            f"--bands: {folder}: {n} runs have no P5 and P95; take --runs 40"
        )
    drawn = (
        f"which draw {len(result.draw)} numbers within their ranges"
        if result.draw
        else "by seed"
    )
    ends = {
        k: (of.p5, of.p95) for k, of in metrics.items() if None not in (of.p5, of.p95)
    }
    words = (
        f"P5-P95: over {n} runs in {place.absolute().name}, {drawn}; this run is one "
        "more draw."
    )
    return Bands(ends, words)  # type: ignore[arg-type]  # no None
