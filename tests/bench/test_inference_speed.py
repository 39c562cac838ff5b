"""The inference year as one command: memory, time, and how its cost grows with the
instances."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import pytest
from serving_builders import services_load

import diploee
from diploee.scenario import Scenario

pytestmark = pytest.mark.bench

MEMORY_LIMIT_MB = 1_000
MAX_COST_OF_TENFOLD_NODES = 2.0
MAX_SEGMENTS_OF_TENFOLD_NODES = 1.5
"""More instances cross more multiples of a rate, up to 256 of a service."""
N_REPEATS = 5


def test_the_inference_year_stays_under_one_gigabyte(tmp_path: Path) -> None:
    """The whole command in its own process, which reports its peak memory itself.

    A shell stands between, as Linux counts the memory of the process that starts
    another one, here that of all tests before, in the other's peak.
    """
    folder = tmp_path / "year"
    command = [sys.executable, "-m", "diploee", "run", "inference_1mw", "--quiet"]
    started = time.perf_counter()
    subprocess.run(
        ["sh", "-c", '"$@"; exit $?', "sh", *command, "--out", folder], check=True
    )
    wall_s = time.perf_counter() - started
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    peak_mb = max(stage["peak_memory_mb"] for stage in manifest["timing"].values())
    print(f"inference year: {wall_s:.1f} s, peak {peak_mb:.0f} MB")  # noqa: T201
    assert (folder / "facility.parquet").stat().st_size > 0
    assert 0 < peak_mb < MEMORY_LIMIT_MB


def year(times: int) -> Scenario:
    """Return the inference year with n times the nodes and the requests."""
    return diploee.load_scenario(
        "inference_1mw",
        values={
            "facility.pools.serving.n_nodes": 285 * times,
            "request_streams.llama3.request_rate_rps": 10782.01 * times,
        },
    )


def plan_and_lower(scenario: Scenario) -> tuple[float, int]:
    """Seconds to plan a year and lower it to segments, and their number."""
    started = time.perf_counter()
    load = services_load(scenario)
    return time.perf_counter() - started, len(load.segments)


def test_ten_times_the_nodes_cost_at_most_twice_the_planning_and_lowering() -> None:
    one, ten = year(1), year(10)
    plan_and_lower(one)  # compiles, as the first call of a machine does
    runs = [(plan_and_lower(one), plan_and_lower(ten)) for _ in range(N_REPEATS)]
    one_s, ten_s = (median(run[k][0] for run in runs) for k in range(2))
    n_one, n_ten = (runs[0][k][1] for k in range(2))
    print(  # noqa: T201
        f"285 nodes {one_s:.3f} s, {n_one:,} segments; 2,850 nodes {ten_s:.3f} s "
        f"({ten_s / one_s:.2f}x), {n_ten:,} segments"
    )
    assert n_ten / n_one <= MAX_SEGMENTS_OF_TENFOLD_NODES
    assert ten_s / one_s <= MAX_COST_OF_TENFOLD_NODES
