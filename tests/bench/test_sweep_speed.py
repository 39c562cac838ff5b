"""Two workers against one over the paper's colocation year: four levels, eight seeds."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import pytest

from diploee.sweeps import Sweep, SweepResult, load_sweep, run_locally, run_sweep
from diploee.sweeps.local import usable_cores

pytestmark = pytest.mark.bench

LEAST_SPEED_UP = 1.3
"""Of two workers over one: 2, less the start of the processes and what they share of the memory.

Seconds of a core for a year of 10 MW at 60 %, two cores, the calmest of three rounds beside others:

==========================================  ================  ==================
what                                        with a helper     on one core, now
==========================================  ================  ==================
imports of a worker                         0.85              0.85
its first run beyond the others: numba,     1.0               0.65
compiled code, profiles (0.13), pandas
a run, alone (wall)                         2.6 (1.75)        2.4 (2.45)
a run, beside another (wall)                3.0 (3.0)         2.5 (2.5)
threads of libraries, in four runs          0.2               0.2
files of a run                              0.05              0.05
==========================================  ================  ==================

A worker had a thread that summed power while the next window was drawn: one took 1.5 cores, two
waited for each other at the interpreter's lock. On one core each, two do a year in 1.25 s, not 1.5,
1.9 times one; over eight years of all levels, with starts and unequal ends, 11.5 s of one 18.4 s
(1.6), and 19 s of the cores, not 23. Beside a load of 3 and more the wall clock says
nothing. The floor tells runs that wait for each other from runs at once.
"""

N_RUNS = 4 * 8
ATTEMPTS = 3
"""Other processes of the machine may disturb one; the best counts."""


def paper_sweep() -> Sweep:
    sweep = load_sweep("colocation_utilization")
    spec = sweep.spec.model_copy(update={"seeds": 8, "keep": "metrics"})
    return Sweep(sweep.name, spec, sweep.base, sweep.source)


def timed(sweep: Sweep, out: Path, n_workers: int) -> tuple[SweepResult, float]:
    started = time.perf_counter()
    result = run_sweep(sweep, out, executor=partial(run_locally, n_workers=n_workers))
    return result, time.perf_counter() - started


@pytest.mark.skipif(usable_cores() < 2, reason="needs two cores")
def test_two_workers_do_the_paper_sweep_in_little_more_than_half_the_time(tmp_path: Path) -> None:
    sweep = paper_sweep()
    speed_ups = []
    for attempt in range(ATTEMPTS):
        two, of_two = timed(sweep, tmp_path / f"two-{attempt}", 2)
        one, of_one = timed(sweep, tmp_path / f"one-{attempt}", 1)
        assert one.n_computed == two.n_computed == N_RUNS
        assert one.summary.equals(two.summary)
        speed_ups.append(of_one / of_two)
        if speed_ups[-1] >= LEAST_SPEED_UP:
            return
    assert max(speed_ups) >= LEAST_SPEED_UP, speed_ups
