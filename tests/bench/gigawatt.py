"""The colocation facility at any size, each run in a process of its own that is
measured.

As a script, the whole gigawatt-year: 284,000 nodes at 60 %, one minute, compiled, with
and without ``jobs.parquet``, beside years of 10 and 100 MW. It wants a quiet machine;
each run's folder is removed when it has been measured.

    python tests/bench/gigawatt.py FOLDER
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

NODES_PER_MW = 284
RUN = """
import sys, diploee
out, n_nodes, rated_mw, duration, jobs_file = sys.argv[1:]
changes = [f"duration={duration}", f"facility.pools.h100.n_nodes={n_nodes}",
           f"facility.rated_power_mw={rated_mw}"]
scenario = diploee.load_scenario("colocation_10mw", changes)
diploee.simulate(scenario, out, engine="compiled", jobs_file=jobs_file == "with")
"""


class Measured(NamedTuple):
    """Wall and processor time [s], peak memory [MB] and jobs of a run."""

    wall_s: float
    cpu_s: float
    peak_mb: float
    n_jobs: int


def colocation_run(
    out: Path, n_nodes: int, duration: str, jobs_file: bool = True
) -> Measured:
    """Run the 10 MW facility's work on another number of nodes, to its share of the
    rated power."""
    words = [str(out), str(n_nodes), f"{n_nodes / NODES_PER_MW:g}", duration]
    started = time.perf_counter()
    command = [sys.executable, "-c", RUN, *words, "with" if jobs_file else "without"]
    with subprocess.Popen(command) as child:
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    wall_s = time.perf_counter() - started
    assert child.returncode == 0
    manifest = json.loads((out / "manifest.json").read_text("utf-8"))
    # Not ru_maxrss, which would also count the process that started the run.
    peak_mb = max(stage["peak_memory_mb"] for stage in manifest["timing"].values())
    metrics = json.loads((out / "metrics.json").read_text("utf-8"))
    cpu_s = usage.ru_utime + usage.ru_stime
    return Measured(wall_s, cpu_s, peak_mb, metrics["jobs"]["submitted"])


def main(folder: Path) -> None:
    """Measure years of 10 MW, 100 MW and 1 GW."""
    colocation_run(folder / "warm", 10 * NODES_PER_MW, "1 day")  # compiles
    for jobs_file in (False, True):
        print("with jobs.parquet" if jobs_file else "without jobs.parquet", flush=True)  # noqa: T201
        small_s = 0.0
        for power_mw in (10, 100, 1_000):
            out = folder / f"{power_mw} MW {jobs_file}"
            found = colocation_run(out, power_mw * NODES_PER_MW, "1 year", jobs_file)
            shutil.rmtree(out)
            small_s = small_s or found.wall_s
            ratio = found.wall_s / (small_s * power_mw / 10)
            print(  # noqa: T201
                (
                    f"{power_mw:5,} MW  {found.n_jobs:11,} jobs  {found.wall_s:6.1f} s "
                    f"wall  {found.cpu_s:6.1f} s processor  {found.peak_mb:6.0f} MB  "
                    f"{ratio:.2f} of the time of {power_mw // 10:,} runs of 10 MW"
                ),
                flush=True,
            )
    shutil.rmtree(folder / "warm")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
