"""Worker processes: they share the runs, and one that is killed costs nothing but time."""  # noqa: E501

from __future__ import annotations

import subprocess
import sys
from multiprocessing import active_children
from multiprocessing.context import SpawnProcess
from pathlib import Path

import pytest
from sweep_builders import UTILIZATION, Failing, Swept, tiny_sweep

from diploee.sweeps import RunTask, run_locally
from diploee.sweeps.local_processes import (
    MAX_ATTEMPTS,
    RUN_MB,
    SHARE,
    available_mb,
    max_parallel_runs,
)


def task(n_nodes: int) -> RunTask:
    from builders import tiny_scenario

    scenario = tiny_scenario(
        {"facility.pools.main.n_nodes": n_nodes, "duration": "100 d"}
    )
    return RunTask(f"run-{n_nodes}", scenario, "nowhere")


def kill_first_children(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """Kill the first n child processes as soon as they have started."""
    start, started = SpawnProcess.start, []

    def start_and_kill(process: SpawnProcess) -> None:
        start(process)
        started.append(process)
        if len(started) <= times:
            process.kill()

    monkeypatch.setattr(SpawnProcess, "start", start_and_kill)


@pytest.mark.slow
def test_killed_worker_loses_nothing(
    tmp_path: Path, library_folder: Path, monkeypatch: pytest.MonkeyPatch, swept: Swept
) -> None:
    sweep = tiny_sweep(tmp_path, axes=[{"grid": {UTILIZATION: [0.2, 0.4]}}], seeds=2)
    kill_first_children(monkeypatch, 1)
    result = swept(sweep, executor=lambda tasks: run_locally(tasks, 2))
    assert not result.failed
    here = swept(sweep, tmp_path / "here")
    assert here.n_computed == 4
    for name in ("summary.parquet", "ensemble.parquet", "envelope.parquet"):
        assert (tmp_path / "out" / name).read_bytes() == (
            tmp_path / "here" / name
        ).read_bytes()
    assert not active_children()


def test_run_whose_worker_dies_every_time_is_given_up_with_a_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kill_first_children(monkeypatch, MAX_ATTEMPTS)
    outcome = next(iter(run_locally([task(12)], 1)))
    assert outcome.error == (
        f"its worker process ended {MAX_ATTEMPTS} times (signal 9); short of memory? "
        "try fewer --workers"
    )


@pytest.mark.slow
def test_script_that_sweeps_needs_no_guard_against_running_again(
    tmp_path: Path,
) -> None:
    script, sweep = tmp_path / "script.py", {"base": "colocation_10mw", "seeds": 2}
    sweep |= {"set": {"duration": "1 h"}, "keep": "metrics"}
    script.write_text(
        "import diploee\n"
        "print('runs')\n"
        f"diploee.sweep({sweep}, {str(tmp_path / 'out')!r}, workers=2)\n",
        "utf-8",
    )
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "runs\n"), done.stderr
    assert len(list((tmp_path / "out" / "runs").iterdir())) == 2


@pytest.mark.slow
def test_closing_stops_the_workers() -> None:
    outcomes = run_locally([task(n) for n in (12, 13, 14)], 2)
    assert next(outcomes).error  # the tiny scenario's profiles are not shipped
    outcomes.close()  # type: ignore[attr-defined]
    assert not active_children()


def test_memory_bounds_how_many_run_at_once() -> None:
    tasks = [task(12), task(13), task(14)]
    for free_mb, n in ((None, 3), (2.5 * RUN_MB / SHARE, 2), (10.0, 1)):
        assert max_parallel_runs(tasks, 8, free_mb) == n
    assert max_parallel_runs(tasks, 2, None) == 2


def test_available_memory_is_read(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:    2000000 kB\n")
    found = available_mb(tmp_path / "meminfo")
    assert found is not None and 0 <= found <= 2_000


def test_largest_runs_start_first(tmp_path: Path, swept: Swept) -> None:
    executor = Failing()
    sweep = tiny_sweep(
        tmp_path, axes=[{"grid": {"facility.pools.main.n_nodes": [12, 40, 20]}}]
    )
    result = swept(sweep, executor=executor)
    by_size = [result.runs[k].run for k in (1, 2, 0)]
    assert executor.runs == by_size
