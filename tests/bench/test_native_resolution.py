"""A load at 0.1 s: its time against bare transforms, and against a facility ten times
as large."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from command_line import Ended, run
from scipy import fft
from timing import Clock, interleaved

from diploee import Run, generate_jobs, open_run
from diploee import run as simulate
from diploee.api.sites import site_of
from diploee.grid.limits import load_limits
from diploee.importers.input_reader import load_inputs
from diploee.power import Segments
from diploee.power.blocks import MAX_THREADS, power_stream
from diploee.power.spectral import fft_lengths
from diploee.profiles import ProfileLibrary
from diploee.runs.folder import estimate_size_mb
from diploee.scenario import Scenario, load_scenario
from diploee.simulation.pipeline import Pipeline
from diploee.simulation.prepared import RunOptions
from diploee.simulation.steps import job_segments, power_blocks, schedule_jobs

pytestmark = pytest.mark.bench

N_ROUNDS, N_DAYS = 3, 20
Load = tuple[Segments, Scenario, ProfileLibrary]


def load_of(n_nodes: int, resolution: str = "0.1 s") -> Load:
    changes = [
        "duration=8 d",
        f"resolution={resolution}",
        f"facility.pools.h100.n_nodes={n_nodes}",
    ]
    scenario, library = load_scenario("colocation_10mw", changes), ProfileLibrary.open()
    schedule = schedule_jobs(
        generate_jobs(scenario, library).jobs, scenario, "compiled"
    )
    return job_segments(schedule, library, scenario), scenario, library


@pytest.fixture(scope="module")
def load() -> Load:
    return load_of(2_840)


def median_ratio(
    work: Callable[[], object],
    floor: Callable[[], object],
    clock: Clock = time.perf_counter,
) -> float:
    work(), floor()
    work_s, floor_s = interleaved(N_ROUNDS, work, floor, clock=clock)
    return work_s / floor_s


def drained(load: Load, **how: str) -> int:
    return sum(block.device_power_w.size for block in power_blocks(*load, **how))


def test_power_at_a_tenth_of_a_second_takes_at_most_twice_the_bare_transforms(
    load: Load,
) -> None:
    segments, scenario, library = load
    profile_ids = np.unique(segments.profile_id).tolist()
    history, length = fft_lengths(profile_ids, library)
    n_blocks = -(-scenario.n_intervals // (length - history))
    n_profiles = len(profile_ids)
    impulses = np.zeros(length)
    spectrum = fft.rfft(impulses)

    def transforms(_: int) -> None:
        for _ in range(n_profiles):
            fft.rfft(impulses)
        fft.irfft(spectrum)

    def floor() -> None:
        with ThreadPoolExecutor(min(MAX_THREADS, os.cpu_count() or 1)) as executor:
            # The profiles themselves
            list(executor.map(fft.rfft, [impulses] * n_profiles))
            list(executor.map(transforms, range(n_blocks)))

    assert drained(load, method="spectral") == scenario.n_intervals
    assert median_ratio(lambda: drained(load), floor) <= 2


@pytest.mark.accept
def test_ten_times_the_facility_takes_at_most_half_as_long_again(load: Load) -> None:
    large = load_of(28_400)
    assert len(large[0]) > 9 * len(load[0])
    assert median_ratio(lambda: drained(large), lambda: drained(load)) <= 1.5


def test_memory_beyond_the_jobs_does_not_grow_with_the_facility() -> None:
    code = (
        "import sys; sys.path[:0] = sys.argv[1:]\n"
        "from test_native_resolution import drained, load_of\n"
        "from diploee.base.progress import peak_memory_mb\n"
        "load = load_of(28_400); before = peak_memory_mb(); drained(load)\n"
        "print(peak_memory_mb() - before)"
    )
    folders = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
    ended = subprocess.run(
        [sys.executable, "-c", code, *folders],
        capture_output=True,
        text=True,
        check=True,
    )
    assert 0 < float(ended.stdout) < 2_000


@pytest.mark.accept
def test_weeks_at_a_tenth_of_a_second_are_written_in_less_than_two_gigabytes(
    tmp_path: Path,
) -> None:
    def run_days(*more: str) -> Run:
        out = tmp_path / f"run{len(more)}"
        arguments = (
            "run",
            "colocation_10mw",
            "--quiet",
            "--out",
            out,
            "--engine",
            "compiled",
        )
        arguments += ("--set", f"duration={N_DAYS} days")
        ended = run(*arguments, *more)
        assert ended == Ended(0, "", "")
        return open_run(out)

    fine, minutes = run_days("--set", "resolution=0.1 s"), run_days()
    rows = pq.read_metadata(fine.folder / "facility.parquet")
    assert rows.num_rows == N_DAYS * 864_000
    assert rows.num_row_groups >= N_DAYS
    assert (
        max(stage["peak_memory_mb"] for stage in fine.manifest["timing"].values())
        < 2_000
    )
    energy = [run.metrics["power"]["energy_mwh"] for run in (fine, minutes)]
    assert energy[0] == pytest.approx(energy[1], rel=1e-6)
    size_mb = sum(file.stat().st_size for file in fine.folder.iterdir()) / 1e6
    n_jobs = fine.metrics["jobs"]["submitted"]
    assert estimate_size_mb(rows.num_rows, 100, 0, n_jobs) == pytest.approx(
        size_mb, rel=0.5
    )


def checked(
    n_nodes: int, out: Path
) -> tuple[Callable[[], object], Callable[[], object]]:
    """Return the pass of the power of a site alone, and its run with stages and two
    limits."""
    changes = ["duration=5 d", "step=0.1 s", f"facility.pools.h100.n_nodes={n_nodes}"]
    scenario = load_scenario("colocation_10mw_poi", changes)
    inputs, limits = (
        load_inputs(scenario),
        [load_limits(n) for n in ("ieso_3_0", "example")],
    )

    def power() -> None:
        line = Pipeline.open(site_of(scenario, None, RunOptions("compiled"), inputs))
        for _ in power_stream(line.model, line.windows(None, lambda *_: None)):
            pass

    def run_with_limits() -> None:
        simulate(
            scenario, out, inputs=inputs, limits=limits, engine="compiled", force=True
        )

    return power, run_with_limits


def test_stages_and_two_limits_at_a_tenth_of_a_second_take_half_of_the_power_s_time(
    tmp_path: Path,
) -> None:
    power, whole = checked(2_840, tmp_path / "run")
    # Of the processor: how far stages and power overlap on two cores varies from run to
    # run.
    assert median_ratio(whole, power, time.process_time) <= 1.5


@pytest.mark.accept
def test_limits_of_ten_times_the_facility_take_at_most_a_third_longer(
    tmp_path: Path,
) -> None:
    (_, small), (_, large) = (checked(n, tmp_path / f"{n}") for n in (2_840, 28_400))
    assert median_ratio(large, small) <= 1.3
