"""What a sweep is expected to take, before it runs."""

from __future__ import annotations

from collections.abc import Sequence

from diploee.profiles import ProfileLibrary
from diploee.sweeps.expand import MAX_RUNS, PlannedRun, expand
from diploee.sweeps.loading import Sweep
from diploee.sweeps.task import RunTask
from diploee.validation import Forecast, check

MOST_CHECKED = 8
"""Runs that are looked at, evenly over the sweep; the others go by their cost."""

METRICS_MB = 0.2
"""ASSUMPTION [J]: files of a run without its series."""


def forecast(
    sweep: Sweep, n_workers: int = 1, profiles: Sequence[str] = (), max_runs: int = MAX_RUNS
) -> tuple[int, Forecast]:
    """Return the number of runs of a sweep and what they are expected to take together."""
    library = ProfileLibrary.open(*profiles)
    runs = expand(sweep, library, max_runs)
    every = -(-len(runs) // MOST_CHECKED)
    looked_at = runs[::every]
    found = [
        check(run.scenario, library, engine="compiled", jobs_file=sweep.spec.keep == "all").forecast
        for run in looked_at
    ]
    share = sum(map(_cost, looked_at)) / sum(map(_cost, runs))
    series_mb = 0.0 if sweep.spec.keep == "metrics" else sum(each.disk_mb for each in found) / share
    at_once = max(1, min(n_workers, len(runs)))
    return len(runs), Forecast(
        sum(each.time_s for each in found) / share / at_once,
        max(each.memory_mb for each in found) * at_once,
        series_mb + METRICS_MB * len(runs),
    )


def _cost(run: PlannedRun) -> float:
    return RunTask(run.run, run.scenario, "").cost
