"""Planning, and compiling on a fresh machine, as ratios of what follows."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import pytest
from builders import checked_site

import diploee
from diploee.api.sites import site_of
from diploee.importers.input_reader import load_inputs
from diploee.scenario import Scenario
from diploee.schedule.job_table import DRAW_MS
from diploee.simulation.cost_forecast import slowness
from diploee.simulation.pipeline import Pipeline
from diploee.simulation.prepared import RunOptions

pytestmark = pytest.mark.bench

MAX_COST_OF_PLANNING = 3
MAX_COST_OF_COMPILING = 2.3  # the aim is 2; measured are 1.9 to 2.1
# The aim is 1.5; one machine's pace varies by a fifth of itself
MAX_MISS_OF_FORECAST = 1.8


def cpu_s(action: Callable[[], object]) -> float:
    started = time.process_time()
    action()
    return time.process_time() - started


def given(scenario: Scenario, line: Pipeline) -> Scenario:
    """The same load by its daily counts, without targets to search for."""
    values: dict[str, object] = {}
    for match in line.jobs.streams.matches():
        values[f"streams.{match.stream}.target_utilization"] = None
        values[f"streams.{match.stream}.jobs_per_day"] = match.jobs_per_day
    for plan in line.plans:
        values[f"request_streams.{plan.stream}.target_utilization"] = None
        values[f"request_streams.{plan.stream}.requests_per_day"] = (
            plan.match.requests_per_day
        )
    return diploee.load_scenario(
        "colocation_metered_150mw", values={"duration": "60 days", **values}
    )


def test_planning_a_campus_takes_at_most_three_times_drawing_its_jobs() -> None:
    """Compare the time that targets add to opening a line with one draw of all jobs."""
    scenario = diploee.load_scenario(
        "colocation_metered_150mw", values={"duration": "60 days"}
    )
    inputs = load_inputs(scenario, None)

    def opened(of: Scenario) -> Pipeline:
        return Pipeline.open(site_of(of, None, RunOptions("compiled"), inputs))

    def drawn(line: Pipeline) -> None:
        for _ in line.jobs.streams.windows(line.jobs.window_ms() // DRAW_MS):
            pass

    line = opened(scenario)
    drawn(line)
    by_count = given(scenario, line)
    actions = (lambda: opened(scenario), lambda: opened(by_count), lambda: drawn(line))
    times = [[cpu_s(action) for action in actions] for _ in range(5)]
    planned_s, given_s, drawn_s = (median(of) for of in zip(*times, strict=True))
    print(f"planned {planned_s:.2f} s, given {given_s:.2f} s, drawn {drawn_s:.2f} s")  # noqa: T201
    assert planned_s - given_s <= MAX_COST_OF_PLANNING * drawn_s


def run_cpu_s(name: str, folder: Path, *more: str, cache: Path | None = None) -> float:
    """Processor time of the whole command of a run in its own process [s]."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [
        sys.executable,
        "-m",
        "diploee",
        "run",
        name,
        "--quiet",
        "--force",
        *more,
    ]
    env = (
        dict(os.environ)
        if cache is None
        else {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    )
    subprocess.run([*command, "--out", str(folder)], check=True, env=env)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_a_first_run_takes_little_more_than_twice_a_warm_one(tmp_path: Path) -> None:
    """Of the shipped scenarios the one that compiles most for its length."""
    pairs = [
        [
            run_cpu_s("inference_1mw_poi", tmp_path / "run", cache=tmp_path / str(k))
            for _ in "ab"
        ]
        for k in range(2)
    ]
    print(f"first and warm {pairs} s")  # noqa: T201
    first_s, warm_s = (sum(of) for of in zip(*pairs, strict=True))
    assert first_s / warm_s <= MAX_COST_OF_COMPILING


@pytest.mark.parametrize(
    ("name", "duration"),
    [
        ("colocation_10mw", "60 days"),
        ("colocation_10mw_poi", "60 days"),
        ("colocation_metered_150mw", "60 days"),
        ("inference_1mw", "60 days"),
        ("inference_1mw_poi", "1 year"),
        ("mixed_11mw", "60 days"),
    ],
)
def test_time_and_memory_of_a_run_are_forecast(
    tmp_path: Path, name: str, duration: str
) -> None:
    scenario = diploee.load_scenario(name, values={"duration": duration})
    forecasts_s, runs_s = [], []
    for _ in range(2):  # in turn, as what else the machine does slows both
        slowness.cache_clear()
        forecast = checked_site(scenario).forecast
        forecasts_s.append(forecast.time_s)
        runs_s.append(
            run_cpu_s(name, tmp_path / "run", "--set", f"duration={duration}")
        )
    ratio = min(forecasts_s) / min(runs_s)
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text("utf-8"))
    peak_mb = max(stage["peak_memory_mb"] for stage in manifest["timing"].values())
    of_memory = forecast.memory_mb / peak_mb
    print(f"{name}: {forecasts_s} over {runs_s} s, {ratio:.2f}, memory {of_memory:.2f}")  # noqa: T201
    low, high = 1 / MAX_MISS_OF_FORECAST, MAX_MISS_OF_FORECAST
    assert low <= ratio <= high
    assert low <= of_memory <= high
